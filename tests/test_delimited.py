"""Rows of delimited text, before anyone knows what the columns mean."""

import pytest

from bert_tf import delimited


def rows(parse, path, content, *options):
    path.write_bytes(content)
    return [tuple(row) for row in parse(str(path), *options)]


def test_tsv_rows_and_problems(tmp_path):
    got = rows(delimited.parse_tsv, tmp_path / "a", b"a\t\xff\nb\t\n\nc")
    assert got == [
        (1, None, "not UTF-8: found byte 0xFF at byte 3 of the line"),
        (2, ["b", ""], ""),
        (3, [""], ""),
        (4, ["c"], ""),
    ]


def test_csv_rows_carry_the_line_they_start_on(tmp_path):
    got = rows(delimited.parse_csv, tmp_path / "a", b'"x\n\ny",1\n\nz,2\n')
    assert got == [(1, ["x\n\ny", "1"], ""), (4, [], ""), (5, ["z", "2"], "")]


def test_csv_goes_on_after_a_fault(tmp_path):
    got = rows(delimited.parse_csv, tmp_path / "a", b'"a"b,1\nc,2\n')
    assert [row[1] for row in got] == [None, ["c", "2"]]
    assert "RFC 4180" in got[0][2] and not got[1][2]


def test_jsonl_blank_lines_are_blank(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n')
    first, second = delimited.parse_jsonl(str(path))
    assert first.cells == {"a": 1} and not first.is_blank()
    assert second.is_blank() and second.line == 2


@pytest.mark.parametrize(
    ("cells", "delimiter", "hint"),
    [
        (["a", "b"], "\t", ""),
        (["a"], "\t", ""),
        (["a,b"], "\t", "; is the separator right? the line contains commas"),
        (["a\tb"], ",", "; is the separator right? the line contains tabs"),
        (["a", "b;c"], "\t", "; the line contains semicolons"),
    ],
)
def test_separator_hint(cells, delimiter, hint):
    assert delimited.separator_hint(cells, delimiter) == hint
