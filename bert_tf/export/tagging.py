"""Labels of words, text in.

Shape letters: B batch, W windows, S sequence, K words of the longest row.
"""

import tensorflow as tf

from bert_tf.export import windows as windowing
from bert_tf.export.serving import Outputs, Serving, strings
from bert_tf.tasks.tagging_entities import OUTSIDE


class TaggingServing(Serving):
    """`labels`, `probabilities` and `words`, each [B, K].

    Rows with fewer words are filled up with empty strings and zeros. A word
    that the model has not seen, because its characters are all deleted or it
    was cut off, has the label `O` and probability 0, as in the runner.
    """

    def select(self, outputs, features):
        probabilities = tf.nn.softmax(outputs["logits"], axis=-1)
        return {
            "label_ids": tf.argmax(probabilities, -1, output_type=tf.int32),
            "probabilities": tf.reduce_max(probabilities, axis=-1),
            "logits": outputs["logits"],
        }

    def text_signatures(self):
        return {
            "serving_default": (self.tag_text, [strings("text")]),
            "words": (self.tag_words, [strings("words", rank=2)]),
        }

    def tag_text(self, text) -> Outputs:
        """Words are cut at blanks and around punctuation and ideographs."""
        words, _, _ = self.tokenizer.split_words(text)
        pieces = self.tokenizer.tokenize(words.values)
        # Words of deleted characters alone are none.
        is_word = pieces.row_lengths() > 0
        words = tf.ragged.boolean_mask(words, words.with_values(is_word))
        pieces = tf.ragged.boolean_mask(pieces, is_word)
        return self._padded(words, *self._tag(words, pieces))

    def tag_words(self, words) -> Outputs:
        """Words [B, K] as given; empty strings fill up at the end."""
        count = tf.shape(words)[1]
        used = tf.range(1, count + 1) * tf.cast(words != "", tf.int32)
        lengths = tf.reduce_max(tf.pad(used, [[0, 0], [0, 1]]), axis=1)
        rows = tf.RaggedTensor.from_tensor(words, tf.cast(lengths, tf.int64))
        pieces = self.tokenizer.tokenize(rows.values)
        return self._padded(rows, *self._tag(rows, pieces))

    def _padded(self, words, labels, probabilities) -> Outputs:
        return {
            "words": words.to_tensor(),
            "labels": words.with_values(labels).to_tensor(),
            "probabilities": words.with_values(probabilities).to_tensor(),
        }

    def _tag(self, words: tf.RaggedTensor, pieces: tf.RaggedTensor):
        """Labels and probabilities of all words, one after the other."""
        ids = tf.RaggedTensor.from_nested_row_splits(
            pieces.values, [words.row_splits, pieces.row_splits]
        ).merge_dims(1, 2)
        label_ids, values = self._tag_pieces(ids)
        # One more for words at the very end that have no piece.
        label_ids = tf.pad(label_ids, [[0, 1]])
        values = tf.pad(values, [[0, 1]])
        first = pieces.row_starts()
        labels = self.predictor.labels
        names = tf.constant([*labels, OUTSIDE])
        is_seen = tf.gather(values, first) > 0
        is_seen &= pieces.row_lengths() > 0
        seen_ids = tf.where(is_seen, tf.gather(label_ids, first), len(labels))
        return tf.gather(names, seen_ids), tf.where(
            is_seen, tf.gather(values, first), 0.0
        )

    def _tag_pieces(self, ids: tf.RaggedTensor):
        """Label id and probability of each piece; 0 where none sees it."""
        featurizer = self.predictor._featurizer
        lengths = ids.row_lengths()
        room = tf.fill(tf.shape(lengths), tf.cast(featurizer.room, tf.int64))
        stride = tf.ones_like(room) * featurizer._stride
        if featurizer.long_sentences == "cut":
            lengths = tf.minimum(lengths, room)
        windows = windowing.window_starts(lengths, room, stride, full=True)
        found = windowing.cut_windows(ids, windows)
        is_best = windowing.is_best_window(ids, windows, length_counts=False)
        features = self.tokenizer.pack_ids(
            found, found[:, :0], self.max_seq_length, pad=self.fixed_length
        )
        outputs = self.apply(features)
        # Window and place of every piece that counts, and its place overall.
        place = tf.ragged.range(windows.length)
        begin = tf.gather(ids.row_starts(), windows.row) + windows.start
        piece = place.values + tf.gather(begin, place.value_rowids())
        where = tf.stack([place.value_rowids(), place.values + 1], axis=1)
        where = tf.boolean_mask(where, is_best.values)
        piece = tf.boolean_mask(piece, is_best.values)[:, tf.newaxis]
        size = tf.size(ids.values, tf.int64)[tf.newaxis]
        return (
            tf.scatter_nd(
                piece, tf.gather_nd(outputs["label_ids"], where), size
            ),
            tf.scatter_nd(
                piece, tf.gather_nd(outputs["probabilities"], where), size
            ),
        )
