"""The ledger of retrieval tools and the sizes of files: what is counted once, what outlives what, what is not read."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline import savings
from pipeline.client import Home
from pipeline.errors import LedgerError
from pipeline.ingest import Options, run
from pipeline.savings import Entry, Usage, UsageTracker, below, ledger_path, repo_id, size_below
from pipeline.warehouse import refresh
from tests.conftest import ROOT, Agentlens
from tests.tools.lakes import MACHINE, Rows, ask, ingest, query

SERVERS_OWN = """
create table tool_usage (
    tool text not null, repo_id text not null, calls integer not null default 0, last_called_at integer,
    bytes_served integer not null default 0, bytes_saved integer not null default 0, primary key (tool, repo_id)
)"""


@pytest.fixture
def ledger(tmp_path: Path) -> UsageTracker:
    return UsageTracker(tmp_path / "usage.db", wait_seconds=0.2)


# --- the file --------------------------------------------------------------------------------------------------------


def test_calls_add_up_by_tool_and_repository(ledger: UsageTracker) -> None:
    ledger.record("cl_search", "r", called_at=2000, bytes_served=10, bytes_saved=90)
    ledger.record("cl_search", "r", called_at=1000, bytes_served=5, bytes_saved=0)
    ledger.record("cl_search", "other", called_at=None)
    ledger.record("cl_load", "r", called_at=None, bytes_served=7, calls=3)
    ledger.record("cl_load", "r", called_at=5, calls=0)
    assert ledger.snapshot() == [
        Usage("cl_load", "r", 3, 5, 7, 0),
        Usage("cl_search", "other", 1, None, 0, 0),
        Usage("cl_search", "r", 2, 2000, 15, 90),
    ]


def test_what_has_a_key_counts_once_also_after_a_reset(ledger: UsageTracker) -> None:
    entries = [Entry("a", "cl_search", "r", 1, 10, 90), Entry("b", "cl_search", "r", 2, 10, 90)]
    assert ledger.record_once(entries[:1]) == 1
    assert ledger.record_once(entries) == 1
    assert ledger.snapshot() == [Usage("cl_search", "r", 2, 2, 20, 180)]
    ledger.reset()
    assert ledger.snapshot() == []
    assert ledger.record_once(entries) == 0
    assert ledger.snapshot() == []


def test_the_servers_own_file_is_read_and_ours_has_its_table(ledger: UsageTracker, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as theirs:
        theirs.execute(SERVERS_OWN)
        theirs.execute("insert into tool_usage values ('cl_search', 'r', 3, 1700000000000, 30, 300)")
        theirs.commit()
    assert UsageTracker(tmp_path / "theirs.db").snapshot() == [Usage("cl_search", "r", 3, 1700000000000, 30, 300)]
    UsageTracker(tmp_path / "theirs.db").record("cl_search", "r", called_at=1, bytes_served=1, bytes_saved=1)
    assert UsageTracker(tmp_path / "theirs.db").snapshot() == [Usage("cl_search", "r", 4, 1700000000000, 31, 301)]
    ledger.record("cl_search", "r", called_at=1)

    def shape(path: Path) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("select name, upper(type), pk from pragma_table_info('tool_usage')").fetchall()

    assert shape(ledger.path) == shape(tmp_path / "theirs.db")


@pytest.mark.parametrize("is_open", [False, True])
def test_looking_changes_nothing_and_makes_no_file(tmp_path: Path, *, is_open: bool) -> None:
    """The server keeps its file with a write-ahead log; opening such a file makes others beside it."""
    folder = tmp_path / "home"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "usage.db")) as theirs:
        theirs.execute("pragma journal_mode = wal")
        theirs.execute(SERVERS_OWN)
        theirs.execute("insert into tool_usage values ('cl_search', 'r', 3, null, 30, 300)")
        theirs.commit()
        if not is_open:
            theirs.close()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert ("usage.db-wal" in before) is is_open
        assert UsageTracker(folder / "usage.db").snapshot() == [Usage("cl_search", "r", 3, None, 30, 300)]
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_looking_where_nothing_is_makes_nothing(ledger: UsageTracker) -> None:
    assert ledger.snapshot() == []
    assert not ledger.path.exists()
    ledger.path.touch()
    assert ledger.snapshot() == []
    assert not ledger.path.stat().st_size


def test_of_two_writers_at_once_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    program = (
        "import sys; from pathlib import Path; from pipeline.savings import *; t = UsageTracker(Path(sys.argv[1]))\n"
        "for i in range(60):\n"
        "    t.record('cl_search', 'r', called_at=i, bytes_served=1, bytes_saved=2)\n"
        "    t.record_once([Entry(f'k{i}', 'cl_load', 'r', i, 1, 0)])"
    )
    command = [sys.executable, "-c", program, str(path)]
    started = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}) for _ in range(2)]
    assert [process.wait(120) for process in started] == [0, 0]
    assert UsageTracker(path).snapshot() == [
        Usage("cl_load", "r", 60, 59, 60, 0),
        Usage("cl_search", "r", 120, 59, 120, 240),
    ]


def make_foreign(path: Path, kind: str) -> None:
    if kind == "text":
        path.write_text("no database at all, but long enough to look at\n" * 9, encoding="utf-8")
        return
    with closing(sqlite3.connect(path)) as made:
        if kind == "other table":
            made.execute("create table usage (a)")
        elif kind == "other columns":
            made.execute("create table tool_usage (tool text primary key, calls integer)")
        else:
            made.execute("create table tool_usage (tool, repo_id, calls, last_called_at, bytes_served, bytes_saved)")
            made.execute("insert into tool_usage values ('cl_search', 'r', 'many', 1, 2, 3)")
        made.commit()


@pytest.mark.parametrize("kind", ["text", "other table", "other columns", "no count"])
def test_a_file_that_is_none_is_told_and_left_alone(ledger: UsageTracker, kind: str) -> None:
    make_foreign(ledger.path, kind)
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerError, match=r"usage\.db") as told:
        ledger.snapshot()
    assert not told.value.is_locked
    assert ledger.path.read_bytes() == before
    if kind in {"text", "other columns", "no count"}:
        with pytest.raises(LedgerError, match=r"usage\.db"):
            ledger.record("cl_search", "r", called_at=1)
        assert ledger.path.read_bytes() == before


def test_a_locked_file_is_told(ledger: UsageTracker) -> None:
    ledger.record("cl_search", "r", called_at=1)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        for ask_for in (ledger.snapshot, ledger.reset):
            with pytest.raises(LedgerError, match="locked") as told:
                ask_for()
            assert told.value.is_locked
    assert len(ledger.snapshot()) == 1


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match=r"cannot use the ledger"):
        UsageTracker(tmp_path / "file" / "usage.db").record("cl_search", "r", called_at=1)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "b").mkdir(parents=True)
    (root / "a.py").write_bytes(b"#" * 1000)
    (root / "b" / "c.py").write_bytes(b"#" * 2000)
    (tmp_path / "secret").write_bytes(b"s" * 5000)
    (root / "out").symlink_to("../secret")
    (root / "in").symlink_to("a.py")
    (root / "loop").symlink_to("loop")
    (tmp_path / "repo2").mkdir()
    (tmp_path / "repo2" / "x").write_bytes(b"x")
    (tmp_path / "link").symlink_to("repo")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("a.py", 1000),
        ("b/c.py", 2000),
        ("in", 1000),
        ("out", None),
        ("loop", None),
        ("pipe", None),
        ("b", None),
        (".", None),
        ("gone", None),
        ("../secret", None),
        ("../repo2/x", None),
        ("a.py\0", None),
        ("/etc/hostname", None),
        ("x" * 4000, None),
    ],
)
def test_only_files_below_the_root_are_sized(repo: Path, path: str, size: int | None) -> None:
    assert size_below(str(repo), path) == size


def test_without_a_root_nothing_is_sized(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    assert size_below("", "a.py") is None
    assert size_below(".", "a.py") is None
    assert size_below("C:\\repo", "a.py") is None
    assert size_below(str(repo) + "\0", "a.py") is None


def test_an_absolute_path_below_the_root_is_the_relative_one(repo: Path, tmp_path: Path) -> None:
    for root in (repo, tmp_path / "link"):
        for base in (repo, tmp_path / "link"):
            assert below(str(root), f"{base}/b/c.py") == "b/c.py"
            assert below(f"{root}/", f"{base}/gone.py") == "gone.py"
    assert below(str(repo), f"{repo}2/x") == f"{repo}2/x"
    assert below(str(repo), "/etc/hostname") == "/etc/hostname"
    assert below("", "/etc/hostname") == "/etc/hostname"
    assert below("C:\\w\\app", "C:/w/app/src/a.py") == "src/a.py"
    assert below("/w/app", "src/a.py") == "src/a.py"


# --- ingest ----------------------------------------------------------------------------------------------------------


def result(*paths: str) -> str:
    return json.dumps({"results": [{"path": path} for path in paths]})


def transcript(home: Path, repo: Path, *results: tuple[str, str | None], session: str = "s1") -> Path:
    """A session in the repository: its calls of cl_search by id, with their results."""
    path = home / ".claude" / "projects" / "-repo" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    usage = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    for number, (call, text) in enumerate(results):
        envelope = {"cwd": str(repo), "sessionId": session, "version": "2.1.40", "isSidechain": False}
        use = {"type": "tool_use", "id": call, "name": "mcp__codelens__cl_search", "input": {}}
        message = {"id": f"m-{call}", "role": "assistant", "model": "m", "content": [use], "usage": usage}
        at = f"2026-05-04T09:{number:02d}"
        rows.append(
            envelope
            | {"type": "assistant", "uuid": f"a-{call}", "timestamp": f"{at}:01Z", "requestId": f"q-{call}"}
            | {"message": message}
        )
        if text is not None:
            block = {"type": "tool_result", "tool_use_id": call, "content": text}
            rows.append(
                envelope
                | {"type": "user", "uuid": f"u-{call}", "timestamp": f"{at}:02Z"}
                | {"message": {"role": "user", "content": [block]}}
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def counted(lake: Path) -> list[tuple[int, int]]:
    return [(row.calls, row.bytes_saved) for row in UsageTracker(ledger_path(lake)).snapshot()]


def saved(lake: Path) -> list[tuple[int, int]]:
    return [(row["calls"], row["bytes_saved"]) for row in ask(lake, "savings")]


def sizes(lake: Path) -> Rows:
    return query(lake, "select path, size_bytes from lake.repo_files order by path")


ONE = len(result("a.py"))
BOTH = len(result("a.py", "b/c.py"))


def test_a_call_counts_once_however_often_it_is_read(home: Path, lake: Path, repo: Path) -> None:
    transcript(home, repo, ("c0", result("a.py")), ("c1", None))
    ingest(home, lake)
    assert counted(lake) == saved(lake) == [(1, 1000 - ONE)]
    run(Options(lake, Home(home, {}), MACHINE, reread=True))
    assert counted(lake) == [(1, 1000 - ONE)]
    transcript(home, repo, ("c0", result("a.py")), ("c1", result("a.py", "b/c.py")))
    ingest(home, lake)
    assert counted(lake) == saved(lake) == [(2, 4000 - ONE - BOTH)]
    # a fork: another file with the same calls
    transcript(home, repo, ("c0", result("a.py")), ("c1", result("a.py", "b/c.py")), session="s2")
    ingest(home, lake)
    assert counted(lake) == saved(lake) == [(2, 4000 - ONE - BOTH)]
    # another machine on the same lake, which reads the same transcripts
    ingest(home, lake, machine="there")
    assert counted(lake) == [(2, 4000 - ONE - BOTH)]
    shutil.rmtree(lake)
    ingest(home, lake)
    assert counted(lake) == saved(lake) == [(2, 4000 - ONE - BOTH)]


def test_the_ledger_outlives_transcripts_and_lake(home: Path, lake: Path, repo: Path) -> None:
    old = transcript(home, repo, ("c0", result("a.py")))
    ingest(home, lake)
    old.unlink()
    shutil.rmtree(lake)
    transcript(home, repo, ("n0", result("b/c.py")), session="s2")
    ingest(home, lake)
    assert counted(lake) == [(2, 3000 - ONE - len(result("b/c.py")))]
    (row,) = ask(lake, "savings_ledger")
    assert (row["keeper"], row["calls"], row["repo_root"]) == ("agentlens", 2, str(repo))
    assert saved(lake) == [(1, 2000 - len(result("b/c.py")))]


def test_a_run_that_died_before_its_commit_counts_its_calls_once(
    home: Path, lake: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript(home, repo, ("c0", result("a.py")))

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pipeline.manifest.Manifest.commit", die)
        with pytest.raises(KeyboardInterrupt):
            ingest(home, lake)
    ingest(home, lake)
    assert counted(lake) == saved(lake) == [(1, 1000 - ONE)]


def test_a_ledger_that_cannot_be_written_is_told_and_filled_later(home: Path, lake: Path, repo: Path) -> None:
    transcript(home, repo, ("c0", result("a.py")))
    lake.parent.mkdir(exist_ok=True)
    ledger_path(lake).mkdir()
    report = ingest(home, lake)
    assert [text for text in report.warnings if "cannot use the ledger" in text]
    assert saved(lake) == [(1, 1000 - ONE)]
    ledger_path(lake).rmdir()
    assert ingest(home, lake).read == 1
    assert counted(lake) == [(1, 1000 - ONE)]
    assert not ingest(home, lake).read


def test_the_size_that_was_seen_last_holds(home: Path, lake: Path, repo: Path) -> None:
    path = transcript(home, repo, ("c0", result("a.py", "b/c.py", "gone.py", "../secret", "out")))
    ingest(home, lake)
    assert sizes(lake) == [{"path": "a.py", "size_bytes": 1000}, {"path": "b/c.py", "size_bytes": 2000}]
    (repo / "a.py").write_bytes(b"#" * 1500)
    (repo / "b" / "c.py").unlink()
    run(Options(lake, Home(home, {}), MACHINE, reread=True))
    assert sizes(lake) == [{"path": "a.py", "size_bytes": 1500}, {"path": "b/c.py", "size_bytes": 2000}]
    shutil.rmtree(repo)
    path.unlink()
    run(Options(lake, Home(home, {}), MACHINE))
    refresh(lake)
    assert [size["size_bytes"] for size in sizes(lake)] == [1500, 2000]


def test_a_size_moves_to_the_month_in_which_it_was_seen(lake: Path) -> None:
    for month, size in ((5, 10), (6, 20), (6, 30)):
        found = {"a.py": size}
        one = savings.Call(f"k{month}", "cl_search", "discovery", repo_id("r"), "r", None, 1, ("a.py",), 1, found)
        moves, problem = savings.account(lake, MACHINE, "codex", [one], (month - 1) * 31 * 86_400_000_000)
        assert problem is None
        for move in moves:
            if move.temporary is None:
                (lake / move.final).unlink()
            else:
                (lake / move.temporary).replace(lake / move.final)
    (file,) = (lake / "repo_files").rglob("*.parquet")
    assert file.parent.name == "month=1970-06"


# --- the server's own ledger -----------------------------------------------------------------------------------------


@pytest.fixture
def theirs(home: Path) -> Iterator[sqlite3.Connection]:
    (home / ".codelens").mkdir()
    with closing(sqlite3.connect(home / ".codelens" / "usage.db", isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute(SERVERS_OWN)
        yield connection


def test_what_the_server_counted_stands_beside(home: Path, lake: Path, repo: Path, theirs: sqlite3.Connection) -> None:
    transcript(home, repo, ("c0", result("a.py")))
    row = ("cl_search", repo_id(str(repo)), 7, 1_770_000_000_000, 70, 700)
    theirs.execute("insert into tool_usage values (?, ?, ?, ?, ?, ?)", row)
    ingest(home, lake)
    (found,) = ask(lake, "savings")
    assert (found["calls"], found["reported_calls"], found["reported_bytes_saved"]) == (1, 7, 700)
    assert found["reported_last_called_at"].timestamp() == 1_770_000_000
    theirs.execute("update tool_usage set calls = 8")
    ingest(home, lake)
    assert ask(lake, "savings")[0]["reported_calls"] == 8
    shutil.rmtree(home / ".codelens")
    ingest(home, lake)
    assert ask(lake, "savings")[0]["reported_calls"] == 8, "what is gone is remembered"
    assert [row["keeper"] for row in ask(lake, "savings_ledger")] == ["agentlens", "codelens"]


def test_a_run_with_nothing_new_leaves_ledgers_alone(
    home: Path, lake: Path, repo: Path, theirs: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript(home, repo, ("c0", result("a.py")))
    theirs.execute("insert into tool_usage values ('cl_search', 'r', 7, null, 70, 700)")
    ingest(home, lake)
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file()}

    def no(*_: Any) -> None:
        pytest.fail("nothing is new")

    monkeypatch.setattr(savings, "copy_ledgers", no)
    run(Options(lake, Home(home, {}), MACHINE))
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file()} == before


def test_a_bad_ledger_of_the_server_is_told_once(home: Path, lake: Path, repo: Path) -> None:
    transcript(home, repo, ("c0", result("a.py")))
    (home / ".codelens").mkdir()
    make_foreign(home / ".codelens" / "usage.db", "text")
    told = [text for text in ingest(home, lake).warnings if "usage.db" in text]
    assert len(told) == 1
    assert saved(lake) == [(1, 1000 - ONE)]
    assert not ingest(home, lake).warnings


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_shows_repositories_and_its_limits(
    agentlens: Agentlens, environ: dict[str, str], home: Path, lake: Path, repo: Path
) -> None:
    environ["COLUMNS"] = "400"
    transcript(home, repo, ("c0", result("a.py")))
    agentlens("ingest", "--home", home, "--lake", lake, "--quiet", code=0)
    shown = agentlens("savings", "--lake", lake, "--format", "table", code=0).stdout
    assert str(repo) in shown
    assert f"~{1000 - ONE}" in shown
    for limit in ("whole", "grep", "judgement"):
        assert limit in shown
    (row,) = json.loads(agentlens("savings", "--lake", lake, "--format", "json", code=0).stdout)
    assert row["bytes_saved"] == {"count": 1000 - ONE, "measured": False}
    assert row["bytes_served"] == ONE
    assert row["reported_bytes_saved"] == {"count": None, "measured": False}
    assert json.loads(agentlens("savings", "--lake", lake, "--until", "2026-01-01", "--format", "json").stdout) == []
