"""What is installed, kept as history from run to run."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest  # noqa: TC002 - as in every other file of tests

from pipeline import inventory
from pipeline.client import Home, sha256
from pipeline.clients.claude_code import ClaudeCode
from pipeline.config import ConfigFiles, Found
from pipeline.ingest import Options, run
from pipeline.manifest import Manifest
from tests.robustness.transcripts import listing, project, responses
from tests.tools.lakes import MACHINE, SAMPLE, Rows, ask, ingest, query

BEFORE = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
FIELDS = "item, baseline_chars, valid_from, valid_to"


def skill(home: Path, name: str, description: str, mtime: float | None = BEFORE) -> Path:
    path = home / ".claude" / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\ndescription: {description}\n---\nBody.\n", encoding="utf-8")
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def items(lake: Path) -> Rows:
    return query(lake, f"select {FIELDS} from lake.items order by item, valid_from")


def row(name: str, description: str, since: Any, until: Any = None) -> dict[str, Any]:
    return {"item": name, "baseline_chars": len(f"- {name}: {description}"), "valid_from": since, "valid_to": until}


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_new_item_is_valid_since_its_file(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    ahead = time.time() + 86_400
    skill(home, "b", "of tomorrow", ahead)
    ingest(home, lake)
    first, second = items(lake)
    assert first == row("a", "old", moment(BEFORE))
    assert second["valid_from"] < moment(ahead)


def test_a_changed_text_ends_and_a_new_row_begins(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    ingest(home, lake)
    skill(home, "a", "newer", BEFORE + 40 * 86_400)
    ingest(home, lake)
    changed = moment(BEFORE + 40 * 86_400)
    assert items(lake) == [row("a", "old", moment(BEFORE), changed), row("a", "newer", changed)]
    assert sorted(path.parent.name for path in lake.glob("items/**/*.parquet")) == ["month=2026-01", "month=2026-02"]


def test_a_text_that_was_put_back_in_time_begins_when_it_is_seen(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    ingest(home, lake)
    skill(home, "a", "older", BEFORE - 86_400)
    ingest(home, lake)
    old, new = items(lake)
    assert old["valid_from"] < old["valid_to"] == new["valid_from"]
    assert new["valid_to"] is None


def test_what_is_gone_ends_and_what_comes_back_begins_anew(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    path = skill(home, "b", "other")
    ingest(home, lake)
    shutil.rmtree(path.parent)
    ingest(home, lake)
    kept, gone = items(lake)
    assert kept["valid_to"] is None
    assert gone["valid_to"] > gone["valid_from"]
    skill(home, "b", "other")
    ingest(home, lake)
    assert [r["valid_to"] is None for r in items(lake)] == [True, False, True]
    assert items(lake)[2]["valid_from"] == gone["valid_to"]


def test_nothing_new_reads_and_writes_nothing(home: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    ingest(home, lake)
    before = listing(lake)

    def never(*_: Any) -> None:
        raise AssertionError("the configuration was read")

    monkeypatch.setattr(ClaudeCode, "items", never)
    assert not ingest(home, lake).warnings
    assert listing(lake) == before
    state = Manifest(lake, MACHINE).read()
    assert state
    started = time.perf_counter()
    assert not inventory.questions(Home(home, {}), ("claude-code", "codex"), state.meta)
    assert time.perf_counter() - started < 0.2  # it takes a hundredth of that


def test_another_entry_of_the_same_length_is_another_text() -> None:
    """What is listed of a file may change with the settings alone."""
    one = Found("skill", "a", "user", "/h/SKILL.md", 1_000, baseline_chars=9, sha256="file", baseline_sha256="one")
    (first,) = inventory.history([], {"i": one}, ConfigFiles(), 50)["1970-01"]
    assert not inventory.history([first], {"i": one}, ConfigFiles(), 60)
    other = replace(one, baseline_sha256="other")
    old, new = inventory.history([first], {"i": other}, ConfigFiles(), 70)["1970-01"]
    assert (old.baseline_sha256, old.valid_from, old.valid_to) == ("one", 1, 70)
    assert (new.baseline_sha256, new.valid_from, new.valid_to) == ("other", 70, None)


def test_a_lake_of_before_the_hashes_of_entries(home: Path, lake: Path) -> None:
    """It opens; and a text whose file is as it was gets its hash without a new row."""
    skill(home, "a", "old")
    skill(home, "b", "old")
    ingest(home, lake)
    before = items(lake)
    for path in lake.glob("items/**/*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["baseline_sha256"]), path)
    Manifest(lake, MACHINE).note(schema="older", **{"items:claude-code": "{}"})
    assert query(lake, "select distinct baseline_sha256 from lake.items") == [{"baseline_sha256": None}]
    skill(home, "b", "new", BEFORE + 86_400)
    ingest(home, lake)
    assert items(lake) == [
        before[0],
        before[1] | {"valid_to": moment(BEFORE + 86_400)},
        row("b", "new", moment(BEFORE + 86_400)),
    ]
    found = query(lake, "select baseline_sha256 from lake.items order by item, valid_from")
    assert [r["baseline_sha256"] for r in found] == [sha256("- a: old"), None, sha256("- b: new")]


def test_an_older_file_of_another_machine_is_read_beside_newer_ones(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    ingest(home, lake)
    (path,) = lake.glob("items/**/*.parquet")
    older = pq.read_table(path, partitioning=None).drop_columns(["baseline_sha256"])
    for name in ("another-items.parquet", "zebra-items.parquet"):
        pq.write_table(older, path.with_name(name))
    found = query(lake, "select baseline_sha256 from lake.items order by baseline_sha256 nulls last")
    assert [r["baseline_sha256"] for r in found] == [sha256("- a: old"), None, None]


def test_a_file_that_was_touched_changes_no_row(home: Path, lake: Path) -> None:
    path = skill(home, "a", "old")
    ingest(home, lake)
    files = {file: file.stat().st_mtime_ns for file in lake.glob("items/**/*.parquet")}
    os.utime(path)
    ingest(home, lake)
    assert {file: file.stat().st_mtime_ns for file in lake.glob("items/**/*.parquet")} == files


def test_another_home_ends_nothing(home: Path, lake: Path, tmp_path: Path) -> None:
    skill(home, "a", "old")
    ingest(home, lake)
    skill(tmp_path / "other", "b", "its own")
    ingest(tmp_path / "other", lake)
    assert [r["valid_to"] for r in items(lake)] == [None, None]


def test_what_cannot_be_read_is_not_gone(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    (home / ".claude.json").write_text('{"mcpServers": {"db": {}}}')
    ingest(home, lake)
    (home / ".claude.json").write_text('{"mcpServers": {"db": {')
    report = ingest(home, lake)
    assert [r["valid_to"] for r in items(lake)] == [None, None]
    assert [text.partition(": ")[0] for text in report.warnings] == [str(home / ".claude.json")]


def test_a_reader_that_fails_costs_no_run(home: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skill(home, "a", "old")
    ingest(home, lake)

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(ClaudeCode, "items", fail)
    skill(home, "b", "new")
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 1))
    report = ingest(home, lake)
    assert report.warnings == ["claude-code: its configuration is not read: ZeroDivisionError: oh"]
    assert report.read == 1
    assert len(items(lake)) == 1


def test_the_projects_of_sessions_are_read(home: Path, lake: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / ".claude").mkdir(parents=True)
    (app / "CLAUDE.md").write_text("12345678")
    os.utime(app / "CLAUDE.md", (BEFORE, BEFORE))
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2).replace(b'"/w/app"', f'"{app}"'.encode()))
    ingest(home, lake)
    (found,) = [r for r in ask(lake, "context") if r["evidence"] == "config"]
    assert (found["project"], found["item"], found["scope"], found["requests"]) == (str(app), "CLAUDE.md", "project", 2)
    assert found["overhead_tokens"] == 4
    # Also if the notes were lost, and for a machine that read it with a version that kept no notes.
    (lake / "state" / f"{MACHINE}.sqlite").unlink()
    (app / "CLAUDE.local.md").write_text("new")
    ingest(home, lake)
    assert [r["item"] for r in items(lake)] == ["CLAUDE.local.md", "CLAUDE.md"]


def test_an_item_is_carried_only_while_it_was_installed(home: Path, lake: Path) -> None:
    """By sessions that began before it was there, and after it was found to be gone: not."""
    (project(home) / "before.jsonl").write_bytes(responses("before", 0, 1))
    ingest(home, lake)
    started = ask(lake, "sessions")[0]["started_at"].timestamp()
    path = skill(home, "a", "old", started - 1)
    late = skill(home, "late", "too late", started + 1)
    ingest(home, lake)
    assert [(r["item"], r["requests"]) for r in ask(lake, "context") if r["evidence"] == "config"] == [("a", 1)]
    shutil.rmtree(path.parent)
    shutil.rmtree(late.parent)
    ingest(home, lake)
    assert [r["item"] for r in ask(lake, "context") if r["evidence"] == "config"] == ["a"]


def test_only_the_clients_that_were_asked_for(home: Path, lake: Path) -> None:
    skill(home, "a", "old")
    run(Options(lake, Home(home, {}), MACHINE, clients=("codex",)))
    assert not list(lake.glob("items/**/*.parquet"))
    ingest(home, lake)
    assert len(items(lake)) == 1


def test_no_text_is_kept(home: Path, lake: Path) -> None:
    skill(home, "a", "a-description-to-look-for")
    ingest(home, lake)
    for path in lake.rglob("*"):
        assert not path.is_file() or b"to-look-for" not in path.read_bytes()
