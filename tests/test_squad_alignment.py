"""Predicted pieces mapped back into the context."""

import pytest

from bert_tf.tasks.squad_alignment import SpanAlignment, final_text
from bert_tf.tokenization import BasicTokenizer


@pytest.mark.parametrize(
    ("predicted", "text", "expected"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "Café,", "Café"),
        ("5", "($5)", "5"),
        # Lengths differ once accents or ligatures fall apart: all of it.
        ("한", "한국", "한국"),
        ("[UNK]", "😊!", "😊!"),
        ("nowhere", "some words", "some words"),
        ("", "some words", "some words"),
    ],
)
def test_final_text(predicted, text, expected):
    assert final_text(predicted, text, BasicTokenizer()) == expected


def test_the_first_occurrence_is_taken():
    alignment = SpanAlignment("a-b b", BasicTokenizer())
    assert alignment.locate("b") == (2, 3)
    assert alignment.locate("- b b") == (1, 5)
    assert alignment.locate("a b") is None


def test_casing_in_force_decides():
    text = "The Cat."
    assert final_text("the cat", text, BasicTokenizer(True)) == "The Cat"
    assert final_text("the cat", text, BasicTokenizer(False)) == text
