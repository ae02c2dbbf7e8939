"""Models with heads: outputs, names, dropout."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import checkpoint_names
from bert_tf.config import BertConfig

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=10,
    type_vocab_size=2,
)
IDS = np.array([[2, 7, 9, 3], [2, 8, 3, 0]])
MLM = {
    "cls/predictions/transform/dense/kernel": (8, 8),
    "cls/predictions/transform/dense/bias": (8,),
    "cls/predictions/transform/LayerNorm/beta": (8,),
    "cls/predictions/transform/LayerNorm/gamma": (8,),
    "cls/predictions/output_bias": (30,),
}
NSP = {
    "cls/seq_relationship/output_weights": (2, 8),
    "cls/seq_relationship/output_bias": (2,),
}
ROOT = {"output_weights": (3, 8), "output_bias": (3,)}


@pytest.mark.parametrize(
    ("name", "args", "head"),
    [
        ("BertModel", (), {}),
        ("BertForPreTraining", (), {**MLM, **NSP}),
        ("BertForMaskedLM", (), MLM),
        ("BertForNextSentencePrediction", (), NSP),
        ("BertForSequenceClassification", (3,), ROOT),
        ("BertForTokenClassification", (3,), ROOT),
        (
            "BertForQuestionAnswering",
            (),
            {
                "cls/squad/output_weights": (2, 8),
                "cls/squad/output_bias": (2,),
            },
        ),
        (
            "BertForMultipleChoice",
            (),
            {"output_weights": (1, 8), "output_bias": (1,)},
        ),
    ],
)
def test_names_and_shapes_of_heads(name, args, head):
    model = getattr(bert_tf, name)(CONFIG, *args)
    found = {
        name: tuple(v.shape)
        for name, v in checkpoint_names(model).items()
        if not name.startswith("bert/")
    }
    assert found == head


def test_pretraining_outputs():
    model = bert_tf.BertForPreTraining(CONFIG)
    positions = np.array([[1, 2], [2, 0]])
    out = model({"input_ids": IDS, "masked_lm_positions": positions})
    assert out["masked_lm_logits"].shape == (2, 2, 30)
    assert out["next_sentence_logits"].shape == (2, 2)
    everywhere = model({"input_ids": IDS})["masked_lm_logits"]
    assert everywhere.shape == (2, 4, 30)
    for row in range(2):
        np.testing.assert_allclose(
            out["masked_lm_logits"][row],
            everywhere.numpy()[row, positions[row]],
            atol=1e-6,
        )


def test_output_matrix_is_the_embedding_table():
    model = bert_tf.BertForMaskedLM(CONFIG)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model({"input_ids": IDS})["masked_lm_logits"] ** 2)
    table = model.bert.embeddings.word_embeddings.value
    gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
    unseen = [i for i in range(30) if i not in IDS]
    assert np.abs(gradient[unseen]).min(axis=1).max() > 0


def test_other_outputs():
    tokens = bert_tf.BertForTokenClassification(CONFIG, 5)(IDS)
    assert tokens["logits"].shape == (2, 4, 5)
    answers = bert_tf.BertForQuestionAnswering(CONFIG)(IDS)
    assert answers["start_logits"].shape == (2, 4)
    assert answers["end_logits"].shape == (2, 4)
    classes = bert_tf.BertForSequenceClassification(CONFIG, 4)(IDS)
    assert classes["logits"].shape == (2, 4)
    assert "sequence_output" in classes


def test_multiple_choice_scores_each_choice_by_itself():
    model = bert_tf.BertForMultipleChoice(CONFIG)
    ids = np.stack([IDS, IDS[::-1], IDS + 1], axis=1)
    logits = model({"input_ids": ids, "input_mask": np.ones_like(ids)})
    assert logits["logits"].shape == (2, 3)
    alone = model({"input_ids": ids[:, 1:2]})["logits"]
    np.testing.assert_allclose(logits["logits"][:, 1:2], alone, atol=1e-6)


def test_classifier_dropout_ignores_the_config():
    quiet = BertConfig.from_dict(
        {
            **CONFIG.to_dict(),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    )
    keras.utils.set_random_seed(1)
    model = bert_tf.BertForSequenceClassification(quiet, 2)
    plain = model(IDS)["logits"].numpy()
    trained = model(IDS, training=True, dropout_seed=[1, 2])["logits"].numpy()
    assert np.abs(plain - trained).max() > 1e-5
    squad = bert_tf.BertForQuestionAnswering(quiet)
    np.testing.assert_array_equal(
        squad(IDS)["start_logits"],
        squad(IDS, training=True, dropout_seed=[1, 2])["start_logits"],
    )


def test_no_labels():
    with pytest.raises(ValueError, match="num_labels is 0"):
        bert_tf.BertForSequenceClassification(CONFIG, 0)


def test_heads_in_mixed_precision_answer_in_float32():
    model = bert_tf.BertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    out = model({"input_ids": IDS, "masked_lm_positions": IDS[:, :2] * 0})
    assert out["masked_lm_logits"].dtype == tf.float32
    assert out["next_sentence_logits"].dtype == tf.float32
