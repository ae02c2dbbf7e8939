"""Answers to questions, text in.

Shape letters: B questions, W windows of all of them, S sequence.
"""

import tensorflow as tf

from bert_tf.export import windows as windowing
from bert_tf.export.serving import Outputs, Serving, strings

_NEVER = -1e30


class AnswerServing(Serving):
    """`answer` [B] and where it stands in the context.

    `start` and `end` count characters of the context (code points), `score`
    is the sum of the two logits, `null_odds` what no answer scores above
    that. An answer consists of whole words of the tokenizer (punctuation
    apart), where the runner may cut inside one. Where no answer is possible
    and its odds exceed the run's threshold, `answer` is empty and both places
    are -1.
    """

    def select(self, outputs, features):
        names = ("start_logits", "end_logits")
        return {name: outputs[name] for name in names}

    def text_signatures(self):
        inputs = [strings("question"), strings("context")]
        return {"serving_default": (self.answer, inputs)}

    def answer(self, question, context) -> Outputs:
        """Answers questions [B] from contexts [B]."""
        settings = self.predictor.settings
        query = self.tokenizer.tokenize(question)
        query = query[:, : settings.max_query_length]
        words, begins, ends = self.tokenizer.split_words(context)
        pieces = self.tokenizer.tokenize(words.values)
        ids = tf.RaggedTensor.from_nested_row_splits(
            pieces.values, [words.row_splits, pieces.row_splits]
        ).merge_dims(1, 2)
        room = self.max_seq_length - 3 - query.row_lengths()
        stride = tf.minimum(room, settings.doc_stride)
        windows = windowing.window_starts(
            ids.row_lengths(), room, stride, full=False
        )
        parts = tf.gather(query, windows.row)
        features = self.tokenizer.pack_ids(
            parts,
            windowing.cut_windows(ids, windows),
            self.max_seq_length,
            pad=self.fixed_length,
        )
        outputs = self.apply(features)
        is_best = windowing.is_best_window(ids, windows, length_counts=True)
        score, start, end = self._best_spans(
            outputs, is_best, parts.row_lengths() + 2
        )
        null = outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]
        rows = tf.size(question, tf.int64)
        best = tf.math.unsorted_segment_max(score, windows.row, rows)
        null = -tf.math.unsorted_segment_max(-null, windows.row, rows)
        # The first window that has the best score.
        window = tf.range(tf.size(score, tf.int64))
        is_first = score == tf.gather(best, windows.row)
        chosen = tf.math.unsorted_segment_min(
            tf.where(is_first, window, window.dtype.max), windows.row, rows
        )
        offset = tf.gather(windows.start, chosen) + ids.row_starts()
        first = tf.gather(start, chosen) + offset
        last = tf.gather(end, chosen) + offset
        begin, stop = self._places(context, words, begins, ends, pieces)
        return self._texts(
            context, best, null, _value_at(begin, first), _value_at(stop, last)
        )

    def _places(self, context, words, begins, ends, pieces):
        """Where each piece begins and ends, in characters of its context.

        A piece begins inside a word only where the word's pieces have as many
        characters as the word; else it has the place of its word.
        """
        row = words.value_rowids()
        contexts = tf.gather(context, row)
        begin, end = (
            _characters(contexts, tf.cast(place.values, tf.int32))
            for place in (begins, ends)
        )
        lengths = tf.gather(self._piece_lengths, pieces.values)
        total = tf.reduce_sum(pieces.with_values(lengths), axis=1)
        word = pieces.value_rowids()
        is_even = tf.gather(total == end - begin, word)
        before = tf.cumsum(lengths, exclusive=True)
        first = _value_at(before, pieces.row_starts())
        inside = tf.gather(begin, word) + before - tf.gather(first, word)
        return (
            tf.where(is_even, inside, tf.gather(begin, word)),
            tf.where(is_even, inside + lengths, tf.gather(end, word)),
        )

    @property
    def _piece_lengths(self) -> list[int]:
        """Characters of each piece; 0 for those that are no text."""
        tokenizer = self.predictor.tokenizer
        lengths = [0] * tokenizer.vocab_size
        for piece, i in tokenizer.vocab.items():
            lengths[i] = len(piece.removeprefix("##"))
        lengths[tokenizer.unk_id] = 0
        return lengths

    def _best_spans(self, outputs, is_best, doc_offset):
        """Score, first and last piece (in the window) of its best span."""
        length = is_best.row_lengths()
        start, end = (
            _context_values(outputs[name], doc_offset, length)
            for name in ("start_logits", "end_logits")
        )
        size = tf.shape(start)[1]
        is_best = is_best.to_tensor()
        missing = size - tf.shape(is_best)[1]
        is_best = tf.pad(is_best, [[0, 0], [0, missing]])
        start = tf.where(is_best, start, _NEVER)
        scores = start[:, :, tf.newaxis] + end[:, tf.newaxis, :]
        distance = tf.range(size) - tf.range(size)[:, tf.newaxis]
        limit = self.predictor.settings.max_answer_length
        allowed = (distance >= 0) & (distance < limit)
        scores = tf.where(allowed, scores, 2 * _NEVER)
        flat = tf.reshape(scores, [tf.shape(start)[0], size * size])
        best = tf.argmax(flat, axis=1)
        wide = tf.maximum(tf.cast(size, tf.int64), 1)
        return tf.reduce_max(flat, axis=1), best // wide, best % wide

    def _texts(self, context, best, null, begin, stop) -> Outputs:
        has_answer = best > _NEVER / 2
        odds = null - best
        if self.predictor.settings.version_2_with_negative:
            threshold = self.predictor._answer_settings
            threshold = threshold.null_score_diff_threshold
            has_answer &= odds <= threshold
        start = tf.where(has_answer, begin, 0)
        end = tf.where(has_answer, stop, 0)
        answer = tf.strings.substr(
            context, start, end - start, unit="UTF8_CHAR"
        )
        return {
            "answer": answer,
            "start": tf.where(has_answer, start, -1),
            "end": tf.where(has_answer, end, -1),
            "score": best,
            "null_odds": odds,
        }


def _characters(texts, places):
    """Places in bytes as places in characters."""
    return tf.strings.length(
        tf.strings.substr(texts, tf.zeros_like(places), places),
        unit="UTF8_CHAR",
    )


def _value_at(values, index):
    """values[index], with a 0 more at the end."""
    return tf.gather(tf.pad(values, [[0, 1]]), index)


def _context_values(logits, doc_offset, length) -> tf.Tensor:
    """Logits of the context's pieces, [W, longest], filled up with never."""
    size = tf.maximum(tf.reduce_max(tf.concat([length, [0]], 0)), 1)
    place = tf.range(size)
    where = tf.minimum(
        doc_offset[:, tf.newaxis] + place, tf.shape(logits, tf.int64)[1] - 1
    )
    values = tf.gather(logits, where, batch_dims=1)
    return tf.where(place < length[:, tf.newaxis], values, _NEVER)
