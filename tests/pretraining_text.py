"""Small text, vocabulary and settings for tests of pre-training data."""

import random

from bert_tf import records
from bert_tf.pretraining_settings import PretrainingDataSettings

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]


def write_vocab(folder, pieces=None) -> str:
    """Words of one syllable, and `##` pieces to build longer ones."""
    path = folder / "vocab.txt"
    if pieces is None:
        pieces = [*SPECIALS, *SYLLABLES, *(f"##{s}" for s in SYLLABLES), "."]
    path.write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return str(path)


def make_text(
    num_documents: int, seed: int = 0, sentences=(2, 12), words=(3, 20)
) -> str:
    """Documents of random words of one to three syllables."""
    rng = random.Random(seed)
    documents = []
    for _ in range(num_documents):
        lines = []
        for _ in range(rng.randint(*sentences)):
            line = [
                "".join(rng.choices(SYLLABLES, k=rng.choice((1, 1, 2, 3))))
                for _ in range(rng.randint(*words))
            ]
            lines.append(" ".join(line) + " .\n")
        documents.append("".join(lines))
    return "\n".join(documents)


def make_settings(folder, **changes) -> PretrainingDataSettings:
    """Settings for `text*.txt` in a folder."""
    values = {
        "input_file": str(folder / "text*.txt"),
        "output_file": str(folder / "records"),
        "vocab_file": str(folder / "vocab.txt"),
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
        "dupe_factor": 2,
        "num_workers": 1,
        **changes,
    }
    return PretrainingDataSettings(**values)


def read_all(settings) -> list[bytes]:
    """All records, files in order."""
    return [
        record
        for path in settings.output_paths()
        for record in records.read_records(path)
    ]


def summarize(examples, cls_id, sep_id, mask_id, max_seq_length, special_ids):
    """Counts of decoded records, as the reference data has them."""
    out = dict.fromkeys(
        (
            "instances",
            "real_tokens",
            "masked",
            "mask_token",
            "kept",
            "random",
            "special_random",
            "random_next",
            "full",
            "segment_1",
            "bad_labels",
            "duplicates",
        ),
        0,
    )
    for e in examples:
        length = sum(e["input_mask"])
        count = int(sum(e["masked_lm_weights"]))
        positions = e["masked_lm_positions"][:count]
        out["instances"] += 1
        out["real_tokens"] += length
        out["random_next"] += e["next_sentence_labels"][0]
        out["full"] += length == max_seq_length
        out["masked"] += count
        out["duplicates"] += count - len(set(positions))
        for position, label in zip(positions, e["masked_lm_ids"], strict=False):
            new = e["input_ids"][position]
            out["segment_1"] += e["segment_ids"][position]
            out["bad_labels"] += label in (cls_id, sep_id)
            if new == mask_id:
                out["mask_token"] += 1
            elif new == label:
                out["kept"] += 1
            else:
                out["random"] += 1
                out["special_random"] += new in special_ids
    return out
