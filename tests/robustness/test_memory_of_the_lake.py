"""Clients delete their own logs; the lake remembers, and leaves the clients' folders as they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Agentlens
from tests.robustness.transcripts import counts, listing, one, project, responses, said

SAMPLE = ROOT / "data" / "sample" / "home"
GONE = "gone_at is not null"


def gone(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:900])


def unreadable(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    path.chmod(0)


def replaced_by_junk(path: Path) -> None:
    path.write_bytes(os.urandom(4096))


@pytest.mark.parametrize("harm", [gone, emptied, cut, unreadable, replaced_by_junk], ids=lambda harm: harm.__name__)
def test_what_was_read_is_kept(agentlens: Agentlens, home: Path, lake: Path, harm: Callable[[Path], None]) -> None:
    folder = project(home)
    for name in ("kept", "harmed"):
        (folder / f"{name}.jsonl").write_bytes(responses(name, 0, 6))
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    harm(folder / "harmed.jsonl")
    done = agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(12)
    assert "harmed.jsonl" in done.stderr
    if harm is not unreadable:
        assert one(lake, f"select bool_or({GONE}) from sources where path like '%harmed.jsonl'") == (True,)
    assert one(lake, f"select bool_or({GONE}) from sources where path like '%kept.jsonl'") == (False,)
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(12)


def test_a_file_that_comes_back_is_no_longer_gone(agentlens: Agentlens, home: Path, lake: Path) -> None:
    path = project(home) / "back.jsonl"
    for content in (responses("s", 0, 3), None, responses("s", 0, 5)):
        path.write_bytes(content) if content else path.unlink()
        agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(5)
    assert one(lake, f"select bool_or({GONE}) from sources") == (False,)


def test_a_whole_home_that_is_gone_is_remembered(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 4))
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    shutil.rmtree(home / ".claude")
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(4)


def test_the_clients_folders_are_only_read(agentlens: Agentlens, home: Path, lake: Path) -> None:
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    before = listing(home)
    agentlens("run", "--home", home, "--lake", lake, "--output", lake.parent / "exports", code=0)
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert listing(home) == before


def test_nothing_new_writes_nothing(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 4))
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    before = [entry for entry in listing(lake) if entry.path.endswith(".parquet")]
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert [entry for entry in listing(lake) if entry.path.endswith(".parquet")] == before
