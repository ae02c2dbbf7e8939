"""The tokenizer as TensorFlow ops: the ids of `FullTokenizer`, in a graph.

Lines of which every character folds to itself (or is an ASCII capital) go
straight to tensorflow-text's `FastWordpieceTokenizer`, which only splits and
finds pieces, and in that agrees with the Python tokenizer on all assigned code
points. Every other line is folded first, by a table that comes from the Python
tokenizer itself (`code_points.py`). tensorflow-text's own folding
(`FastBertTokenizer`) is not used: it is NFKC with case folding, which gives
other ids for most Chinese text, and old servers lack its op.

Shape letters: B batch, S sequence.
"""

import functools
import re

import numpy as np
import tensorflow as tf

from bert_tf.tokenization import code_points
from bert_tf.tokenization.graph_packing import pack
from bert_tf.tokenization.tokenizer import FullTokenizer
from bert_tf.tokenization.vocab import UNK
from bert_tf.tokenization.wordpiece import MAX_CHARS_PER_WORD

_MAX_BYTES_PER_WORD = 4 * MAX_CHARS_PER_WORD
_BRACKETED = re.compile(r"\[[^\[\]]+\]")
# Separators that make most text's words visibly short; others cost time only.
_COMMON_SEPARATORS = (
    r"\t\n\r -/:-@\[-`{-~\x{2010}-\x{2027}\x{3000}-\x{303f}"
    r"\x{4e00}-\x{9fff}\x{ff00}-\x{ff0f}\x{ff1a}-\x{ff1f}"
)


def load_tensorflow_text():
    """Imports tensorflow-text, which also registers its ops.

    Raises:
      ValueError: it is not installed, as on Windows.
    """
    try:
        import tensorflow_text
    except ImportError as error:
        raise ValueError(
            "the tokenizer in the graph needs the package tensorflow-text, "
            f"which is not installed here: {error}"
        ) from error
    return tensorflow_text


@functools.cache
def misjudged_code_points() -> frozenset[int]:
    """Code points that tensorflow-text takes for punctuation or blanks.

    They are unassigned for the running Python, which keeps them inside words;
    the tables in TensorFlow are newer.
    """
    tokenizer = _wordpiece_tokenizer([UNK, "a", "b", "##b"])
    table = code_points.folding_table(False, False)
    apart = set(code_points.splitting_code_points().tolist())
    apart.update(code_points.blank_code_points())
    # A letter of the little vocabulary is not unknown, as the others are.
    apart.update(map(ord, "ab"))
    codes = [
        code
        for code in code_points.unchanged_code_points(table).tolist()
        if code not in apart and _may_be_assigned(code)
    ]
    ids = tokenizer.tokenize([f"a{chr(code)}b" for code in codes])
    lengths = ids.row_lengths().numpy()
    return frozenset(np.array(codes)[lengths != 1].tolist())


def _may_be_assigned(code: int) -> bool:
    """Leaves out planes of ideographs, private use and nothing at all."""
    return code < 0x20000 or 0xE0000 <= code < 0xE1000


def _wordpiece_tokenizer(pieces: list[str]):
    return load_tensorflow_text().FastWordpieceTokenizer(
        pieces,
        max_bytes_per_word=_MAX_BYTES_PER_WORD,
        token_out_type=tf.int32,
        unknown_token=UNK,
        no_pretokenization=False,
    )


class GraphTokenizer(tf.Module):
    """Text -> ids and model inputs, with TensorFlow ops only.

    Text is UTF-8, of which wrong bytes are dropped. Eagerly, in a
    `tf.function`, in `tf.data` and in a SavedModel alike.

    Args:
      tokenizer: the Python tokenizer to agree with. Of `never_split` only
        strings in square brackets, such as `[MASK]`, can be followed.

    Attributes:
      tokenizer: the same.
      pieces: the vocabulary by id, as tensorflow-text takes it: lines that no
        word can match are replaced, so that there are no equal ones.

    Raises:
      ValueError: tensorflow-text is not installed, or `never_split` holds a
        string without brackets.
    """

    def __init__(self, tokenizer: FullTokenizer):
        super().__init__()
        text = load_tensorflow_text()
        self.tokenizer = tokenizer
        self._normalize = text.normalize_utf8
        self._table = code_points.folding_table(
            tokenizer.do_lower_case, tokenizer.strip_accents
        )
        special = tokenizer.never_split
        for string in special:
            if not _BRACKETED.fullmatch(string):
                raise ValueError(
                    f"never_split: the tokenizer in the graph cannot follow "
                    f"{string!r}, only strings in square brackets"
                )
        self._unknown, *stand_ins = code_points.unused_characters(
            tokenizer.vocab, 1 + len(special)
        )
        self._stand_ins = dict(zip(special, stand_ins, strict=True))
        self.pieces = self._reachable_pieces()
        self._wordpiece = _wordpiece_tokenizer(self.pieces)
        self._build_patterns()

    def create_fast_tokenizer(self, do_lower_case: bool):
        """tensorflow-text's `FastBertTokenizer` on the same vocabulary.

        Args:
          do_lower_case: fold text as tensorflow-text does, which is not what
            `FullTokenizer` does.
        """
        return load_tensorflow_text().FastBertTokenizer(
            self.pieces,
            max_bytes_per_word=_MAX_BYTES_PER_WORD,
            token_out_type=tf.int32,
            unknown_token=UNK,
            lower_case_nfd_strip_accents=do_lower_case,
        )

    def _reachable_pieces(self) -> list[str]:
        """The pieces by id, each once."""
        # In place of an empty line, or the first of two that are equal: no
        # word keeps U+FFFD.
        pieces = [f"\ufffd{i}" for i in range(self.tokenizer.vocab_size)]
        for piece, i in self.tokenizer.vocab.items():
            if piece not in ("", "##"):
                pieces[i] = self._stand_ins.get(piece, piece)
        return pieces

    def _build_patterns(self) -> None:
        tokenizer, table = self.tokenizer, self._table
        blanks = code_points.blank_code_points()
        # tensorflow-text splits at these blanks itself.
        plain = set(code_points.unchanged_code_points(table).tolist())
        plain.update(blanks)
        if tokenizer.do_lower_case:
            plain.update(range(ord("A"), ord("Z") + 1))
        misjudged = sorted(misjudged_code_points() & plain)
        self._misjudged = f"[{code_points.re2_class(misjudged)}]"
        plain.difference_update(misjudged)
        self._plain = f"(?s)[{code_points.re2_class(sorted(plain))}]*"
        cased, ignored = code_points.sigma_context()
        cased, ignored = map(code_points.re2_class, (cased, ignored))
        self._final_sigma = (
            rf"([{cased}][{ignored}]*)\x{{3a3}}([{ignored}]*"
            rf"(?:[^{cased}{ignored}]|\z))"
        )
        removed = [
            code
            for code in range(code_points.CODE_POINTS)
            if code_points.characters.is_removed(chr(code))
        ]
        blank = code_points.re2_class(blanks)
        self._removed = f"[{code_points.re2_class(removed)}]"
        self._blank = f"[{blank}]"
        limit = MAX_CHARS_PER_WORD
        run = f"[^{_COMMON_SEPARATORS}]{{0,{limit}}}"
        self._short_words = f"(?s){run}(?:[{_COMMON_SEPARATORS}]+{run})*"
        apart = code_points.re2_class(code_points.splitting_code_points())
        self._apart = f"([{apart}])"
        self._long_word = f"[^{blank}]{{{limit + 1},}}"

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the piece ids of each text.

        Args:
          texts: string [B].

        Returns:
          int32 ragged [B, (pieces)], without special tokens.
        """
        with tf.name_scope("tokenize"):
            texts = tf.convert_to_tensor(texts, tf.string)
            for string, stand_in in self._stand_ins.items():
                texts = tf.strings.regex_replace(texts, stand_in, self._unknown)
                texts = tf.strings.regex_replace(
                    texts, re.escape(string), f" {stand_in} "
                )
            is_plain = tf.strings.regex_full_match(texts, self._plain)
            if self.tokenizer.do_lower_case:
                texts = tf.strings.lower(texts)  # ASCII only
            texts = _replace_where(~is_plain, texts, self._fold)
            is_short = tf.strings.regex_full_match(texts, self._short_words)
            texts = _replace_where(~is_short, texts, self._mark_long_words)
            return self._wordpiece.tokenize(texts)

    def encode(
        self,
        texts_a,
        texts_b=None,
        max_seq_length: int = 128,
        pad: bool = True,
    ) -> dict[str, tf.Tensor]:
        """Makes the three model inputs of each text or pair.

        Args:
          texts_a: string [B].
          texts_b: string [B], or None. A text without pieces makes a single.
          max_seq_length: longest row; pairs are cut as in `packing.py`.
          pad: pad to max_seq_length; else to the longest row.

        Returns:
          `input_ids`, `input_mask`, `segment_ids`: int32 [B, S].

        Raises:
          ValueError: max_seq_length leaves no room for the special tokens.
        """
        specials = 2 if texts_b is None else 3
        if max_seq_length < specials:
            raise ValueError(
                f"max_seq_length is {max_seq_length}; {specials} special "
                "tokens must fit"
            )
        ids_a = self.tokenize(texts_a)
        ids_b = ids_a[:, :0] if texts_b is None else self.tokenize(texts_b)
        return self.pack_ids(ids_a, ids_b, max_seq_length, pad)

    def pack_ids(
        self,
        ids_a: tf.RaggedTensor,
        ids_b: tf.RaggedTensor,
        max_seq_length: int,
        pad: bool = True,
    ) -> dict[str, tf.Tensor]:
        """`pack` with this vocabulary's `[CLS]` and `[SEP]`."""
        cls_id, sep_id = self.tokenizer.cls_id, self.tokenizer.sep_id
        return pack(ids_a, ids_b, max_seq_length, cls_id, sep_id, pad)

    def split_words(
        self, texts
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Cuts at blanks and around punctuation and ideographs.

        Args:
          texts: string [B].

        Returns:
          The words as they stand in the text, ragged string [B, (words)], and
          where each starts and ends, in bytes, int64 of the same shape.
        """
        return load_tensorflow_text().regex_split_with_offsets(
            texts, f"{self._blank}|{self._apart}", self._apart
        )

    def _fold(self, texts: tf.Tensor) -> tf.Tensor:
        """Cleans and folds texts [B], code point by code point."""
        if self._misjudged != "[]":
            texts = tf.strings.regex_replace(
                texts, self._misjudged, self._unknown
            )
        if self.tokenizer.do_lower_case:
            # \C is any byte: the text may not be UTF-8 yet.
            has_sigma = tf.strings.regex_full_match(texts, r"\C*\x{3a3}\C*")
            texts = _replace_where(has_sigma, texts, self._lower_final_sigma)
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        table, values = self._table, codes.values
        page = tf.gather(table.page_of, values // code_points.PAGE)
        rows = tf.gather(
            table.pages.reshape(-1),
            page * code_points.PAGE + values % code_points.PAGE,
        )
        folded = tf.gather(table.rows, rows)
        folded = tf.concat(
            [
                tf.where(rows == 0, values, folded[:, 0])[:, tf.newaxis],
                folded[:, 1:],
            ],
            axis=1,
        )
        is_there = folded >= 0
        counts = tf.reduce_sum(tf.cast(is_there, tf.int64), axis=1)
        totals = tf.concat([[0], tf.cumsum(counts)], axis=0)
        folded = tf.RaggedTensor.from_row_splits(
            tf.boolean_mask(folded, is_there),
            tf.gather(totals, codes.row_splits),
            validate=False,
        )
        texts = tf.strings.unicode_encode(folded, "UTF-8")
        if not table.reorders.any():
            return texts
        return tf.cond(
            tf.reduce_any(tf.gather(table.reorders, rows)),
            lambda: self._normalize(texts, "NFD"),
            lambda: texts,
        )

    def _lower_final_sigma(self, texts: tf.Tensor) -> tf.Tensor:
        """Replaces each capital sigma that ends a word by a final one."""
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="ignore"
        )
        texts = tf.strings.regex_replace(texts, self._blank, " ")
        texts = tf.strings.regex_replace(texts, self._removed, "")
        return tf.strings.regex_replace(
            texts, self._final_sigma, "\\1\u03c2\\2"
        )

    def _mark_long_words(self, texts: tf.Tensor) -> tf.Tensor:
        """Replaces words of more than 200 characters by an unknown one."""
        texts = tf.strings.regex_replace(texts, self._apart, r" \1 ")
        return tf.strings.regex_replace(texts, self._long_word, self._unknown)


def _replace_where(condition, texts, function) -> tf.Tensor:
    """Applies a function [n] -> [n] to the texts where condition holds."""

    def replace():
        where = tf.where(condition)
        return tf.tensor_scatter_nd_update(
            texts, where, function(tf.gather_nd(texts, where))
        )

    return tf.cond(tf.reduce_any(condition), replace, lambda: texts)
