"""From an answer of the warehouse to stdout or a file. The only place that chooses a format."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Literal

from pipeline import contracts
from pipeline.cli.options import is_terminal
from pipeline.errors import ConfigError, ExportError, ReaderGone
from pipeline.paths import put_in_place
from pipeline.window import Filters, renamed, window_of

if TYPE_CHECKING:
    from pipeline.export import Rows
    from pipeline.warehouse import Answer, Sort, Warehouse

NEWLINES: dict[str, Literal["\n", "\r\n"]] = {"lf": "\n", "crlf": "\r\n"}


def show_view(
    lake: Path,
    name: str,
    chosen: Filters,
    *,
    own: Mapping[str, str] | None = None,
    output: str | None = None,
    newline: str = "lf",
    format_name: str | None = None,
    limit: int | None = None,
    compact: bool = False,
    sort: Sequence[Sort] = (),
) -> None:
    """Write a view's rows of a window. `own` is what the view asks for beside it, by session variable."""
    from pipeline.warehouse import connect_current

    with connect_current(lake) as warehouse:
        # Before the view is asked: its rows are made while they are written.
        said = sizing(warehouse, [name], own) if format_for(format_name, output) == "table" else ""
        rows = view_rows(warehouse.view(name, window_of(chosen, own), sort), name, said)
        write(
            rows,
            format_name,
            output,
            newline=newline,
            limit=limit,
            compact=compact,
            rename=renamed(own or {}),
            timezone=chosen.timezone,
        )


def sizing(warehouse: Warehouse, names: Iterable[str], own: Mapping[str, str] | None) -> str:
    """Where views have sizes of texts: how they were estimated, and how far that is off on this data."""
    from pipeline.estimator import CHARS4, sentence

    if not any(contracts.load(name).sizes_texts for name in names):
        return ""
    return sentence(warehouse, (own or {}).get("estimator", CHARS4))


def view_rows(answer: Answer, name: str, said: str = "") -> Rows:
    """An answer with the contract of its view, and what is to be said of it beside the contract's notes."""
    from pipeline.export import Course, Rows

    contract = contracts.load(name)
    *groups, along = contract.grain
    course = Course(contract.course, tuple(groups), along) if contract.course else None
    return Rows(
        contract.name,
        contract.columns,
        answer.batches(),
        contract.help,
        " ".join(filter(None, (contract.notes, said if contract.sizes_texts else ""))),
        (*contract.keep, *contract.grain),
        course,
    )


def write(
    rows: Rows,
    format_name: str | None,
    output: str | None,
    *,
    newline: str = "lf",
    limit: int | None = None,
    compact: bool = False,
    rename: Mapping[str, str] | None = None,
    timezone: str = "UTC",
) -> None:
    """Write rows in a format: to a file, which is replaced as one step, or to stdout."""
    from pipeline.export import Options
    from pipeline.export import write as export

    to_stdout = output in (None, "-")
    chosen = format_for(format_name, output)
    not_to_a_terminal(chosen, output)
    options = Options(
        width=table_width(to_stdout=to_stdout),
        color=to_stdout and has_color(),
        encoding=(sys.stdout.encoding if to_stdout else None) or "utf-8",
        newline=NEWLINES[newline],
        limit=limit,
        compact=compact,
        rename=rename or {},
        timezone=timezone,
    )
    with destination(output) as stream:
        export(chosen, rows, stream, options)


def format_for(format_name: str | None, output: str | None) -> str:
    """The format that was asked for, by its name or that of a file; else a table for a person's eyes, and CSV."""
    to_terminal = output in (None, "-") and is_terminal()
    return format_name or format_of(output) or ("table" if to_terminal else "csv")


def has_color() -> bool:
    """Is stdout a terminal that shows colours, and wants them?"""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table_width(*, to_stdout: bool) -> int | None:
    """Columns that a table may take; None: as many as it needs."""
    if "COLUMNS" in os.environ or (to_stdout and is_terminal()):
        return shutil.get_terminal_size().columns
    return None


def format_of(output: str | None) -> str | None:
    """The format that a file's name asks for."""
    from pipeline.export import FORMATS

    suffix = Path(output or "").suffix
    return next((name for name, form in FORMATS.items() if suffix and f".{form.extension.lstrip('.')}" == suffix), None)


def not_to_a_terminal(format_name: str, output: str | None) -> None:
    """Raises ConfigError where bytes that nobody can read would go to a terminal."""
    from pipeline.export import FORMATS

    if output in (None, "-") and is_terminal() and FORMATS[format_name].binary:
        hint = f"name a file: --output FILE.{FORMATS[format_name].extension}"
        raise ConfigError(f"{format_name} is not for a terminal", hint=hint)


@contextmanager
def destination(output: str | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that appears under its name when it is whole."""
    if output in (None, "-"):
        stream: IO[bytes] = sys.stdout.buffer
        try:
            yield stream  # type: ignore[misc]
            stream.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error
        return
    path = Path(output or "")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with put_in_place(path) as temporary, temporary.open("wb") as file:
            yield file
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}", path=path) from error
