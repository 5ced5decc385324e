"""Every public view over hand-made inputs: tests/views/<view>/<case>/.

    case.toml             title, and in [window] since, until, clients, project, timezone, by
    <table>.csv           rows of a table of the lake, only the columns that matter; an empty cell is NULL
    prices.csv            prices of the case instead of tests/views/prices.csv, in the columns of `agentlens prices`
    expected.csv          the view's rows in the order that its contract promises, only the columns that matter

Lines that begin with # are notes: the arithmetic behind a number. Expectations come from the design by hand; one
printed by the views proves nothing.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pytest

from pipeline import contracts, prices, retrieval
from pipeline.paths import resource
from pipeline.schema import PARTITION_KEYS, TABLES, Column, columns
from pipeline.warehouse import Warehouse, Window, ordered
from tests.conftest import ROOT

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = ROOT / "tests" / "views"
CASES = sorted(path.parent for path in FOLDER.glob("*/*/case.toml"))
TYPES = {
    "string": "varchar",
    "bigint": "bigint",
    "double": "double",
    "boolean": "boolean",
    "timestamp": "timestamp with time zone",
    "list<string>": "varchar[]",
}
FIXED = {  # of columns that have no default and seldom matter
    "client": "claude-code",
    "month": "2026-03",
    "machine": "here",
    "source_id": "file",
    "path": "/t/file.jsonl",
}
OPTIONS = {"by", "session", "a", "b"}
Cells = dict[str, str]


def read_csv(path: Path) -> tuple[list[str], list[Cells]]:
    """Header and rows of a file, without its notes."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    reader = csv.DictReader(lines, strict=True)
    rows = list(reader)
    assert not [row for row in rows if None in row or None in row.values()], f"{path}: a row has not the header's cells"
    return list(reader.fieldnames or []), rows


# --- a warehouse of tables -------------------------------------------------------------------------------------------


def table_columns(table: str) -> tuple[Column, ...]:
    return (*PARTITION_KEYS, *columns(table))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """The views over empty tables. Making them takes longer than a case, so all cases use them, one after another."""
    with duckdb.connect() as made:
        made.execute("set TimeZone = 'UTC'")
        for schema in ("lake", "ref", "stg", "int"):
            made.execute(f"create schema {schema}")
        for table in TABLES:
            declared = ", ".join(f"{c.name} {TYPES[c.type]}" for c in table_columns(table))
            made.execute(f"create table lake.{table} ({declared})")
        for name, rows in prices.tables(prices.load(resource("data"), None)).items():
            made.register("arriving", rows.slice(0, 0))
            made.execute(f"create table ref.{name} as from arriving")
        made.register("arriving", retrieval.table())
        made.execute("create table ref.retrieval_tools as from arriving")
        for view in ordered(contracts.views()):
            made.execute(f"create view {view.qualified} as {view.sql}")
        yield made


def fill(connection: duckdb.DuckDBPyConnection, case: Path) -> None:
    """Put the case's rows into the tables in place of those of the one before."""
    unknown = {path.stem for path in case.glob("*.csv")} - {*TABLES, "prices", "expected"}
    assert not unknown, f"{case}: no such tables: {unknown}"
    for table in TABLES:
        connection.execute(f"delete from lake.{table}")
        if (case / f"{table}.csv").exists():
            insert(connection, table, case / f"{table}.csv")
    for name, rows in reference(case).items():
        connection.register("arriving", rows)
        connection.execute(f"delete from ref.{name}")
        connection.execute(f"insert into ref.{name} from arriving")


def reference(case: Path) -> dict[str, pa.Table]:
    """The bundled tables, with no prices but those of a file made for tests."""
    own = case / "prices.csv"
    book = prices.load(resource("data"), own if own.exists() else FOLDER / "prices.csv")
    return prices.tables(replace(book, prices=tuple(row for row in book.prices if row.origin == "user")))


def insert(connection: duckdb.DuckDBPyConnection, table: str, path: Path) -> None:
    given, rows = read_csv(path)
    kinds = {column.name: TYPES[column.type] for column in table_columns(table)}
    assert set(given) <= set(kinds), f"{path}: no such columns: {set(given) - set(kinds)}"
    values = [cells(table, row, number) for number, row in enumerate(rows)]
    casts = ", ".join(f"cast(? as {kinds[name]})" for name in kinds)
    connection.executemany(
        f"insert into lake.{table} ({', '.join(kinds)}) values ({casts})",
        [[row[name] for name in kinds] for row in values],
    )


def cells(table: str, row: Cells, number: int) -> dict[str, Any]:
    """A whole row: what is given, else the default of the declared table, else a name of its own."""
    struct = TABLES[table]
    declared = {field.name: field.default for field in msgspec.structs.fields(struct)}
    made: dict[str, Any] = {}
    for name in (column.name for column in table_columns(table)):
        default = declared.get(name, msgspec.NODEFAULT)
        if name in row:
            made[name] = row[name] or None
        elif name in FIXED:
            made[name] = FIXED[name]
        elif name in {"request_id", "call_id", "event_id", "item_id"} and default is msgspec.NODEFAULT:
            made[name] = f"{table}-{number}"
        else:
            assert default is not msgspec.NODEFAULT or name == "warnings", f"{table}.csv must give {name}"
            made[name] = [] if name == "warnings" else as_stored(name, default)
    return made


def as_stored(name: str, default: Any) -> Any:
    """A default as the table holds it: times are declared as microseconds."""
    return datetime.fromtimestamp(default, UTC) if name in {"mtime", "ingested_at"} else default


# --- comparing -------------------------------------------------------------------------------------------------------


def window(options: dict[str, Any]) -> Window:
    chosen = {name: value for name, value in options.items() if name not in OPTIONS}
    chosen |= {"clients": tuple(options.get("clients", ()))}
    return Window(**chosen, options={name: options[name] for name in options.keys() & OPTIONS})


def value(text: str, kind: str) -> Any:
    """What a cell of expected.csv stands for."""
    if not text:
        return None
    if kind == "BIGINT":
        return int(text)
    if kind == "DOUBLE":
        return same_digits(float(text))
    if kind == "BOOLEAN":
        return {"true": True, "false": False}[text]
    if kind == "DATE":
        return date.fromisoformat(text)
    if kind == "TIMESTAMP WITH TIME ZONE":
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if kind == "VARCHAR[]":
        return [] if text == "[]" else text.split("; ")
    return text


def same_digits(found: Any) -> Any:
    """Numbers without the noise of binary fractions."""
    return float(f"{found:.10g}") if isinstance(found, float) else found


@pytest.mark.parametrize("case", CASES, ids=[f"{case.parent.name}/{case.name}" for case in CASES])
def test_view(connection: duckdb.DuckDBPyConnection, case: Path) -> None:
    facts = tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))
    assert facts["title"]
    fill(connection, case)
    names, rows = read_csv(case / "expected.csv")
    types = {column.name: column.type for column in contracts.load(case.parent.name).columns}
    answer = Warehouse(connection, case).view(case.parent.name, window(facts.get("window", {}))).table().to_pylist()
    expected = [{name: value(row[name], types[name]) for name in names} for row in rows]
    assert [{name: same_digits(row[name]) for name in names} for row in answer] == expected


@pytest.mark.parametrize("view", contracts.public_names())
def test_every_view_has_a_case(view: str) -> None:
    assert [case for case in CASES if case.parent.name == view]


def test_every_folder_of_cases_is_of_a_view() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} <= set(contracts.public_names())
