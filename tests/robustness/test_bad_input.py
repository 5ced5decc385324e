"""No input makes a run fail or hang: what is bad is named in a warning, what is good counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Agentlens
from tests.robustness.transcripts import counts, one, project, response, responses, said

MEGABYTE = 1 << 20


def named(stderr: str, *parts: str) -> list[str]:
    """The lines of a run's messages that name all of these."""
    return [line for line in stderr.splitlines() if all(part in line for part in parts)]


def empty(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(b"")


def binary_junk(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(bytes(range(256)) * 40 + b"\n" + b"\xff\xfe\0\n" * 30)


def foreign_rows(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(b'{"kind": "of another program", "value": 1}\n' * 20)


def nothing_but_nul(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(b"\0" * 8192)


def deep_nesting(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(b'{"type":"assistant","message":' + b"[" * 200_000 + b"\n")


def directory(folder: Path) -> None:
    (folder / "bad.jsonl").mkdir()


def dangling_link(folder: Path) -> None:
    (folder / "bad.jsonl").symlink_to(folder / "nowhere.jsonl")


def link_to_itself(folder: Path) -> None:
    (folder / "bad.jsonl").symlink_to(folder / "bad.jsonl")


def link_to_a_parent(folder: Path) -> None:
    (folder / "bad").symlink_to(folder.parent, target_is_directory=True)


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "bad.jsonl")


def device(folder: Path) -> None:
    (folder / "bad.jsonl").symlink_to("/dev/zero")


def unreadable(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (folder / "bad.jsonl").write_bytes(responses("bad", 0, 3))
    (folder / "bad.jsonl").chmod(0)


BAD = [
    empty,
    binary_junk,
    foreign_rows,
    nothing_but_nul,
    deep_nesting,
    directory,
    dangling_link,
    link_to_itself,
    link_to_a_parent,
    fifo,
    device,
    unreadable,
]
WARNED = {binary_junk, foreign_rows, deep_nesting, unreadable}


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_a_bad_neighbour_costs_a_warning_at_most(
    agentlens: Agentlens, home: Path, lake: Path, spoil: Callable[[Path], None]
) -> None:
    folder = project(home)
    (folder / "good.jsonl").write_bytes(responses("good", 0, 5))
    spoil(folder)
    done = agentlens("ingest", "--home", home, "--lake", lake, code=0, timeout=60)
    assert said(lake) == counts(5)
    assert "Traceback" not in done.stderr
    if spoil in WARNED:
        assert named(done.stderr, "bad.jsonl")
    assert not named(done.stderr, "good.jsonl")


def test_a_bad_line_is_named_by_file_and_number(agentlens: Agentlens, home: Path, lake: Path) -> None:
    torn = response("s", 2)[:-60] + b"\n"
    (project(home) / "torn.jsonl").write_bytes(responses("s", 0, 2) + torn + b"\n" + responses("s", 3, 6))
    done = agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(5)
    assert named(done.stderr, "torn.jsonl", "line 3")
    assert one(lake, "select skipped_lines, len(warnings) from sources") == (1, 1)


def test_a_line_that_is_being_written_is_read_next_time(agentlens: Agentlens, home: Path, lake: Path) -> None:
    path, last = project(home) / "live.jsonl", response("s", 4)
    path.write_bytes(responses("s", 0, 4) + last[:-30])
    done = agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(4)
    assert not named(done.stderr, "live.jsonl")
    with path.open("ab") as file:
        file.write(last[-30:] + responses("s", 5, 7))
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert said(lake) == counts(7)


def test_append_equals_reading_anew(agentlens: Agentlens, home: Path, tmp_path: Path) -> None:
    path = project(home) / "grows.jsonl"
    for stop in (10, 11, 40):
        path.write_bytes(responses("s", 0, stop))
        agentlens("ingest", "--home", home, "--lake", tmp_path / "grown", code=0)
    agentlens("ingest", "--home", home, "--lake", tmp_path / "anew", code=0)
    assert said(tmp_path / "grown") == said(tmp_path / "anew") == counts(40)


@pytest.mark.parametrize("is_json", [True, False], ids=["tool-result", "junk"])
def test_a_line_of_100_mb_is_survived(
    environ: dict[str, str], tmp_path: Path, home: Path, lake: Path, *, is_json: bool
) -> None:
    size = 100 * MEGABYTE
    huge = response("s", 1, "x" * size) if is_json else b"x" * size + b"\n"
    (project(home) / "huge.jsonl").write_bytes(response("s", 0) + huge + response("s", 2))
    peak, code = peak_memory(["ingest", "--home", str(home), "--lake", str(lake)], environ, tmp_path)
    assert code == 0
    assert said(lake) == counts(3 if is_json else 2)
    assert peak < 1024 * MEGABYTE


def peak_memory(args: list[str], environ: dict[str, str], cwd: Path) -> tuple[int, int]:
    """Peak resident bytes of a run, and its exit code."""
    process = subprocess.Popen([sys.executable, "-m", "pipeline", *args], env=environ, cwd=cwd)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss * 1024, process.returncode


def test_a_home_without_transcripts_is_no_error(agentlens: Agentlens, home: Path, lake: Path) -> None:
    assert "Traceback" not in agentlens("ingest", "--home", home, "--lake", lake, code=0).stderr


def test_a_home_that_does_not_exist_is_wrong_usage(agentlens: Agentlens, home: Path, lake: Path) -> None:
    done = agentlens("ingest", "--home", home / "nowhere", "--lake", lake, code=2)
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr
