"""The tokenizer against the original's own output, string by string."""

import gzip
import hashlib
import json
import unicodedata

import pytest

from bert_tf.tokenization import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
    check_casing,
    load_vocab,
)

NAMES = (
    "uncased",
    "cased",
    "chinese",
    "multi_cased",
    "multilingual",
    "uncased_nolower",
    "tiny",
)
# Names in tok_text/expected.jsonl -> folder of the vocabulary, lower-casing.
EXPECTED = {
    "uncased": ("uncased_L-12_H-768_A-12", True),
    "cased": ("cased_L-12_H-768_A-12", False),
    "chinese": ("chinese_L-12_H-768_A-12", True),
    "multi_cased": ("multi_cased_L-12_H-768_A-12", False),
    "multi_uncased": ("multilingual_L-12_H-768_A-12", True),
}


@pytest.fixture(scope="module")
def vocab_path(golden_dir, data_dir):
    """Path of a vocabulary named in the goldens."""

    def path(name):
        for folder in (data_dir / "vocab", golden_dir):
            if (folder / name).exists():
                return folder / name
        raise FileNotFoundError(name)

    return path


@pytest.fixture(scope="module")
def comparable(golden_dir):
    """Tells whether this Python's Unicode tables let a string be compared."""
    meta = json.loads((golden_dir / "tokenization/meta.json").read_text())
    same = meta["unidata_version"] == unicodedata.unidata_version
    return lambda row: same or not row.get("has_unassigned")


def read_rows(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [json.loads(line) for line in stream]


@pytest.fixture(scope="module")
def strings(golden_dir):
    return read_rows(golden_dir / "tokenization/strings.jsonl.gz")


@pytest.mark.parametrize("name", NAMES)
def test_tokens_ids_and_offsets(golden_dir, vocab_path, comparable, name):
    rows = read_rows(golden_dir / f"tokenization/{name}.jsonl.gz")
    strings = read_rows(golden_dir / "tokenization/strings.jsonl.gz")
    tokenizer = FullTokenizer(
        vocab_path(rows[0]["vocab"]), rows[0]["do_lower_case"]
    )
    compared = 0
    for row, string in zip(rows, strings, strict=True):
        assert row["i"] == string["i"]
        if not comparable(string):
            continue
        text = row["text"]
        assert tokenizer.tokenize(text) == row["tokens"], repr(text)
        assert tokenizer.tokenize_to_ids(text) == row["ids"], repr(text)
        found = tokenizer.tokenize_with_offsets(text)
        assert found.tokens == row["tokens"], repr(text)
        assert found.ids == row["ids"], repr(text)
        compared += 1
    assert compared > 6000


@pytest.mark.parametrize("do_lower_case", (True, False))
def test_basic_tokenizer(golden_dir, strings, comparable, do_lower_case):
    name = "basic_lower" if do_lower_case else "basic_nolower"
    rows = read_rows(golden_dir / f"tokenization/{name}.jsonl.gz")
    tokenizer = BasicTokenizer(do_lower_case)
    for row, string in zip(rows, strings, strict=True):
        if comparable(string):
            text = string["text"]
            assert tokenizer.tokenize(text) == row["basic_tokens"], repr(text)


def test_wordpiece_tokenizer(golden_dir, vocab_path):
    rows = read_rows(golden_dir / "tokenization/tiny.jsonl.gz")
    words = read_rows(golden_dir / "tokenization/basic_lower.jsonl.gz")
    tokenizer = WordpieceTokenizer(load_vocab(vocab_path(rows[0]["vocab"])))
    for row, word_row in zip(rows, words, strict=True):
        basic = " ".join(word_row["basic_tokens"])
        assert tokenizer.tokenize(basic) == row["tokens"], repr(row["text"])


def test_surrogates_and_bytes(golden_dir, vocab_path):
    rows = read_rows(golden_dir / "tokenization/surrogates_and_bytes.jsonl")
    tokenizers = {}
    for row in rows:
        key = row["vocab"], row["do_lower_case"]
        if key not in tokenizers:
            tokenizers[key] = FullTokenizer(vocab_path(key[0]), key[1])
        text = (
            bytes.fromhex(row["bytes_hex"])
            if "bytes_hex" in row
            else row["text"]
        )
        assert tokenizers[key].tokenize(text) == row["tokens"], repr(text)
        assert tokenizers[key].tokenize_to_ids(text) == row["ids"]
        assert tokenizers[key].tokenize_with_offsets(text).ids == row["ids"]
    assert len(rows) > 10


@pytest.mark.parametrize("name", EXPECTED)
def test_real_and_naughty_text(data_dir, vocab_path, name):
    folder, do_lower_case = EXPECTED[name]
    tokenizer = FullTokenizer(vocab_path(f"{folder}/vocab.txt"), do_lower_case)
    rows = read_rows(data_dir / "tok_text/expected.jsonl")
    for row in rows:
        assert tokenizer.tokenize_to_ids(row["text"]) == row[name]
        assert tokenizer.tokenize_with_offsets(row["text"]).ids == row[name]
    assert len(rows) == 1035


def test_load_vocab(golden_dir, vocab_path):
    meta = json.loads((golden_dir / "tokenization/meta.json").read_text())
    for facts in meta["load_vocab"]:
        vocab = load_vocab(vocab_path(facts["vocab"]))
        assert len(vocab) == facts["entries"]
        assert vocab.line_count == facts["lines"]
        assert max(vocab.values()) == facts["max_id"]
        assert vocab.get("") == facts["empty_key_id"]
        assert vocab.get("##") == facts["hashes_only_key_id"]
        for piece, i in facts["special"].items():
            assert vocab.get(piece) == i
        joined = "\n".join(vocab).encode()
        assert (
            hashlib.sha256(joined).hexdigest()
            == facts["sha256_of_tokens_joined_by_newline"]
        )


def test_casing_check(golden_dir):
    cases = json.loads((golden_dir / "unit/case_check.json").read_text())
    for case in cases:
        args = case["do_lower_case"], case["init_checkpoint"]
        if case["error"] is None:
            check_casing(*args)
        else:
            with pytest.raises(ValueError, match="--do_lower_case") as info:
                check_casing(*args)
            assert "--init_checkpoint" in str(info.value)
    assert sum(case["error"] is not None for case in cases) > 5
