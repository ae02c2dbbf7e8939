"""Vocabulary checks, and where words begin."""

import sys
import types

import pytest
from pretraining_text import SPECIALS, write_vocab

from bert_tf.pretraining_vocabulary import (
    Vocabulary,
    load_segmenter,
    load_tokenizer,
    make_tokenize,
)

HAN = "我爱北京大学"


@pytest.fixture
def segmenter(monkeypatch):
    """A module `fake_words` with a segmenter that knows some words."""
    module = types.ModuleType("fake_words")
    known = ["北京大学", "unknown"]

    def cut(text):
        words = []
        while text:
            word = next((w for w in known if text.startswith(w)), text[0])
            words.append(word)
            text = text[len(word) :]
        return words

    module.cut = cut
    module.changes = lambda text: [text.upper()]
    module.number = 3
    monkeypatch.setitem(sys.modules, "fake_words", module)
    return cut


def test_vocabulary_of_a_tokenizer(tmp_path):
    path = write_vocab(tmp_path, [*SPECIALS, "a", "##b", "a", "##"])
    vocabulary = Vocabulary.of(load_tokenizer(path, True))
    assert vocabulary.size == 9
    assert vocabulary.mask_id == 4 and vocabulary.unk_id == 1
    # Of two equal lines the later id counts, and one is drawn.
    assert vocabulary.replacements == [0, 1, 2, 3, 4, 7, 6, 8]
    assert vocabulary.is_continuation.tolist() == [0] * 6 + [1, 0, 1]


@pytest.mark.parametrize("missing", SPECIALS[1:])
def test_a_vocabulary_without_a_special_token_is_refused(tmp_path, missing):
    pieces = [piece for piece in SPECIALS if piece != missing]
    path = write_vocab(tmp_path, [*pieces, "a"])
    with pytest.raises(ValueError) as error:
        load_tokenizer(path, True)
    assert missing in str(error.value) and path in str(error.value)


def test_without_a_segmenter_pieces_tell(tmp_path):
    tokenizer = load_tokenizer(write_vocab(tmp_path), True)
    tokenize = make_tokenize(tokenizer, load_segmenter(""))
    ids, starts = tokenize("bada .")
    assert ids == tokenizer.tokenize_to_ids("bada .") and starts is None


def test_a_segmenter_joins_characters_to_words(tmp_path, segmenter):
    path = write_vocab(tmp_path, [*SPECIALS, *HAN, "un", "##known", "x"])
    tokenizer = load_tokenizer(path, True)
    assert load_segmenter("fake_words:cut") is segmenter
    tokenize = make_tokenize(tokenizer, segmenter, "fake_words:cut")
    ids, starts = tokenize(HAN + " unknown x")
    assert ids == tokenizer.tokenize_to_ids(HAN + " unknown x")
    assert [int(start) for start in starts] == [1, 1, 1, 0, 0, 0, 1, 0, 1]


def test_a_piece_never_begins_a_word_of_the_segmenter(tmp_path, segmenter):
    # The segmenter cuts "unknowns" after "unknown"; ##s goes on all the same.
    path = write_vocab(tmp_path, [*SPECIALS, "unknown", "##s"])
    tokenize = make_tokenize(load_tokenizer(path, True), segmenter)
    assert [int(start) for start in tokenize("unknowns")[1]] == [1, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fake_words", "expected jieba or module:function"),
        ("fake_words:none", "none"),
        ("no_such_module:cut", "no_such_module"),
        ("fake_words:number", "not a function"),
    ],
)
def test_a_segmenter_that_cannot_be_found(segmenter, name, message):
    with pytest.raises(ValueError, match=f"--word_segmenter={name}.*{message}"):
        load_segmenter(name)


def test_a_segmenter_that_changes_the_text(tmp_path, segmenter):
    tokenizer = load_tokenizer(write_vocab(tmp_path), True)
    name = "fake_words:changes"
    tokenize = make_tokenize(tokenizer, load_segmenter(name), name)
    with pytest.raises(ValueError, match=r"'BA' does not stand in 'ba'"):
        tokenize("ba")


def test_jieba(tmp_path):
    pytest.importorskip("jieba")
    path = write_vocab(tmp_path, [*SPECIALS, *HAN])
    tokenize = make_tokenize(
        load_tokenizer(path, True), load_segmenter("jieba"), "jieba"
    )
    _, starts = tokenize(HAN)
    assert [int(start) for start in starts] == [1, 1, 1, 0, 0, 0]
