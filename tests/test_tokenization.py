"""Words, pieces, offsets, vocabulary files and casing, case by case."""

import json
import logging
import pickle
import random
import subprocess
import sys
import types
import unicodedata

import pytest

from bert_tf.tokenization import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
    characters,
    check_casing,
    check_special_tokens,
    check_vocab_size,
    load_vocab,
    tokenizer,
)

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PUBLISHED = (
    *("[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un"),
    *("runn", "##ing", ","),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ALL_CHARACTERS = tuple(map(chr, range(sys.maxunicode + 1)))


@pytest.fixture
def make_vocab(tmp_path):
    """Writes a vocabulary file and returns its path."""

    def make(pieces, name="vocab.txt", end="\n"):
        path = tmp_path / name
        path.write_bytes("".join(p + end for p in pieces).encode())
        return str(path)

    return make


@pytest.fixture
def make_tokenizer(make_vocab):
    """A tokenizer over the special tokens and some pieces."""

    def make(pieces, *args, **kwargs):
        return FullTokenizer(make_vocab(SPECIALS + pieces), *args, **kwargs)

    return make


@pytest.fixture
def letters(make_tokenizer):
    """Knows each Latin letter, alone and inside a word, and some marks."""
    pieces = [*LETTERS, *("##" + c for c in LETTERS), *",.!-'()"]
    return make_tokenizer(pieces)


def spell(cut, text):
    """(piece, its characters) pairs."""
    return [
        (token, text[start:end])
        for token, (start, end) in zip(cut.tokens, cut.offsets, strict=True)
    ]


class TestBasicTokenizer:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", []),
            (" \t\r\n", []),
            ("Hello, World!", ["hello", ",", "world", "!"]),
            ("ah博推zz", ["ah", "博", "推", "zz"]),
            ("中文abc", ["中", "文", "abc"]),
            ("a\U0002b820b", ["a", "\U0002b820", "b"]),
            ("note\nbook\tend\rx", ["note", "book", "end", "x"]),
            ("a\u200bb a\u00adb a\0b a\ufffdb a\ufeffb", ["ab"] * 5),
            ("a\x0bb\x0cc\x85d\x1ce", ["abcde"]),
            ("a\xa0b\u3000c\u2028d\u2029e", ["a", "b", "c", "d", "e"]),
            ("café cafe\u0301", ["cafe", "cafe"]),
            ("が", ["か"]),
            ("कु", ["क"]),
            ("İstanbul", ["istanbul"]),
            ("한", ["\u1112\u1161\u11ab"]),
            ("Straße", ["straße"]),
            ("ΟΔΟΣ ΟΔΟΣ.", ["οδος", "οδος", "."]),
            ("a€b glad😊", ["a€b", "glad😊"]),
            ("it’s non‑stop", ["it", "’", "s", "non", "‑", "stop"]),
            ("$+<=>^`|~", list("$+<=>^`|~")),
            ("the [MASK]", ["the", "[", "mask", "]"]),
            ("カナ かな", ["カナ", "かな"]),
            ("\u0301", []),
            ("\ue000x", ["\ue000x"]),
        ],
    )
    def test_lower(self, text, words):
        assert BasicTokenizer().tokenize(text) == words

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("Café", ["Café"]),
            ("a\u0301", ["a\u0301"]),
            ("が कु İ 한국", ["が", "कु", "İ", "한국"]),
            ("ﬁ①，", ["ﬁ①", "，"]),
            ("X-ray", ["X", "-", "ray"]),
        ],
    )
    def test_cased(self, text, words):
        assert BasicTokenizer(do_lower_case=False).tokenize(text) == words

    def test_accents_apart_from_case(self):
        keeps = BasicTokenizer(True, strip_accents=False)
        assert keeps.tokenize("CAFÉ İ") == ["café", "i̇"]
        strips = BasicTokenizer(False, strip_accents=True)
        assert strips.tokenize("CAFÉ") == ["CAFE"]

    def test_bytes_and_other_types(self):
        assert BasicTokenizer().tokenize(b"caf\xc3\xa9 \xffx") == ["cafe", "x"]
        for wrong in (None, 3, ["a"], bytearray(b"a")):
            with pytest.raises(ValueError, match="text must be a string"):
                BasicTokenizer().tokenize(wrong)


class TestWordpieceTokenizer:
    @pytest.mark.parametrize(
        ("text", "pieces"),
        [
            ("", []),
            ("unwanted running", ["un", "##want", "##ed", "runn", "##ing"]),
            ("unwantedX running", ["[UNK]", "runn", "##ing"]),
        ],
    )
    def test_longest_match_first(self, text, pieces):
        vocab = dict.fromkeys(PUBLISHED, 0)
        assert WordpieceTokenizer(vocab).tokenize(text) == pieces

    def test_no_way_back_from_a_long_match(self):
        vocab = dict.fromkeys(("[UNK]", "ab", "a", "##bc"), 0)
        assert WordpieceTokenizer(vocab).tokenize("abc") == ["[UNK]"]

    def test_length_limit(self):
        vocab = dict.fromkeys(("[UNK]", "a", "##a"), 0)
        cut = WordpieceTokenizer(vocab).tokenize
        assert len(cut("a" * 200)) == 200
        assert cut("a" * 201) == ["[UNK]"]


class TestCharacterClasses:
    """The fast tables against the plain predicates, code point by code point.

    They must agree for every character of the running Python's Unicode.
    """

    def test_removed(self):
        for char in ALL_CHARACTERS:
            kept = characters.remove_controls(f"a{char}b").split()
            if characters.is_removed(char):
                assert kept == ["ab"], hex(ord(char))
            elif characters.is_whitespace(char):
                assert kept == ["a", "b"], hex(ord(char))
            else:
                assert kept == f"a{char}b".split(), hex(ord(char))

    def test_blanks_of_the_span_pattern(self):
        for char in ALL_CHARACTERS:
            words = tokenizer._WORD.findall(f"a{char}b")
            if characters.is_cjk(char):
                expected = ["a", char, "b"]
            elif char.isspace() and not characters.is_removed(char):
                expected = ["a", "b"]
            else:
                expected = [f"a{char}b"]
            assert words == expected, hex(ord(char))

    def test_standalone(self):
        count = 0
        for char in ALL_CHARACTERS:
            if characters.is_cjk(char):
                assert tokenizer._STANDALONE.fullmatch(char)
                assert not tokenizer._NO_IDEOGRAPH.fullmatch(char)
            if tokenizer._STANDALONE.fullmatch(char):
                count += 1
                alone = BasicTokenizer().tokenize(f"ΑΣ{char}Β{char}")
                folded = characters.fold(char, True, True)
                assert alone == ["ας", folded, "β", folded]
        assert count > 80_000

    def test_ends_of_the_ideograph_blocks(self):
        for first, last in (
            (0x4E00, 0x9FFF),
            (0x3400, 0x4DBF),
            (0x20000, 0x2A6DF),
            (0x2A700, 0x2B73F),
            (0x2B740, 0x2B81F),
            (0x2B820, 0x2CEAF),
            (0xF900, 0xFAFF),
            (0x2F800, 0x2FA1F),
        ):
            assert characters.is_cjk(chr(first))
            assert characters.is_cjk(chr(last))
        inside = sum(map(characters.is_cjk, ALL_CHARACTERS))
        assert inside == 20992 + 6592 + 42720 + 4160 + 224 + 5776 + 512 + 544
        assert not characters.is_control("\U0001f4a9")
        assert characters.is_whitespace("\xa0")

    def test_punctuation_tables(self):
        for char in ALL_CHARACTERS:
            parts = characters.split_at_punctuation(f"a{char}b")
            if characters.is_punctuation(char):
                assert parts == ["a", char, "b"]
            elif not char.isspace():
                assert parts == [f"a{char}b"]


class TestFullTokenizer:
    def test_the_published_example(self, make_vocab):
        full = FullTokenizer(make_vocab(PUBLISHED))
        tokens = full.tokenize("UNwant\u00e9d,running")
        assert tokens == ["un", "##want", "##ed", ",", "runn", "##ing"]
        assert full.convert_tokens_to_ids(tokens) == [7, 4, 5, 10, 8, 9]
        assert full.convert_ids_to_tokens([7, 4, 5]) == tokens[:3]
        assert (full.unk_id, full.cls_id, full.sep_id) == (0, 1, 2)
        assert full.vocab_size == 11
        assert full.inv_vocab[10] == ","

    def test_equals_the_plain_algorithm_on_random_text(self, make_tokenizer):
        source = random.Random(7)
        interesting = (
            "aAbBcé\u0301\u0327ΣσςΑİıßŉﬁẞ中文\uf900\U0002f800がカ한ㄱु\u302e"
            "，。！．：·'’.-,[]#\0\ufffd\u200b\xad\ufeff\x0b\x1c\x85 \t\n"
            "\xa0\u3000\u2028\ud800\ue000\U000e0001😊👍🏽\U0001d165\u0345"
        )
        pieces = [c for c in dict.fromkeys(interesting) if c.strip()]
        pieces = [p for p in pieces if p != "\ud800"]
        pieces += ["##" + p for p in pieces] + ["ab", "##ab", "σσ", "#", "ς"]
        for do_lower_case in (True, False):
            for strip_accents in (None, True, False):
                full = make_tokenizer(
                    pieces, do_lower_case, strip_accents=strip_accents
                )
                basic = BasicTokenizer(do_lower_case, strip_accents)
                cut = WordpieceTokenizer(full.vocab).tokenize
                for _ in range(1500):
                    size = source.randrange(25)
                    text = "".join(source.choices(interesting, k=size))
                    words = basic.tokenize(text)
                    plain = [p for word in words for p in cut(word)]
                    assert full.tokenize(text) == plain, repr(text)
                    found = full.tokenize_with_offsets(text)
                    assert found.tokens == plain, repr(text)
                    counts = [len(cut(word)) for word in words]
                    word_ids = [
                        i for i, n in enumerate(counts) for _ in "x" * n
                    ]
                    assert found.word_ids == word_ids, repr(text)
                    self.check_spans(text, found, full)

    def check_spans(self, text, cut, full):
        """Every character that counts lies in a piece, no blank does."""
        owners = [0] * len(text)
        for start, end in cut.offsets:
            assert 0 <= start < end <= len(text)
            for i in range(start, end):
                owners[i] += 1
        for i, char in enumerate(text):
            folded = characters.fold(
                char, full.do_lower_case, full.strip_accents
            )
            if char.isspace() and not characters.is_removed(char):
                assert not owners[i], repr(text)
                assert cut.char_to_token(i) is None
            elif folded and not characters.is_removed(char):
                assert owners[i], repr(text)
                assert cut.char_to_token(i) is not None
                if len(folded) == 1 and len(char.lower()) == 1:
                    assert owners[i] == 1, repr(text)

    def test_length_limit_counts_after_folding(self, letters):
        assert len(letters.tokenize("é" * 200)) == 200
        assert len(letters.tokenize("e\u0301\u200b" * 200)) == 200
        assert letters.tokenize("a" * 201) == ["[UNK]"]
        long = letters.tokenize_with_offsets("x " + "a" * 201 + ".")
        assert long.offsets == [(0, 1), (2, 203), (203, 204)]

    def test_caches_stay_bounded(self, make_tokenizer, monkeypatch):
        monkeypatch.setattr(tokenizer, "_ID_CACHE_CHARACTERS", 100)
        monkeypatch.setattr(tokenizer, "_SPAN_CACHE_CHARACTERS", 50)
        full = make_tokenizer([*LETTERS, *("##" + c for c in LETTERS)])
        words = [a + b for a in LETTERS for b in LETTERS]
        expected = [p for w in words for p in (w[0], "##" + w[1])]
        text = " ".join(words)
        for _ in range(2):
            assert full.tokenize(text) == expected
            assert full.tokenize_with_offsets(text).tokens == expected
        assert 0 < len(full._ids_of_word) <= 10
        assert 0 < len(full._spans_of_word) <= 5
        full.tokenize("b" * 5000)
        assert max(map(len, full._ids_of_word)) <= 64

    def test_text_never_brings_in_special_tokens(self, letters):
        ids = letters.tokenize_to_ids("[MASK] [SEP] [CLS] [PAD] [UNK]")
        assert not {0, 2, 3, 4} & set(ids)

    def test_never_split(self, make_tokenizer):
        full = make_tokenizer(
            ["[unused1]", "the", "sat", "[", "]", "mask", "##s"],
            never_split=["[MASK]", "[unused1]"],
        )
        text = "the[MASK]s [mask] [unused1]  sat"
        cut = full.tokenize_with_offsets(text)
        tokens = [
            "the",
            "[MASK]",
            "[UNK]",
            "[",
            "mask",
            "]",
            "[unused1]",
            "sat",
        ]
        assert cut.tokens == full.tokenize(text) == tokens
        assert cut.ids == full.tokenize_to_ids(text)
        assert cut.ids[1] == full.mask_id == 4
        assert cut.word_ids == list(range(8))
        assert spell(cut, text)[1] == ("[MASK]", "[MASK]")
        assert cut.offsets[6] == (18, 27)

    def test_never_split_takes_the_longest(self, make_tokenizer):
        full = make_tokenizer(["<a>", "<a><b>"], never_split=["<a>", "<a><b>"])
        assert full.tokenize("<a><a><b>") == ["<a>", "<a><b>"]

    def test_never_split_must_be_known(self, make_tokenizer):
        with pytest.raises(ValueError, match=r"never_split: '\[new\]' is not"):
            make_tokenizer([], never_split=["[new]"])
        with pytest.raises(ValueError, match="expected a list"):
            make_tokenizer([], never_split="[MASK]")

    def test_unknown_tokens_and_ids(self, letters):
        with pytest.raises(KeyError, match=r"token 'zzz' .*vocab\.txt"):
            letters.convert_tokens_to_ids(["a", "zzz"])
        for wrong in (-1, 10**6):
            with pytest.raises(KeyError, match=f"id {wrong} "):
                letters.convert_ids_to_tokens([wrong])

    def test_encode(self, letters):
        single = letters.encode("ab", max_seq_length=6)
        ids = letters.convert_tokens_to_ids(["a", "##b"])
        assert single["input_ids"] == [2, *ids, 3, 0, 0]
        assert single["input_mask"] == [1, 1, 1, 1, 0, 0]
        assert single["segment_ids"] == [0] * 6
        pair = letters.encode("ab", "c", max_seq_length=7)
        assert pair["segment_ids"] == [0, 0, 0, 0, 1, 1, 0]
        assert len(letters.encode("a")["input_ids"]) == 128
        assert letters.encode("a", "  ", 4)["segment_ids"] == [0] * 4

    def test_words_given_apart(self, letters):
        cut = letters.tokenize_words(["ab", "\u200b", "c.", "", "d"])
        assert cut.tokens == ["a", "##b", "c", ".", "d"]
        assert cut.word_ids == [0, 0, 2, 2, 4]
        assert cut.first_pieces == [0, None, 2, None, 4]
        assert cut.ids == letters.convert_tokens_to_ids(cut.tokens)

    def test_travels_to_another_process(self, make_tokenizer):
        full = make_tokenizer(["É"], False, ["[MASK]"])
        full.tokenize("É x")
        copy = pickle.loads(pickle.dumps(full))
        text = "É [MASK]"
        assert copy.tokenize(text) == full.tokenize(text) == ["É", "[MASK]"]


class TestOffsets:
    @pytest.mark.parametrize(
        ("text", "spans"),
        [
            ("", []),
            ("  ab  c", ["a", "b", "c"]),
            ("naïve cat", list("naïve") + list("cat")),
            ("a\u200bb", ["a\u200b", "b"]),
            ("\ufeffa\u200b b", ["a", "b"]),
            ("a\u200b,b", ["a", ",", "b"]),
            ("e\u0301x e\u200b\u0301", ["e\u0301", "x", "e\u200b\u0301"]),
            ("\u0301a", ["a"]),
            ("İx", ["İ", "x"]),
            ("a中b", ["a", "中", "b"]),
            ("αβ cat", ["αβ", "c", "a", "t"]),
            ("💩💩💩 x", ["💩💩💩", "x"]),
            ("glad😊!", ["glad😊", "!"]),
            ("\U0001f469\u200d\U0001f680", ["\U0001f469\u200d\U0001f680"]),
        ],
    )
    def test_spans(self, letters, text, spans):
        cut = letters.tokenize_with_offsets(text)
        assert [text[start:end] for start, end in cut.offsets] == spans
        assert cut.tokens == letters.tokenize(text)

    def test_char_to_token(self, letters):
        cut = letters.tokenize_with_offsets("💩💩💩 x")
        assert [cut.char_to_token(i) for i in range(6)] == [0] * 3 + [
            None,
            1,
            None,
        ]

    def test_one_character_of_several_pieces(self, make_tokenizer):
        jamo = unicodedata.normalize("NFD", "한")
        full = make_tokenizer([jamo[0], "##" + jamo[1], "##" + jamo[2]])
        cut = full.tokenize_with_offsets("x 한")
        assert cut.tokens[1:] == [jamo[0], "##" + jamo[1], "##" + jamo[2]]
        assert cut.offsets[1:] == [(2, 3)] * 3
        assert cut.word_ids == [0, 1, 1, 1]
        assert cut.char_to_token(2) == 1

    def test_words_count_punctuation(self, letters):
        cut = letters.tokenize_with_offsets("Dr. Zák's")
        assert cut.word_ids == [0, 0, 1, 2, 2, 2, 3, 4]
        assert cut.offsets[-2:] == [(7, 8), (8, 9)]

    def test_bytes_count_decoded_characters(self, letters):
        cut = letters.tokenize_with_offsets("é\xa0b".encode() + b"\xff")
        assert cut.offsets == [(0, 1), (2, 3)]


class TestVocabularyFile:
    def test_ids_are_physical_lines(self, tmp_path):
        path = tmp_path / "v.txt"
        text = "\ufeff[PAD]\r\n\r\n[UNK]\n a \n\u2028\nb\x0bc\nd\x85e\na\nf"
        path.write_bytes(text.encode())
        vocab = load_vocab(path)
        assert vocab == {
            "[PAD]": 0,
            "": 4,
            "[UNK]": 2,
            "a": 7,
            "b\x0bc": 5,
            "d\x85e": 6,
            "f": 8,
        }
        assert list(vocab)[:3] == ["[PAD]", "", "[UNK]"]
        assert (vocab.line_count, len(vocab)) == (9, 7)
        assert vocab.path == str(path)

    def test_locale_does_not_matter(self, repo_dir, make_vocab):
        code = (
            "from bert_tf.tokenization import load_vocab; import sys;"
            "print(load_vocab(sys.argv[1])['\\u4e2d'])"
        )
        done = subprocess.run(
            [
                sys.executable,
                "-X",
                "utf8=0",
                "-c",
                code,
                make_vocab(["a", "中"]),
            ],
            env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
            capture_output=True,
            text=True,
            check=True,
            cwd=repo_dir,
        )
        assert done.stdout.strip() == "1"

    def test_a_replaced_unused_line_is_found(self, make_tokenizer):
        before = make_tokenizer(["[unused1]", "a"])
        after = make_tokenizer(["covid", "a"])
        assert after.tokenize_to_ids("COVID a") == [5, 6]
        assert before.tokenize_to_ids("COVID a") == [1, 6]

    def test_emoji_of_the_vocabulary_is_found(self, make_tokenizer):
        assert make_tokenizer(["😊"]).tokenize("😊") == ["😊"]

    def test_equal_lines(self, make_tokenizer):
        full = make_tokenizer(["a", "a"])
        assert full.tokenize_to_ids("a") == [6]
        assert full.vocab_size == 7
        with pytest.raises(KeyError):
            full.convert_ids_to_tokens([5])

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"[PAD]\n[UNK]\n\xff\xfe\n", r"bad\.txt', line 3: byte 0xff"),
            (b"", "does not look like a BERT vocabulary"),
            (b'{"model": {}}', r"does not look.*first line is '\{"),
            (b"[PAD]\n<unk>\n[CLS]\n[SEP]\na\n", r"5 lines\) has no \[UNK\]$"),
            (b"[PAD]\n[UNK]\na\n", r"no \[CLS\], \[SEP\]$"),
            (b"[PAD]\r[UNK]\r[CLS]\r[SEP]\r", "does not look like"),
        ],
    )
    def test_wrong_content(self, tmp_path, content, message):
        path = tmp_path / "bad.txt"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            FullTokenizer(path)

    def test_wrong_path(self, tmp_path):
        with pytest.raises(ValueError, match="is a folder"):
            FullTokenizer(tmp_path)
        with pytest.raises(ValueError, match="nowhere' does not exist"):
            FullTokenizer(tmp_path / "nowhere")

    def test_mask_is_required_on_request(self, make_vocab):
        path = make_vocab(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])
        full = FullTokenizer(path)
        with pytest.raises(ValueError, match=r"has no \[MASK\]"):
            _ = full.mask_id
        with pytest.raises(ValueError, match=r"has no \[MASK\]"):
            FullTokenizer(path, require=["[MASK]"])
        check_special_tokens(load_vocab(path))

    def test_pad_elsewhere_is_said(self, make_vocab, caplog):
        with caplog.at_level(logging.WARNING, "bert_tf"):
            FullTokenizer(make_vocab(["[UNK]", "[PAD]", "[CLS]", "[SEP]"]))
        assert "[PAD] is id 1" in caplog.text

    def test_size_against_the_config(self, make_vocab):
        vocab = load_vocab(make_vocab([*SPECIALS, "a", "a"]))

        def check(size, **kwargs):
            config = types.SimpleNamespace(vocab_size=size, source="c.json")
            check_vocab_size(vocab, config, **kwargs)

        check(7)
        check(8, allow_smaller=True)
        for size, kwargs in ((6, {}), (8, {}), (6, {"allow_smaller": True})):
            message = rf"vocab\.txt' has 7 lines, .*'c\.json' is {size}"
            with pytest.raises(ValueError, match=message):
                check(size, **kwargs)


class TestCasing:
    @pytest.mark.parametrize(
        ("do_lower_case", "pieces", "expected"),
        [
            (True, ["a", "the", "##ing"], None),
            (False, ["a", "The", "É"], None),
            (True, ["a", "The"], "such as 'The'"),
            (True, ["か", "が"], "capitals or accents"),
            (True, ["a", "é"], "capitals or accents"),
            (False, ["a", "the", "##ing"], "only 0 of the 3"),
            (False, ["中", "，", "1"], None),
        ],
    )
    def test_vocabulary(
        self, make_vocab, caplog, do_lower_case, pieces, expected
    ):
        path = make_vocab(SPECIALS + pieces)
        full = FullTokenizer(path, do_lower_case)
        for vocab in (full, full.vocab):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "bert_tf"):
                check_casing(do_lower_case, "x/model.ckpt-3", vocab)
            if expected is None:
                assert not caplog.text
            else:
                assert expected in caplog.text
                assert path in caplog.text

    def test_official_vocabularies(self, data_dir, caplog):
        for folder in (data_dir / "vocab").iterdir():
            if not (folder / "vocab.txt").exists():
                continue
            vocab = load_vocab(folder / "vocab.txt")
            cased = folder.name.startswith(("cased", "multi_cased"))
            for do_lower_case in (True, False):
                caplog.clear()
                with caplog.at_level(logging.WARNING, "bert_tf"):
                    check_casing(do_lower_case, None, vocab)
                warned = bool(caplog.text)
                assert warned == (cased == do_lower_case), folder.name

    def test_names_both_flags(self):
        with pytest.raises(ValueError) as info:
            check_casing(False, "a/uncased_L-12_H-768_A-12/bert_model.ckpt")
        assert "--do_lower_case=False" in str(info.value)
        assert "--init_checkpoint=a/uncased_L-12" in str(info.value)
        assert "--do_lower_case=True" in str(info.value)


class TestCommand:
    @pytest.fixture
    def run(self, repo_dir):
        def run(*args, text=b""):
            return subprocess.run(
                [sys.executable, "-m", "bert_tf.tokenization", *args],
                input=text,
                capture_output=True,
                cwd=repo_dir,
            )

        return run

    def test_lines(self, run, make_vocab):
        path = make_vocab([*SPECIALS, "a", "##b", "É"])
        done = run(
            f"--vocab_file={path}",
            "--nodo_lower_case",
            "--never_split=[MASK]",
            text="ab [MASK]\n\nÉ\n".encode(),
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["tokens"] for line in lines] == [
            ["a", "##b", "[MASK]"],
            [],
            ["É"],
        ]
        assert lines[0]["offsets"] == [[0, 1], [1, 2], [3, 9]]
        assert lines[0]["ids"] == [5, 6, 4]

    def test_stray_argument(self, run, make_vocab):
        path = make_vocab(SPECIALS)
        done = run(f"--vocab_file={path}", "--do_lower_case", "False")
        assert done.returncode
        assert b"'False'" in done.stdout + done.stderr

    def test_no_tensorflow(self, repo_dir, make_vocab):
        code = (
            "import sys; from bert_tf.tokenization import FullTokenizer;"
            "FullTokenizer(sys.argv[1]).tokenize('a');"
            "assert 'tensorflow' not in sys.modules;"
            "assert 'numpy' not in sys.modules"
        )
        path = make_vocab([*SPECIALS, "a"])
        subprocess.run(
            [sys.executable, "-c", code, path], check=True, cwd=repo_dir
        )
