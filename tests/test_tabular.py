"""Tables: separators, quotes, encodings, line numbers in messages."""

import csv
import json
import logging
import os
import subprocess
import sys

import pytest

from bert_tf import tabular
from bert_tf.tabular import Table


def write(path, content):
    if isinstance(content, str):
        content = content.encode("utf-8")
    path.write_bytes(content)
    return path


def values(path, columns, **options):
    return [row.values for row in Table(path, **options).rows(columns)]


class TestTsv:
    def test_rows_know_their_line_and_number(self, tmp_path):
        path = write(tmp_path / "a.tsv", "x\ty\n1\t2\n3\t4\n")
        rows = list(Table(path).rows(["y", None, 0]))
        assert [r.values for r in rows] == [("2", None, "1"), ("4", None, "3")]
        assert [(r.line, r.number) for r in rows] == [(2, 1), (3, 2)]
        assert rows[0].where() == f"{path}, line 2"

    def test_quotes_are_plain_characters(self, tmp_path):
        path = write(tmp_path / "a.tsv", '1\t"hello\n0\tsay "hi\n2\t""\n')
        got = values(path, [0, 1], has_header=False)
        assert got == [("1", '"hello'), ("0", 'say "hi'), ("2", '""')]

    def test_byte_order_mark_and_crlf(self, tmp_path):
        path = write(tmp_path / "a.tsv", "\ufeffx\ty\r\né\t2\r\n")
        assert values(path, ["x", "y"]) == [("é", "2")]

    @pytest.mark.parametrize("inside", ["\r", "\u2028", "\x0b", "\x85", "\0"])
    def test_only_a_newline_ends_a_line(self, tmp_path, inside):
        path = write(tmp_path / "a.tsv", f"1\ta{inside}b\n2\tc\n")
        got = values(path, [1], has_header=False)
        assert got == [(f"a{inside}b",), ("c",)]

    def test_a_field_of_any_length(self, tmp_path):
        long = "w" * 200_000
        path = write(tmp_path / "a.tsv", f"1\t{long}\n")
        assert values(path, [1], has_header=False) == [(long,)]

    def test_utf8_whatever_the_locale(self, tmp_path, repo_dir):
        path = write(tmp_path / "a.tsv", "é\t東京\n")
        code = (
            "from bert_tf.tabular import Table\n"
            f"table = Table({str(path)!r}, has_header=False)\n"
            "print(ascii([r.values for r in table.rows([0, 1])]))"
        )
        got = subprocess.run(
            [sys.executable, "-X", "utf8=0", "-c", code],
            env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
            cwd=repo_dir,
            capture_output=True,
            text=True,
            check=True,
        )
        assert got.stdout.strip() == ascii([("é", "東京")])

    def test_wrong_bytes_name_the_line(self, tmp_path):
        path = write(tmp_path / "a.tsv", b"1\ta\n2\tcaf\xe9\n")
        rows = Table(path, has_header=False).rows([1])
        assert next(rows).values == ("a",)
        with pytest.raises(ValueError, match=r"a\.tsv, line 2: .*0xE9 at by"):
            next(rows)

    def test_utf16_is_recognised(self, tmp_path):
        path = write(tmp_path / "a.tsv", "x\ty\n".encode("utf-16"))
        with pytest.raises(ValueError, match=r"UTF-16, expected UTF-8"):
            Table(path)

    def test_commas_instead_of_tabs(self, tmp_path):
        path = write(tmp_path / "a.tsv", "1,0,x,hello\n")
        with pytest.raises(ValueError) as error:
            values(path, [0, 3], has_header=False)
        assert str(error.value) == (
            f"{path}, line 1: found 1 column, expected at least 4; is the "
            "separator right? the line contains commas"
        )

    def test_too_few_columns_tell_the_layout(self, tmp_path):
        path = write(tmp_path / "a.tsv", "a\tb\tc\n1\t2\t3\n1\t2\n")
        with pytest.raises(
            ValueError,
            match=r"line 3: found 2 columns, expected at least 3; expected "
            r"layout: three of them$",
        ):
            values(path, [2], layout="three of them")

    def test_last_column_from_the_end(self, tmp_path):
        path = write(tmp_path / "a.tsv", "a\tb\tz\n1\t2\t3\n1\t2\t3\t4\n")
        assert values(path, [-1]) == [("3",), ("4",)]

    def test_longer_rows_are_counted(self, tmp_path, caplog):
        path = write(tmp_path / "a.tsv", "a\tb\n1\t2\t3\n1\t2\n1\t2\t3\n")
        assert len(values(path, ["a"])) == 3
        assert "2 rows longer than the header line: line 2, 4" in caplog.text

    def test_carriage_returns_as_line_ends_are_named(self, tmp_path):
        path = write(tmp_path / "a.tsv", "a\tb\r1\t2\r3\t4\r")
        with pytest.raises(ValueError, match=r"gives no rows.*carriage return"):
            values(path, [1])

    def test_blank_lines_within_stop_and_at_the_end_are_counted(
        self, tmp_path, caplog
    ):
        caplog.set_level(logging.INFO, "bert_tf")
        path = write(tmp_path / "a.tsv", "a\tb\n1\t2\n\n\n")
        assert values(path, ["a"]) == [("1",)]
        assert (
            "1 row read, 1 header line skipped, 2 blank lines at the end"
            in caplog.text
        )
        path = write(tmp_path / "b.tsv", "a\tb\n1\t2\n\n3\t4\n")
        with pytest.raises(ValueError, match="line 3: the line is blank"):
            values(path, ["a"])

    def test_a_blank_line_of_one_column_is_an_empty_text(self, tmp_path):
        path = write(tmp_path / "a.txt", "one\n\ntwo\n\n")
        got = values(path, [0], has_header=False)
        assert got == [("one",), ("",), ("two",), ("",)]

    def test_skipping_bad_rows_is_counted(self, tmp_path, caplog):
        path = write(tmp_path / "a.tsv", b"1\ta\n2\n3\t\xff\n\n4\td\n")
        got = values(path, [0, 1], has_header=False, on_bad_row="skip")
        assert got == [("1", "a"), ("4", "d")]
        assert "3 rows malformed and skipped: line 2, 3, 4" in caplog.text

    def test_no_rows_at_all(self, tmp_path):
        path = write(tmp_path / "a.tsv", "a\tb\n")
        with pytest.raises(ValueError, match=r"gives no rows \(0 rows read"):
            values(path, [0])
        with pytest.raises(ValueError, match="is empty, expected a header"):
            Table(write(tmp_path / "b.tsv", ""))

    def test_rows_can_be_read_twice_and_lazily(self, tmp_path):
        path = write(tmp_path / "a.tsv", "a\tb\n1\t2\n3\n")
        table = Table(path)
        assert next(table.rows(["b"])).values == ("2",)
        assert next(table.rows(["a"])).values == ("1",)


class TestColumns:
    def test_names_and_numbers(self, tmp_path):
        path = write(tmp_path / "a.tsv", "id\t1\tid\nx\ty\tz\n")
        table = Table(path)
        # A header may call its second column "1"; "2" is then a number.
        assert table.find_column("1") == 1
        assert table.find_column("2") == 2
        assert table.find_column(0) == 0
        with pytest.raises(ValueError, match="several columns 'id'"):
            table.find_column("id")

    def test_unknown_name_lists_those_there(self, tmp_path):
        path = write(tmp_path / "a.tsv", "id\tlabel\ttext\n1\t0\tx\n")
        with pytest.raises(
            ValueError, match="no column 'body'; found 'id', 'label', 'text'"
        ):
            Table(path).rows(["body"])

    def test_name_without_header(self, tmp_path):
        path = write(tmp_path / "a.tsv", "1\t0\tx\n")
        with pytest.raises(ValueError, match="read without a header"):
            Table(path, has_header=False).rows(["text"])

    def test_number_beyond_the_header(self, tmp_path):
        path = write(tmp_path / "a.tsv", "a,b\n1,2\n")
        with pytest.raises(
            ValueError, match=r"line 1: found 1 column, expected at least 2; is"
        ):
            Table(path).rows([1])


class TestCsv:
    def test_quoted_fields_hold_everything(self, tmp_path):
        rows = [["id", "text"], ["1", 'say "hi", you'], ["2", "two\r\nlines"]]
        path = tmp_path / "a.csv"
        with open(path, "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([*rows, ["3", "end"]])
        got = list(Table(path).rows(["id", "text"]))
        assert [list(r.values) for r in got] == [*rows[1:], ["3", "end"]]
        assert [r.line for r in got] == [2, 3, 5]

    def test_byte_order_mark_before_a_quoted_name(self, tmp_path):
        path = write(tmp_path / "a.csv", '\ufeff"text","b"\nx,y\n')
        assert values(path, ["text"]) == [("x",)]

    def test_a_field_of_any_length(self, tmp_path):
        limit = csv.field_size_limit(1000)
        try:
            path = write(tmp_path / "a.csv", f'a,b\n1,"{"w" * 200_000}"\n')
            assert len(values(path, ["b"])[0][0]) == 200_000
        finally:
            csv.field_size_limit(limit)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('a,b\n1,"open\n2,x\n3,y\n', "line 2: .*never closed .*to line 4"),
            ('a,b\n1,"x" y\n', "line 2: not comma-separated"),
            ("a,b\n1,x\ry\n", "line 2: .*carriage return outside quotes"),
            ("a,b\n1\n", "line 2: found 1 column, expected at least 2"),
        ],
    )
    def test_faults_name_the_line(self, tmp_path, content, message):
        path = write(tmp_path / "a.csv", content)
        with pytest.raises(ValueError, match=message):
            values(path, ["a", "b"])

    def test_wrong_bytes_name_their_own_line_and_can_be_skipped(self, tmp_path):
        path = write(tmp_path / "a.csv", b'a,b\n1,"x\ny\xe9"\n2,z\n')
        with pytest.raises(ValueError, match=r"line 3: not UTF-8.*0xE9"):
            values(path, ["a"])
        assert values(path, ["a"], on_bad_row="skip") == [("2",)]

    def test_semicolons_on_request(self, tmp_path):
        path = write(tmp_path / "a.csv", "a;b\n1;2,5\n")
        assert values(path, ["b"], delimiter=";") == [("2,5",)]


class TestJsonl:
    def test_values_keep_their_type(self, tmp_path):
        lines = [{"t": "é\n", "n": 1, "l": ["a"]}, {"t": "b", "n": 2.5}]
        path = write(
            tmp_path / "a.jsonl",
            "\n".join(json.dumps(line) for line in lines),
        )
        assert values(path, ["t", "n"]) == [("é\n", 1), ("b", 2.5)]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b'{"a": 1', "line 2: not JSON"),
            (b"[1]", "line 2: expected a JSON object on each line, found li"),
            (b'{"b": 1}', "line 2: no key 'a'; found 'b'"),
            (b'{"a": "\xe9"}', "line 2: not UTF-8"),
            (b"", "line 2: the line is blank"),
        ],
    )
    def test_faults_name_the_line(self, tmp_path, line, message):
        path = write(tmp_path / "a.jsonl", b'{"a": 0}\n' + line + b"\n{}\n")
        with pytest.raises(ValueError, match=message):
            values(path, ["a"])


class TestFiles:
    def test_kind_by_name(self):
        kinds = [tabular.kind_of(f"x{e}") for e in (".CSV", ".tsv", ".jsonl")]
        assert kinds == ["csv", "tsv", "jsonl"]
        assert tabular.kind_of("folder/SMSSpamCollection") == "tsv"

    def test_missing_file_names_path_flag_and_neighbours(self, tmp_path):
        write(tmp_path / "dev.tsv", "x\n")
        with pytest.raises(ValueError) as error:
            Table(tmp_path / "train.tsv", flag="data_dir")
        assert str(error.value) == (
            f"--data_dir: no file {tmp_path / 'train.tsv'}; the folder "
            "holds: dev.tsv"
        )

    def test_missing_folder_and_folder_for_file(self, tmp_path):
        with pytest.raises(ValueError, match=r"--train_file: no file .*there "):
            Table(tmp_path / "no" / "train.tsv", flag="train_file")
        with pytest.raises(ValueError, match="is a folder, expected a file"):
            Table(tmp_path)

    def test_remote_paths(self):
        gfile = pytest.importorskip("tensorflow").io.gfile
        path = "ram://test_tabular/a.tsv"
        with gfile.GFile(path, "wb") as stream:
            stream.write("x\ty\r\né\t2\n".encode())
        assert values(path, ["x"]) == [("é",)]
        with pytest.raises(ValueError, match="no file ram://test_tabular/b"):
            Table("ram://test_tabular/b.tsv")

    def test_unknown_settings(self, tmp_path):
        path = write(tmp_path / "a.tsv", "x\n")
        with pytest.raises(ValueError, match="table kind 'xls'"):
            Table(path, kind="xls")
        with pytest.raises(ValueError, match="on_bad_row 'ignore'"):
            Table(path, on_bad_row="ignore")
