"""Text -> WordPieces -> ids, the original's tokens with character offsets."""

from bert_tf.tokenization.casing import check_casing
from bert_tf.tokenization.offsets import Tokenization, WordTokenization
from bert_tf.tokenization.tokenizer import FullTokenizer
from bert_tf.tokenization.vocab import (
    CLS,
    MASK,
    PAD,
    SEP,
    UNK,
    Vocabulary,
    check_special_tokens,
    check_vocab_size,
    load_vocab,
)
from bert_tf.tokenization.wordpiece import BasicTokenizer, WordpieceTokenizer

__all__ = [
    "CLS",
    "MASK",
    "PAD",
    "SEP",
    "UNK",
    "BasicTokenizer",
    "FullTokenizer",
    "Tokenization",
    "Vocabulary",
    "WordTokenization",
    "WordpieceTokenizer",
    "check_casing",
    "check_special_tokens",
    "check_vocab_size",
    "load_vocab",
]
