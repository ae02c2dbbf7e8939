"""Learning a WordPiece vocabulary from text, with tensorflow-text's tool."""

import os
from collections import Counter
from collections.abc import Iterable

from bert_tf import files
from bert_tf.tokenization.vocab import MASK, PAD, REQUIRED
from bert_tf.tokenization.wordpiece import BasicTokenizer

SPECIAL_TOKENS = (PAD, *REQUIRED, MASK)


def learn_vocabulary(
    lines: Iterable[str],
    vocab_size: int,
    do_lower_case: bool = True,
    min_count: int = 2,
) -> list[str]:
    """Learns pieces from text that is split exactly as the tokenizer does.

    The algorithm is that of `tensorflow_text.tools.wordpiece_vocab`, which
    searches a threshold of counts for the size asked for.

    Args:
      lines: the text.
      vocab_size: pieces wanted, special tokens included; the result has at
        most as many.
      do_lower_case: as the tokenizer will be used.
      min_count: words seen less often are left out. Those seen once are half
        of all words and cost as much time as the rest.

    Returns:
      The pieces in the order of a vocabulary file: `[PAD]` first, then the
      other special tokens, then by frequency.

    Raises:
      ValueError: there is no text, or tensorflow-text is not installed.
    """
    try:
        from tensorflow_text.tools.wordpiece_vocab import (
            wordpiece_tokenizer_learner_lib as learner,
        )
    except ImportError as error:
        raise ValueError(
            "learning a vocabulary needs the package tensorflow-text, which "
            f"is not installed here: {error}"
        ) from error
    tokenizer = BasicTokenizer(do_lower_case)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(tokenizer.tokenize(line))
    if not counts:
        raise ValueError("there is no text to learn a vocabulary from")
    return learner.learn(counts.most_common(), vocab_size, list(SPECIAL_TOKENS))


def save_vocabulary(pieces: Iterable[str], path: str | os.PathLike) -> None:
    """Writes a vocabulary file, one piece a line."""
    with files.atomic_write(path) as stream:
        stream.writelines(f"{piece}\n" for piece in pieces)
