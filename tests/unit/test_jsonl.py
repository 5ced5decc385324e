"""The bounded reader: what it yields, skips and counts, wherever a chunk ends."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import jsonl
from pipeline.client import MAX_WARNINGS, Report


class Part(msgspec.Struct):
    name: str | None = None
    size: int | None = None


class Record(msgspec.Struct):
    n: int | None = None
    text: str | None = None
    part: Part | None = None
    parts: list[Part | None] = []


DECODER = msgspec.json.Decoder(Record)


class Unseekable(io.RawIOBase):
    """A stream that cannot go back, as one that is decompressed."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)


def read(data: bytes, stream: Any = None) -> tuple[list[Record], Report]:
    report = Report()
    batches = list(jsonl.read_rows(stream or io.BytesIO(data), DECODER, report))
    return [row for batch in batches for row in batch], report


def numbers(data: bytes) -> list[int | None]:
    return [row.n for row in read(data)[0]]


def line(n: int, **more: Any) -> bytes:
    return json.dumps({"n": n, **more}).encode() + b"\n"


@pytest.fixture(params=[1, 2, 7, 16, 64, 1 << 20], ids=lambda size: f"chunk-{size}")
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size: int = request.param
    monkeypatch.setattr(jsonl, "CHUNK", size)
    return size


any_chunk = pytest.mark.usefixtures("chunk")


@any_chunk
def test_rows_come_in_order_wherever_a_chunk_ends() -> None:
    rows, report = read(b"".join(line(n, text="x" * (n % 90)) for n in range(200)))
    assert [row.n for row in rows] == list(range(200))
    assert (report.lines, report.skipped_lines, report.warnings) == (200, 0, [])


@any_chunk
def test_unknown_fields_and_blank_lines_are_passed_over() -> None:
    rows, report = read(b"\n" + line(0, other={"deep": [1, 2]}) + b"\n  \n\r\n" + line(1) + b"\n")
    assert [row.n for row in rows] == [0, 1]
    assert (report.lines, report.skipped_lines) == (2, 0)


@any_chunk
def test_windows_line_ends() -> None:
    assert numbers(line(0)[:-1] + b"\r\n" + line(1)[:-1] + b"\r\n") == [0, 1]


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n", b"  \n", b"\0\0", b"\0\n", b"\xef\xbb\xbf"], ids=repr)
def test_nothing(data: bytes) -> None:
    rows, report = read(data)
    assert rows == []
    assert report.lines == report.skipped_lines or data == b"\0\n"


# --- the last line ---------------------------------------------------------------------------------------------------


@any_chunk
def test_a_last_line_without_a_newline_counts_if_it_is_whole() -> None:
    rows, report = read(line(0) + line(1)[:-1])
    assert [row.n for row in rows] == [0, 1]
    assert report.lines == 2


@any_chunk
@pytest.mark.parametrize("cut", range(1, 9))
def test_a_last_line_that_is_being_written_is_no_error(cut: int) -> None:
    rows, report = read(line(0) + line(1)[:-1][:-cut])
    assert [row.n for row in rows] == [0]
    assert (report.lines, report.skipped_lines, report.warnings) == (1, 0, [])


def test_the_last_line_is_named_by_its_number() -> None:
    _, report = read(line(0) + line(1) + b'{"n": 2, "text": []}')
    assert report.warnings == ["line 3: text does not fit; taken as not recorded"]


@any_chunk
def test_nul_after_the_last_line_is_no_line() -> None:
    """A crash leaves blocks of NUL at the end of a file."""
    rows, report = read(line(0) + b"\0" * 100)
    assert [row.n for row in rows] == [0]
    assert report.skipped_lines == 0


# --- bad lines -------------------------------------------------------------------------------------------------------

BAD = {
    "torn": b'{"n": 1, "te',
    "no-json": b"this is a log",
    "nul-only": b"\0\0\0",
    "list": b'[{"n": 1}]',
    "number": b"17",
    "null": b"null",
    "text": b'"n"',
    "deep": b'{"n":' + b"[" * 5000,
}


@any_chunk
@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_counted_and_named_and_costs_no_other(name: str) -> None:
    rows, report = read(line(0) + b"\n" + BAD[name] + b"\n" + line(2))
    assert [row.n for row in rows] == [0, 2]
    assert (report.lines, report.skipped_lines) == (3, 1)
    (warning,) = report.warnings
    assert warning.startswith("line 3: skipped: ")


@pytest.mark.parametrize(
    "odd", [b'{"n": 1}{"n": 2}', b'{"n": 1} {"n": 2}', b'{"n": 1},'], ids=["glued", "two", "comma"]
)
def test_what_a_line_says_does_not_depend_on_its_neighbours(odd: bytes) -> None:
    """Whatever is made of a line, it is the same beside a damaged one."""
    alone, beside = read(odd + b"\n"), read(odd + b"\nbad\n")
    assert beside[0] == alone[0]
    assert beside[1].skipped_lines == alone[1].skipped_lines + 1


GOOD = {
    "bom": (b"\xef\xbb\xbf", b""),
    "nul-before": (b"\0" * 9, b""),
    "nul-after": (b"", b"\0" * 9),
    "tab": (b"\t", b" "),
}


@any_chunk
@pytest.mark.parametrize("name", GOOD)
def test_noise_around_a_record_is_taken_off(name: str) -> None:
    before, after = GOOD[name]
    rows, report = read(before + line(0)[:-1] + after + b"\n" + before + line(1)[:-1] + after + b"\n")
    assert [row.n for row in rows] == [0, 1]
    assert (report.lines, report.skipped_lines) == (2, 0)


@any_chunk
def test_bad_utf8_is_replaced() -> None:
    rows, report = read(b'{"n": 0, "text": "a\xffb"}\n' + line(1))
    assert [row.text for row in rows] == ["a\ufffdb", None]
    assert report.skipped_lines == 0


@any_chunk
@pytest.mark.parametrize("escape", [rb"\ud83d", rb"\udc00", rb"\ud83dx"])
def test_a_lone_surrogate_costs_no_row(escape: bytes) -> None:
    rows, report = read(b'{"n": 0, "text": "a' + escape + b'"}\n' + line(1))
    assert [row.n for row in rows] == [0, 1]
    assert rows[0].text is not None
    rows[0].text.encode()  # whatever stands for it can be written
    assert report.skipped_lines == 0


@any_chunk
def test_control_characters_and_no_numbers() -> None:
    rows, report = read(b'{"n": 0, "text": "a\tb"}\n{"n": NaN}\n{"n": Infinity}\n{"n": 1e999}\n' + line(1))
    assert [(row.n, row.text) for row in rows] == [(0, "a\tb"), (None, None), (None, None), (None, None), (1, None)]
    assert report.skipped_lines == 0


@any_chunk
def test_line_separators_in_a_text_end_no_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be"
    rows, report = read(json.dumps({"n": 0, "text": text}, ensure_ascii=False).encode() + b"\n" + line(1))
    assert [row.text for row in rows] == [text, None]
    assert report.lines == 2


# --- fields of the wrong type ----------------------------------------------------------------------------------------


@any_chunk
def test_a_field_of_the_wrong_type_is_not_recorded() -> None:
    rows, report = read(line(0, text=["no text"]) + line(1, text="good"))
    assert [(row.n, row.text) for row in rows] == [(0, None), (1, "good")]
    assert (report.skipped_lines, report.warnings) == (0, ["line 1: text does not fit; taken as not recorded"])


def test_several_such_fields_and_deep_ones() -> None:
    parts = [{"name": "a", "size": 1}, {"name": 5, "size": 2}, "no part", {"name": "d", "size": "big"}]
    rows, report = read(line(0, part={"name": {}, "size": 3}, parts=parts))
    (row,) = rows
    assert row.part == Part(None, 3)
    assert row.parts == [Part("a", 1), Part(None, 2), None, Part("d", None)]
    assert len(report.warnings) == 4
    assert all(warning.startswith("line 1: part") for warning in report.warnings)


def test_a_line_with_too_many_of_them_is_skipped() -> None:
    rows, report = read(line(0, parts=[{"name": n} for n in range(60)]) + line(1))
    assert [row.n for row in rows] == [1]
    assert report.skipped_lines == 1


def test_warnings_of_one_file_are_bounded() -> None:
    _, report = read(b"bad\n" * 100)
    assert report.skipped_lines == 100
    assert len(report.warnings) == MAX_WARNINGS
    assert report.dropped_warnings == 100 - MAX_WARNINGS


# --- long lines ------------------------------------------------------------------------------------------------------


def test_a_line_longer_than_the_longest_is_skipped_and_not_held(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 200)
    long = line(1, text="x" * 5000)
    rows, report = read(line(0) + long + line(2) + long + line(3))
    if chunk > len(long):
        assert [row.n for row in rows] == [0, 1, 2, 1, 3]  # a chunk is held anyway
        return
    assert [row.n for row in rows] == [0, 2, 3]
    assert (report.lines, report.skipped_lines) == (5, 2)
    assert [warning.partition(":")[0] for warning in report.warnings] == ["line 2", "line 4"]


def test_a_long_last_line_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "CHUNK", 16)
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 200)
    rows, report = read(line(0) + line(1, text="x" * 5000)[:-1])
    assert [row.n for row in rows] == [0]
    assert report.skipped_lines == 0


@any_chunk
def test_a_long_line_is_read_whole() -> None:
    rows, _ = read(line(0) + line(1, text="x" * 3000) + line(2))
    assert [(row.n, len(row.text or "")) for row in rows] == [(0, 0), (1, 3000), (2, 0)]


def test_a_long_line_that_does_not_decode_is_not_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LONGEST_MENDED", 100)
    rows, report = read(line(0, text="\ud800" * 100) + line(1, text="\ud800"))
    assert [row.n for row in rows] == [1]
    assert "too long" in report.warnings[0]


def test_only_a_bounded_piece_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in memory of a line that is too long never exceeds the bound by more than a chunk."""
    monkeypatch.setattr(jsonl, "CHUNK", 64)
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 256)
    longest = 0
    pieces = jsonl._pieces(io.BytesIO(line(0) + b"x" * 100_000 + b"\n" + line(1)), Report())
    for piece, _, _ in pieces:
        longest = max(longest, len(piece))
    assert longest <= 256 + 64


# --- streams ---------------------------------------------------------------------------------------------------------


@any_chunk
def test_a_stream_that_cannot_go_back_is_read_all_the_same() -> None:
    rows, report = read(b"", Unseekable(line(0) + b"bad\n" + line(2)))
    assert [row.n for row in rows] == [0, 2]
    assert (report.lines, report.skipped_lines) == (3, 1)
    assert "skipped" in report.warnings[0]


def test_the_number_of_a_bad_line_far_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "CHUNK", 100)
    data = b"".join(line(n) for n in range(500)) + b"bad\n" + line(501) + b"worse\n" + line(503)
    rows, report = read(data)
    assert len(rows) == 502
    assert [warning.partition(":")[0] for warning in report.warnings] == ["line 501", "line 503"]


LINES = st.sampled_from(
    [b'{"n": 1}', b'{"n": 2, "text": "\xc3\xa9"}', b"", b"bad", b"\0", b'{"n": "x"}', b'\xef\xbb\xbf{"n": 3}', b"[]"]
)


@given(st.lists(LINES, max_size=12), st.integers(1, 40), st.booleans())
def test_the_size_of_a_chunk_changes_nothing(lines: list[bytes], size: int, ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    whole, whole_report = read(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "CHUNK", size)
        pieces, report = read(data)
    assert pieces == whole
    assert (report.lines, report.skipped_lines, report.warnings) == (
        whole_report.lines,
        whole_report.skipped_lines,
        whole_report.warnings,
    )
