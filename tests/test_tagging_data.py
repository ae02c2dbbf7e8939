"""Files of words and labels: layouts, documents, faults with their lines."""

import logging

import pytest

from bert_tf.tasks.tagging_data import (
    ColumnLayout,
    find_labels,
    read_lines,
    read_sentences,
)

CONLL_2003 = """\
-DOCSTART- -X- -X- O

Anna NNP B-NP B-PER
left VBD B-VP O
. . O O

-DOCSTART- -X- -X- O

Rome NNP B-NP B-LOC
"""


@pytest.fixture
def file_of(tmp_path):
    def write(text):
        path = tmp_path / "words.txt"
        data = text if isinstance(text, bytes) else text.encode("utf-8")
        path.write_bytes(data)
        return str(path)

    return write


def read(path, layout=None, **kwargs):
    found = read_sentences(path, layout or ColumnLayout(), **kwargs)
    return [(s.words, s.labels) for s in found]


def test_four_columns_and_documents(file_of):
    path = file_of(CONLL_2003)
    assert read(path) == [
        (["Anna", "left", "."], ["B-PER", "O", "O"]),
        (["Rome"], ["B-LOC"]),
    ]
    chunks = read(path, ColumnLayout(label_column=2))
    assert chunks[0][1] == ["B-NP", "B-VP", "O"]


@pytest.mark.parametrize(
    "text",
    [
        "Anna\tB-PER\nleft\tO\n\nRome\tB-LOC\n",
        "Anna B-PER\nleft O\n\nRome B-LOC",
        "Anna   B-PER \nleft O\n\n\n\nRome B-LOC\n\n\n",
        # As in the files of WNUT 2017, and on Windows, with a mark of UTF-8.
        "Anna\tB-PER\nleft\tO\n\t\nRome\tB-LOC\n\t\n",
        "Anna\tB-PER\r\nleft\tO\r\n\r\nRome\tB-LOC\r\n",
        b"\xef\xbb\xbfAnna\tB-PER\nleft\tO\n\nRome\tB-LOC\n",
        "# sent_id = 1\nAnna\tB-PER\nleft\tO\n\n# text\nRome\tB-LOC\n",
        "-DOCSTART- O\n\nAnna\tB-PER\nleft\tO\n\nRome\tB-LOC\n",
        # A document starts where a sentence has not ended.
        "Anna B-PER\nleft O\n-DOCSTART- O\nRome B-LOC\n",
    ],
)
def test_two_columns(file_of, text):
    assert read(file_of(text)) == [
        (["Anna", "left"], ["B-PER", "O"]),
        (["Rome"], ["B-LOC"]),
    ]


def test_a_hash_is_a_word_where_blanks_separate(file_of):
    assert read(file_of("# O\n1 O\n")) == [(["#", "1"], ["O", "O"])]


def test_words_may_be_odd_blanks_and_quotes(file_of):
    path = file_of('\u00a0\tO\n"\tO\n\u3000\tB-X\n')
    assert read(path) == [(["\u00a0", '"', "\u3000"], ["O", "O", "B-X"])]


def test_words_alone(file_of):
    path = file_of("Anna\nleft\n\nRome\n")
    assert read(path, with_labels=False) == [
        (["Anna", "left"], None),
        (["Rome"], None),
    ]
    with pytest.raises(ValueError, match=r"line 1: found 1 column, expected a"):
        read(path)


def test_offsets_point_into_the_joined_words(file_of):
    (sentence,) = read_sentences(file_of("Ä O\nb😀 O\nc O\n"), ColumnLayout())
    assert sentence.text == "Ä b😀 c"
    spans = [sentence.text[start:end] for start, end in sentence.offsets()]
    assert spans == sentence.words
    assert sentence.where(2).endswith("words.txt, line 3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a\tO\nb\tX\tO\n",
            "line 2: found 3 columns, expected 2 as on line 1",
        ),
        ("a O\n\nb\n", "line 3: found 1 column, expected 2 as on line 1"),
        ("a O\nb\tO\n", "line 2: .*is the separator right.*tabs"),
        ("a\tO\n\tO\n", "line 2: the word is empty"),
        ("a\tO\nb\t \n", "line 2: the label is empty"),
        (b"a\tO\n\xe9\tO\n", "line 2: not UTF-8: found byte 0xE9"),
        ("a O\nb B-XYZ\n", "line 2: found label 'B-XYZ', allowed: 'O', 'B-X'"),
    ],
)
def test_faults_name_file_and_line(file_of, text, message):
    path = file_of(text)
    with pytest.raises(ValueError, match=message) as error:
        read(path, labels=["O", "B-X"])
    assert str(error.value).startswith(path)


def test_columns_that_are_not_there(file_of):
    path = file_of("a x O\n")
    with pytest.raises(ValueError, match="3 columns, but --label_column is 3"):
        read(path, ColumnLayout(label_column=3))
    with pytest.raises(ValueError, match="3 columns, but --word_column is -4"):
        read(path, ColumnLayout(word_column=-4))
    with pytest.raises(ValueError, match="--label_column are both 1"):
        ColumnLayout(1, 1)
    with pytest.raises(ValueError, match="separator ',', expected one of tab"):
        ColumnLayout(separator=",")


def test_separator_on_request(file_of):
    path = file_of("New York\tB-LOC\nis\tO\n")
    assert read(path)[0][0] == ["New York", "is"]
    with pytest.raises(ValueError, match="line 2: found 1 column, expected 2"):
        read(path, ColumnLayout(separator="space"))


def test_predictions_can_be_read_again(file_of):
    path = file_of("\u200b O [NO-PIECES]\na B-X\nb O [CUT]\n")
    assert read(path) == [(["\u200b", "a", "b"], ["O", "B-X", "O"])]
    with pytest.raises(ValueError, match="line 2: found 3 columns"):
        read(file_of("a O\nb O CUT\n"))


def test_lines_are_kept(file_of):
    text = "-DOCSTART- O\n\n# a\nb\tO\n"
    lines = list(read_lines(file_of(text), ColumnLayout(separator="tab")))
    assert [line.text for line in lines] == text.split("\n")[:-1]
    assert [line.ends_sentence for line in lines] == [True, True, False, False]
    assert [line.cells for line in lines] == [None, None, None, ["b", "O"]]


def test_labels_of_a_file(file_of, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    found = find_labels(file_of(CONLL_2003), "train_file", ColumnLayout())
    assert found == (["B-LOC", "B-PER", "O"], "IOB2")
    assert "3 labels in encoding IOB2: B-LOC (1), B-PER (1)" in caplog.text
    path = file_of("a NOUN\nb VERB\n")
    assert find_labels(path, "f", ColumnLayout()) == (["NOUN", "VERB"], None)


def test_files_without_labels(file_of, tmp_path):
    with pytest.raises(ValueError, match=r"--train_file: .* holds no word"):
        find_labels(file_of("\n-DOCSTART- O\n"), "train_file", ColumnLayout())
    with pytest.raises(ValueError, match=r"--train_file: no file .*absent"):
        find_labels(str(tmp_path / "absent"), "train_file", ColumnLayout())
    with pytest.raises(ValueError, match="the only label is 'O'"):
        find_labels(file_of("a O\n"), "train_file", ColumnLayout())
    with pytest.raises(ValueError, match=r"words.txt: labels B-X mark"):
        find_labels(file_of("a B-X\nb Y\n"), "train_file", ColumnLayout())
