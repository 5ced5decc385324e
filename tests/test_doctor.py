"""The doctor finds what is wrong, says what to do, changes nothing, and fails only for what is broken."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.client import Home
from pipeline.doctor import Finding, Situation, examine, machine, worst
from pipeline.lake import lock
from tests.conftest import Agentlens
from tests.robustness.transcripts import listing, project, response, responses
from tests.tools.lakes import SAMPLE, ingest, sample_lake

Environ = dict[str, str]
Told = dict[str, Any]
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def copied(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """The lake of the sample, to be spoilt."""
    return shutil.copytree(sample_lake(tmp_path_factory.getbasetemp()), tmp_path / "copied")


def told(agentlens: Agentlens, *args: str | Path, code: int = 0) -> dict[str, list[Told]]:
    """What the doctor says, by check; each finding is well-formed, and the exit code follows from the worst."""
    done = agentlens("doctor", *args, "--format", "json", code=code)
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said.keys() == {"agentlens", "status", "checks"}
    assert (said["status"] == "broken") == (code == 1)
    by_check: dict[str, list[Told]] = {}
    for finding in said["checks"]:
        assert finding.keys() == {"check", "status", "message", "todo", "subject", "facts"}
        assert finding["status"] in {"ok", "note", "warning", "broken"}
        assert "\n" not in finding["message"]
        assert finding["status"] == "ok" or finding["todo"], finding
        by_check.setdefault(finding["check"], []).append(finding)
    return by_check


def broken(found: dict[str, list[Told]]) -> set[str]:
    return {check for check, findings in found.items() for f in findings if f["status"] == "broken"}


def situation(lake: Path, home: Path, **facts: Any) -> Situation:
    given: dict[str, Any] = {
        "clients": (),
        "now": NOW,
        "timezone": "UTC",
        "timezone_source": "$TZ",
        "utc_offset": timedelta(),
    }
    return Situation(lake=lake, home=Home(home, {}), **(given | facts))


def one(findings: list[Finding], check: str, subject: str | None = None) -> Finding:
    (found,) = (f for f in findings if f.check == check and (subject is None or f.subject == subject))
    return found


# --- a machine where all is well -------------------------------------------------------------------------------------


def test_the_sample_is_well(agentlens: Agentlens, copied: Path) -> None:
    found = told(agentlens, "--home", SAMPLE, "--lake", copied)
    clients = {f["subject"]: f["facts"]["files"] for f in found["client"] if f["facts"].get("files")}
    assert clients == {"claude-code": 7, "codex": 4}
    assert {f["subject"] for f in found["table"]} >= {"sources", "sessions", "requests", "tool_calls"}
    (requests,) = (f["facts"] for f in found["table"] if f["subject"] == "requests")
    assert (requests["files"], requests["most_files_per_partition"]) == (2, 1)
    assert requests["bytes"] == sum(path.stat().st_size for path in (copied / "requests").rglob("*.parquet"))
    assert [f["facts"]["models"] for f in found["unpriced"]] == [["house-coder-7b"]]
    (contracts,) = found["contracts"]
    assert contracts["status"] == "ok"
    assert contracts["facts"]["checks"] == contracts["facts"]["held"] > 200
    assert found["views"][0]["status"] == "note"  # they name the place that the lake was copied from
    assert [f["status"] for f in found["new_files"]] == ["ok"]
    assert [f["subject"] for f in found["last_ingest"]] == ["here"]


def test_it_changes_nothing_and_takes_no_lock(agentlens: Agentlens, tmp_path: Path, copied: Path) -> None:
    home = shutil.copytree(SAMPLE, tmp_path / "sample-home")
    (copied / "lake.lock").unlink(missing_ok=True)
    before = listing(copied), listing(home)
    told(agentlens, "--home", home, "--lake", copied)
    assert (listing(copied), listing(home)) == before


def test_while_another_run_holds_the_lake(agentlens: Agentlens, copied: Path) -> None:
    with lock(copied, 0):
        (holder,) = told(agentlens, "--home", SAMPLE, "--lake", copied)["lock"]
    assert holder["status"] == "note"
    assert f"pid {os.getpid()} " in holder["message"]
    assert told(agentlens, "--home", SAMPLE, "--lake", copied)["lock"][0]["status"] == "ok"


def test_the_table_has_a_line_a_finding_and_fits(agentlens: Agentlens, environ: Environ, copied: Path) -> None:
    environ["COLUMNS"] = "100"
    done = agentlens("doctor", "--home", SAMPLE, "--lake", copied, code=0)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    words = [line.split(maxsplit=1)[0] for line in lines if line and not line.startswith(" ")]
    assert set(words[:-1]) == {"ok", "note", "warning"}
    assert any(line.startswith("warning  unpriced") for line in lines)
    assert any("--prices FILE" in line and line.lstrip().startswith(">") for line in lines)
    assert max(map(len, lines)) <= 100 + len(str(copied))  # a path is not broken
    assert "\x1b" not in done.stdout


def test_only_one_client(agentlens: Agentlens, copied: Path) -> None:
    found = told(agentlens, "--home", SAMPLE, "--lake", copied, "--client", "codex")
    assert {f["subject"] for f in found["client"]} == {"codex"}
    assert found["last_ingest"][0]["facts"]["files"] == 4
    assert found["unpriced"][0]["status"] == "ok"  # the model without a price is Claude Code's


@pytest.mark.parametrize(
    "args", [["--client", "no-such-client"], ["--home", "nowhere"], ["--format", "csv"], ["--no-such-option"]]
)
def test_wrong_usage(agentlens: Agentlens, args: list[str]) -> None:
    done = agentlens("doctor", *args, code=2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


# --- clients' folders ------------------------------------------------------------------------------------------------


def test_a_machine_without_anything(agentlens: Agentlens, lake: Path) -> None:
    found = told(agentlens, "--lake", lake)
    assert {f["status"] for f in found["client"]} == {"note"}
    assert found["lake"][0]["status"] == "note"
    assert found["lake"][0]["todo"] == "agentlens run"
    assert not lake.exists()
    assert "contracts" not in found


def test_folders_that_variables_name(agentlens: Agentlens, environ: Environ, tmp_path: Path, lake: Path) -> None:
    (project(tmp_path / "moved") / "s.jsonl").write_bytes(responses("s", 0, 2))
    environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / "moved" / ".claude")
    environ["CODEX_HOME"] = str(tmp_path / "nowhere")
    found = {f["subject"]: f for f in told(agentlens, "--lake", lake)["client"]}
    assert found["claude-code"]["facts"]["variable"] == "CLAUDE_CONFIG_DIR"
    assert found["claude-code"]["facts"]["files"] == 1
    assert found["codex"]["status"] == "warning"
    assert "CODEX_HOME" in found["codex"]["todo"]
    ignored = {f["subject"]: f for f in told(agentlens, "--home", environ["HOME"], "--lake", lake)["client"]}
    assert {f["status"] for f in ignored.values()} == {"note"}


def test_a_folder_that_is_a_file(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (home / ".codex").write_text("", encoding="utf-8")
    found = told(agentlens, "--home", home, "--lake", lake, "--client", "codex")
    assert [(f["status"], "no folder" in f["message"]) for f in found["client"]] == [("warning", True)]


def test_files_of_no_known_format(agentlens: Agentlens, home: Path, lake: Path) -> None:
    """Before they are ingested, and after: then the lake says so."""
    (project(home) / "good.jsonl").write_bytes(responses("s", 0, 2))
    (project(home) / "strange.jsonl").write_bytes(b'{"hello": "world"}\n')
    before = told(agentlens, "--home", home, "--lake", lake)["unknown_format"]
    assert [(f["subject"], f["status"], f["facts"]["count"]) for f in before] == [("on disk", "warning", 1)]
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    (after,) = told(agentlens, "--home", home, "--lake", lake)["unknown_format"]
    assert after["facts"]["paths"] == [str(project(home) / "strange.jsonl")]
    assert after["status"] == "warning"


def test_new_skipped_and_gone(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "kept.jsonl").write_bytes(responses("kept", 0, 2) + b"{broken\n")
    (project(home) / "lost.jsonl").write_bytes(responses("lost", 0, 2))
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    (project(home) / "lost.jsonl").unlink()
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    (project(home) / "new.jsonl").write_bytes(responses("new", 0, 2))
    with (project(home) / "kept.jsonl").open("ab") as file:
        file.write(response("kept", 2))
    found = told(agentlens, "--home", home, "--lake", lake)
    assert found["new_files"][0]["facts"] == {"files": 2, "new_or_changed": 2}
    assert found["skipped_lines"][0]["facts"]["lines"] == 1
    assert found["skipped_lines"][0]["status"] == "warning"
    assert found["gone"][0]["facts"] == {"gone": 1, "files": 2}
    assert found["gone"][0]["status"] == "note"


def test_unreadable_folders_and_files(agentlens: Agentlens, home: Path, lake: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    (project(home) / "s.jsonl").chmod(0)
    (home / ".codex" / "sessions").mkdir(parents=True, mode=0)
    found = told(agentlens, "--home", home, "--lake", lake)
    assert found["unreadable"][0]["facts"]["count"] == 2
    assert found["unreadable"][0]["status"] == "warning"


def test_requests_without_usage(agentlens: Agentlens, home: Path, lake: Path) -> None:
    row = json.loads(response("s", 0))
    del row["message"]["usage"]
    (project(home) / "s.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    (finding,) = told(agentlens, "--home", home, "--lake", lake)["requests_without_usage"]
    assert (finding["status"], finding["facts"]) == ("note", {"requests": 1, "without_usage": 1})


# --- clock and zone --------------------------------------------------------------------------------------------------


def test_the_clock_against_the_newest_transcript(tmp_path: Path, home: Path, lake: Path) -> None:
    """The record is of 2026-11-01 00:00 UTC; where the file is gone, the lake knows."""
    path = project(home) / "s.jsonl"
    path.write_bytes(response("s", 0))
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    os.utime(path, (moment.timestamp(), moment.timestamp()))
    ingest(home, lake)
    for days, status in ((0, "ok"), (29, "ok"), (31, "note"), (-1, "warning")):
        now = moment + timedelta(days=days)
        assert one(examine(situation(lake, home, now=now)), "clock").status == status, days
    elsewhere = one(examine(situation(lake, tmp_path / "none", now=moment - timedelta(days=1))), "clock")
    assert elsewhere.status == "warning"


def test_a_file_from_the_future(home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(response("s", 0))
    later = (NOW + timedelta(days=2)).timestamp()
    os.utime(project(home) / "s.jsonl", (later, later))
    finding = one(examine(situation(lake, home)), "clock")
    assert finding.status == "warning"
    assert finding.facts["in_future"] == [str(project(home) / "s.jsonl")]


def test_the_zone_and_where_it_is_from(agentlens: Agentlens, environ: Environ, lake: Path) -> None:
    environ["TZ"] = "Asia/Tokyo"
    (zone,) = told(agentlens, "--lake", lake)["timezone"]
    assert zone["facts"] == {"timezone": "Asia/Tokyo", "source": "$TZ", "utc_offset_seconds": 9 * 3600}
    environ["TZ"] = "XXX-5"  # a rule that is no name
    (zone,) = told(agentlens, "--lake", lake)["timezone"]
    assert zone["status"] == "warning"
    assert zone["facts"]["utc_offset_seconds"] == 5 * 3600


def test_extras_are_those_of_the_package() -> None:
    assert "anthropic" in machine.extras()["exact"]
    assert "dev" not in machine.extras()


# --- lakes that are not well -----------------------------------------------------------------------------------------


def test_a_lake_that_is_a_file(agentlens: Agentlens, environ: Environ, lake: Path) -> None:
    lake.write_text("", encoding="utf-8")
    assert broken(told(agentlens, "--lake", lake, code=1)) == {"lake"}
    environ["AGENTLENS_LAKE"] = str(lake)
    assert broken(told(agentlens, code=1)) == {"lake"}


def test_a_folder_that_is_no_lake(agentlens: Agentlens, home: Path, tmp_path: Path) -> None:
    (lake,) = told(agentlens, "--home", home, "--lake", tmp_path)["lake"]
    assert lake["status"] == "note"
    assert "holds no lake" in lake["message"]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    """The footer is whole, and what it tells of is not."""
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 3] = bytes(byte ^ 0xFF for byte in data[4 : len(data) // 3])
    path.write_bytes(data)


def test_damaged_files_are_named_and_the_advice_helps(agentlens: Agentlens, copied: Path) -> None:
    spoilt = {}
    for table, spoil in (("requests", truncated), ("prompts", empty), ("tool_calls", flipped)):
        path = next((copied / table / "client=codex").rglob("*.parquet"))
        spoil(path)
        spoilt[str(path.relative_to(copied))] = path
    found = told(agentlens, "--home", SAMPLE, "--lake", copied, code=1)
    assert found["parquet"][0]["facts"]["damaged"].keys() == spoilt.keys()
    assert "usage" in {view for f in found["contracts"] for view in f["facts"].get("failed_views", [])}
    assert found["skipped_lines"][0]["status"] == "ok"  # what other tables say is still told
    assert "--reread" in found["parquet"][0]["todo"]
    for number, path in enumerate(spoilt.values()):
        path.rename(copied.parent / f"{number}.parquet")
    agentlens("ingest", "--reread", "--home", SAMPLE, "--machine", "here", "--lake", copied, code=0)
    assert not broken(told(agentlens, "--home", SAMPLE, "--lake", copied))


def rewritten(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for path in folder.rglob("*.parquet"):
        with pq.ParquetFile(path) as file:
            rows = file.read()
        pq.write_table(change(rows), path)


def test_a_lake_of_a_newer_version(agentlens: Agentlens, copied: Path) -> None:
    rewritten(copied / "requests", lambda rows: rows.append_column("mood", pa.nulls(rows.num_rows, pa.string())))
    (copied / "moods" / "client=codex" / "month=2026-11").mkdir(parents=True)
    found = told(agentlens, "--home", SAMPLE, "--lake", copied)
    (newer,) = found["schema"]
    assert newer["status"] == "note"
    assert newer["facts"]["columns"] == ["requests: mood"]


def test_a_lake_of_an_older_version(agentlens: Agentlens, copied: Path) -> None:
    rewritten(copied / "requests", lambda rows: rows.drop_columns(["speed"]))
    found = told(agentlens, "--home", SAMPLE, "--lake", copied, code=1)
    assert found["schema"][0]["facts"]["columns"] == ["requests: speed"]
    assert "agentlens ingest" in found["schema"][0]["todo"]


def test_a_contract_that_is_broken(agentlens: Agentlens, copied: Path) -> None:
    def negative(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("input_tokens")
        return rows.set_column(at, rows.schema.field(at), pa.array([-5] * rows.num_rows, pa.int64()))

    rewritten(copied / "requests" / "client=codex", negative)
    found = told(agentlens, "--home", SAMPLE, "--lake", copied, code=1)
    (facts,) = (
        f["facts"]
        for f in found["contracts"]
        if (f["subject"], f["facts"].get("column")) == ("requests", "input_tokens")
    )
    assert facts == {"column": "input_tokens", "kind": "range", "rows": 20}


def test_leftovers_of_a_run_that_was_killed(agentlens: Agentlens, copied: Path) -> None:
    folder = next((copied / "requests" / "client=codex").iterdir())
    (folder / "here-000000.parquet.99.tmp").write_bytes(b"half of it")
    (copied / "lake.lock.holder").write_text(f"pid 999999999 on {os.uname().nodename} since then", encoding="utf-8")
    found = told(agentlens, "--home", SAMPLE, "--lake", copied)
    assert found["temporary_files"][0]["facts"]["bytes"] == 10
    assert "killed" in found["lock"][0]["message"]


def test_a_state_file_that_is_none(agentlens: Agentlens, copied: Path) -> None:
    (copied / "state" / "here.sqlite").write_bytes(b"no database at all, and long enough to be looked at" * 9)
    found = told(agentlens, "--home", SAMPLE, "--lake", copied, code=1)
    assert broken(found) == {"state"}
    assert "remove that file" in found["state"][0]["todo"]


def test_views_that_are_none_are_told_and_not_needed(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert told(agentlens, "--home", home, "--lake", lake)["views"][0]["status"] == "ok"
    (lake / "agentlens.duckdb").write_bytes(b"no database")
    found = told(agentlens, "--home", home, "--lake", lake, code=1)
    assert broken(found) == {"views"}
    (lake / "agentlens.duckdb").unlink()
    found = told(agentlens, "--home", home, "--lake", lake)
    assert found["views"][0]["status"] == "note"
    assert found["contracts"][0]["status"] == "ok"
    assert not (lake / "agentlens.duckdb").exists()


def test_the_worst_counts() -> None:
    findings = [Finding("a", "note", ""), Finding("b", "warning", ""), Finding("c", "ok", "")]
    assert worst(findings) == "warning"
    assert worst([]) == "ok"
