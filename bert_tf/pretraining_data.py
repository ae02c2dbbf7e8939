"""Text -> masked instances for pre-training, as `tf.train.Example` records.

Two modes make records of one format (google-research/bert,
`create_pretraining_data.py`):

*Exact* gives the original's records, for the same seed, files and vocabulary.
The text is held in memory, as integers.

*Streaming* takes text of any size in bounded memory, in several processes,
and can be killed and started again. Instances are distributed as the
original's, but these faults of it are mended:

* The end of a file ends a document; the original joins the last document of
  a file with the first of the next one unless a blank line stands between.
* A random next sentence never comes from the instance's own document. The
  original gives up after ten draws, and in a corpus of one document labels
  true continuations as random; here such a corpus has no random ones, and a
  chunk of one sentence takes the next sentence in, or is passed over and
  counted where there is none.
* Under whole-word masking the second text never adds a piece to the last
  word of the first, across `[SEP]`.
* Bytes that are not UTF-8 stop the run with file and line, unless they are to
  be ignored; the original drops them in silence.
* Lines have a largest length in bytes; a longer one is cut and counted.
* Output files have the same number of records but for one, and appear only
  when they are complete.

The documents that a pass cuts into shorter instances are spread evenly, each
with the original's chance; see `pretraining_instances`.
"""

import dataclasses
import json
import logging
import shutil
from contextlib import ExitStack
from typing import Any

from bert_tf import files, records
from bert_tf.pretraining_corpus import (
    CorpusBuilder,
    TextRange,
    TextReader,
    check_encoding,
    count_text,
    file_size,
    sha256_of,
)
from bert_tf.pretraining_exact import ExactInstances
from bert_tf.pretraining_settings import (
    PretrainingDataSettings,
    dynamic_features,
    static_features,
)
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_streaming import create_streaming
from bert_tf.pretraining_vocabulary import (
    Vocabulary,
    load_segmenter,
    load_tokenizer,
    make_tokenize,
)

_log = logging.getLogger("bert_tf")

# Shares from which on a warning is given.
_MANY_UNKNOWN = 0.1
_MANY_SHORT_DOCUMENTS = 0.5


def create_pretraining_data(settings: PretrainingDataSettings) -> Statistics:
    """Makes the record files and a manifest, or with `dry_run` only counts.

    Args:
      settings: what is asked for.

    Returns:
      Counts of text, instances and masks.

    Raises:
      ValueError: no file matches, the vocabulary lacks a special token, the
        text is no UTF-8 or gives no instance; see also the settings.
    """
    paths = files.expand_patterns(settings.input_file, "input_file")
    outputs = [] if settings.dry_run else settings.output_paths()
    _check_outputs(paths, outputs)
    size = sum(map(file_size, paths))
    settings = resolve(settings, size)
    _log.info(
        "%d input files, %.1f MB, %s mode",
        len(paths),
        size / 1e6,
        settings.mode,
    )
    if files.is_dir(settings.vocab_file) or not files.exists(
        settings.vocab_file
    ):
        raise ValueError(f"--vocab_file={settings.vocab_file} is not a file")
    vocab_sha256 = sha256_of(settings.vocab_file)
    for folder in {path.rpartition("/")[0] for path in outputs} - {""}:
        files.make_dirs(folder)
    if outputs:
        files.remove_unfinished([*outputs, settings.manifest_path()])
    if settings.mode == "exact":
        statistics, shards = _create_exact(settings, paths)
        hashes = {path: sha256_of(path) for path in paths}
        work_dir = None
    else:
        statistics, shards, hashes, work_dir = create_streaming(
            settings, paths, vocab_sha256
        )
    try:
        check_statistics(statistics, settings, len(paths))
    except ValueError:
        if work_dir is not None:
            shutil.rmtree(work_dir, ignore_errors=True)
        raise
    if not settings.dry_run:
        manifest = make_manifest(
            settings, statistics, shards, hashes, vocab_sha256
        )
        with files.atomic_write(settings.manifest_path()) as stream:
            json.dump(manifest, stream, indent=2)
            stream.write("\n")
        _log.info("manifest: %s", settings.manifest_path())
        if work_dir is not None:
            shutil.rmtree(work_dir)
    return statistics


def report(settings: PretrainingDataSettings, statistics: Statistics) -> str:
    """The statistics as lines of text."""
    predictions = settings.max_predictions_per_seq
    if settings.masking == "dynamic":
        predictions = 0
    return statistics.report(settings.max_seq_length, predictions)


def resolve(
    settings: PretrainingDataSettings, size: int, mode: str = ""
) -> PretrainingDataSettings:
    """Settles what depends on the size of the input and on the mode.

    Args:
      settings: as given.
      size: bytes of text.
      mode: of the settings, unless given.

    Returns:
      Settings with `mode` exact or streaming and `encoding_errors` error or
      ignore.
    """
    mode = mode or settings.mode
    if mode == "auto":
        is_small = size <= settings.auto_threshold_mb << 20
        is_exact = is_small and settings.masking == "static"
        mode = "exact" if is_exact else "streaming"
    errors = settings.encoding_errors
    if not errors:
        errors = "ignore" if mode == "exact" else "error"
    return dataclasses.replace(settings, mode=mode, encoding_errors=errors)


def _check_outputs(inputs: list[str], outputs: list[str]) -> None:
    for path in outputs:
        if path in inputs:
            raise ValueError(f"--output_file {path} is also an input file")
        if files.is_dir(path):
            raise ValueError(f"--output_file {path} is a folder")


def _create_exact(
    settings: PretrainingDataSettings, paths: list[str]
) -> tuple[Statistics, dict[str, int]]:
    tokenizer = load_tokenizer(settings.vocab_file, settings.do_lower_case)
    vocabulary = Vocabulary.of(tokenizer)
    statistics = Statistics()
    builder = CorpusBuilder(vocabulary.size, bool(settings.word_segmenter))
    tokenize = make_tokenize(
        tokenizer,
        load_segmenter(settings.word_segmenter),
        settings.word_segmenter,
    )
    reader = TextReader(
        tokenize,
        statistics,
        settings.encoding_errors == "ignore",
        longest_line=None,
    )
    before = ""
    for path in paths:
        if builder.is_open:
            statistics.note("files_without_end", before)
        for _ in reader.read(TextRange(path, 0, file_size(path)), builder):
            pass
        before = path
    builder.end_document()
    corpus = builder.corpus()
    check_encoding(statistics)
    count_text(corpus, vocabulary.unk_id, statistics)
    if not corpus.num_documents:
        return statistics, {}
    instances = ExactInstances(corpus, vocabulary, settings, statistics)
    outputs = [] if settings.dry_run else settings.output_paths()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                records.RecordWriter(path, settings.compression or None)
            )
            for path in outputs
        ]
        number = 0
        for batch in instances.records():
            if writers:
                for record in batch:
                    writers[number % len(writers)].write(record)
                    number += 1
    return statistics, {writer.path: writer.count for writer in writers}


def check_statistics(
    statistics: Statistics, settings: PretrainingDataSettings, num_files: int
) -> None:
    """Warns of what a user should look at, and stops where nothing was made.

    Args:
      statistics: all counts.
      settings: resolved.
      num_files: number of input files, for the error.

    Raises:
      ValueError: there is no instance.
    """
    _warn(statistics, settings)
    if not statistics.counts["instances"]:
        raise ValueError(_why_nothing(statistics, num_files))


def _warn(statistics: Statistics, settings: PretrainingDataSettings) -> None:
    """Says in the log what a user should look at."""
    counts, places = statistics.counts, statistics.places
    for problem, what in (
        ("undecodable_lines", "lines with bytes that are not UTF-8"),
        ("overlong_lines", "lines cut because they are overlong"),
        (
            "files_without_end",
            "files end without a blank line: unless the next file begins with "
            "one, their last document goes on there, as in the original",
        ),
    ):
        if counts[problem]:
            _log.warning(
                "%d %s, the first: %s", counts[problem], what, places[problem]
            )
    documents = counts["documents"]
    if documents == 1:
        label = (
            "sentences of the same document"
            if settings.mode == "exact"
            else "no sentence"
        )
        _log.warning(
            "there is one document only: a blank line must stand between "
            "documents; %s will be labelled as a random next one",
            label,
        )
    elif counts["one_sentence_documents"] > _MANY_SHORT_DOCUMENTS * documents:
        _log.warning(
            "%d of %d documents have one sentence; their next sentence is "
            "always random: %.0f %% of all instances are",
            counts["one_sentence_documents"],
            documents,
            100 * counts["random_next"] / max(1, counts["instances"]),
        )
    if counts["unknown_tokens"] > _MANY_UNKNOWN * counts["tokens"]:
        _log.warning(
            "%.1f %% of the tokens are [UNK]: do --vocab_file and "
            "--do_lower_case fit the text?",
            100 * counts["unknown_tokens"] / counts["tokens"],
        )


def _why_nothing(statistics: Statistics, num_files: int) -> str:
    counts = statistics.counts
    return (
        f"--input_file: no instance can be made of {num_files} files with "
        f"{counts['lines']} lines, of which {counts['blank_lines']} are blank "
        f"and {counts['lines_without_tokens']} hold no token; documents "
        f"{counts['documents']}, sentences {counts['sentences']}; expected one "
        "sentence a line, blank lines between documents"
    )


def make_manifest(
    settings: PretrainingDataSettings,
    statistics: Statistics,
    shards: dict[str, int | None],
    input_hashes: dict[str, str],
    vocab_sha256: str,
) -> dict[str, Any]:
    """What the records were made of, for `json`.

    Args:
      settings: what was asked for.
      statistics: all counts.
      shards: number of records by output file, None where it is not known.
      input_hashes: SHA-256 by input file.
      vocab_sha256: of the vocabulary file.
    """
    if settings.masking == "static":
        spec = static_features(
            settings.max_seq_length, settings.max_predictions_per_seq
        )
    else:
        spec = dynamic_features(
            settings.max_seq_length, settings.do_whole_word_mask
        )
    return {
        "flags": dataclasses.asdict(settings),
        "inputs": [
            {"path": path, "sha256": digest}
            for path, digest in input_hashes.items()
        ],
        "vocabulary": {"path": settings.vocab_file, "sha256": vocab_sha256},
        "outputs": [
            {"path": path, "records": count} for path, count in shards.items()
        ],
        "features": {
            feature.name: [feature.dtype, feature.size] for feature in spec
        },
        "statistics": statistics.to_json(),
    }
