"""Writes a converted checkpoint with all that belongs beside it."""

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from bert_tf import files, run_folder
from bert_tf.checkpoint.huggingface_writing import write_huggingface
from bert_tf.checkpoint.locating import join, split
from bert_tf.checkpoint.model_garden_writing import write_model_garden
from bert_tf.checkpoint.names import GLOBAL_STEP
from bert_tf.checkpoint.sources import Source, StoredTensor
from bert_tf.checkpoint.tensor_bundle import write_bundle
from bert_tf.conversion_report import Row

_BASENAME = "bert_model.ckpt"
_TASKS = {
    "sequence_classification": "classification",
    "token_classification": "tagging",
    "multiple_choice": "multiple_choice",
    "question_answering": "squad",
}


def write(
    source: Source,
    tensors: Mapping[str, StoredTensor],
    output: str,
    output_format: str,
) -> tuple[Row, ...]:
    """Writes the checkpoint; weights come last, and all or nothing.

    Args:
      source: what lies beside the weights.
      tensors: what to write, by official name.
      output: folder or prefix.
      output_format: a format's name.

    Returns:
      What was written, tensor by tensor.
    """
    if output_format == "huggingface":
        return _write_huggingface(source, tensors, output)
    if output_format == "saved_model":
        return _write_saved_model(source, tensors, output)
    folder, base = output, _BASENAME
    if ".ckpt" in os.path.basename(output.rstrip("/")):
        folder, base = split(output)
    elif GLOBAL_STEP in tensors:
        base = f"model.ckpt-{int(tensors[GLOBAL_STEP].read())}"
    _write_beside(source, folder)
    prefix = join(folder, base)
    if output_format == "model_garden":
        written = write_model_garden(
            prefix, tensors, source.config, source.head
        )
        return _rows(written)
    write_bundle(prefix, tensors)
    if GLOBAL_STEP in tensors:
        # A run that is to go on finds its checkpoint by the state file.
        with files.atomic_write(join(folder, "checkpoint")) as stream:
            stream.write(
                f'model_checkpoint_path: "{base}"\n'
                f'all_model_checkpoint_paths: "{base}"\n'
            )
    return _rows({name: (name, x) for name, x in tensors.items()})


def _rows(
    written: Mapping[str, tuple[str, StoredTensor]],
) -> tuple[Row, ...]:
    return tuple(
        Row(
            name,
            tensor.source_name,
            target_name,
            tuple(tensor.shape),
            tensor.change,
        )
        for name, (target_name, tensor) in sorted(written.items())
    )


def _write_huggingface(
    source: Source, tensors: Mapping[str, StoredTensor], output: str
) -> tuple[Row, ...]:
    written = write_huggingface(
        output,
        tensors,
        source.config,
        head=source.head,
        labels=source.labels,
        do_lower_case=source.do_lower_case,
        vocab=source.vocab,
    )
    return _rows(written)


def _write_saved_model(
    source: Source, tensors: Mapping[str, StoredTensor], output: str
) -> tuple[Row, ...]:
    # Only here: it brings the whole model in.
    from bert_tf.encoder_saved_model import write_saved_model

    with tempfile.TemporaryDirectory(prefix="bert_tf_") as folder:
        write_saved_model(
            output,
            tensors,
            source.config,
            do_lower_case=source.do_lower_case,
            vocab=source.vocab,
            record=_record(source),
            tokenizer=_graph_tokenizer(source, folder),
        )
    return _rows({name: (name, x) for name, x in tensors.items()})


def _graph_tokenizer(source: Source, folder: str):
    """The tokenizer in a graph; without one, a note says why.

    Its vocabulary is written to the folder.
    """
    if source.vocab is None:
        source.notes.append("no preprocessing SavedModel without a vocabulary")
        return None
    from bert_tf.tokenization.graph import GraphTokenizer
    from bert_tf.tokenization.tokenizer import FullTokenizer

    path = join(folder, run_folder.VOCAB_FILE)
    with open(path, "wb") as stream:
        stream.write(source.vocab)
    try:
        return GraphTokenizer(FullTokenizer(path, source.do_lower_case))
    except ValueError as error:
        # The weights do not depend on it.
        reason = str(error).replace(path, run_folder.VOCAB_FILE)
        source.notes.append(f"no preprocessing SavedModel: {reason}")
        return None


def _record(source: Source) -> dict[str, Any]:
    """What `run.json` says of a model that no run of ours has made."""
    record: dict[str, Any] = {}
    if source.head in _TASKS:
        record["task"] = _TASKS[source.head]
    if source.labels:
        record["labels"] = source.labels
    if source.do_lower_case is not None:
        record["do_lower_case"] = source.do_lower_case
    return record


def _write_beside(source: Source, folder: str) -> None:
    files.make_dirs(folder)
    if source.vocab is not None:
        path = join(folder, run_folder.VOCAB_FILE)
        with files.atomic_write(path, "wb") as stream:
            stream.write(source.vocab)
    run_folder.write_run(folder, _record(source), source.config, None)
