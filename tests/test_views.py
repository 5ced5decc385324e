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
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline import contracts
from pipeline.schema import TABLES
from pipeline.warehouse import Warehouse, Window
from tests.conftest import ROOT
from tests.tools.tables import PRICES, empty_warehouse, fill

if TYPE_CHECKING:
    import duckdb

FOLDER = ROOT / "tests" / "views"
CASES = sorted(path.parent for path in FOLDER.glob("*/*/case.toml"))
OPTIONS = {"by", "session", "a", "b", "estimator"}
Cells = dict[str, str]


def read_csv(path: Path) -> tuple[list[str], list[Cells]]:
    """Header and rows of a file, without its notes."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    reader = csv.DictReader(lines, strict=True)
    rows = list(reader)
    assert not [row for row in rows if None in row or None in row.values()], f"{path}: a row has not the header's cells"
    return list(reader.fieldnames or []), rows


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_warehouse() as made:
        yield made


def fill_from(connection: duckdb.DuckDBPyConnection, case: Path) -> None:
    """Put the case's rows into the tables in place of those of the one before."""
    unknown = {path.stem for path in case.glob("*.csv")} - {*TABLES, "prices", "expected"}
    assert not unknown, f"{case}: no such tables: {unknown}"
    given = {table: read_csv(case / f"{table}.csv")[1] for table in TABLES if (case / f"{table}.csv").exists()}
    own = case / "prices.csv"
    fill(connection, given, own if own.exists() else PRICES)


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
    fill_from(connection, case)
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
