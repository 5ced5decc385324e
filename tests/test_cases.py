"""Every case of every client: its input through the whole pipeline, its hand-written numbers out of the public views.

A case's `expect` holds the right numbers, `accept_also` other whole answers that are fine too,
`prices` (USD per million tokens) take the place of any price list, `generate` is the recipe of `materialise`.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipeline import clients, contracts
from pipeline.prices import PRICE_COLUMNS
from pipeline.warehouse import Warehouse, Window, connect
from tests.cases.materialise import materialise
from tests.conftest import ROOT, Agentlens
from tests.tools.lakes import CASES, Rows, cases_of, ingest, told

NOT_KEPT = {  # keys of `expect` that nothing public answers, and why
    "context_window": "the lake does not keep the size of a model's window",
    "skill_body_chars": "the lake sizes the message that brings a skill, its line about the folder included",
}
VIEW_OF = {"cache_rewrites": "cache_rewrites", "savings": "savings"}  # keys that need a view to themselves
NOT_ASKED = NOT_KEPT | {
    key: f"there is no view {view}" for key, view in VIEW_OF.items() if view not in contracts.public_names()
}
SAME_NAME = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
        "reasoning_tokens",
        "reported_usd",
        "estimated_usd",
        "premium_requests",
        "web_search_requests",
    }
)
THROUGH_THE_PROGRAM = (  # each asks for something that only the command line does
    "claude-fast-mode-rows",  # --prices
    "claude-days-berlin-autumn",
    "claude-symlink-loop",
    "codex-zst-only",
    "context-idle-by-project",
)


@cache
def canonical(model: str) -> str:
    """The vendor's full id of the short name that a case uses."""
    with (ROOT / "data" / "model_aliases.csv").open(encoding="utf-8", newline="") as file:
        return {row["alias"]: row["model_id"] for row in csv.DictReader(file)}.get(model, model)


# --- prices of a case as a price file --------------------------------------------------------------------------------


def write_prices(prices: Mapping[str, Any], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, PRICE_COLUMNS, restval="")
        writer.writeheader()
        for model, rates in prices.items():
            writer.writerows(price_rows(canonical(model), rates))
    return path


def price_rows(model: str, rates: Mapping[str, Any]) -> Rows:
    """A row a period and band, and one more of each for the tier `fast`, where the case gives a multiple."""
    periods = rates.get("dated") or [rates]
    ends = [period.get("from", "") for period in periods[1:]] + [""]
    rows = []
    for period, end in zip(periods, ends, strict=True):
        when = {"effective_from": period.get("from", ""), "effective_to": end}
        rows.append(price_row(model, period, **when))
        if "long" in rates:
            rows.append(price_row(model, rates["long"], min_context_tokens=rates["long"]["above"] + 1, **when))
    if "fast_multiplier" in rates:
        rows += [fast(row, rates["fast_multiplier"]) for row in rows]
    return rows


def price_row(model: str, rates: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    named = {f"{name}_usd_per_mtok": rate for name, rate in rates.items()}
    return {"model_id": model, "service_tier": "standard", **more} | {
        k: v for k, v in named.items() if k in PRICE_COLUMNS
    }


def fast(row: Mapping[str, Any], multiple: float) -> dict[str, Any]:
    dearer = {name: rate * multiple for name, rate in row.items() if name.endswith("_per_mtok")}
    return {**row, **dearer, "service_tier": "fast"}


# --- what the lake answers -------------------------------------------------------------------------------------------


def total(rows: Iterable[Mapping[str, Any]], column: str) -> Any:
    """The sum of what is known; None if nothing is."""
    known = [row[column] for row in rows if row[column] is not None]
    return sum(known) if known else None


def counted(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["n_requests"] for row in rows)


def sums(rows: Rows, wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: counted(rows) if name == "requests" else total(rows, name) for name in wanted}


def day(moment: datetime | None) -> str:
    return "n/a" if moment is None else str(moment.astimezone(UTC).date())


class Answers:
    """What the public views say, key by key: a method a key, which gets what is wanted and gives what there is."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._known: dict[tuple[str, str | None], Rows] = {}

    def rows(self, view: str, timezone: str | None = None) -> Rows:
        key = (view, timezone)
        if key not in self._known:
            self._known[key] = self._warehouse.view(view, Window(timezone=timezone)).table().to_pylist()
        return self._known[key]

    def to(self, key: str, wanted: Any) -> Any:
        if key in SAME_NAME:
            return total(self.rows("requests"), key)
        method: Callable[[Any], Any] = getattr(self, key)
        return method(wanted)

    # requests

    def requests(self, _: int) -> int:
        return counted(self.rows("requests"))

    def subagent_requests(self, _: int) -> int:
        return counted(row for row in self.rows("requests") if row["is_subagent"])

    def sessions(self, _: int) -> int:
        """A subagent of Codex is a session of its own, one of another client belongs to its parent's."""
        return sum(not row["is_subagent"] or row["client"] == "codex" for row in self.rows("sessions"))

    def by(self, wanted: Mapping[str, Any], group: Callable[[Mapping[str, Any]], str | None]) -> dict[str, Any]:
        found = {}
        for name, want in wanted.items():
            mine = [row for row in self.rows("requests") if (group(row) or "n/a") == name]
            found[name] = sums(mine, want) if isinstance(want, dict) else counted(mine)
        return found

    def by_model(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return self.by(wanted, lambda row: row["model"])

    def by_speed(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return self.by(wanted, lambda row: row["speed"] or "standard")

    def by_day_utc(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return self.by(wanted, lambda row: day(row["ts"]))

    def projects(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return self.by(wanted, lambda row: row["project"])

    def by_day_tz(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        rows = self.rows("usage", timezone=wanted["timezone"])
        days = {
            name: {column: total([row for row in rows if row["day"] == name], column) for column in want}
            for name, want in wanted["days"].items()
        }
        return {"timezone": wanted["timezone"], "days": days}

    def price_as(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """A case names an entry of the price list by a short name: that name again, where it is the one."""
        found = {}
        for model, want in wanted.items():
            ids = {row["model_id"] for row in self.rows("requests") if row["model"] == model}
            found[model] = want if ids == {canonical(want)} else sorted(map(str, ids))
        return found

    def unpriced_models(self, wanted: list[str]) -> list[Any]:
        found = {row["model"] for row in self.rows("unpriced")}
        return wanted if found == set(wanted) else sorted(map(str, found))

    def max_context_tokens(self, _: int) -> Any:
        known = [r["context_tokens"] for r in self.rows("requests") if not r["is_subagent"]]
        return max((tokens for tokens in known if tokens is not None), default=None)

    def last_context_tokens(self, _: int) -> Any:
        """Of the newest response, or of the compaction that came after it."""
        requests = [row for row in self.rows("requests") if not row["is_subagent"]]
        newest = max(requests, key=lambda row: row["seq"])
        for event in self.rows("context_events"):
            is_later = event["event"] == "compacted" and event["seq"] > newest["seq"]
            if is_later and event["reported_tokens"] is not None:
                return event["reported_tokens"]
        return newest["context_tokens"]

    def first_timestamp(self, _: str) -> str:
        return min(row["ts"] for row in self.rows("requests")).strftime("%Y-%m-%dT%H:%M:%SZ")  # type: ignore[no-any-return]

    def last_timestamp(self, _: str) -> str:
        return max(row["ts"] for row in self.rows("requests")).strftime("%Y-%m-%dT%H:%M:%SZ")  # type: ignore[no-any-return]

    def na_fields(self, wanted: list[str]) -> list[str]:
        """Those of the fields that are NULL in every row; what is no column of the view is shown nowhere."""
        rows = self.rows("requests")
        return [name for name in wanted if all(row.get(name) is None for row in rows)]

    # tools

    def tool_calls(self, wanted: Mapping[str, int]) -> dict[str, int]:
        calls = Counter(row["tool"] for row in self.rows("tool_calls"))
        return {tool: calls[tool] for tool in wanted}

    def mcp_servers(self, wanted: Mapping[str, int]) -> dict[str, int]:
        calls = Counter(row["mcp_server"] for row in self.rows("tool_calls"))
        return {server: calls[server] for server in wanted}

    def tool_errors(self, _: int) -> int:
        return sum(row["outcome"] == "error" for row in self.rows("tool_calls"))

    def pending_tool_calls(self, _: int) -> int:
        """Calls without a result."""
        calls = self.rows("tool_calls")
        return sum(row["outcome"] in {"pending", "interrupted"} and row["result_bytes"] is None for row in calls)

    def tool_result_text_chars(self, wanted: Mapping[str, int]) -> dict[str, Any]:
        """By the client's own id of the call, with which ours ends."""
        calls = self.rows("tool_calls")
        return {call: next((r["result_chars"] for r in calls if r["call_id"].endswith(call)), None) for call in wanted}

    # skills and other items

    def _uses(self) -> list[tuple[str, str]]:
        by_tool = [(row["skill"], "tool") for row in self.rows("tool_calls") if row["kind"] == "skill"]
        events = self.rows("context_events")
        return by_tool + [(e["item"], "slash") for e in events if e["event"] == "loaded" and e["cause"] == "slash"]

    def skill_calls(self, wanted: Mapping[str, int]) -> dict[str, int]:
        calls = Counter(name for name, _ in self._uses())
        return {name: calls[name] for name in wanted}

    def skill_calls_by(self, wanted: Mapping[str, int]) -> dict[str, int]:
        calls = Counter(way for _, way in self._uses())
        return {way: calls[way] for way in wanted}

    def skills_in_context_at_end(self, _: list[str]) -> list[str]:
        rows: Rows = (
            self._warehouse.sql(
                "select item from int.item_intervals where item_kind = 'skill_body' and until_seq is null"
            )
            .table()
            .to_pylist()
        )
        return sorted({row["item"] for row in rows})

    def compactions(self, _: int) -> int:
        return sum(row["event"] == "compacted" for row in self.rows("context_events"))

    def skills(self, wanted: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        return {
            name: {
                column: total([row for row in self.rows("skills") if row["skill"] == name], column) for column in want
            }
            for name, want in wanted.items()
        }

    def skills_count(self, _: int) -> int:
        return len({row["skill"] for row in self.rows("skills")})

    def absent_skills(self, wanted: list[str]) -> list[str]:
        return [name for name in wanted if name not in {row["skill"] for row in self.rows("skills")}]

    def context(self, wanted: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """By kind and the end of the item's name: `tokens` is a size, all else adds up over projects."""
        found = {}
        for key, want in wanted.items():
            kind, _, name = key.partition(":")
            rows = [r for r in self.rows("context") if r["item_kind"] == kind and r["item"].endswith(name)]
            sizes = [row["tokens"] for row in rows if row["tokens"] is not None]
            found[key] = {c: max(sizes, default=None) if c == "tokens" else total(rows, c) for c in want}
        return found

    def measured(self, _: bool) -> bool:
        return any(row["overhead_measured"] for row in self.rows("skills"))

    def _idle(self, project: str | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in self.rows("idle"):
            if row["item_kind"] in {"skill", "agent"} and project in {None, row["project"]}:
                key = f"{row['item_kind']}:{row['item']}"
                found[key] = (
                    (found.get(key) or 0) + row["idle_cost"] if row["idle_cost"] is not None else found.get(key)
                )
        return found

    def idle(self, _: Mapping[str, int]) -> dict[str, Any]:
        return self._idle()

    def idle_projects(self, wanted: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        return {project: {key: self._idle(project).get(key) for key in want} for project, want in wanted.items()}

    def not_idle_projects(self, wanted: Mapping[str, list[str]]) -> dict[str, list[str]]:
        return {project: [key for key in want if key not in self._idle(project)] for project, want in wanted.items()}

    def cache_rewrites(self, _: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        rows = sorted(self.rows("cache_rewrites"), key=lambda row: row["gap_seconds"])
        return [{name: row[name] for name in ("gap_seconds", "rewritten_tokens", "cause")} for row in rows]

    def savings(self, wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """By tool; a tool that is not wanted must not be there."""
        found: dict[str, Any] = {tool: dict.fromkeys(want) for tool, want in wanted.items()}
        for row in self.rows("savings"):
            found[row["tool"]] = {name: row[name] for name in wanted.get(row["tool"], {"calls": 0})}
        return found

    # files

    def skipped_lines(self, _: int) -> Any:
        return total(self.rows("sources"), "skipped_lines")

    def warnings_at_least(self, wanted: int) -> int:
        return min(wanted, sum(len(row["warnings"]) for row in self.rows("sources")))


# --- comparing -------------------------------------------------------------------------------------------------------


def is_same(found: Any, wanted: Any) -> bool:
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(is_same(found[key], wanted[key]) for key in wanted)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, (int, float)) and isinstance(wanted, (int, float)):
        return abs(found - wanted) < 1e-6
    if found is None or wanted is None:
        # A sum of nothing is n/a and may be 0 in a case; that n/a is not shown as 0 is what `na_fields` asks.
        return found in (None, 0) and wanted in (None, 0)
    return bool(found == wanted)


def differences(lake: Path, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each answer that the case takes: the keys that differ, as (wanted, found)."""
    answers = [case["expect"], *(case["expect"] | other for other in case.get("accept_also") or [])]
    found = []
    with connect(lake) as warehouse:
        asked = Answers(warehouse)
        for answer in answers:
            given = {key: asked.to(key, want) for key, want in answer.items() if key not in NOT_ASKED}
            found.append({key: (answer[key], got) for key, got in given.items() if not is_same(got, answer[key])})
    return found


@pytest.mark.parametrize("path", CASES, ids=[f"{case.parent.name}/{case.name}" for case in CASES])
def test_case(tmp_path: Path, path: Path) -> None:
    case = told(path)
    prices = write_prices(case["prices"], tmp_path / "prices.csv") if case.get("prices") else None
    ingest(materialise(path, tmp_path / "case"), tmp_path / "lake", prices=prices)
    found = differences(tmp_path / "lake", case)
    assert {} in found, json.dumps(min(found, key=len), default=str, ensure_ascii=False)
    for key in NOT_ASKED.keys() & case["expect"].keys():
        pytest.skip(f"{key}: {NOT_ASKED[key]}; all else of the case holds")


@pytest.mark.parametrize("name", THROUGH_THE_PROGRAM)
def test_case_through_the_program(agentlens: Agentlens, tmp_path: Path, lake: Path, name: str) -> None:
    (path,) = (case for case in CASES if case.name == name)
    case = told(path)
    prices = ("--prices", write_prices(case["prices"], tmp_path / "prices.csv")) if case.get("prices") else ()
    home = materialise(path, tmp_path / "case")
    agentlens("ingest", "--home", home, "--lake", lake, "--quiet", *prices, code=0)
    assert {} in differences(lake, case)


@pytest.mark.parametrize("client", clients.names())
def test_client_has_cases(client: str) -> None:
    assert cases_of(client)


def test_every_key_of_a_case_is_asked() -> None:
    keys = {key for case in CASES for key in told(case)["expect"]} - SAME_NAME
    assert not {key for key in keys if not hasattr(Answers, key)} - NOT_KEPT.keys()
