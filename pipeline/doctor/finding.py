"""What the doctor says: a status, one line, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Status = Literal["ok", "note", "warning", "broken"]
STATUSES: tuple[Status, ...] = ("ok", "note", "warning", "broken")  # from good to bad
NAMED = 3  # of many files or models, so many are named in a line; the facts name `LISTED`
LISTED = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check. `check`, and the names of the facts, are the same from version to version."""

    check: str
    status: Status
    message: str
    todo: str | None = None
    subject: str | None = None  # what it is about, where a check has several findings: a client, a table, a view
    facts: Mapping[str, Any] = field(default_factory=dict)


def worst(findings: Sequence[Finding]) -> Status:
    """The worst status there is."""
    return max((finding.status for finding in findings), key=STATUSES.index, default="ok")


def named(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def many(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def size(number: int) -> str:
    """Bytes as a person reads them."""
    if number < 1000:
        return many(number, "byte")
    value = number / 1000
    units = ["TB", "GB", "MB", "kB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop()
    return f"{value:.1f} {units[-1]}" if value < 9.95 else f"{value:,.0f} {units[-1]}"


def when(moment: datetime) -> str:
    """A time in UTC, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
