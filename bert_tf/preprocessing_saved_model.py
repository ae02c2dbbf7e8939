"""Writes the tokenizer as a SavedModel of the form that TF-Hub and Kaggle have.

Text in, the inputs of an encoder SavedModel out; it needs tensorflow and
tensorflow-text only. `tensorflow_hub.KerasLayer` and `tf.saved_model.load` take
it. Source: the interface of preprocessors at
tensorflow.org/hub/common_saved_model_apis/text.

Shape letters: B batch, S sequence.
"""

import tensorflow as tf

from bert_tf.tokenization.graph import GraphTokenizer
from bert_tf.tokenization.vocab import MASK, PAD

# Names of the encoder's inputs, theirs -> ours.
INPUTS = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
}
_TEXT = "sentences"


def write_preprocessing(
    folder: str, tokenizer: GraphTokenizer, max_seq_length: int
) -> None:
    """Writes the SavedModel to a new folder.

    The object can be called with texts, string [B], and gives `INPUTS`, int32
    [B, S]. `tokenize(texts)` gives int32 ragged [B, (pieces)], and
    `bert_pack_inputs([ids], seq_length=S)` or `([ids_a, ids_b], ...)` packs
    such rows; pairs are cut as by the scripts here, and a row of `ids_b`
    without pieces makes a single. `tokenize.get_special_tokens_dict()` gives
    the ids that are needed for other ways of packing.

    Args:
      folder: where to.
      tokenizer: what to write.
      max_seq_length: S of the call on texts, and where no `seq_length` is
        given.
    """

    def preprocess(sentences):
        return _renamed(
            tokenizer.encode(sentences, max_seq_length=max_seq_length)
        )

    texts = tf.TensorSpec([None], tf.string, _TEXT)
    root = tf.train.Checkpoint()
    root.vocab_file = tf.saved_model.Asset(tokenizer.tokenizer.vocab_file)
    root.__call__ = _function(preprocess, texts)
    root.tokenize = _callable(_function(tokenizer.tokenize, texts))
    root.tokenize.get_special_tokens_dict = _callable(
        _function(lambda: _special_tokens(tokenizer))
    )
    root.bert_pack_inputs = _callable(_packing(tokenizer, max_seq_length))
    tf.saved_model.save(
        root,
        folder,
        signatures=root.__call__.get_concrete_function(texts),
    )


def _function(function, *specs):
    return tf.function(function, input_signature=specs, autograph=False)


def _callable(function) -> tf.train.Checkpoint:
    """An object with this call, to which others can be attached."""
    target = tf.train.Checkpoint()
    target.__call__ = function
    return target


def _special_tokens(tokenizer: GraphTokenizer) -> dict[str, tf.Tensor]:
    """Ids by purpose; those that the vocabulary lacks are left out."""
    python = tokenizer.tokenizer
    ids = {
        "start_of_sequence_id": python.cls_id,
        "end_of_segment_id": python.sep_id,
        "vocab_size": python.vocab_size,
    }
    for name, piece in (("padding_id", PAD), ("mask_id", MASK)):
        if piece in python.vocab:
            ids[name] = python.vocab[piece]
    return {name: tf.constant(i) for name, i in ids.items()}


def _packing(tokenizer: GraphTokenizer, max_seq_length: int):
    """Packs one or two ragged tensors, with or without a dimension of words."""

    def pack(inputs, seq_length=max_seq_length):
        # TF-Hub's own tokenizers give [B, (words), (pieces)].
        parts = [ids.merge_dims(1, -1) for ids in inputs]
        second = parts[1] if len(parts) > 1 else parts[0][:, :0]
        features = tokenizer.pack_ids(parts[0], second, seq_length, pad=False)
        missing = seq_length - tf.shape(features["input_ids"])[1]
        return _renamed(
            {
                name: tf.pad(value, [[0, 0], [0, missing]])
                for name, value in features.items()
            }
        )

    packing = tf.function(pack, autograph=False)
    for rank in (1, 2):
        spec = tf.RaggedTensorSpec([None] * (rank + 1), tf.int32)
        for count in (1, 2):
            packing.get_concrete_function(
                [spec] * count, seq_length=tf.TensorSpec([], tf.int32)
            )
    return packing


def _renamed(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {theirs: features[ours] for theirs, ours in INPUTS.items()}
