"""Choices in the layouts of SWAG, of ARCT and of one's own."""

import json

import pytest

from bert_tf.tasks.multiple_choice_data import (
    CUSTOM_LAYOUT,
    DATA_SETS,
    ChoiceExample,
    ChoiceLayout,
    parse_label,
    read_choices,
)

SWAG = DATA_SETS["swag"].layout
ARCT = DATA_SETS["arct"].layout
SWAG_HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3,label\n"
)
ARCT_HEADER = (
    "#id\twarrant0\twarrant1\tcorrectLabelW0orW1\treason\tclaim\t"
    "debateTitle\tdebateInfo\n"
)


@pytest.fixture
def file_of(tmp_path):
    def write(text, name="data.jsonl"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return str(path)

    return write


def read(path, layout=CUSTOM_LAYOUT, **kwargs):
    return list(read_choices(path, "train_file", layout, **kwargs))


def without_where(examples):
    return [(e.context, e.choices, e.label, e.id) for e in examples]


def test_swag(file_of):
    path = file_of(
        SWAG_HEADER + "0,v,17,She sits. She,She sits.,She,gold,"
        '"eats, then sleeps.",flies.,sings.,is a tree.,0\n'
        "1,v,18,He can not go,He can not go,,gold,home.,in.,up.,by.,3\n",
        "train.csv",
    )
    examples = read(path, SWAG)
    assert without_where(examples) == [
        (
            "She sits.",
            (
                "She eats, then sleeps.",
                "She flies.",
                "She sings.",
                "She is a tree.",
            ),
            0,
            "17",
        ),
        # The second sentence is empty where the ending completes the first.
        ("He can not go", ("home.", "in.", "up.", "by."), 3, "18"),
    ]
    assert examples[1].where == f"{path}, line 3"


def test_swag_to_predict_has_no_label(file_of):
    header = SWAG_HEADER.replace(",label", "")
    row = "0,v,17,a b,a,b,gold,w,x,y,z\n"
    path = file_of(header + row, "test.csv")
    assert read(path, SWAG, with_labels=False)[0].label is None
    with pytest.raises(ValueError, match="has no column 'label'"):
        read(path, SWAG)


def test_endings_in_the_order_of_their_numbers(file_of):
    names = [f"ending{i}" for i in (10, 2, 1, 0, *range(3, 10))]
    path = file_of(
        f"sent1,sent2,{','.join(names)},label\na,b,{','.join(names)},10\n",
        "x.csv",
    )
    (example,) = read(path, SWAG)
    assert example.choices == tuple(f"b ending{i}" for i in range(11))
    assert example.id == "0", "the number of the row, where no id is"


def test_arct(file_of):
    path = file_of(
        ARCT_HEADER + 'id7\t"scholarships help\tthey do not\t1\tIt honors.'
        "\tIt is good\ttitle\tinfo\n",
        "train.tsv",
    )
    assert without_where(read(path, ARCT)) == [
        (
            "It honors. It is good",
            ('"scholarships help', "they do not"),
            1,
            "id7",
        )
    ]


def test_json_lines(file_of):
    lines = [
        {"id": "q1", "context": "c", "choices": ["x", "y", "z"], "label": 2},
        {"id": 5, "context": "d", "choices": ["x", "", "z"], "label": "0"},
    ]
    path = file_of("".join(json.dumps(line) + "\n" for line in lines))
    assert without_where(read(path)) == [
        ("c", ("x", "y", "z"), 2, "q1"),
        ("d", ("x", "", "z"), 0, "5"),
    ]
    del lines[0]["id"], lines[0]["label"]
    path = file_of(json.dumps(lines[0]) + "\n")
    (example,) = read(path, with_labels=False)
    assert (example.id, example.label) == ("0", None)


def test_columns_of_ones_own(file_of):
    layout = ChoiceLayout(
        context=("title", "text"),
        choices=("a", "b"),
        stem="start",
        label="answer",
        id=None,
    )
    path = file_of("answer\tb\ta\ttext\ttitle\tstart\nB\t1\t0\tt\t\ts\n", "x")
    (example,) = read(path, layout, names=["A", "B"])
    assert example == ChoiceExample(
        "t", ("s 0", "s 1"), 1, "0", f"{path}, line 2"
    )


def test_layouts_travel_through_json():
    for data_set in DATA_SETS.values():
        values = json.loads(json.dumps(data_set.layout.__reduce_ex__(2)[2]))
        assert ChoiceLayout.from_json(values) == data_set.layout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"context": "c", "choices": ["x", "y", "z"], "label": 0},
            "line 2: found 3 choices, expected 2",
        ),
        (
            {"context": "c", "choices": ["x"], "label": 0},
            "line 2: found 1 choices, expected 2",
        ),
        (
            {"context": "c", "choices": "xy", "label": 0},
            "line 2: the choices must be a list of strings, found str",
        ),
        (
            {"context": "c", "choices": ["x", None], "label": 0},
            "line 2: choice 1 must be a string, found NoneType",
        ),
        (
            {"context": 3.5, "choices": ["x", "y"], "label": 0},
            "line 2: context must be a string, found float",
        ),
        (
            {"context": "c", "choices": ["x", "y"], "label": 2},
            "line 2: found label 2, allowed: 0, 1",
        ),
        (
            {"context": "c", "choices": ["x", "y"], "label": True},
            "line 2: found label True, allowed: 0, 1",
        ),
        ({"choices": ["x", "y"], "label": 0}, "line 2: no key 'context'"),
        ({"context": "c", "choices": ["x", "y"]}, "line 2: no key 'label'"),
    ],
)
def test_faults_name_file_and_line(file_of, line, message):
    good = {"context": "c", "choices": ["x", "y"], "label": 1}
    path = file_of(f"{json.dumps(good)}\n{json.dumps(line)}\n")
    with pytest.raises(ValueError, match=message) as error:
        read(path)
    assert str(error.value).startswith(path)


def test_one_choice_is_none(file_of):
    path = file_of('{"context": "c", "choices": ["x"], "label": 0}\n')
    with pytest.raises(ValueError, match="found 1 choices, expected 2"):
        read(path)


def test_number_of_choices_on_request(file_of):
    path = file_of('{"context": "c", "choices": ["x", "y"], "label": 0}\n')
    with pytest.raises(ValueError, match="found 2 choices, expected 4"):
        read(path, num_choices=4)


def test_layout_of_another_data_set(file_of, tmp_path):
    path = file_of(ARCT_HEADER, "train.tsv")
    with pytest.raises(ValueError, match=r"has no column .*sent1"):
        read(path, ChoiceLayout(("sent1",), ("warrant0", "warrant1")))
    with pytest.raises(ValueError, match=r"has no column ending\*; found"):
        read(path, ChoiceLayout(("claim",), ("ending*",)))
    with pytest.raises(ValueError, match="--train_file: no file"):
        read(str(tmp_path / "absent.csv"), SWAG)
    with pytest.raises(ValueError, match="gives no rows"):
        read(path, ARCT)
    with pytest.raises(ValueError, match="no column of labels is named"):
        read(path, ChoiceLayout(("claim",), ("reason",), label=None))


def test_parse_label():
    assert parse_label("1", ["0", "1"], "f") == 1
    assert parse_label("B", ["A", "B"], "f") == 1
    with pytest.raises(ValueError, match="f: found label ' 1', allowed: 0, 1"):
        parse_label(" 1", ["0", "1"], "f")
