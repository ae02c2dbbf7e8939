"""Does the casing flag fit the checkpoint and the vocabulary?"""

import logging
import re
from collections.abc import Mapping
from typing import Any

from bert_tf.tokenization.characters import fold

logger = logging.getLogger("bert_tf")

# The releases whose folder names the original checks (the later ones, such
# as the whole-word-masking and the small models, it does not).
_LOWER_CASED = (
    "uncased_L-24_H-1024_A-16",
    "uncased_L-12_H-768_A-12",
    "multilingual_L-12_H-768_A-12",
    "chinese_L-12_H-768_A-12",
)
_CASED = (
    "cased_L-12_H-768_A-12",
    "cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
)
_FOLDER = re.compile(r"([A-Za-z0-9_-]+)/bert_model\.ckpt")
# Official vocabularies lie far from both: lower-cased ones hold at most 0.01%
# of entries that folding would change, cased ones at least 17%.
_UNREACHABLE_SHARE = 0.01
_UPPER_CASE_SHARE = 0.005


def check_casing(
    do_lower_case: bool,
    init_checkpoint: str | None,
    vocab: Mapping[str, int] | Any = None,
) -> None:
    """Stops where the casing flag contradicts a released checkpoint's name.

    With a vocabulary, also warns where the flag contradicts its entries.

    Args:
      do_lower_case: value of the flag.
      init_checkpoint: value of the flag; None or empty checks no name.
      vocab: piece -> id, or a tokenizer that has it as `vocab`.

    Raises:
      ValueError: the checkpoint lies in a folder with the name of a release
        that was pre-trained with the other casing.
    """
    match = _FOLDER.search(init_checkpoint or "")
    name = match.group(1) if match else None
    if (name in _LOWER_CASED and not do_lower_case) or (
        name in _CASED and do_lower_case
    ):
        kind = "lower-cased" if name in _LOWER_CASED else "cased"
        raise ValueError(
            f"--do_lower_case={do_lower_case} does not fit --init_checkpoint="
            f"{init_checkpoint}: the release {name} was pre-trained on {kind} "
            f"text. Pass --do_lower_case={not do_lower_case}, or rename the "
            "folder if it holds another model"
        )
    if vocab is not None:
        _warn_of_vocabulary(do_lower_case, getattr(vocab, "vocab", vocab))


def _warn_of_vocabulary(do_lower_case: bool, vocab: Mapping[str, int]) -> None:
    entries = [
        entry
        for entry in vocab
        if not (entry.startswith("[") and entry.endswith("]"))
    ]
    if not do_lower_case:
        entries = [e for e in entries if e.lower() != e.upper()]
    if not entries:
        return
    where = getattr(vocab, "path", "") or "given"
    if do_lower_case:
        lost = [e for e in entries if fold(e, True, True) != e]
        if len(lost) > _UNREACHABLE_SHARE * len(entries):
            logger.warning(
                "--do_lower_case=True, but %d of the %d entries of the "
                "vocabulary (%s) hold capitals or accents, such as %r, and "
                "can never be found; is it the vocabulary of a cased model? "
                "Then pass --do_lower_case=False",
                len(lost),
                len(entries),
                where,
                lost[len(lost) // 2],
            )
        return
    upper = sum(entry != entry.lower() for entry in entries)
    if upper < _UPPER_CASE_SHARE * len(entries):
        logger.warning(
            "--do_lower_case=False, but only %d of the %d entries with "
            "letters in the vocabulary (%s) hold a capital, so words with "
            "capitals become [UNK]; is it the vocabulary of a lower-casing "
            "model? Then pass --do_lower_case=True",
            upper,
            len(entries),
            where,
        )
