"""The tokenizer in the graph and the fast batches against the Python one."""

import gzip
import itertools
import json
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest

from bert_tf import packing
from bert_tf.tokenization import FullTokenizer, code_points, verification

pytest.importorskip("tensorflow_text")
tf = pytest.importorskip("tensorflow")

LETTERS = [
    *"abcdefghijklmnopqrstuvwxyz0123456789.,'-!()",
    *"\u00e9\u00df\u00f8\u03c3\u03c2\u0431\u4e00\u535a\u3002\uff0c\u1100",
    *"\u1161\u3042\u0939\ufb01\u2c65\U0001f600",
]
PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##ing"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *("", "##", "the"),  # as in released files: without use, or twice
]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", "utf-8", newline="\n")
    return path


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizer(request, vocab_file):
    return FullTokenizer(vocab_file, request.param)


def in_graph(tokenizer):
    return tf.function(
        graph_of(tokenizer).tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )


def assert_same(tokenizer, texts):
    texts = [
        text if isinstance(text, bytes) else text.encode() for text in texts
    ]
    found = in_graph(tokenizer)(tf.constant(texts)).to_list()
    for text, ids in zip(texts, found, strict=True):
        assert ids == tokenizer.tokenize_to_ids(text), text


def test_every_code_point(tokenizer):
    """The letters around show deletion, splitting and blanks apart."""
    texts = [
        (source, text)
        for source, text in verification.code_point_texts()
        # Of the planes without characters, or with private ones, a part.
        if (code := ord(text[1])) < 0x33000
        or 0xE0000 <= code < 0xE1000
        or code % 97 == 0
    ]
    assert len(texts) > 200_000
    assert not list(verification.find_differences(tokenizer, texts))


def random_texts(count, seed=3):
    """Texts of all scripts, thick with what depends on its neighbours."""
    source = random.Random(seed)
    category = {c: unicodedata.category(chr(c)) for c in range(0x30000)}
    assigned = [c for c in category if category[c] not in ("Cn", "Cs", "Co")]
    marks = [c for c in assigned if unicodedata.combining(chr(c))]
    spacing_marks = [c for c in marks if category[c] != "Mn"]
    cased, ignored = code_points.sigma_context()
    alphabets = [
        *(list(map(ord, "the Quick, fox isn't   50%\t\n")), assigned, marks),
        *(spacing_marks, [0x3A3], cased, ignored, range(0x3001, 0xD7FF)),
    ]
    for _ in range(count):
        length = source.randint(1, 40)
        yield "".join(
            chr(source.choice(source.choice(alphabets))) for _ in range(length)
        )


def graph_of(tokenizer):
    from bert_tf.tokenization.graph import GraphTokenizer

    return GraphTokenizer(tokenizer)


def batches_of(tokenizer):
    from bert_tf.tokenization.fast import BatchTokenizer

    return BatchTokenizer(tokenizer)


def test_random_strings(tokenizer):
    assert_same(tokenizer, random_texts(4000))


HARD = [
    "\u03a3 A\u03a3 A\u03a3. A\u03a3B a\u03a3\u00ad\u03a3 \u03a3\u03a3",
    "A\u03a3\x01b A\u03a3\u4e00 A\u0301\u03a3 '\u03a3",
    "\u0130 \u01c5 \u1e9e \ufb01 \uff0c \u2026 \u00bd \u212b \u00df",
    "\ud55c\uae00 \u304c \u0958 \u0344 \U00016ff0\u302e",
    "a\u00a0b\u3000c\u2028d\u2029e\u0085f\u200bg\ufeffh\ufffdi",
    "",
    " \n",
    "\u0301",
]


def test_hard_cases(tokenizer):
    assert_same(tokenizer, HARD)


def test_words_are_limited_in_characters(tokenizer):
    texts = []
    for letter in "a\u00e9\u4e00\U0001f600":
        for length in (50, 100, 199, 200, 201, 202, 450):
            word = letter * length
            texts += [word, f"{word}\u3000{word}", f"{word}\u0301"]
            texts.append(f"the {word}.{word}")
    assert_same(tokenizer, texts)


def test_wrong_bytes_are_dropped(tokenizer):
    source = random.Random(1)
    alphabet = b"aB \xe2\x82\xac\xed\xa0\x80\xf0\x9f\x98\xff\xc3\xa9\xce\xa3"
    texts = [bytes(source.choices(alphabet, k=9)) for _ in range(5000)]
    assert_same(tokenizer, texts)


def test_golden_strings(golden_dir, data_dir):
    folder = golden_dir / "tokenization"
    names = {"uncased": True, "cased": False, "chinese": True}
    for name, lower in names.items():
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", "utf-8") as stream:
            rows = [json.loads(line) for line in stream]
        path = data_dir / "vocab" / rows[0]["vocab"]
        tokenizer = FullTokenizer(path, lower)
        same = unicodedata.unidata_version == "14.0.0"
        rows = [row for row in rows if same or not row.get("has_unassigned")]
        texts = [row["text"].encode() for row in rows]
        found = in_graph(tokenizer)(tf.constant(texts)).to_list()
        assert found == [row["ids"] for row in rows]


def test_never_split(vocab_file):
    tokenizer = FullTokenizer(vocab_file, True, ["[MASK]"])
    assert_same(
        tokenizer,
        [
            "the [MASK]ing[MASK]",
            "[mask] [MASK [MASK]]",
            # What stands for [MASK] inside means nothing in a text.
            *(f"a {stand_in} b" for stand_in in "\uf8fe\uf8ff"),
        ],
    )
    with pytest.raises(ValueError, match="'the'"):
        graph_of(FullTokenizer(vocab_file, True, ["the"]))


def test_code_points_newer_than_python_stay_in_words():
    from bert_tf.tokenization.graph import misjudged_code_points

    for code in misjudged_code_points():
        assert unicodedata.category(chr(code)) == "Cn"


def test_encode_packs_as_the_runners_do(tokenizer):
    texts = ["", "a", "a b c", "a b c d e f g h i", "the the the the the the"]
    pairs = [(a, b) for a in texts for b in texts]
    first, second = (list(texts) for texts in zip(*pairs, strict=True))
    graph = graph_of(tokenizer)
    for length, pad in itertools.product((3, 4, 7, 8, 15), (True, False)):
        expected = [tokenizer.encode(a, b, length) for a, b in pairs]
        found = graph.encode(first, second, length, pad)
        longest = max(sum(row["input_mask"]) for row in expected)
        for name in packing.PackedInputs._fields:
            rows = [row[name][: length if pad else longest] for row in expected]
            np.testing.assert_array_equal(found[name], rows)
    expected = [tokenizer.encode(a, None, 7) for a in first]
    for name, values in graph.encode(first, max_seq_length=7).items():
        np.testing.assert_array_equal(values, [row[name] for row in expected])


def test_encode_refuses_lengths_without_room(tokenizer):
    with pytest.raises(ValueError, match="is 2; 3 special"):
        graph_of(tokenizer).encode(["a"], ["b"], 2)


def test_batches_on_the_host(tokenizer):
    batches = batches_of(tokenizer)
    texts = ["the fox", b"the fox", *random_texts(2000), "a" * 201, "\ud800 a"]
    texts += ["A\u03a3", f"the {'a' * 150} {'b' * 201}", "caf\u00e9 THE"]
    for text, ids in zip(texts, batches(texts), strict=True):
        assert ids.dtype == np.int32
        assert ids.tolist() == tokenizer.tokenize_to_ids(text), text
    assert batches.fast_lines and batches.exact_lines
    codes = [f"a{chr(code)}b" for code in range(0x10000)]
    for text, ids in zip(codes, batches.stream(codes), strict=True):
        assert ids.tolist() == tokenizer.tokenize_to_ids(text), text


def test_batches_keep_never_split(vocab_file):
    tokenizer = FullTokenizer(vocab_file, True, ["[MASK]"])
    (ids,) = batches_of(tokenizer)(["the [MASK]"])
    assert ids.tolist() == tokenizer.tokenize_to_ids("the [MASK]")
    with pytest.raises(ValueError, match="strip_accents=False"):
        batches_of(FullTokenizer(vocab_file, True, (), False))


def test_verify_prints_differences(tokenizer, monkeypatch, tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_bytes("the \u00e9\r\nfox \xff".encode("latin-1"))
    texts = list(verification.file_texts(str(path)))
    assert texts[1] == (f"{path}, line 2", b"fox \xff")
    monkeypatch.setattr(
        verification, "code_point_texts", lambda: iter([("U+0041", "aAb")])
    )
    assert verification.report(tokenizer, [str(path)]) == 0
    assert f"{path}: 2 compared, 0 differ" in capsys.readouterr().out
    monkeypatch.setattr(tokenizer, "tokenize_to_ids", lambda text: [2])
    assert verification.report(tokenizer, [str(path)]) > 1
    assert "U+0041: 'aAb': Python gives [CLS], the graph" in (
        capsys.readouterr().out
    )


def test_command_keeps_its_first_form(vocab_file, repo_dir):
    command = [sys.executable, "-m", "bert_tf.tokenization"]
    command += [f"--vocab_file={vocab_file}"]
    done = subprocess.run(
        [*command, "--text=the"], capture_output=True, check=True, cwd=repo_dir
    )
    assert json.loads(done.stdout)["tokens"] == ["the"]
