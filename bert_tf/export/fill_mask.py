"""Words for `[MASK]`, text in.

Shape letters: B batch, S sequence, P masks of the fullest row, K candidates,
V vocabulary.
"""

import tensorflow as tf

from bert_tf.export.serving import Outputs, Serving, strings


class FillMaskServing(Serving):
    """`tokens` and `probabilities` [B, P, K], most probable first.

    Rows with fewer masks are filled up with empty strings and zeros. The ids
    signature gives `masked_lm_logits` [B, S, V].
    """

    def select(self, outputs, features):
        return {"masked_lm_logits": outputs["masked_lm_logits"]}

    def text_signatures(self):
        return {"serving_default": (self.fill, [strings("text")])}

    def fill(self, text) -> Outputs:
        """Candidates for each `[MASK]` of texts [B]."""
        tokenizer = self.predictor.tokenizer
        features = self.encode(text)
        is_mask = features["input_ids"] == tokenizer.mask_id
        rows = tf.RaggedTensor.from_value_rowids(
            *tf.unstack(tf.where(is_mask)[:, ::-1], axis=1),
            nrows=tf.size(text, tf.int64),
        )
        positions = tf.cast(rows.to_tensor(), tf.int32)
        outputs = self.apply({**features, "masked_lm_positions": positions})
        found = tf.nn.softmax(outputs["masked_lm_logits"], axis=-1)
        values, ids = tf.math.top_k(found, self.predictor.top_k)
        pieces = [
            tokenizer.inv_vocab.get(i, "") for i in range(tokenizer.vocab_size)
        ]
        is_used = tf.sequence_mask(rows.row_lengths())[:, :, tf.newaxis]
        return {
            "tokens": tf.where(is_used, tf.gather(pieces, ids), ""),
            "probabilities": tf.where(is_used, values, 0.0),
        }
