"""Incremental reading: what is opened, what is replaced, what is kept; and machines that share a lake."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline import contracts
from pipeline import ingest as module
from pipeline.client import Home, Parsed
from pipeline.errors import LakeError
from pipeline.ingest import Options, run
from pipeline.jsonl import open_source
from pipeline.manifest import Manifest
from pipeline.warehouse import refresh
from tests.robustness.transcripts import counts, project, response, responses, said
from tests.tools.lakes import MACHINE, SAMPLE, Rows, ask, ingest


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the transcripts that were opened."""
    names: list[str] = []
    original = open_source

    def note(path: Path) -> Any:
        names.append(path.name)
        return original(path)

    monkeypatch.setattr(module, "open_source", note)
    return names


def write(home: Path, name: str, data: bytes) -> Path:
    path = project(home) / f"{name}.jsonl"
    path.write_bytes(data)
    return path


def sources(lake: Path) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for row in ask(lake, "sources"):
        found.setdefault(Path(row["path"]).stem, []).append(row)
    return found


def parquet_files(lake: Path) -> dict[str, int]:
    return {str(path.relative_to(lake)): path.stat().st_mtime_ns for path in lake.glob("*/client=*/**/*.parquet")}


# --- what is read ----------------------------------------------------------------------------------------------------


def test_an_unchanged_file_is_not_opened(home: Path, lake: Path, opened: list[str]) -> None:
    write(home, "a", responses("a", 0, 3))
    write(home, "b", responses("b", 0, 3))
    first = ingest(home, lake)
    assert (first.found, first.read, first.unchanged, sorted(opened)) == (2, 2, 0, ["a.jsonl", "b.jsonl"])
    assert (first.lines, first.requests, first.skipped_lines) == (6, 6, 0)
    opened.clear()
    again = ingest(home, lake)
    assert (again.found, again.read, again.unchanged, opened) == (2, 0, 2, [])


def test_an_appended_file_is_read_again_and_no_other(home: Path, lake: Path, opened: list[str]) -> None:
    path = write(home, "a", responses("a", 0, 3))
    write(home, "b", responses("b", 0, 3))
    ingest(home, lake)
    opened.clear()
    with path.open("ab") as file:
        file.write(response("a", 3))
    assert ingest(home, lake).read == 1
    assert opened == ["a.jsonl"]
    assert said(lake) == counts(7)
    assert {name: len(rows) for name, rows in sources(lake).items()} == {"a": 1, "b": 1}


def test_an_appended_file_costs_the_rewriting_of_its_pack_alone(
    monkeypatch: pytest.MonkeyPatch, home: Path, lake: Path
) -> None:
    monkeypatch.setattr(module, "PACK_BYTES", 1)  # each file is a pack
    for number in range(4):
        path = write(home, f"s{number}", responses(f"s{number}", 0, 3))
    ingest(home, lake)
    before = parquet_files(lake)
    with path.open("ab") as file:
        file.write(response("s3", 3))
    ingest(home, lake)
    changed = {name for name, mtime in parquet_files(lake).items() if before.get(name) != mtime}
    assert changed
    assert len({name.rpartition("-")[2] for name in changed}) == 1
    assert said(lake) == counts(13)


def test_a_file_that_was_touched_keeps_its_rows_once(home: Path, lake: Path) -> None:
    path = write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    os.utime(path, ns=(1, 1))
    assert ingest(home, lake).read == 1
    assert said(lake) == counts(3)


def test_reread_reads_all(home: Path, lake: Path, opened: list[str]) -> None:
    write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    opened.clear()
    report = run(Options(lake, Home(home, {}), MACHINE, reread=True))
    assert (report.read, opened) == (1, ["a.jsonl"])
    assert said(lake) == counts(3)


def test_a_newer_parser_reads_its_files_again(monkeypatch: pytest.MonkeyPatch, home: Path, lake: Path) -> None:
    from pipeline.clients.claude_code import CLIENT

    write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    monkeypatch.setattr(CLIENT, "parser_version", CLIENT.parser_version + 1, raising=False)
    assert ingest(home, lake).read == 1
    assert sources(lake)["a"][0]["parser_version"] == CLIENT.parser_version
    assert ingest(home, lake).read == 0


def test_only_the_clients_that_were_asked_for(home: Path, lake: Path) -> None:
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    codex = ingest(home, lake, names=("codex",))
    assert {row["client"] for row in ask(lake, "sources")} == {"codex"}
    both = ingest(home, lake)
    assert both.found == codex.found + both.read
    assert both.gone == 0


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_keeps_its_old_rows(home: Path, lake: Path) -> None:
    path = write(home, "a", responses("a", 0, 6))
    ingest(home, lake)
    path.write_bytes(responses("a", 0, 2))
    report = ingest(home, lake)
    assert [warning for warning in report.warnings if "cut or replaced" in warning]
    assert said(lake) == counts(6)
    old, new = sorted(sources(lake)["a"], key=lambda row: row["gone_at"] is None)
    assert (old["gone_at"] is None, new["gone_at"], old["lines"], new["lines"]) == (False, None, 6, 2)
    with path.open("ab") as file:
        file.write(responses("a", 6, 9))
    ingest(home, lake)
    assert said(lake) == counts(9)
    assert len(sources(lake)["a"]) == 2


def test_a_file_that_was_replaced_keeps_its_old_rows(home: Path, lake: Path) -> None:
    path = write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    path.write_bytes(responses("other", 0, 7))
    ingest(home, lake)
    assert said(lake) == counts(10)
    path.write_bytes(responses("third", 0, 9))
    ingest(home, lake)
    assert said(lake) == counts(19)
    assert len({row["source_id"] for row in sources(lake)["a"]}) == 3
    assert ingest(home, lake).read == 0


def test_a_file_that_went_and_came_back_unchanged_is_not_read_again(
    home: Path, lake: Path, tmp_path: Path, opened: list[str]
) -> None:
    path = write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    path.rename(tmp_path / "aside")
    report = ingest(home, lake)
    assert (report.gone, report.found) == (1, 0)
    assert [warning for warning in report.warnings if warning.startswith(f"{path}: ")]
    (row,) = sources(lake)["a"]
    first_missed = row["gone_at"]
    assert first_missed is not None
    assert ingest(home, lake).warnings == [], "told once"
    assert sources(lake)["a"][0]["gone_at"] == first_missed
    (tmp_path / "aside").rename(path)
    opened.clear()
    ingest(home, lake)
    assert (sources(lake)["a"][0]["gone_at"], opened) == (None, [])
    assert said(lake) == counts(3)


def test_a_renamed_file_counts_once(home: Path, lake: Path) -> None:
    path = write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    path.rename(path.with_name("b.jsonl"))
    ingest(home, lake)
    assert said(lake) == counts(3)
    assert sources(lake)["a"][0]["gone_at"] is not None
    assert sources(lake)["b"][0]["gone_at"] is None


def test_another_home_does_not_make_files_gone(home: Path, lake: Path, tmp_path: Path) -> None:
    write(home, "a", responses("a", 0, 3))
    write(tmp_path / "second", "b", responses("b", 0, 2))
    ingest(home, lake)
    assert ingest(tmp_path / "second", lake).gone == 0
    assert said(lake) == counts(5)
    assert not [row for rows in sources(lake).values() for row in rows if row["gone_at"]]


def test_a_file_that_turns_to_junk_keeps_its_rows_and_is_told_once(home: Path, lake: Path) -> None:
    path = write(home, "a", responses("a", 0, 3))
    ingest(home, lake)
    head = path.read_bytes()
    path.write_bytes(head + b"\xff\xfe junk\n" * 5)
    report = ingest(home, lake)
    assert said(lake) == counts(3)
    assert report.skipped_lines == 5
    assert sources(lake)["a"][0]["skipped_lines"] == 5


# --- bad sources -----------------------------------------------------------------------------------------------------


def test_a_file_of_no_known_format_is_a_warning_and_read_once(home: Path, lake: Path, opened: list[str]) -> None:
    write(home, "junk", b'{"kind": "other"}\n')
    report = ingest(home, lake)
    assert (report.read, report.failed) == (1, 0)
    assert [warning for warning in report.warnings if "junk.jsonl" in warning]
    assert sources(lake)["junk"][0]["warnings"]
    opened.clear()
    ingest(home, lake)
    assert opened == []


def test_a_parser_that_fails_costs_its_file_alone(monkeypatch: pytest.MonkeyPatch, home: Path, lake: Path) -> None:
    from pipeline.clients.claude_code import ClaudeCode

    original = ClaudeCode.parse

    def parse(self: ClaudeCode, source: Any, stream: Any, report: Any) -> Parsed:
        if source.path.stem == "bad":
            raise ZeroDivisionError("a fault of the parser")
        return original(self, source, stream, report)

    monkeypatch.setattr(ClaudeCode, "parse", parse)
    write(home, "bad", responses("bad", 0, 3))
    write(home, "good", responses("good", 0, 3))
    report = ingest(home, lake)
    assert said(lake) == counts(3)
    assert [warning for warning in report.warnings if "bad.jsonl: not read: ZeroDivisionError" in warning]


def test_rows_that_fit_no_table_cost_their_file_alone(monkeypatch: pytest.MonkeyPatch, home: Path, lake: Path) -> None:
    from pipeline.clients.claude_code import ClaudeCode

    original = ClaudeCode.parse

    def parse(self: ClaudeCode, source: Any, stream: Any, report: Any) -> Parsed:
        parsed = original(self, source, stream, report)
        if source.path.stem == "bad":
            parsed.requests[0].input_tokens = 2**70
        return parsed

    monkeypatch.setattr(ClaudeCode, "parse", parse)
    write(home, "bad", responses("bad", 0, 3))
    write(home, "good", responses("good", 0, 3))
    report = ingest(home, lake)
    assert said(lake) == counts(3)
    assert report.failed == 1
    assert [warning for warning in report.warnings if "bad.jsonl: not read" in warning]


HUGE = str(2**63 - 1).encode()


def test_counts_whose_sum_fits_no_column_cost_no_run(home: Path, lake: Path) -> None:
    """Each number of the response may fit, and the context that they make not."""
    huge = response("huge", 0).replace(b'"input_tokens": 3', b'"input_tokens": ' + HUGE)
    write(home, "huge", huge.replace(b'"cache_read_input_tokens": 1000', b'"cache_read_input_tokens": ' + HUGE))
    write(home, "good", responses("good", 0, 3))
    report = ingest(home, lake)
    assert [warning for warning in report.warnings if "huge.jsonl" in warning]
    (good,) = (row for row in ask(lake, "sessions") if row["session_id"] == "good")
    assert good["output_tokens"] == counts(3)[2]


@pytest.mark.parametrize("view", contracts.public_names())
def test_absurd_counts_of_one_file_cost_no_view(home: Path, lake: Path, view: str) -> None:
    write(home, "absurd", responses("absurd", 0, 3).replace(b'"output_tokens": 20', b'"output_tokens": ' + HUGE))
    write(home, "good", responses("good", 0, 3))
    ingest(home, lake)
    ask(lake, view)


def test_a_compressed_file_and_a_damaged_one(home: Path, lake: Path) -> None:
    folder = home / ".codex" / "sessions" / "2026" / "03" / "01"
    folder.mkdir(parents=True)
    found = next((SAMPLE / ".codex").rglob("*.jsonl"))
    packed = zstandard.ZstdCompressor().compress(found.read_bytes())
    whole = folder / f"{found.name}.zst"
    whole.write_bytes(packed)
    torn = folder / "rollout-2026-03-01T09-00-00-00000000-0000-7000-8000-00000000000f.jsonl.zst"
    torn.write_bytes(b"\x28\xb5\x2f\xfd" + packed[40:])
    report = ingest(home, lake)
    with open_source(whole) as stream:
        assert stream.read() == found.read_bytes()
    assert ask(lake, "requests")
    assert [warning for warning in report.warnings if torn.name in warning]
    assert not [warning for warning in report.warnings if whole.name in warning]


def test_a_lake_that_cannot_be_written(home: Path, tmp_path: Path) -> None:
    write(home, "a", responses("a", 0, 3))
    (tmp_path / "file").touch()
    with pytest.raises(LakeError):
        run(Options(tmp_path / "file" / "lake", Home(home, {}), MACHINE))


# --- many files, many machines ---------------------------------------------------------------------------------------


def test_workers_give_the_same_lake_as_one_process(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "PACK_BYTES", 2000)
    monkeypatch.setattr(module, "IN_PROCESS_BYTES", 0)
    for number in range(6):
        write(home, f"s{number}", responses(f"s{number}", 0, 4))
    seen: list[tuple[int, int]] = []
    for name, jobs in (("one", 1), ("two", 2)):
        run(
            Options(tmp_path / name, Home(home, {}), MACHINE, jobs=jobs), lambda done, total: seen.append((done, total))
        )
    assert parquet_contents(tmp_path / "one") == parquet_contents(tmp_path / "two")
    assert seen[-1][0] == seen[-1][1]


def parquet_contents(lake: Path) -> dict[str, bytes]:
    """All files but those that tell when they were read."""
    return {
        str(path.relative_to(lake)): path.read_bytes()
        for path in lake.glob("*/client=*/**/*.parquet")
        if path.relative_to(lake).parts[0] != "sources"
    }


def test_lakes_of_two_machines_are_merged_by_copying(home: Path, tmp_path: Path) -> None:
    write(home, "a", responses("a", 0, 3))
    write(tmp_path / "second", "b", responses("b", 0, 2))
    ingest(home, tmp_path / "one", machine="one")
    ingest(tmp_path / "second", tmp_path / "two", machine="two")
    for table in (tmp_path / "two").glob("*/client=*"):
        shutil.copytree(table, tmp_path / "one" / table.parent.name / table.name, dirs_exist_ok=True)
    assert said(tmp_path / "one") == counts(5)
    assert {row["machine"] for row in ask(tmp_path / "one", "requests")} == {"one", "two"}
    report = ingest(home, tmp_path / "one", machine="one")
    assert (report.read, report.gone) == (0, 0)
    assert said(tmp_path / "one") == counts(5)


def test_two_machines_that_read_the_same_files_count_them_once(home: Path, lake: Path) -> None:
    """A home on a shared disk, or a copy of one."""
    write(home, "a", responses("a", 0, 3))
    for machine in ("one", "two"):
        ingest(home, lake, machine=machine)
    assert said(lake) == counts(3)
    assert len(ask(lake, "sources")) == 2


def test_a_lake_of_no_transcripts_answers(home: Path, lake: Path) -> None:
    report = ingest(home, lake)
    assert (report.found, report.read) == (0, 0)
    assert report.mb_per_second is None
    assert ask(lake, "usage") == ask(lake, "skills") == ask(lake, "requests") == []
    assert Manifest(lake, MACHINE).read() is not None
    refresh(lake)
