"""Tables of the page: the first rows of a result, each cell with its mark, and a raw value to sort by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.contracts import Contract, ViewColumn
from pipeline.export import Options, Rows
from pipeline.export import cells as arrow
from pipeline.export.columns import clean
from pipeline.export.columns import columns as columns_for_people
from pipeline.export.marks import ESTIMATED, NA

if TYPE_CHECKING:
    import pyarrow as pa

ONE_LINE = 28  # characters
LONGEST_TEXT = 300  # characters of a name; a transcript may hold one of a megabyte


@dataclass(frozen=True, slots=True)
class Cell:
    """What is read, and what is sorted by: None is n/a, which stays last."""

    text: str
    raw: float | str | None = None

    @property
    def mark(self) -> str:
        """The class of its mark. A name may begin with a ~, too, or be n/a: it has none."""
        if self.raw is None:
            return "na" if self.text == NA else ""
        is_number = not isinstance(self.raw, str)
        return "estimated" if is_number and self.text.startswith(ESTIMATED) else ""

    @property
    def is_long(self) -> bool:
        """Is it a text that needs more than one line?"""
        return len(self.text) > ONE_LINE


@dataclass(frozen=True, slots=True)
class Heading:
    """Head of a column; `doc` is what its contract says of it."""

    text: str
    doc: str = ""
    is_number: bool = False


@dataclass(slots=True)
class Table:
    """Rows that are shown of all that there are, and the totals of all."""

    name: str
    headings: list[Heading]
    rows: list[list[Cell]]
    n_rows: int
    totals: list[str] = field(default_factory=list)
    notes: str = ""  # of the contract, for a view of which the page itself says nothing

    @property
    def is_cut(self) -> bool:
        return len(self.rows) < self.n_rows


def chosen(contract: Contract, names: Sequence[str]) -> list[str]:
    """Those of a view's columns that are shown, with the flags that tell of them."""
    flags = [contract.column(name).measured for name in names]
    known = {c.name for c in contract.columns}
    return [*names, *dict.fromkeys(flag for flag in flags if flag in known)]


def table(
    name: str,
    columns: Sequence[ViewColumn],
    batches: Any,
    *,
    limit: int,
    timezone: str = "UTC",
    totals: bool = True,
) -> Table:
    """A table of at most `limit` rows; the others count in its totals."""
    rows = Rows(name, tuple(columns), batches)
    position = {column.name: i for i, column in enumerate(columns)}
    made = columns_for_people(rows, Options(timezone=timezone), one_cost=False)
    places = [position[column.names[0]] for column in made]
    raw: list[list[float | str | None]] = [[] for _ in made]
    seen = kept = 0
    for batch in rows.slices():
        keep = max(0, min(batch.num_rows, limit - seen))
        for values, place, column in zip(raw, places, made, strict=True):
            column.take(batch, keep)
            values.extend(_sortable(batch.column(place).slice(0, keep)))
        seen += batch.num_rows
        kept += keep
    cells = [
        [Cell(_short(text), value) for text, value in zip(column.cells, values, strict=True)]
        for column, values in zip(made, raw, strict=True)
    ]
    heads = [
        Heading(column.heading, columns[place].doc, column.is_number)
        for column, place in zip(made, places, strict=True)
    ]
    has_totals = totals and seen > 1 and any(column.summed for column in made)
    return Table(
        name,
        heads,
        [list(row) for row in zip(*cells, strict=True)] if kept else [],
        seen,
        [column.total() for column in made] if has_totals else [],
    )


def of_view(contract: Contract, names: Sequence[str], batches: Any, *, limit: int, timezone: str) -> Table:
    """The table of some of a view's columns, which the batches have, with their flags at the end."""
    columns = [contract.column(name) for name in chosen(contract, names)]
    made = table(contract.name, columns, batches, limit=limit, timezone=timezone)
    made.notes = contract.notes
    return made


def _sortable(values: pa.Array) -> list[float | str | None]:
    kind = values.type
    if arrow.is_number(kind):
        return [v if v is None or isinstance(v, int) else float(v) for v in arrow.plain(values)]
    # Times are in ISO 8601, whose order is that of their text.
    return [None if v is None else clean(str(v))[:LONGEST_TEXT] for v in arrow.plain(values)]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
