"""What the contracts promise, on the sample and on all cases together, and how the files in sql/ are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sqlglot
from sqlglot import exp

from pipeline import contracts
from pipeline.checks import checks_of, question
from pipeline.contracts import Contract, View, ViewColumn
from pipeline.errors import ConfigError
from pipeline.warehouse import connect, ordered, reads_of
from tests.conftest import ROOT
from tests.tools.lakes import lake_of_all_cases, query, sample_lake

PUBLIC = contracts.public_names()
COLUMNS = [(name, column) for name in PUBLIC for column in contracts.load(name).columns]
READS_THE_LAKE = {"sources": {"lake.sources"}}  # public views that need no step between
UNIT_ENDS = {
    "tokens": "_tokens",
    "bytes": "_bytes",
    "characters": "_chars",
    "ms": "_ms",
    "seconds": "_seconds",
    "days": "_days",
    "USD": "_usd",
    "USD per million tokens": "_usd_per_mtok",
}
# By the design, in the unit's place.
FIXED_NAMES = {"tokens", "baseline", "load", "carry", "idle_cost", "skill_overhead", "delta", "chars"}
FIXED_NAMES |= {"bytes_served", "bytes_saved", "reported_bytes_served", "reported_bytes_saved"}
TIMES = {"ts", "mtime", "first_ts", "last_ts"}  # the design's own, beside `..._at`
NUMBERS = {"BIGINT", "DOUBLE"}
# Columns that came later: right before the flags, so that no value moves in a file that is read by position.
LATER = {
    "context": {"first_request_tokens"},
    "idle": {"request_spared_tokens", "request_spared_usd", "month_spared_tokens", "month_spared_usd"},
}


@pytest.fixture(params=["sample", "all-cases"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    make = sample_lake if request.param == "sample" else lake_of_all_cases
    return make(tmp_path_factory.getbasetemp())


@cache
def rows_of(lake: Path, name: str) -> pa.Table:
    with connect(lake) as warehouse:
        return warehouse.view(name).table()


def flagged(contract: Contract) -> list[ViewColumn]:
    """The columns of which a flag column says whether they are measured."""
    return [column for column in contract.columns if column.measured not in {None, "always", "never"}]


# --- on data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC)
def test_columns_are_those_of_the_contract(lake: Path, name: str) -> None:
    described = query(lake, f"select column_name, column_type from (describe main.{name})")
    found = [(row["column_name"], row["column_type"]) for row in described]
    assert found == [(column.name, column.type) for column in contracts.load(name).columns]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_view_has_rows_to_check(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Checks of no rows prove nothing."""
    folder = tmp_path_factory.getbasetemp()
    assert rows_of(sample_lake(folder), name).num_rows or rows_of(lake_of_all_cases(folder), name).num_rows


@pytest.mark.parametrize("name", PUBLIC)
def test_rows_are_as_promised(lake: Path, name: str) -> None:
    """Grain, what is never n/a, ranges, accepted values, identities, flags: what `agentlens doctor` asks of a lake."""
    contract = contracts.load(name)
    (counts,) = query(lake, question(contract))
    found = zip(checks_of(contract), counts.values(), strict=True)
    assert not [(check.column, check.kind, count) for check, count in found if count]


def test_money_is_measured_or_estimated_never_both(lake: Path) -> None:
    rows = rows_of(lake, "requests")
    assert not pc.any(pc.and_(pc.is_valid(rows["measured_usd"]), pc.is_valid(rows["estimated_usd"]))).as_py()


# --- the contracts themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC)
def test_flags_are_the_last_columns_and_each_is_used(name: str) -> None:
    contract = contracts.load(name)
    flags = contract.flags
    assert tuple(column.name for column in contract.columns)[len(contract.columns) - len(flags) :] == flags
    assert all(contract.column(flag).type == "BOOLEAN" for flag in flags)
    assert {column.measured for column in flagged(contract)} == set(flags)


@pytest.mark.parametrize("name", PUBLIC)
def test_columns_stand_in_the_order_of_the_house(name: str) -> None:
    """Keys and dimensions, counts, money, times, flags."""
    columns, later = contracts.load(name).columns, LATER.get(name, set())
    ranks = [rank(column) for column in columns if column.name not in later]
    assert ranks == sorted(ranks)
    values = [column.name for column in columns if not column.is_flag]
    assert set(values[len(values) - len(later) :]) == later


def rank(column: ViewColumn) -> int:
    if column.is_flag:
        return 4
    if column.type == "TIMESTAMP WITH TIME ZONE":
        return 3
    if column.unit and column.unit.startswith("USD"):
        return 2
    return 1 if column.measured and column.type in NUMBERS else 0


@pytest.mark.parametrize(("view", "column"), COLUMNS, ids=[f"{view}.{column.name}" for view, column in COLUMNS])
def test_a_column_is_named_and_described(view: str, column: ViewColumn) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
    assert column.doc
    end = UNIT_ENDS.get(column.unit or "")
    assert end is None or column.name.endswith(end) or column.name in FIXED_NAMES
    for unit, suffix in UNIT_ENDS.items():
        assert not column.name.endswith(suffix) or column.unit == unit, f"{view}: the unit of {column.name}"
    if column.type == "BOOLEAN":
        assert column.is_flag or re.match(r"(is|has)_", column.name)
    if column.type == "TIMESTAMP WITH TIME ZONE":
        assert column.name.endswith("_at") or column.name in TIMES
    if column.measured:
        assert column.measured in {"always", "never", *contracts.load(view).flags}
    if column.total:
        assert column.type in NUMBERS


@pytest.mark.parametrize("name", PUBLIC)
def test_grain_and_order_name_columns(name: str) -> None:
    contract = contracts.load(name)
    names = {column.name for column in contract.columns}
    assert contract.grain
    assert {*contract.grain, *contract.nullable_grain} <= names
    assert set(contract.nullable_grain) <= set(contract.grain)
    assert set(contract.nullable_grain) <= {column.name for column in contract.columns if column.null is not None}
    by = [part.split()[0] for part in contract.order]
    assert set(by) <= names
    assert set(contract.grain) <= set(by), "rows that tie come in any order"


def test_every_contract_has_a_view() -> None:
    assert {path.with_suffix("").name for path in (ROOT / "sql").glob("*.toml")} == set(PUBLIC)
    with pytest.raises(ConfigError, match="known views"):
        contracts.load("no_such_view")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_view_is_documented(name: str) -> None:
    text = (ROOT / "docs" / "views.md").read_text(encoding="utf-8")
    assert re.search(rf"^#+ `?{name}`?\b", text, re.MULTILINE)


# --- the files -------------------------------------------------------------------------------------------------------

VIEWS = contracts.views()
by_file = pytest.mark.parametrize("view", VIEWS, ids=[str(v.path.relative_to(ROOT / "sql")) for v in VIEWS])


@pytest.fixture(scope="module")
def reads() -> Iterator[dict[str, set[str]]]:
    """What each view names, with schemas."""
    with duckdb.connect() as connection:
        yield {view.qualified: set(reads_of(connection, view)) for view in VIEWS}


@by_file
def test_a_file_is_one_select_under_one_sentence(view: View) -> None:
    lines = view.sql.splitlines()
    assert re.fullmatch(r"-- [A-Z].*\.", lines[0]), "the first comment is the view's short help: one sentence"
    assert lines[0].startswith("-- One row a"), "it says what a row is"
    assert view.help == lines[0][3:]
    (statement,) = duckdb.extract_statements(view.sql)
    assert statement.type == duckdb.StatementType.SELECT
    assert ";" not in re.sub(r"--.*|'[^']*'", "", view.sql)


@by_file
def test_a_file_can_be_carried_to_spark(view: View) -> None:
    (tree,) = sqlglot.parse(view.sql, dialect="duckdb")
    assert isinstance(tree, exp.Expression)
    assert not list(tree.find_all(exp.Pivot, exp.Lambda))
    assert not [join for join in tree.find_all(exp.Join) if str(join.args.get("method") or "").upper() == "ASOF"]
    carried = tree.sql(dialect="spark", unsupported_level=sqlglot.ErrorLevel.RAISE)
    sqlglot.parse_one(carried, dialect="spark")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_view_reads_steps_not_files(reads: dict[str, set[str]], name: str) -> None:
    from_the_lake = {read for read in reads[f"main.{name}"] if read.startswith("lake.")}
    assert from_the_lake == READS_THE_LAKE.get(name, set())


@pytest.mark.parametrize("view", [v for v in VIEWS if v.schema != "main"], ids=lambda view: view.qualified)
def test_a_step_is_used(reads: dict[str, set[str]], view: View) -> None:
    readers = [name for name, read in reads.items() if view.qualified in read and name != view.qualified]
    assert readers or view.qualified in (ROOT / "pipeline" / "exact.py").read_text(encoding="utf-8")


def test_a_view_comes_after_what_it_reads(reads: dict[str, set[str]]) -> None:
    seen: set[str] = set()
    for view in ordered(VIEWS):
        assert not (reads[view.qualified] & reads.keys()) - seen - {view.qualified}
        seen.add(view.qualified)
    assert seen == set(reads)
