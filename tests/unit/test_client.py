"""What clients share: counts, times, names, and the walk through a client's folders."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import client
from pipeline.client import (
    MAX_WARNINGS,
    MOST_TOKENS,
    Home,
    Report,
    amount,
    count,
    fold_project,
    mcp_name,
    repo_root,
    timestamp,
    walk,
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Answers about folders are remembered; each test has folders of its own."""
    fold_project.cache_clear()
    repo_root.cache_clear()


# --- home and report -------------------------------------------------------------------------------------------------


def test_roots_are_below_the_home_unless_the_environment_names_others(tmp_path: Path) -> None:
    assert Home(tmp_path, {}).roots("X_DIR", ".x", ".config/x") == [tmp_path / ".x", tmp_path / ".config" / "x"]
    assert Home(tmp_path, {"X_DIR": " /a , /b,,"}).roots("X_DIR", ".x") == [Path("/a"), Path("/b")]
    assert Home(tmp_path, {"X_DIR": "  "}).roots("X_DIR", ".x") == [tmp_path / ".x"]
    assert Home(tmp_path, {"X_DIR": "~/x"}).roots("X_DIR") == [Path("~/x").expanduser()]


def test_warnings_are_bounded_and_the_rest_is_counted() -> None:
    report = Report()
    for number in range(MAX_WARNINGS + 3):
        report.line_number = number
        report.skip("bad")
    assert report.skipped_lines == MAX_WARNINGS + 3
    assert report.warnings[0] == "line 0: skipped: bad"
    assert (len(report.warnings), report.dropped_warnings) == (MAX_WARNINGS, 3)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (17, 17),
        (MOST_TOKENS, MOST_TOKENS),
        (3.0, 3),
        (1e3, 1000),
        ("12", 12),
        ("1e3", 1000),
        (" 5 ", 5),
        (str(MOST_TOKENS), MOST_TOKENS),
    ],
)
def test_counts_as_clients_write_them(value: object, expected: int) -> None:
    report = Report()
    assert count(value, report, "tokens") == expected
    assert report.warnings == []


@pytest.mark.parametrize("value", [None, ""])
def test_what_is_not_recorded_is_none_without_a_warning(value: object) -> None:
    report = Report()
    assert count(value, report, "tokens") is None
    assert report.warnings == []


@pytest.mark.parametrize(
    "value",
    [-1, -0.6, MOST_TOKENS + 1, 2**63, 1e300, float("inf"), float("nan"), "nan", "many", [], {}, True, False, 10**400],
    ids=lambda value: str(value)[:12],
)
def test_impossible_counts_are_not_recorded_and_told(value: object) -> None:
    report = Report()
    assert count(value, report, "tokens") is None
    (warning,) = report.warnings
    assert warning.startswith("tokens: ")
    assert len(warning) < 120


@pytest.mark.parametrize("value", [1.5, 0.4, -0.4, "0.4"])
def test_a_part_of_a_token_is_no_count(value: object) -> None:
    report = Report()
    assert count(value, report, "tokens") is None
    assert report.warnings


@given(st.integers(0, MOST_TOKENS))
def test_every_count_keeps_its_value(value: int) -> None:
    assert count(value, Report(), "x") == count(str(value), Report(), "x") == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (0.0, 0.0),
        (1.25, 1.25),
        ("0.5", 0.5),
        (None, None),
        ("", None),
        (-1, None),
        ("free", None),
        ([], None),
    ],
)
def test_amounts_of_money(value: object, expected: float | None) -> None:
    assert amount(value) == expected


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "inf", 10**400], ids=lambda value: str(value)[:12])
def test_no_amount(value: object) -> None:
    assert amount(value) is None


# --- times -----------------------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=UTC)
MICROSECONDS = 1_772_355_600_123_456


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-01T09:00:00.123456Z", MICROSECONDS),
        ("2026-03-01T10:00:00.123456+01:00", MICROSECONDS),
        ("2026-03-01 09:00:00.123456", MICROSECONDS),
        ("2026-03-01T09:00:00.123Z", MICROSECONDS - 456),
        ("2026-03-01T09:00:00.123456789Z", MICROSECONDS),
        (1_772_355_600, MICROSECONDS - 123_456),
        (1_772_355_600_123, MICROSECONDS - 456),
        (1_772_355_600_123_456, MICROSECONDS),
        (1_772_355_600.5, MICROSECONDS - 123_456 + 500_000),
        ("1772355600", MICROSECONDS - 123_456),
        ("1772355600123", MICROSECONDS - 456),
    ],
)
def test_times_as_clients_write_them(value: object, expected: int) -> None:
    assert timestamp(value) == expected
    assert round(MOMENT.timestamp() * 1e6) == MICROSECONDS


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "yesterday",
        "2026-13-01T00:00:00Z",
        True,
        0,
        -5,
        1e17,
        float("nan"),
        float("inf"),
        [],
        {},
        "nan",
        "inf",
    ],
    ids=repr,
)
def test_no_time(value: object) -> None:
    assert timestamp(value) is None


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_time_keeps_its_microseconds(moment: datetime) -> None:
    found = timestamp(moment.isoformat())
    assert found is not None
    whole, part = divmod(found, 1_000_000)
    assert datetime.fromtimestamp(whole, UTC).replace(microsecond=part) == moment


# --- texts and names -------------------------------------------------------------------------------------------------


def test_sizes_and_hashes_of_texts() -> None:
    assert client.text_bytes("abc") == 3
    assert client.text_bytes("é✓😀") == 2 + 3 + 4
    assert client.text_bytes("\ud800") == 1  # what cannot be encoded stands as a question mark
    assert client.sha256("é") == hashlib.sha256("é".encode()).hexdigest()
    assert client.sha256("\ud800")


def test_short_ids() -> None:
    assert client.short_id("a", 1) == client.short_id("a", 1)
    assert client.short_id("a", "b") != client.short_id("ab") != client.short_id("b", "a")
    assert client.short_id("\ud800")[0] == "x"  # a letter, so that no spreadsheet takes it for a number


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("mcp__tracker__find", ("tracker", "find")),
        ("mcp__tracker__find__all", ("tracker", "find__all")),
        ("mcp__my_server__a_b", ("my_server", "a_b")),
        ("Bash", None),
        ("mcp__tracker", None),
        ("mcp____find", None),
        ("mcp__", None),
        ("notmcp__a__b", None),
    ],
)
def test_names_of_mcp_tools(tool: str, expected: tuple[str, str] | None) -> None:
    assert mcp_name(tool) == expected


def test_relative_items() -> None:
    assert client.relative_item("/w/a/sub/CLAUDE.md", "/w/a") == "sub/CLAUDE.md"
    assert client.relative_item("/w/ab/CLAUDE.md", "/w/a") == "/w/ab/CLAUDE.md"
    assert client.relative_item("/w/a/CLAUDE.md", None) == "/w/a/CLAUDE.md"
    assert client.relative_item("C:\\w\\a\\x.md", "C:\\w\\a") == "x.md"


# --- projects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("/w/app", "/w/app"),
        ("/w/app/.claude/worktrees/fix-1", "/w/app"),
        ("/w/app/.claude/worktrees/fix-1/src", "/w/app"),
        ("/w/app/.worktrees/fix", "/w/app"),
        ("C:\\w\\app\\.claude\\worktrees\\fix", "C:\\w\\app"),
        ("c:\\w\\app", "C:\\w\\app"),
        ("c:/w/app", "C:/w/app"),
        ("/w/app/.claude", "/w/app/.claude"),
        ("/w/app/.claude/worktrees", "/w/app/.claude/worktrees"),
        ("/w/my.worktrees/x", "/w/my.worktrees/x"),
        ("/w/é 项目", "/w/é 项目"),
        ("\0", "\0"),
    ],
)
def test_a_worktree_is_a_part_of_its_repository(cwd: str, expected: str) -> None:
    assert fold_project(cwd) == expected


def test_a_linked_worktree_on_this_disk(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "elsewhere" / "fix"
    (main / ".git" / "worktrees" / "fix").mkdir(parents=True)
    linked.mkdir(parents=True)
    (linked / ".git").write_text(f"gitdir: {main}/.git/worktrees/fix\n", encoding="utf-8")
    assert fold_project(str(linked)) == str(main)
    assert fold_project(str(main)) == str(main)


@pytest.mark.parametrize("text", ["gitdir: ../.git/modules/sub\n", "", "\0\xff", "gitdir: \n"])
def test_another_git_file_is_no_worktree(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text, encoding="utf-8")
    assert fold_project(str(tmp_path)) == str(tmp_path)


def test_the_root_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src" / "deep").mkdir(parents=True)
    assert repo_root(str(tmp_path / "repo" / "src" / "deep")) == str(tmp_path / "repo")
    assert repo_root(str(tmp_path / "repo")) == str(tmp_path / "repo")
    assert repo_root("relative/path") is None
    assert repo_root("/\0") is None
    assert repo_root("/no/such/folder/at/all") is None


# --- the walk --------------------------------------------------------------------------------------------------------


def found(root: Path, *suffixes: str) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in walk(root, suffixes or (".jsonl",)))


def write(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")


def test_files_by_the_end_of_their_name(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", tmp_path / "b" / "c.jsonl", tmp_path / "d.jsonl.bak", tmp_path / "e.json")
    (tmp_path / "folder.jsonl").mkdir()
    assert found(tmp_path) == ["a.jsonl", "b/c.jsonl"]
    assert found(tmp_path, ".json", ".bak") == ["d.jsonl.bak", "e.json"]


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_no_directory(tmp_path: Path, name: str) -> None:
    write(tmp_path / "file")
    assert found(tmp_path / name) == []


def test_loops_and_dangling_links_are_survived(tmp_path: Path) -> None:
    write(tmp_path / "a" / "x.jsonl")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere.jsonl")
    (tmp_path / "round.jsonl").symlink_to(tmp_path / "round.jsonl")
    assert found(tmp_path) == ["a/x.jsonl"]


def test_a_file_that_is_found_by_two_paths_keeps_its_own_name(tmp_path: Path) -> None:
    """Whichever comes first by name; a link to a file elsewhere stands for it."""
    write(tmp_path / "in" / "m.jsonl", tmp_path / "out" / "other.jsonl", tmp_path / "out" / "deep" / "y.jsonl")
    (tmp_path / "in" / "a.jsonl").symlink_to(tmp_path / "in" / "m.jsonl")
    (tmp_path / "in" / "z.jsonl").symlink_to(tmp_path / "out" / "other.jsonl")
    (tmp_path / "in" / "zz.jsonl").symlink_to(tmp_path / "out" / "other.jsonl")
    (tmp_path / "in" / "b").symlink_to(tmp_path / "out" / "deep", target_is_directory=True)
    (tmp_path / "in" / "c").symlink_to(tmp_path / "out" / "deep", target_is_directory=True)
    assert found(tmp_path / "in") == ["b/y.jsonl", "m.jsonl", "z.jsonl"]


def test_a_fifo_is_no_transcript(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    assert found(tmp_path) == []


def test_an_unreadable_folder_holds_nothing(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    write(tmp_path / "closed" / "a.jsonl", tmp_path / "b.jsonl")
    (tmp_path / "closed").chmod(0)
    assert found(tmp_path) == ["b.jsonl"]
    (tmp_path / "closed").chmod(0o700)


def test_an_unreadable_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may be allowed to read everything, so the refusal is made up."""
    write(tmp_path / "closed" / "a.jsonl", tmp_path / "b.jsonl")
    scan = os.scandir

    def refuse(folder: str) -> object:
        if folder.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    told: list[str] = []
    assert [path.name for path in walk(tmp_path, (".jsonl",), told)] == ["b.jsonl"]
    assert told == [f"{tmp_path / 'closed'}: cannot be read: Permission denied"]
    assert list(walk(tmp_path / "gone", (".jsonl",), told)) == []
    assert len(told) == 1
