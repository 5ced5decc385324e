"""A bounded reader of JSON Lines: native decoding of whole chunks, and a forgiving second look where one fails.

A chunk of complete lines is decoded in one native call. Only if that fails its lines are looked at one by one:
NUL bytes, byte order marks, lone surrogates, bad UTF-8 and fields of the wrong type are survived; a line that
holds no object is skipped and counted. A last line without a newline that is no whole record is still being
written: it is neither an error nor counted, and is read next time.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from pipeline.client import Report

T = TypeVar("T", bound=msgspec.Struct)

CHUNK = 1 << 20
LONGEST_LINE = 256 << 20  # a longer one is skipped without being held in memory
LONGEST_MENDED = 64 << 20  # a longer one that does not decode as it stands is not mended
_MENDS = 40  # fields that may be dropped from one line before it counts as unreadable
_NOISE = b"\0 \t\r\n\xef\xbb\xbf"
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read_rows(stream: BinaryIO, decoder: msgspec.json.Decoder[T], report: Report) -> Iterator[list[T]]:
    """Yield the records of a stream in order, in batches, as the decoder's struct type.

    Blank lines are passed over, unreadable ones skipped and counted in the report. A field whose value does not
    fit its type is left at its default (not recorded), with a warning.
    """
    for piece, offset, is_whole in _pieces(stream, report):
        if not is_whole:
            yield _tail(stream, bytes(piece), offset, decoder, report)
            continue
        try:
            rows = decoder.decode_lines(piece)
        except _UNREADABLE:
            report.line_number = _newlines_before(stream, offset)
            rows = list(_one_by_one(bytes(piece), decoder, report))
        else:
            report.lines += len(rows)
        yield rows


def _pieces(stream: BinaryIO, report: Report) -> Iterator[tuple[memoryview | bytes, int, bool]]:
    """Cut a stream after newlines: pieces of whole lines with their offsets; what follows the last one is not whole.

    A line that goes over the edge of a chunk comes by itself, so that no chunk is copied for it.
    """
    parts: list[bytes] = []  # of a line that has not ended yet
    held = 0
    end = 0
    while chunk := stream.read(CHUNK):
        start = end - held  # where the line that has not ended yet begins
        end += len(chunk)
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            parts = [*parts, chunk] if held <= LONGEST_LINE else []
            held += len(chunk)
            continue
        first = chunk.find(b"\n") + 1 if held else 0
        if held > LONGEST_LINE:
            report.lines += 1
            report.line_number = _newlines_before(stream, start) + 1
            report.skip(f"longer than {LONGEST_LINE >> 20} MiB")
        elif held:
            yield b"".join((*parts, chunk[:first])), start, True
        if first < cut:
            yield memoryview(chunk)[first:cut], start + held + first, True
        parts, held = [chunk[cut:]], len(chunk) - cut
    if held <= LONGEST_LINE:
        yield b"".join(parts), end - held, False


def _newlines_before(stream: BinaryIO, offset: int) -> int:
    """Lines before an offset. Read again, as only what is damaged needs it; 0 for a stream that cannot go back."""
    try:
        here = stream.tell()
        stream.seek(0)
    except OSError:
        return 0
    lines = 0
    while offset > 0 and (chunk := stream.read(min(CHUNK, offset))):
        lines += chunk.count(b"\n")
        offset -= len(chunk)
    stream.seek(here)
    return lines


def _one_by_one(piece: bytes, decoder: msgspec.json.Decoder[T], report: Report) -> Iterator[T]:
    for line in piece.split(b"\n")[:-1]:
        report.line_number += 1
        if not line or line.isspace():
            continue
        report.lines += 1
        try:
            yield from decoder.decode_lines(line)
        except _UNREADABLE:
            row, why = _mend(line, decoder, report)
            if row is None:
                report.skip(why)
            else:
                yield row


def _tail(stream: BinaryIO, line: bytes, offset: int, decoder: msgspec.json.Decoder[T], report: Report) -> list[T]:
    """The last line, without a newline: whole, or still being written."""
    if not line.strip(_NOISE):
        return []
    try:
        row: T | None = decoder.decode(line)
    except _UNREADABLE:
        report.line_number = _newlines_before(stream, offset) + 1
        row, _ = _mend(line, decoder, report)
    if row is None:
        return []
    report.lines += 1
    return [row]


def _mend(line: bytes, decoder: msgspec.json.Decoder[T], report: Report) -> tuple[T | None, str]:
    """A record from a line that does not decode as it stands, or None and why there is none."""
    text = line.strip(_NOISE)
    if not text:
        return None, "NUL bytes only"
    if len(text) > LONGEST_MENDED:
        return None, "not readable as JSON, and too long to mend"
    try:
        value = json.loads(
            text.decode("utf-8", "replace"), strict=False, parse_constant=lambda _: None, parse_float=_finite
        )
    except (ValueError, RecursionError):
        return None, "not readable as JSON"
    if not isinstance(value, dict):
        return None, "no JSON object"
    for _ in range(_MENDS):
        try:
            return decoder.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")), ""
        except msgspec.ValidationError as error:
            path = _path(error)
            if not path or not _drop(value, path):
                return None, "not of the expected form"
            report.warn(f"line {report.line_number}: {'.'.join(map(str, path))} does not fit; taken as not recorded")
        except _UNREADABLE:
            return None, "not readable as JSON"
    return None, "not of the expected form"


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _path(error: msgspec.ValidationError) -> list[str | int]:
    """`$.message.content[3].text` in an error's message as a list of keys and positions."""
    found = re.search(r"at `\$([^`]*)`", str(error))
    steps = re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", found[1]) if found else []
    return [name or int(position) for name, position in steps]


def _drop(value: Any, path: list[str | int]) -> bool:
    """Remove what stands at a path; a list's entry becomes null, so that its neighbours keep their places."""
    *way, last = path
    try:
        for step in way:
            value = value[step]
        if isinstance(value, list):
            if value[last] is None:  # type: ignore[index]
                del value[last]  # type: ignore[arg-type]
            else:
                value[last] = None  # type: ignore[index]
        else:
            del value[last]
    except (LookupError, TypeError):
        return False
    return True


def open_source(path: Path) -> BinaryIO:
    """A transcript as plain bytes; a `.zst` file is decompressed as it is read."""
    file = path.open("rb", buffering=0)  # whole chunks are read
    if path.suffix != ".zst":
        return file
    import zstandard

    try:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=True)
        return cast("BinaryIO", _Decompressed(stream))
    except BaseException:
        file.close()
        raise


class _Decompressed(io.RawIOBase):
    """A zstd stream whose damage is an OSError, as that of any other file."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        import zstandard

        try:
            data: bytes = self.stream.read(size)
        except zstandard.ZstdError as error:
            raise OSError(None, f"damaged zstd data ({error})") from error
        return data

    def close(self) -> None:
        self.stream.close()
        super().close()
