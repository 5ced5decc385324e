"""The line that says how sizes were estimated."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.estimator import sentence
from pipeline.warehouse import CALIBRATED, Warehouse
from tests.tools.tables import empty_warehouse, fill

if TYPE_CHECKING:
    import duckdb

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_warehouse() as made:
        yield made


def lake_of(steps: int) -> dict[str, list[dict[str, Any]]]:
    """A session in which results of 1,000 characters take 500 tokens each, so that characters / 4 says half of it."""
    requests = [
        {
            "session_id": "s",
            "request_id": f"r{seq}",
            "seq": seq,
            "ts": START + timedelta(minutes=seq),
            "model": "claude-opus-4-6",
            "input_tokens": 10,
            "output_tokens": 10,
            "context_tokens": 1000 + 510 * seq,
        }
        for seq in range(steps + 1)
    ]
    calls = [
        {"session_id": "s", "call_id": f"c{seq}", "seq": seq, "ts": START, "tool": "Read", "result_chars": 1000}
        for seq in range(steps)
    ]
    return {"requests": requests, "tool_calls": calls}


def said(connection: duckdb.DuckDBPyConnection, steps: int, *estimator: str) -> str:
    fill(connection, lake_of(steps))
    return sentence(Warehouse(connection, Path()), *estimator)


def test_how_far_characters_by_four_is_off(connection: duckdb.DuckDBPyConnection) -> None:
    assert said(connection, 2) == (
        "Sizes of texts: estimated as characters / 4; measured on this data: "
        "claude up to 4.6 in claude-code (off by -50.0% in 2 steps)."
    )


def test_nothing_measured(connection: duckdb.DuckDBPyConnection) -> None:
    assert "could not be measured on this data" in said(connection, 0)


def test_calibrated(connection: duckdb.DuckDBPyConnection) -> None:
    assert said(connection, 30, CALIBRATED) == (
        "Sizes of texts: estimated by the characters a token measured on this data, "
        "2 for claude up to 4.6 in claude-code (off by +0.0% in 30 steps); else by 4."
    )


def test_too_few_steps_to_calibrate(connection: duckdb.DuckDBPyConnection) -> None:
    line = said(connection, 29, CALIBRATED)
    assert line.startswith("Sizes of texts: estimated as characters / 4 (no family of models has the 30 steps")
