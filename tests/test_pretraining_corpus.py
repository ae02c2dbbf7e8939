"""Reading of text: documents, faults, parts."""

import itertools

import numpy as np
import pytest

from bert_tf import pretraining_corpus
from bert_tf.pretraining_corpus import (
    CorpusBuilder,
    TextRange,
    TextReader,
    check_encoding,
    count_text,
    file_size,
    part_bytes,
    plan_parts,
    sha256_of,
    token_dtype,
)
from bert_tf.pretraining_statistics import Statistics


def lengths_of_words(line):
    """A tokenizer of sorts: the ids are lengths of words, but for "-"."""
    return [len(word) for word in line.split() if word != "-"], None


def read(path, ranges=None, ignore=False, limit=None, **kwargs):
    statistics = Statistics()
    reader = TextReader(lengths_of_words, statistics, ignore, limit)
    builder = CorpusBuilder(1000, **kwargs)
    for text in ranges or [TextRange(str(path), 0, file_size(str(path)))]:
        for _ in reader.read(text, builder):
            pass
    builder.end_document()
    return builder.corpus(), statistics


def as_lists(corpus):
    """Documents as lists of sentences as lists of ids."""
    at, bounds = corpus.sentences, corpus.documents
    return [
        [
            corpus.tokens[at[s] : at[s + 1]].tolist()
            for s in range(bounds[d], bounds[d + 1])
        ]
        for d in range(corpus.num_documents)
    ]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def test_blank_lines_end_documents(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\n\na bb\r\n - \nccc\n \t \n\xc2\xa0\n\ndddd")
    corpus, statistics = read(path)
    assert as_lists(corpus) == [[[1, 2], [3]], [[4]]]
    counts = statistics.counts
    assert counts["lines"] == 9 and counts["blank_lines"] == 5
    assert counts["lines_without_tokens"] == 1
    count_text(corpus, 3, statistics)
    assert counts["documents"] == 2 and counts["one_sentence_documents"] == 1
    assert counts["sentences"] == 3 and counts["tokens"] == 4
    assert counts["unknown_tokens"] == 1


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("a\u2028b\x0bc\x85d\re\nf\n".encode())
    corpus, _ = read(path)
    assert len(as_lists(corpus)[0]) == 2


def test_counts_do_not_depend_on_the_block(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining_corpus, "_COUNTED", 2)
    path = tmp_path / "text"
    path.write_text("a\n\na bb\nb\n\nccc ccc c\n\nd\n\n")
    corpus, statistics = read(path)
    count_text(corpus, 3, statistics)
    assert statistics.counts["one_sentence_documents"] == 3
    assert statistics.counts["unknown_tokens"] == 2


def test_bytes_that_are_not_utf8_stop_with_file_and_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\n\nbad \xff\xfe here\n")
    with pytest.raises(ValueError, match=r"text, line 3: byte 0xff is not"):
        read(path)
    # Also where reading starts in the middle of the file.
    with pytest.raises(ValueError, match=r"text, line 3: byte 0xff is not"):
        read(path, [TextRange(str(path), 6, 100)])


def test_bytes_that_are_not_utf8_are_dropped_and_counted(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\nba\xffd one\nmore\nb\xffd\nx\n")
    corpus, statistics = read(path, ignore=True)
    assert as_lists(corpus) == [[[4], [3, 3], [4], [2], [1]]]
    assert statistics.counts["undecodable_lines"] == 2
    assert statistics.places["undecodable_lines"] == f"{path}, line 2"
    check_encoding(statistics)


def test_text_of_another_encoding_stops(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("überall\nÄrger\n".encode("latin-1"))
    _, statistics = read(path, ignore=True)
    with pytest.raises(ValueError, match=r"2 of 2 lines .*text, line 1"):
        check_encoding(statistics)
    path.write_bytes("some text\n".encode("utf-16"))
    with pytest.raises(ValueError, match="line 1: the file is UTF-16"):
        read(path, ignore=True)


def test_a_line_over_the_limit_is_cut_and_counted(tmp_path):
    path = tmp_path / "text"
    words = " ".join(["abc"] * 30)
    path.write_text(f"x\n{words}\n{words}\n\nabcd\n")
    corpus, statistics = read(path, limit=40)
    (first, second) = as_lists(corpus)
    assert second == [[4]]
    # No word is cut, none is lost, and no piece is too long.
    assert flat(first) == [1] + [3] * 60
    assert len(first) > 5 and max(map(len, first)) <= 10
    assert statistics.counts["overlong_lines"] == 2
    assert statistics.places["overlong_lines"] == f"{path}, byte 2"
    # Without a limit nothing is cut.
    assert list(map(len, as_lists(read(path)[0])[0])) == [1, 30, 30]


def test_a_line_without_blanks_is_cut_between_characters(tmp_path):
    path = tmp_path / "text"
    path.write_text("\u4e2d" * 50 + "\n", encoding="utf-8")
    corpus, statistics = read(path, limit=31)
    assert sum(corpus.tokens.tolist()) == 50
    assert statistics.counts["undecodable_lines"] == 0


def test_word_starts_and_flushing(tmp_path):
    whole = CorpusBuilder(70_000, with_word_starts=True)
    pieces = CorpusBuilder(70_000, with_word_starts=True)
    paths = [tmp_path / name for name in "tsdw"]
    streams = [path.open("wb") for path in paths]
    for size in (3, 1, 2):
        for builder in (whole, pieces):
            builder.add_sentence([66_000 + size] * size, [1] + [0] * (size - 1))
        pieces.flush(streams)
        if size == 1:
            whole.end_document()
            pieces.end_document()
            pieces.end_document()
    for builder in (whole, pieces):
        builder.end_document()
        assert builder.sizes() == [6, 3, 2]
    pieces.flush(streams)
    for stream in streams:
        stream.close()
    corpus = whole.corpus()
    assert corpus.word_starts.tolist() == [1, 0, 0, 1, 1, 0]
    for path, array in zip(paths, corpus, strict=True):
        assert path.read_bytes() == array.tobytes()


def test_token_dtype_is_the_smallest():
    assert token_dtype(1 << 16) == np.uint16
    assert token_dtype((1 << 16) + 1) == np.uint32


def _text(number):
    return "".join(f"line {i} of {number}\n" for i in range(number % 5 + 1))


@pytest.mark.parametrize("wanted", [1, 50, 200, 10_000])
def test_parts_hold_whole_documents_once(tmp_path, wanted):
    paths = []
    for file in range(3):
        path = tmp_path / f"text{file}"
        path.write_text("\n".join(_text(file + n) for n in range(10)))
        paths.append(str(path))
    empty = tmp_path / "empty"
    empty.write_text("")
    sizes = [(p, file_size(p)) for p in [paths[0], str(empty), *paths[1:]]]
    parts = plan_parts(sizes, wanted)
    ranges = [text for part in parts for text in part]
    for path, size in sizes:
        mine = [text for text in ranges if text.path == path]
        ends = [0] + [text.end for text in mine]
        assert [text.start for text in mine] == ends[:-1]
        assert ends[-1] == size
    whole = flat(as_lists(read(path)[0]) for path in paths)
    apart = flat(as_lists(read(None, [text])[0]) for text in ranges)
    assert apart == whole
    assert len(parts) == {1: 30, 50: len(parts), 200: len(parts)}.get(wanted, 1)
    assert 1 <= len(parts) <= 30


def test_a_document_longer_than_a_part_stays_whole(tmp_path):
    path = tmp_path / "text"
    path.write_text("one line after another\n" * 100)
    assert plan_parts([(str(path), file_size(str(path)))], 10) == [
        [TextRange(str(path), 0, 2300)]
    ]


def test_sizes_of_parts():
    assert part_bytes(1000) == 1 << 17
    assert part_bytes(96 << 20) == 1 << 20


def test_sha256(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert sha256_of(str(path)).startswith("ba7816bf8f01cfea414140de5dae2223")
