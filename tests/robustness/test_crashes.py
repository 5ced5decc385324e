"""Killed at any moment, out of space, or twice at once: the next run ends in the lake of an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from tests.conftest import Agentlens
from tests.robustness.killing import MOMENTS, deadly
from tests.robustness.transcripts import corpus, counts, response, said, stored

FILES, EACH = 40, 250


def start(args: list[str], environ: dict[str, str], cwd: Path, *prefix: str) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-m", "pipeline", *args]
    quiet = {name: value for name, value in environ.items() if not name.startswith("COVERAGE_")}
    return subprocess.Popen(
        command,
        env=quiet,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ingest(home: Path, lake: Path) -> list[str]:
    return ["ingest", "--home", str(home), "--lake", str(lake), "--machine", "here"]


@pytest.fixture
def undisturbed(environ: dict[str, str], tmp_path: Path, home: Path) -> tuple[Path, float]:
    """The lake of a run that nothing disturbed, and how long it took."""
    total = corpus(home, FILES, EACH)
    lake, begun = tmp_path / "undisturbed", time.monotonic()
    process = start(ingest(home, lake), environ, tmp_path)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert said(lake) == counts(total)
    return lake, time.monotonic() - begun


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9], ids=lambda share: f"after-{share:.2f}")
def test_killed_and_run_again(
    environ: dict[str, str], tmp_path: Path, home: Path, lake: Path, undisturbed: tuple[Path, float], share: float
) -> None:
    whole, seconds = undisturbed
    process = start(ingest(home, lake), environ, tmp_path)
    time.sleep(seconds * share)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    readable(lake)
    again = start(ingest(home, lake), environ, tmp_path)
    _, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr
    same(lake, whole)


def test_killed_while_a_change_is_read(
    environ: dict[str, str], tmp_path: Path, home: Path, undisturbed: tuple[Path, float]
) -> None:
    lake, seconds = undisturbed
    changed = sorted((home / ".claude").rglob("*.jsonl"))[: FILES // 2]
    for path in changed:
        with path.open("ab") as file:
            file.write(response(path.stem, EACH))
    for share in (0.3, 0.5, 0.7):
        process = start(ingest(home, lake), environ, tmp_path)
        time.sleep(seconds * share)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        readable(lake)
        assert len(stored(lake)) in range(FILES * EACH, FILES * EACH + len(changed) + 1), "rows were lost or doubled"
    again = start(ingest(home, lake), environ, tmp_path)
    _, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr
    assert said(lake) == counts(FILES * EACH + len(changed))
    assert len(stored(lake)) == FILES * EACH + len(changed)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_the_inventory_is_written(
    environ: dict[str, str], tmp_path: Path, home: Path, lake: Path, moment: str
) -> None:
    """A text that changed ends in a file of one month and begins in one of another: both, or neither."""
    corpus(home, 1, 3)
    skill = home / ".claude" / "skills" / "a" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    undisturbed = tmp_path / "undisturbed"
    for when, description in ((1_767_225_600, "old"), (1_772_323_200, "new")):  # of January, of March
        skill.write_text(f"---\ndescription: {description}\n---\n", encoding="utf-8")
        os.utime(skill, (when, when))
        finished(start(ingest(home, undisturbed), environ, tmp_path))
        if description == "old":
            finished(start(ingest(home, lake), environ, tmp_path))
    before, after = stored(lake, "items"), stored(undisturbed, "items")
    assert (len(before), len(after)) == (1, 2)
    process = start(ingest(home, lake), deadly(environ, tmp_path / "hook", moment, "items"), tmp_path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    readable(lake)
    finished(start(ingest(home, lake), environ, tmp_path))
    assert stored(lake, "items") == after
    same(lake, undisturbed)


def finished(process: subprocess.Popen[str]) -> None:
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr


@pytest.mark.parametrize("kib", [4, 64, 200], ids=lambda kib: f"{kib}-KiB")
def test_no_space_left(
    environ: dict[str, str], tmp_path: Path, home: Path, lake: Path, undisturbed: tuple[Path, float], kib: int
) -> None:
    """A limit on the size of files makes writes fail as a full disk does: in the middle, with an error."""
    whole, _ = undisturbed
    limit = ("bash", "-c", 'ulimit -f "$0" && exec "$@"', str(kib))  # bash counts in KiB
    process = start(ingest(home, lake), environ, tmp_path, *limit)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode in {0, 1}
    assert "Traceback" not in stderr
    if kib == 4:
        assert process.returncode == 1
        assert len([line for line in stderr.splitlines() if "error" in line]) == 1
    readable(lake)
    again = start(ingest(home, lake), environ, tmp_path)
    _, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr
    same(lake, whole)


def test_two_runs_at_once(
    environ: dict[str, str], tmp_path: Path, home: Path, lake: Path, undisturbed: tuple[Path, float]
) -> None:
    whole, _ = undisturbed
    both = [start(ingest(home, lake), environ, tmp_path) for _ in range(2)]
    ends = [(process.communicate(timeout=180)[1], process.returncode) for process in both]
    assert {code for _, code in ends} <= {0, 1}
    assert 0 in {code for _, code in ends}
    for stderr, code in ends:
        assert "Traceback" not in stderr
        if code == 1:
            assert any(str(process.pid) in stderr for process in both), "who holds the lock is not said"
    same(lake, whole)


def test_a_lock_of_a_dead_process_holds_nobody_up(
    agentlens: Agentlens, environ: dict[str, str], tmp_path: Path, home: Path, lake: Path
) -> None:
    total = corpus(home, FILES, EACH)
    process = start(ingest(home, lake), environ, tmp_path)
    time.sleep(0.4)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    agentlens(*ingest(home, lake), code=0, timeout=60)
    assert said(lake) == counts(total)


def readable(lake: Path) -> None:
    """At every moment a glob over the lake reads: no half-written file has a final name."""
    with duckdb.connect() as connection:
        for path in lake.glob("**/*.parquet"):
            connection.execute(f"select count(*) from read_parquet('{path}')").fetchall()


def same(lake: Path, whole: Path) -> None:
    assert said(lake) == said(whole)
    assert stored(lake) == stored(whole)
    assert stored(lake, "sessions") == stored(whole, "sessions")
    leftovers = [p for p in lake.rglob("*") if p.is_file() and p.suffix in {".tmp", ".part"}]
    assert not leftovers
