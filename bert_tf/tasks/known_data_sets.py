"""The known data sets: rows of a table.

`cola`, `mnli`, `mrpc` and `xnli` are read as google-research/bert,
`run_classifier.py` reads them; the others follow the files of the GLUE
download (https://gluebenchmark.com/tasks), XNLI those of XNLI 1.0.
"""

from bert_tf.tasks.data_sets import DataSet, Layout, SplitFile

_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI_NAMES = (
    "index",
    "promptID",
    "pairID",
    "genre",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
    "sentence1_parse",
    "sentence2_parse",
    "sentence1",
    "sentence2",
)
_MNLI = Layout(8, 9, label=-1, id=0, guid=0, names=(*_MNLI_NAMES, "gold_label"))
_MNLI_TEST = Layout(8, 9, id=0, guid=0, names=_MNLI_NAMES)
_COLA = Layout(
    3,
    label=1,
    has_header=False,
    names=("source", "label", "mark", "sentence"),
)
_SST2 = Layout(0, label=1, names=("sentence", "label"))
_SENTENCE_TEST = Layout(1, id=0, names=("index", "sentence"))
_MRPC_NAMES = ("#1 ID", "#2 ID", "#1 String", "#2 String")
_MRPC = Layout(3, 4, label=0, names=("Quality", *_MRPC_NAMES))
_MRPC_TEST = Layout(3, 4, id=0, names=("index", *_MRPC_NAMES))
_QQP = Layout(
    3,
    4,
    label=5,
    id=0,
    names=("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
)
_QQP_TEST = Layout(1, 2, id=0, names=("id", "question1", "question2"))
_STSB_NAMES = (
    "index",
    "genre",
    "filename",
    "year",
    "old_index",
    "source1",
    "source2",
    "sentence1",
    "sentence2",
)
_STSB = Layout(7, 8, label=-1, id=0, names=(*_STSB_NAMES, "score"))
_STSB_TEST = Layout(7, 8, id=0, names=_STSB_NAMES)
_QNLI_NAMES = ("index", "question", "sentence")
_QNLI = Layout(1, 2, label=3, id=0, names=(*_QNLI_NAMES, "label"))
_QNLI_TEST = Layout(1, 2, id=0, names=_QNLI_NAMES)
_PAIR_NAMES = ("index", "sentence1", "sentence2")
_PAIR = Layout(1, 2, label=3, id=0, names=(*_PAIR_NAMES, "label"))
_PAIR_TEST = Layout(1, 2, id=0, names=_PAIR_NAMES)
_XNLI_TRAIN = Layout(0, 1, label=2, names=("premise", "hypo", "label"))
_XNLI = Layout(
    6,
    7,
    label=1,
    language=0,
    names=(
        "language",
        "gold_label",
        *_MNLI_NAMES[4:],
        "promptID",
        "pairID",
        "genre",
        "label1",
        "label2",
        "label3",
        "label4",
        "label5",
        "sentence1_tokenized",
        "sentence2_tokenized",
        "match",
    ),
)


def _splits(
    layout: Layout, test_layout: Layout, submission: str, rows: int
) -> dict[str, SplitFile]:
    """The three usual files."""
    return {
        "train": SplitFile("train.tsv", layout),
        "dev": SplitFile("dev.tsv", layout),
        "test": SplitFile(
            "test.tsv",
            test_layout,
            submission=submission,
            submission_rows=rows,
        ),
    }


_DATA_SETS = (
    DataSet(
        "cola",
        _splits(_COLA, _SENTENCE_TEST, "CoLA.tsv", 1063),
        labels=("0", "1"),
        metrics=("matthews", "accuracy"),
    ),
    DataSet(
        "sst-2",
        _splits(_SST2, _SENTENCE_TEST, "SST-2.tsv", 1821),
        labels=("0", "1"),
    ),
    DataSet(
        "mrpc",
        _splits(_MRPC, _MRPC_TEST, "MRPC.tsv", 1725),
        labels=("0", "1"),
        metrics=("f1", "accuracy"),
    ),
    DataSet(
        "qqp",
        _splits(_QQP, _QQP_TEST, "QQP.tsv", 390_965),
        labels=("0", "1"),
        metrics=("f1", "accuracy"),
    ),
    DataSet(
        "sts-b",
        _splits(_STSB, _STSB_TEST, "STS-B.tsv", 1379),
        kind="regression",
        metrics=("pearson", "spearman"),
    ),
    DataSet(
        "mnli",
        {
            "train": SplitFile("train.tsv", _MNLI),
            "dev_matched": SplitFile("dev_matched.tsv", _MNLI),
            "dev_mismatched": SplitFile("dev_mismatched.tsv", _MNLI),
            "test_matched": SplitFile(
                "test_matched.tsv",
                _MNLI_TEST,
                "data_dir",
                "test",
                "MNLI-m.tsv",
                9796,
            ),
            "test_mismatched": SplitFile(
                "test_mismatched.tsv",
                _MNLI_TEST,
                "data_dir",
                None,
                "MNLI-mm.tsv",
                9847,
            ),
        },
        labels=_NLI,
    ),
    DataSet(
        "qnli",
        _splits(_QNLI, _QNLI_TEST, "QNLI.tsv", 5463),
        labels=_ENTAILMENT,
    ),
    DataSet(
        "rte",
        _splits(_PAIR, _PAIR_TEST, "RTE.tsv", 3000),
        labels=_ENTAILMENT,
    ),
    DataSet(
        "wnli",
        _splits(_PAIR, _PAIR_TEST, "WNLI.tsv", 146),
        labels=("0", "1"),
    ),
    # The diagnostic set is only predicted, by a model trained on mnli.
    DataSet(
        "ax",
        {
            "test": SplitFile(
                "diagnostic.tsv",
                _PAIR_TEST,
                submission="AX.tsv",
                submission_rows=1104,
            )
        },
        labels=_NLI,
        metrics=("matthews", "accuracy"),
    ),
    DataSet(
        "xnli",
        {
            "train": SplitFile(
                "multinli/multinli.train.{language}.tsv", _XNLI_TRAIN
            ),
            "dev": SplitFile("xnli.dev.tsv", _XNLI),
            "test": SplitFile("xnli.test.tsv", _XNLI),
        },
        labels=_NLI,
        # So spelt in the machine-translated training files.
        label_aliases={"contradictory": "contradiction"},
    ),
)

DATA_SETS: dict[str, DataSet] = {
    data_set.name: data_set for data_set in _DATA_SETS
}


def find_data_set(name: str) -> DataSet:
    """The data set of that name, any case, with or without hyphen.

    Raises:
      ValueError: there is none; lists those there are.
    """
    wanted = name.lower()
    for known in DATA_SETS.values():
        if wanted in (known.name, known.name.replace("-", "")):
            return known
    raise ValueError(
        f"--task_name: no task {name!r}; known: {', '.join(DATA_SETS)}, and "
        "custom for files of your own"
    )
