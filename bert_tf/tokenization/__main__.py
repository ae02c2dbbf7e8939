"""Shows what the tokenizer makes of text, one JSON object a line.

echo "Wordpieces!" | python -m bert_tf.tokenization --vocab_file=vocab.txt

Or compares the tokenizer in the graph with the Python one, for every code
point, every line of the vocabulary and the lines of the files given; prints
any difference and ends with status 1 if there is one.

python -m bert_tf.tokenization verify --vocab_file=vocab.txt text.txt
"""

import json
import sys

from absl import app, flags

from bert_tf.tokenization import FullTokenizer, check_casing

FLAGS = flags.FLAGS

flags.DEFINE_string("vocab_file", None, "The vocabulary of the BERT model.")
flags.DEFINE_bool(
    "do_lower_case",
    True,
    "True for uncased models. Drops accents as well as case.",
)
flags.DEFINE_multi_string(
    "never_split", [], "A string kept as one piece, such as [MASK]; repeatable."
)
flags.DEFINE_multi_string(
    "text", [], "A text to cut; repeatable. Without it, lines of stdin."
)


def main(argv: list[str]) -> int | None:
    verifies = argv[1:2] == ["verify"]
    if len(argv) > 1 and not verifies:
        raise app.UsageError(f"Stray argument {argv[1]!r}; use --text=...")
    tokenizer = FullTokenizer(
        FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.never_split
    )
    check_casing(FLAGS.do_lower_case, None, tokenizer)
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    if verifies:
        from bert_tf.tokenization import verification

        return int(verification.report(tokenizer, argv[2:]) > 0)
    for text in FLAGS.text or sys.stdin.buffer:
        cut = tokenizer.tokenize_with_offsets(text)
        print(json.dumps(cut._asdict(), ensure_ascii=False))
    return None


if __name__ == "__main__":
    flags.mark_flag_as_required("vocab_file")
    app.run(main)
