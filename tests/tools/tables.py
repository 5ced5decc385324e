"""A warehouse over tables that a test fills: the real views, and rows made by hand in place of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec

from pipeline import contracts, prices, retrieval
from pipeline.paths import resource
from pipeline.schema import PARTITION_KEYS, TABLES, Column, columns
from pipeline.warehouse import DUCKDB_TYPES, ordered
from tests.conftest import ROOT

if TYPE_CHECKING:
    import pyarrow as pa

PRICES = ROOT / "tests" / "views" / "prices.csv"  # of a model that exists nowhere, in round numbers
FIXED = {  # of columns that have no default and seldom matter
    "client": "claude-code",
    "month": "2026-03",
    "machine": "here",
    "source_id": "file",
    "path": "/t/file.jsonl",
}


def table_columns(table: str) -> tuple[Column, ...]:
    """The columns of a table of the lake as readers see them."""
    return (*PARTITION_KEYS, *columns(table))


@contextmanager
def empty_warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """The views over empty tables. Making them takes longer than asking, so many tests use one, one after another."""
    with duckdb.connect() as made:
        made.execute("set TimeZone = 'UTC'")
        for schema in ("lake", "ref", "stg", "int"):
            made.execute(f"create schema {schema}")
        for table in TABLES:
            declared = ", ".join(f"{c.name} {DUCKDB_TYPES[c.type]}" for c in table_columns(table))
            made.execute(f"create table lake.{table} ({declared})")
        for name, rows in prices.tables(prices.load(resource("data"), None)).items():
            made.register("arriving", rows.slice(0, 0))
            made.execute(f"create table ref.{name} as from arriving")
        made.register("arriving", retrieval.table())
        made.execute("create table ref.retrieval_tools as from arriving")
        for view in ordered(contracts.views()):
            made.execute(f"create view {view.qualified} as {view.sql}")
        yield made


def fill(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Sequence[Mapping[str, Any]]], own_prices: Path = PRICES
) -> None:
    """Put these rows into the tables in place of what is there. A row names only the columns that matter."""
    for table in TABLES:
        connection.execute(f"delete from lake.{table}")
        if tables.get(table):
            _insert(connection, table, tables[table])
    for name, rows in _reference(own_prices).items():
        connection.register("arriving", rows)
        connection.execute(f"delete from ref.{name}")
        connection.execute(f"insert into ref.{name} from arriving")


def _reference(own_prices: Path) -> dict[str, pa.Table]:
    """The bundled tables, with no prices but those of a file made for tests."""
    book = prices.load(resource("data"), own_prices)
    return prices.tables(replace(book, prices=tuple(row for row in book.prices if row.origin == "user")))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    kinds = {column.name: DUCKDB_TYPES[column.type] for column in table_columns(table)}
    given = {name for row in rows for name in row}
    assert given <= set(kinds), f"{table}: no such columns: {given - set(kinds)}"
    values = [_cells(table, row, number) for number, row in enumerate(rows)]
    casts = ", ".join(f"cast(? as {kinds[name]})" for name in kinds)
    connection.executemany(
        f"insert into lake.{table} ({', '.join(kinds)}) values ({casts})",
        [[row[name] for name in kinds] for row in values],
    )


def _cells(table: str, row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A whole row: what is given, else the default of the declared table, else a name of its own."""
    struct = TABLES[table]
    declared = {field.name: field.default for field in msgspec.structs.fields(struct)}
    made: dict[str, Any] = {}
    for name in (column.name for column in table_columns(table)):
        default = declared.get(name, msgspec.NODEFAULT)
        if name in row:
            made[name] = None if row[name] == "" else row[name]
        elif name in FIXED:
            made[name] = FIXED[name]
        elif name in {"request_id", "call_id", "event_id", "item_id"} and default is msgspec.NODEFAULT:
            made[name] = f"{table}-{number}"
        else:
            assert default is not msgspec.NODEFAULT or name == "warnings", f"{table}: a row must give {name}"
            made[name] = [] if name == "warnings" else _as_stored(name, default)
    return made


def _as_stored(name: str, default: Any) -> Any:
    """A default as the table holds it: times are declared as microseconds."""
    return datetime.fromtimestamp(default, UTC) if name in {"mtime", "ingested_at"} else default
