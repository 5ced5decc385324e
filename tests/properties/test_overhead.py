"""Overhead from intervals is what one gets by looking at every request and every text that it carried."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.warehouse import Warehouse, Window
from tests.tools.tables import empty_warehouse, fill

if TYPE_CHECKING:
    import duckdb

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
INPUT_USD = 0.001  # a token, of the model `even`; there is no other price
ROOTS = {"instructions", "tool_definitions", "memory"}  # what stands before all messages
ITEMS = ("a", "b")
ENTRIES = (
    ("listed", "skill"),
    ("listed", "agent"),
    ("listed", "listing"),
    ("loaded", "skill_body"),
    ("loaded", "instruction"),
    ("instructions", "instruction"),
    ("tool_definitions", "tool"),
    ("memory", "memory"),
    ("instructions", "system"),
)


class Event(NamedTuple):
    seq: int
    event: str
    item_kind: str | None
    item: str | None
    chars: int | None
    sha256: str | None


class Request(NamedTuple):
    model: str
    n_requests: int
    in_window: bool


class Session(NamedTuple):
    requests: list[Request]
    events: list[Event]  # in their order in the file


@st.composite
def events(draw: st.DrawFn, requests: int) -> Event:
    seq = draw(st.integers(0, requests))  # that of no request: what came after the last one
    kind = draw(st.sampled_from(("entry", "entry", "entry", "entry", "cleared", "compacted", "removed")))
    if kind in {"cleared", "compacted"}:
        return Event(seq, kind, None, None, 40, None)
    event, item_kind = draw(st.sampled_from(ENTRIES))
    item = draw(st.sampled_from(ITEMS))
    if kind == "removed":
        return Event(seq, kind, item_kind, item, None, None)
    text = draw(st.sampled_from((None, "one", "two")))
    return Event(seq, event, item_kind, item, draw(st.sampled_from((None, 0, 1, 39, 400))), text)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    request = st.builds(Request, st.sampled_from(("even", "no-price")), st.sampled_from((1, 1, 3)), st.booleans())
    requests = draw(st.lists(request, min_size=1, max_size=6))
    happened = draw(st.lists(events(len(requests)), max_size=12))
    return Session(requests, sorted(happened, key=lambda event: event.seq))


def carried(session: Session) -> Iterator[tuple[Request, list[Event]]]:
    """Each request of a session, with the texts in front of the model: by playing the session from its beginning."""
    present: dict[Any, Event] = {}
    pending = list(enumerate(session.events))
    for seq, request in enumerate(session.requests):
        while pending and pending[0][1].seq <= seq:
            number, event = pending.pop(0)
            if event.event in {"cleared", "compacted"}:
                present = {key: text for key, text in present.items() if not is_message(text)}
            elif event.event == "removed":
                gone = (event.item_kind, event.item)
                present = {key: text for key, text in present.items() if (text.item_kind, text.item) != gone}
            else:
                text = (event.sha256 or number) if is_message(event) else None
                present[event.item_kind, event.item, text] = event
        yield request, list(present.values())


def is_message(event: Event) -> bool:
    if event.item_kind in {"system", "memory"}:
        return False
    if event.event == "instructions":
        return event.item_kind != "instruction"
    return event.event not in ROOTS


def brute_force(all_sessions: list[Session]) -> dict[tuple[str, str], dict[str, float | None]]:
    """Overhead by item: requests x texts, one by one."""
    tokens: dict[Any, int | None] = {}
    usd: dict[Any, float | None] = {}
    requests: dict[Any, int] = defaultdict(int)
    unpriced: dict[Any, int] = defaultdict(int)
    for session in all_sessions:
        for request, texts in carried(session):
            if not request.in_window:
                continue
            for key in {(text.item_kind, text.item) for text in texts}:
                requests[key] += request.n_requests
            for text in texts:
                key = (text.item_kind, text.item)
                size = None if text.chars is None else math.ceil(text.chars / 4)
                if request.model == "no-price":
                    unpriced[key] += request.n_requests
                tokens.setdefault(key, None)
                usd.setdefault(key, None)
                if size is not None:
                    tokens[key] = (tokens[key] or 0) + size * request.n_requests
                    if request.model == "even":
                        usd[key] = (usd[key] or 0) + size * request.n_requests * INPUT_USD
    return {
        key: {
            "requests": requests[key],
            "unpriced_requests": unpriced[key],
            "overhead_tokens": tokens[key],
            "overhead_usd": usd[key],
        }
        for key in requests
    }


def rows(all_sessions: list[Session]) -> dict[str, list[dict[str, Any]]]:
    """The sessions as tables of the lake. What is outside the window is a day older."""
    tables: dict[str, list[dict[str, Any]]] = {"sessions": [], "requests": [], "context_events": []}
    for number, session in enumerate(all_sessions):
        of_session = {"session_id": f"s{number}", "source_id": f"f{number}"}
        tables["sessions"].append({**of_session, "project": "/w"})
        for seq, request in enumerate(session.requests):
            tables["requests"].append(
                {
                    **of_session,
                    "request_id": f"{number}-{seq}",
                    "seq": seq,
                    "ts": START + timedelta(minutes=seq) - timedelta(days=0 if request.in_window else 1),
                    "model": request.model,
                    "n_requests": request.n_requests,
                    "input_tokens": 100,
                    "output_tokens": 0,
                    "context_tokens": 100 if request.n_requests > 1 else None,
                }
            )
        for position, event in enumerate(session.events):
            tables["context_events"].append(
                {
                    **of_session,
                    "event_id": f"{number}-{position}",
                    "position": position,
                    "ts": START,
                    **event._asdict(),
                }
            )
    return tables


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_warehouse() as made:
        yield made


@given(all_sessions=st.lists(sessions(), min_size=1, max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_overhead_is_what_every_request_carried(
    connection: duckdb.DuckDBPyConnection, all_sessions: list[Session]
) -> None:
    fill(connection, rows(all_sessions))
    answer = Warehouse(connection, Path()).view("context", Window(since=START)).table().to_pylist()
    names = ("requests", "unpriced_requests", "overhead_tokens", "overhead_usd")
    found = {(row["item_kind"], row["item"]): {name: row[name] for name in names} for row in answer}
    expected = brute_force(all_sessions)
    assert found.keys() == expected.keys()
    for key, numbers in expected.items():
        assert found[key] == pytest.approx(numbers), key
