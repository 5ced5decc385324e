"""The law of savings: the view says what plain Python says of the same calls, and so does the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import retrieval
from pipeline.savings import FILE_CAP, PROXY_BYTES, repo_id, spared
from tests.tools.tables import empty_warehouse, fill

if TYPE_CHECKING:
    import duckdb

MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
ROOTS = ("/r", "/s", None)
NAMES = [f"f{number}" for number in range(80)]
SEEN = datetime(2026, 3, 1, tzinfo=UTC)

files = st.lists(st.sampled_from(NAMES), max_size=90)
sizes = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5000), max_size=60)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "tool": st.sampled_from(sorted(retrieval.tools())),
            "root": st.sampled_from(ROOTS),
            "outcome": st.sampled_from(["ok", "ok", "ok", None, "error", "denied", "pending"]),
            "served": st.none() | st.integers(0, 100_000),
            "paths": st.none() | files,
            "handles": st.none() | st.integers(0, 90),
        }
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_warehouse() as made:
        yield made


def by_hand(given_calls: list[dict[str, Any]], known: dict[str, int]) -> dict[tuple[str, str | None], list[Any]]:
    """Section by section of the rule: errors apart, at most 50 distinct files, else 4,096 bytes an entry, never less
    than 0."""
    rows: dict[tuple[str, str | None], list[Any]] = defaultdict(lambda: [0, 0, None, None, None])
    for call in given_calls:
        if call["outcome"] in {"denied", "pending"}:
            continue
        row = rows[call["tool"], call["root"]]
        if call["outcome"] == "error":
            row[1] += 1
            continue
        row[0] += 1
        served, saved, method = call["served"], None, None
        if served is not None:
            row[2] = (row[2] or 0) + served
        if retrieval.tools()[call["tool"]].kind != "discovery":
            saved = 0
        elif served is not None:
            distinct: list[str] = []
            for path in call["paths"] or []:
                if path not in distinct:
                    distinct.append(path)
            found = [known[path] for path in distinct[:50] if path in known and call["root"] == "/r"]
            if found:
                saved, method = max(0, sum(found) - served), "file_sizes"
            elif call["handles"] is not None:
                saved, method = max(0, call["handles"] * 4096 - served), "flat_proxy"
        if saved is not None:
            row[3] = (row[3] or 0) + saved
        if method is not None and row[4] != "file_sizes":
            row[4] = method
    return rows


@MANY
@given(given_calls=calls, known=sizes)
def test_the_view_says_what_plain_python_says(
    connection: duckdb.DuckDBPyConnection, given_calls: list[dict[str, Any]], known: dict[str, int]
) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "sessions": [{"session_id": f"s{number}", "project": root} for number, root in enumerate(ROOTS)],
        "repo_files": [
            {"repo_id": repo_id("/r"), "repo_root": "/r", "path": path, "size_bytes": size, "seen_at": SEEN}
            for path, size in known.items()
        ],
        "tool_calls": [
            {
                "session_id": f"s{ROOTS.index(call['root'])}",
                "call_id": f"c{number}",
                "tool": f"mcp__codelens__{call['tool']}",
                "mcp_server": "codelens",
                "mcp_tool": call["tool"],
                "outcome": call["outcome"],
                "result_bytes": call["served"],
                "result_paths": call["paths"],
                "result_handles": call["handles"],
            }
            for number, call in enumerate(given_calls)
        ],
    }
    fill(connection, tables)
    answer = connection.execute(
        "select tool, repo_root, calls, errors, bytes_served, bytes_saved, method from main.savings"
    ).fetchall()
    assert {(tool, root): list(rest) for tool, root, *rest in answer} == by_hand(given_calls, known)


@MANY
@given(given_calls=calls, known=sizes)
def test_the_ledgers_formula_is_the_views(given_calls: list[dict[str, Any]], known: dict[str, int]) -> None:
    assert (FILE_CAP, PROXY_BYTES) == (50, 4096)
    for call in given_calls:
        call |= {"outcome": "ok", "root": "/r"}
        distinct = list(dict.fromkeys(call["paths"] or ()))[:FILE_CAP]
        kind = retrieval.tools()[call["tool"]].kind
        found = spared(kind, call["served"], [known[path] for path in distinct if path in known], call["handles"])
        ((*_, saved, method),) = by_hand([call], known).values()
        assert found == (saved, method)
