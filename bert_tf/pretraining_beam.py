"""Pre-training data by Apache Beam, where one machine is not enough.

The same function cuts documents as in streaming mode, and the same encoder
makes the records. Documents are dealt at random to groups of some hundred
megabytes of text, and a random next sentence comes from the same group, so
that no machine needs the whole corpus; with one group the records are those
of streaming mode, in another order.

Needs the extra `bert-tf[beam]`, and this package on the machines that work
(`--setup_file` or a container image of the runner).
"""

import functools
import hashlib
import importlib.util
import json
import logging
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from bert_tf import files
from bert_tf.pretraining_corpus import (
    Corpus,
    CorpusBuilder,
    TextRange,
    TextReader,
    check_encoding,
    count_text,
    part_bytes,
    plan_parts,
    token_dtype,
)
from bert_tf.pretraining_data import (
    check_statistics,
    make_manifest,
    resolve,
)
from bert_tf.pretraining_draws import mix
from bert_tf.pretraining_instances import CorpusParts, InstanceBuilder
from bert_tf.pretraining_rows import InstanceRows, RowEncoder, row_dtype
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import (
    Vocabulary,
    load_segmenter,
    load_tokenizer,
    make_tokenize,
)

_log = logging.getLogger("bert_tf")

_MIB = 1 << 20
# Text in a group: a machine holds its tokens.
_GROUP_BYTES = 128 * _MIB
# Instances that are shuffled in memory together.
_BUCKET_BYTES = 32 * _MIB
_ROWS_HELD = 1024

# A document on its way: number, lengths of sentences, tokens, word starts.
Document = tuple[int, bytes, bytes, bytes]
# An instance on its way: the bytes of its row.
Row = bytes

STATISTICS = "statistics"


def create_with_beam(
    settings: PretrainingDataSettings, runner: str, options: list[str]
) -> Statistics:
    """Runs the pipeline and waits for its end.

    Args:
      settings: what is asked for; one output, `name@N` for N files. The flags
        that tell how streaming mode works have no effect.
      runner: name of a Beam runner.
      options: command-line options of the pipeline.

    Returns:
      Counts of text, instances and masks.

    Raises:
      ValueError: Beam is not installed, no file matches, the settings are
        for exact mode, or the text gives no instance; the empty output is
        deleted then.
    """
    if importlib.util.find_spec("apache_beam") is None:
        raise ValueError(
            f"--runner={runner} needs Apache Beam: pip install 'bert-tf[beam]'"
        )
    if settings.mode == "exact" or settings.dry_run:
        raise ValueError(
            f"--runner={runner} cannot be with --mode=exact or --dry_run"
        )
    if "," in settings.output_file:
        raise ValueError(
            f"--output_file={settings.output_file} with --runner: expected one "
            "name, or name@N for N files"
        )
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    sizes = _match(settings.input_file)
    settings = resolve(settings, sum(size for _, size in sizes), "streaming")
    with beam.Pipeline(
        runner=runner, options=PipelineOptions(options)
    ) as pipeline:
        build_pipeline(pipeline, settings)
    with _open(settings.manifest_path(), "rb") as stream:
        manifest = json.loads(stream.read())
    statistics = Statistics.from_json(manifest["statistics"])
    try:
        check_encoding(statistics)
        check_statistics(statistics, settings, len(sizes))
    except ValueError:
        from apache_beam.io.filesystems import FileSystems

        FileSystems.delete([*settings.output_paths(), settings.manifest_path()])
        raise
    _log.info("manifest: %s", settings.manifest_path())
    return statistics


def build_pipeline(pipeline, settings: PretrainingDataSettings) -> None:
    """Adds all steps to a Beam pipeline."""
    import apache_beam as beam

    sizes = _match(settings.input_file)
    text_bytes = sum(size for _, size in sizes)
    parts = plan_parts(sizes, part_bytes(text_bytes), _open)
    # A token is four to five bytes of text and two of a row.
    rows_bytes = text_bytes * settings.dupe_factor
    num_groups = -(-text_bytes // _GROUP_BYTES) or 1
    num_buckets = -(-rows_bytes // _BUCKET_BYTES) or 1

    documents, read = (
        pipeline
        | "parts" >> beam.Create(list(enumerate(parts)))
        | "spread parts" >> beam.Reshuffle()
        | "read"
        >> beam.FlatMap(read_part, settings, num_groups).with_outputs(
            STATISTICS, main="documents"
        )
    )
    rows, cut = (
        documents
        | "group documents" >> beam.GroupByKey()
        | "cut"
        >> beam.FlatMap(build_group, settings, num_buckets).with_outputs(
            STATISTICS, main="rows"
        )
    )
    examples, masked = (
        rows
        | "shuffle" >> beam.GroupByKey()
        | "encode"
        >> beam.FlatMap(encode_bucket, settings).with_outputs(
            STATISTICS, main="examples"
        )
    )
    _write_examples(examples, settings)
    hashes = (
        pipeline
        | "inputs" >> beam.Create([path for path, _ in sizes])
        | "hash" >> beam.Map(lambda path: (path, _sha256(path)))
    )
    _ = (
        (read, cut, masked)
        | "all statistics" >> beam.Flatten()
        | "add up" >> beam.CombineGlobally(_add_up)
        | "manifest"
        >> beam.Map(_write_manifest, settings, beam.pvalue.AsDict(hashes))
    )


def _write_examples(examples, settings: PretrainingDataSettings) -> None:
    import apache_beam as beam
    from apache_beam.io.filesystem import CompressionTypes

    outputs = settings.output_paths()
    name = settings.output_file.partition("@")[0]
    _ = examples | "write" >> beam.io.WriteToTFRecord(
        name,
        num_shards=len(outputs),
        shard_name_template="" if outputs == [name] else "-SSSSS-of-NNNNN",
        compression_type=(
            CompressionTypes.GZIP
            if settings.compression
            else CompressionTypes.UNCOMPRESSED
        ),
    )


def _tagged(statistics: Statistics):
    from apache_beam.pvalue import TaggedOutput

    return TaggedOutput(STATISTICS, statistics.to_json())


def _add_up(parts: Iterable[dict]) -> dict[str, Any]:
    return Statistics.total(map(Statistics.from_json, parts)).to_json()


def _match(patterns: str) -> list[tuple[str, int]]:
    """Paths and sizes that comma-separated patterns match, in order."""
    from apache_beam.io.filesystems import FileSystems

    found = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        (match,) = FileSystems.match([pattern])
        if not match.metadata_list:
            raise ValueError(f"--input_file: no file matches {pattern!r}")
        found += sorted(
            (each.path, each.size_in_bytes) for each in match.metadata_list
        )
    return found


def _open(path: str, mode: str) -> IO:
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    open_ = FileSystems.open if "r" in mode else FileSystems.create
    return open_(path, compression_type=CompressionTypes.UNCOMPRESSED)


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with _open(path, "rb") as stream:
        while block := stream.read(_MIB):
            digest.update(block)
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def _tools(settings: PretrainingDataSettings):
    """Vocabulary, tokenizing function and encoder of this process."""
    path = settings.vocab_file
    if files.is_remote(path):
        # TensorFlow, which could read it, may be missing here.
        path = os.path.join(tempfile.mkdtemp(), "vocab.txt")
        with _open(settings.vocab_file, "rb") as source:
            pathlib.Path(path).write_bytes(source.read())
    tokenizer = load_tokenizer(path, settings.do_lower_case)
    vocabulary = Vocabulary.of(tokenizer)
    tokenize = make_tokenize(
        tokenizer,
        load_segmenter(settings.word_segmenter),
        settings.word_segmenter,
    )
    return vocabulary, tokenize, RowEncoder(settings, vocabulary)


def read_part(
    part: tuple[int, list[TextRange]],
    settings: PretrainingDataSettings,
    num_groups: int,
) -> Iterator[tuple[int, Document]]:
    """Text -> (group, tokenized document), and statistics."""
    number, ranges = part
    vocabulary, tokenize, _ = _tools(settings)
    statistics = Statistics()
    reader = TextReader(
        tokenize,
        statistics,
        settings.encoding_errors == "ignore",
        opener=_open,
    )
    builder = CorpusBuilder(vocabulary.size, bool(settings.word_segmenter))
    for text in map(TextRange._make, ranges):
        for _ in reader.read(text, builder):
            pass
        builder.end_document()
    corpus = builder.corpus()
    count_text(corpus, vocabulary.unk_id, statistics)
    bounds = corpus.documents.tolist()
    for index in range(corpus.num_documents):
        at = corpus.sentences[bounds[index] : bounds[index + 1] + 1]
        tokens = slice(at[0], at[-1])
        words = b""
        if corpus.word_starts is not None:
            words = corpus.word_starts[tokens].tobytes()
        lasting = number << 32 | index
        yield (
            mix(lasting) % num_groups,
            (
                lasting,
                np.diff(at).tobytes(),
                corpus.tokens[tokens].tobytes(),
                words,
            ),
        )
    yield _tagged(statistics)


def _join(documents: list[Document], dtype: np.dtype, words: bool) -> Corpus:
    lengths = [np.frombuffer(each[1], np.int64) for each in documents]
    sentences = np.concatenate([[0], *lengths]).cumsum()
    ends = np.cumsum([0, *map(len, lengths)])
    tokens = np.frombuffer(b"".join(each[2] for each in documents), dtype)
    starts = b"".join(each[3] for each in documents)
    return Corpus(
        tokens,
        sentences,
        ends,
        np.frombuffer(starts, np.uint8) if words else None,
    )


def build_group(
    group: tuple[int, Iterable[Document]],
    settings: PretrainingDataSettings,
    num_buckets: int,
) -> Iterator[tuple[int, Row]]:
    """Documents of a group -> (bucket, instance), and statistics."""
    vocabulary, _, _ = _tools(settings)
    documents = sorted(group[1])
    dtype = token_dtype(vocabulary.size)
    with_words = bool(settings.word_segmenter)
    corpus = _join(documents, dtype, with_words)
    parts = CorpusParts([corpus], [document[0] for document in documents])
    statistics = Statistics()
    builder = InstanceBuilder(parts, settings, statistics)
    held = InstanceRows(
        row_dtype(settings.max_seq_length, dtype, with_words), _ROWS_HELD
    )

    def taken() -> Iterator[tuple[int, Row]]:
        rows = held.take()
        lengths = rows["length_a"].astype(np.int64) + rows["length_b"] + 3
        statistics.add_instances(
            lengths, rows["label"], settings.max_seq_length
        )
        for key, row in zip(rows["key"].tolist(), rows, strict=True):
            yield key * num_buckets >> 64, row.tobytes()

    for passing in range(settings.dupe_factor):
        for index in range(len(documents)):
            for _ in builder.add_document(index, passing, held):
                yield from taken()
    yield from taken()
    yield _tagged(statistics)


def encode_bucket(
    bucket: tuple[int, Iterable[Row]], settings: PretrainingDataSettings
) -> Iterator[bytes]:
    """Instances of a range of keys -> records in random order; statistics."""
    vocabulary, _, encoder = _tools(settings)
    dtype = row_dtype(
        settings.max_seq_length,
        token_dtype(vocabulary.size),
        bool(settings.word_segmenter),
    )
    rows = np.frombuffer(b"".join(bucket[1]), dtype)
    rows = rows[np.argsort(rows["key"], kind="stable")]
    statistics = Statistics()
    for batch in encoder.encode(rows, statistics):
        yield from batch
    yield _tagged(statistics)


def _write_manifest(
    statistics: dict, settings: PretrainingDataSettings, hashes: dict[str, str]
) -> None:
    manifest = make_manifest(
        settings,
        Statistics.from_json(statistics),
        dict.fromkeys(settings.output_paths()),
        hashes,
        _sha256(settings.vocab_file),
    )
    text = json.dumps(manifest, indent=2) + "\n"
    with _open(settings.manifest_path(), "wb") as stream:
        stream.write(text.encode())
