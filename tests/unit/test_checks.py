"""The checks of a contract find what breaks it, and nothing else."""

from __future__ import annotations

import duckdb
import pytest

from pipeline.checks import checks_of, differing_columns, question
from pipeline.contracts import Contract, ViewColumn
from pipeline.errors import ContractError

CONTRACT = Contract(
    name="things",
    help="One row a thing.",
    grain=("client", "item"),
    nullable_grain=("item",),
    columns=(
        ViewColumn("client", "VARCHAR", "", tests=({"accepted_values": ["codex", "it's"]},)),
        ViewColumn("item", "VARCHAR", "", null="it has no name"),
        ViewColumn("requests", "BIGINT", "", measured="always", tests=({"range": {"min": 0, "max": 9}},)),
        ViewColumn(
            "tokens", "BIGINT", "", measured="tokens_measured", null="not known", tests=({"identity": "2 * requests"},)
        ),
        ViewColumn("tokens_measured", "BOOLEAN", ""),
    ),
)
GOOD = ["('codex', 'a', 1, 2, true)", "('codex', null, 0, null, false)", "('it''s', null, 9, 18, false)"]


def broken(*rows: str) -> set[tuple[str, str, int]]:
    """The checks that such rows break: column, kind, number of rows."""
    with duckdb.connect() as connection:
        names = ", ".join(column.name for column in CONTRACT.columns)
        connection.execute(f"create view things as select * from (values {', '.join(rows)}) as t({names})")
        counts = connection.execute(question(CONTRACT)).fetchall()[0]
    return {(c.column, c.kind, count) for c, count in zip(checks_of(CONTRACT), counts, strict=True) if count}


def test_good_rows_break_nothing() -> None:
    assert broken(*GOOD) == set()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("('codex', 'a', 1, 2, true)", ("client, item", "grain", 1)),
        ("('codex', null, 1, 2, true)", ("client, item", "grain", 1)),
        ("(null, 'b', 1, 2, true)", ("client", "not_null", 1)),
        ("('gemini', 'b', 1, 2, true)", ("client", "accepted_values", 1)),
        ("('codex', 'b', null, null, false)", ("requests", "not_null", 1)),
        ("('codex', 'b', -1, -2, true)", ("requests", "range", 1)),
        ("('codex', 'b', 10, 20, true)", ("requests", "range", 1)),
        ("('codex', 'b', 1, 3, true)", ("tokens", "identity", 1)),
        ("('codex', 'b', 1, null, true)", ("tokens", "flag", 1)),
    ],
)
def test_a_bad_row_breaks_its_check_alone(row: str, expected: tuple[str, str, int]) -> None:
    assert broken(*GOOD, row) == {expected}


def test_a_flag_is_never_null() -> None:
    found = broken(*GOOD, "('codex', 'b', 1, 2, null)", "('codex', 'c', 1, null, null)")
    assert found == {("tokens", "flag", 2), ("tokens_measured", "not_null", 2)}


def test_an_empty_view_breaks_nothing() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "create view things as select null as client, null as item, 0 as requests, 0 as tokens, "
            "true as tokens_measured where false"
        )
        assert set(connection.execute(question(CONTRACT)).fetchall()[0]) == {0}


def test_columns_that_differ_are_named() -> None:
    names, types = [c.name for c in CONTRACT.columns], [c.type for c in CONTRACT.columns]
    assert differing_columns(CONTRACT, names, types) == []
    assert set(differing_columns(CONTRACT, [*names, "more"], [*types, "VARCHAR"])) == {"more"}
    assert set(differing_columns(CONTRACT, names[:-1], types[:-1])) == {"tokens_measured"}
    assert differing_columns(CONTRACT, names[::-1], types[::-1]) == names[::-1]


def test_a_test_that_does_not_exist_is_named() -> None:
    column = ViewColumn("n", "BIGINT", "", tests=({"likely": True},))
    with pytest.raises(ContractError, match="likely"):
        checks_of(Contract("v", "", ("n",), (column,)))
