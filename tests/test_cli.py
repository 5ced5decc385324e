"""The program as a cron job and a person at a terminal meet it: exit codes, one-line errors, clean stdout, defaults."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline import contracts
from pipeline.cli.options import FORMAT_NAMES
from pipeline.export import FORMATS
from pipeline.lake import lock
from tests.conftest import Agentlens
from tests.robustness.transcripts import project, response, responses
from tests.tools.lakes import SAMPLE, sample_lake
from tests.tools.recount import recount

Environ = dict[str, str]
HEADER = "model_id,input_usd_per_mtok,output_usd_per_mtok,cache_read_usd_per_mtok,cache_write_5m_usd_per_mtok\n"
SAMPLE_REQUESTS = sum(count["requests"] or 0 for models in recount(SAMPLE).values() for count in models.values())


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the sample; tests of this module that write make one of their own."""
    return sample_lake(tmp_path_factory.getbasetemp())


def one_error(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """The run failed with one line on stderr that names these, and nothing else was said."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("agentlens: error: ")
    assert not [part for part in parts if part not in line]


# --- exit codes and errors -------------------------------------------------------------------------------------------


def test_done_is_0(agentlens: Agentlens, sample: Path) -> None:
    assert agentlens("usage", "--lake", sample, code=0).stderr == ""


@pytest.mark.parametrize("command", ["usage", "sql", "export", "skills"])
def test_no_lake(agentlens: Agentlens, lake: Path, command: str) -> None:
    more = {"sql": ["select 1"], "export": ["--output", "out"]}.get(command, [])
    one_error(agentlens(command, *more, "--lake", lake), 1, str(lake), "agentlens ingest")
    assert not lake.exists()


WRONG_USAGE = {
    "option": (["usage", "--no-such-option"], "--no-such-option"),
    "command": (["no-such-view"], "no-such-view"),
    "view": (["export", "--view", "no_such_view", "--output", "out"], "no_such_view"),
    "client": (["usage", "--client", "no-such-client"], "no-such-client"),
    "zone": (["usage", "--timezone", "Mars/Olympus"], "Mars/Olympus"),
    "zone-that-is-a-path": (["usage", "--timezone", "../../etc/passwd"], "--timezone"),
    "since": (["usage", "--since", "last tuesday"], "last tuesday"),
    "until": (["usage", "--until", "2026-02-30"], "2026-02-30"),
    "format": (["usage", "--format", "pdf"], "pdf"),
    "format-of-export": (["export", "--format", "table", "--output", "out"], "table"),
    "by": (["usage", "--by", "fortnight"], "fortnight"),
    "limit": (["usage", "--limit", "0"], "--limit"),
    "sort": (["usage", "--sort", "colour"], "estimated_usd"),
    "sort-of-no-way": (["usage", "--sort", "requests:down"], "requests:down"),
    "sort-both-ways": (["usage", "--sort", "-requests:desc"], "-requests:desc"),
    "one-side": (["compare", "--a", "client=codex"], "--b"),
    "sides-and-groups": (["compare", "--by", "week", "--a", "client=codex", "--b", "client=codex"], "--by"),
    "side-without-a-value": (["compare", "--a", "client=", "--b", "client=codex"], "COLUMN=VALUE"),
    "side-of-no-column": (["compare", "--a", "colour=red", "--b", "client=codex"], "colour=red"),
    "side-of-no-day": (["compare", "--a", "week=soon", "--b", "client=codex"], "soon"),
    "export-without-a-place": (["export"], "--output"),
    "many-views-to-stdout": (["export", "--output", "-"], "--view"),
    "sql-without-a-query": (["sql"], "query"),
    "schema-of-nothing": (["schema", "no_such_table"], "no_such_table"),
    "home": (["ingest", "--home", "nowhere"], "nowhere"),
    "client-of-ingest": (["ingest", "--client", "no-such-client"], "no-such-client"),
    "jobs": (["ingest", "--jobs", "0"], "--jobs"),
    "wait": (["ingest", "--wait", "-1"], "--wait"),
}


@pytest.mark.parametrize("name", WRONG_USAGE)
def test_wrong_usage_is_2(agentlens: Agentlens, environ: Environ, sample: Path, name: str) -> None:
    args, part = WRONG_USAGE[name]
    environ["AGENTLENS_LAKE"] = str(sample)
    done = agentlens(*args)
    assert part.lower() in done.stderr.lower()
    one_error(done, 2)


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def other_columns(path: Path) -> None:
    path.write_text("model,price\nx,1\n", encoding="utf-8")


def no_number(path: Path) -> None:
    path.write_text(f"{HEADER}claude-sonnet-5,cheap,1,1,1\n", encoding="utf-8")


def folder(path: Path) -> None:
    path.mkdir()


def nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    "spoil", [garbage, other_columns, no_number, folder, nothing], ids=lambda spoil: spoil.__name__
)
def test_a_bad_price_file_is_named_and_nothing_is_read(
    agentlens: Agentlens, tmp_path: Path, home: Path, lake: Path, spoil: Callable[[Path], None]
) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    spoil(tmp_path / "prices.csv")
    done = agentlens("ingest", "--home", home, "--lake", lake, "--prices", tmp_path / "prices.csv")
    one_error(done, 2, "prices.csv")
    assert not list(lake.rglob("*.parquet"))
    assert not (lake / "ref").exists()


def test_an_unreadable_price_file(agentlens: Agentlens, tmp_path: Path, home: Path, lake: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "prices.csv").write_text(HEADER, encoding="utf-8")
    (tmp_path / "prices.csv").chmod(0)
    one_error(agentlens("ingest", "--home", home, "--lake", lake, "--prices", tmp_path / "prices.csv"), 2, "prices.csv")


@pytest.mark.parametrize("command", [["usage"], ["export", "--view", "usage"], ["sql", "select 1"], ["schema"]])
def test_a_place_that_cannot_be_written(
    agentlens: Agentlens, environ: Environ, sample: Path, command: list[str]
) -> None:
    environ["AGENTLENS_LAKE"] = str(sample)
    one_error(agentlens(*command, "--output", "/dev/null/out.csv"), 1, "/dev/null/out.csv")


def test_a_lake_that_cannot_be_made(agentlens: Agentlens, home: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    one_error(agentlens("ingest", "--home", home, "--lake", "/dev/null/lake"), 1, "/dev/null/lake")


def test_a_lake_that_is_a_file(agentlens: Agentlens, home: Path, lake: Path) -> None:
    lake.write_text("", encoding="utf-8")
    one_error(agentlens("ingest", "--home", home, "--lake", lake), 2, str(lake))


def test_a_locked_lake_names_its_holder(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    with lock(lake, 0):
        done = agentlens("ingest", "--home", home, "--lake", lake, "--wait", "0")
    one_error(done, 1, f"pid {os.getpid()}", "--wait")
    agentlens("ingest", "--home", home, "--lake", lake, "--wait", "0", code=0)


def test_a_traceback_only_with_debug(agentlens: Agentlens, lake: Path) -> None:
    done = agentlens("usage", "--lake", lake, "--debug", code=1)
    assert "Traceback" in done.stderr
    assert "there is no lake" in done.stderr


# --- what goes where -------------------------------------------------------------------------------------------------


def test_stdout_holds_only_data(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2) + b"{broken\n")
    done = agentlens("ingest", "--home", home, "--lake", lake, code=0)
    assert done.stdout == ""
    assert "line 3" in done.stderr
    assert all(line.startswith("agentlens: ") for line in done.stderr.splitlines())
    rows = list(csv.reader(io.StringIO(agentlens("requests", "--lake", lake, code=0).stdout)))
    assert rows[0] == [column.name for column in contracts.load("requests").columns]
    assert len(rows) == 3


def test_quiet_says_nothing_but_errors(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2) + b"{broken\n")
    done = agentlens("run", "--home", home, "--lake", lake, "--quiet", code=0)
    assert (done.stdout, done.stderr) == ("", "")
    one_error(agentlens("usage", "--lake", lake / "none", "--quiet"), 1)


def test_stats_are_one_line_of_json(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2) + b"{broken\n")
    facts = json.loads(agentlens("ingest", "--home", home, "--lake", lake, "--stats", code=0).stdout)
    assert (facts["found"], facts["read"], facts["requests"], facts["skipped_lines"]) == (1, 1, 2, 1)
    again = json.loads(agentlens("ingest", "--home", home, "--lake", lake, "--stats", code=0).stdout)
    assert (again["found"], again["read"], again["unchanged"]) == (1, 0, 1)
    assert again["mb_per_second"] is None


def test_a_closed_pipe_ends_quietly(environ: Environ, sample: Path, tmp_path: Path) -> None:
    """As `agentlens context | head -1` does: whoever reads has what it wanted."""
    command = [sys.executable, "-m", "pipeline", "sql", "select range as n from range(2000000)", "--lake", str(sample)]
    process = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"n\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


def test_off_a_terminal_the_format_is_csv_without_colour(agentlens: Agentlens, environ: Environ, sample: Path) -> None:
    del environ["NO_COLOR"]
    shown = agentlens("usage", "--lake", sample, code=0).stdout
    assert shown.startswith("day,client,model,project,requests,")
    assert "\x1b" not in agentlens("usage", "--lake", sample, "--format", "table", code=0).stdout


def on_a_terminal(environ: Environ, cwd: Path, *args: str | Path, stderr: bool = False) -> tuple[str, str]:
    """What the program writes to a terminal as its stdout, or its stderr, and to a pipe as the other one."""
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": side} if stderr else {"stdout": side, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-m", "pipeline", *map(str, args)], env=environ, cwd=cwd, **streams)
    os.close(side)
    shown = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break  # the other side is closed
        if not piece:
            break
        shown += piece
    os.close(main)
    pipe = process.stdout if stderr else process.stderr
    assert pipe is not None
    with pipe:
        piped = pipe.read()
    assert process.wait(60) == 0
    return shown.decode(), piped.decode()


COLOURS = [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": "", "TERM": "dumb"}, False)]


@pytest.mark.parametrize("command", [["usage"], ["doctor", "--home", SAMPLE], []], ids=["view", "doctor", "alone"])
@pytest.mark.parametrize(("given", "is_coloured"), COLOURS, ids=["colour", "NO_COLOR", "dumb"])
def test_on_a_terminal_it_is_a_table(
    environ: Environ, sample: Path, tmp_path: Path, command: list[str], given: Environ, is_coloured: bool
) -> None:
    """Coloured, unless the environment says otherwise, and no wider than the terminal."""
    environ |= {"COLUMNS": "100", "TERM": "xterm-256color", "AGENTLENS_LAKE": str(sample)} | given
    text, said = on_a_terminal(environ, tmp_path, *command)
    assert said == ""
    assert ("\x1b[" in text) == is_coloured
    plain = re.sub(r"\x1b\[\d*m", "", text)
    assert not command or ("total" in plain) == (command[0] == "usage")
    assert max(map(len, plain.splitlines())) <= 100 + len(str(sample))  # a path is not broken


def test_progress_is_for_terminals(environ: Environ, tmp_path: Path, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    command = ["ingest", "--home", str(home), "--reread", "--lake", str(lake)]
    environ |= {"TERM": "xterm-256color", "COLUMNS": "100"}
    shown, piped = on_a_terminal(environ, tmp_path, *command, stderr=True)
    assert "reading" in shown
    assert piped == ""
    assert not re.search(r"\x1b\[[\d;]*m", shown), "NO_COLOR is set"
    _, piped = on_a_terminal(environ, tmp_path, *command)
    assert "reading" not in piped
    assert "\x1b" not in piped
    assert "reading" not in on_a_terminal(environ, tmp_path, *command, "--quiet", stderr=True)[0]


# --- without a command -----------------------------------------------------------------------------------------------


def test_alone_without_a_lake_it_says_how_to_begin(agentlens: Agentlens, environ: Environ, lake: Path) -> None:
    environ["AGENTLENS_LAKE"] = str(lake)
    done = agentlens(code=0)
    assert "agentlens run" in done.stdout
    assert str(lake) in done.stdout
    assert done.stderr == ""
    assert not lake.exists()


def test_alone_it_shows_the_last_days(agentlens: Agentlens, environ: Environ, home: Path, lake: Path) -> None:
    """Two requests of today, one of them without a price; what is older does not count."""
    today = datetime.now(UTC)
    lines = []
    for number, days in ((0, 0), (1, 1), (2, 40)):
        row = json.loads(response("s", number)) | {"timestamp": (today - timedelta(days=days)).isoformat()}
        row["message"]["model"] = "no-such-model" if number == 1 else "claude-sonnet-5"
        lines.append(json.dumps(row))
    (project(home) / "s.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    environ["AGENTLENS_LAKE"] = str(lake)
    agentlens("ingest", "--home", home, code=0)
    shown = agentlens(code=0).stdout.splitlines()
    assert shown[0] == "The last 30 days: 2 requests in 1 sessions."
    (priced,) = (line.split() for line in shown if "claude-sonnet-5" in line)
    # 3 input, 20 output, 1,000 read and 40 written tokens: 3 x 3 + 20 x 15 + 1,000 x 0.3 + 40 x 3.75 USD a million
    assert priced == ["claude-code", "claude-sonnet-5", "1", "0", "3", "20", "1,000", "40", priced[-1]]
    assert priced[-1].startswith("~$0.000")
    (unpriced,) = (line.split() for line in shown if line.startswith("claude-code") and "no-such-model" in line)
    assert unpriced == ["claude-code", "no-such-model", "1", "1", "3", "20", "1,000", "40", "n/a"]
    (total,) = (line.split() for line in shown if line.startswith("total"))
    assert total[:7] == ["total", "2", "1", "6", "40", "2,000", "80"]
    assert any("Without a price: no-such-model" in line for line in shown)
    assert any("agentlens doctor" in line for line in shown)


def test_alone_it_says_so_when_nothing_is_new(agentlens: Agentlens, environ: Environ, home: Path, lake: Path) -> None:
    row = json.loads(response("s", 0)) | {"timestamp": "2026-01-02T00:00:00Z"}
    (project(home) / "s.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    environ["AGENTLENS_LAKE"] = str(lake)
    agentlens("ingest", "--home", home, code=0)
    shown = agentlens(code=0).stdout
    assert "The last 30 days: 0 requests" in shown
    assert "2026-01-02" in shown


# --- where things are found ------------------------------------------------------------------------------------------


def test_the_lake_of_the_environment(agentlens: Agentlens, environ: Environ, home: Path, lake: Path) -> None:
    environ["AGENTLENS_LAKE"] = str(lake)
    agentlens("ingest", "--home", home, code=0)
    assert (lake / "agentlens.duckdb").exists()
    agentlens("ingest", "--home", home, "--lake", lake.parent / "other", code=0)
    assert (lake.parent / "other" / "agentlens.duckdb").exists()


def test_the_lake_of_the_users_data_folder(agentlens: Agentlens, environ: Environ, home: Path, tmp_path: Path) -> None:
    environ["XDG_DATA_HOME"] = str(tmp_path / "data")
    agentlens("ingest", "--home", home, code=0)
    assert (tmp_path / "data" / "agentlens" / "lake" / "agentlens.duckdb").exists()


def test_home_is_read_and_the_clients_environment_ignored(
    agentlens: Agentlens, environ: Environ, tmp_path: Path, home: Path, lake: Path
) -> None:
    for name, where in (("asked", home), ("moved", tmp_path / "moved"), ("own", Path(environ["HOME"]))):
        (project(where) / f"{name}.jsonl").write_bytes(response(name, 0))
    environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / "moved" / ".claude")
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    agentlens("ingest", "--lake", lake.parent / "by-environment", code=0)
    sql = "select session_id from sessions"
    assert agentlens("sql", sql, "--lake", lake, code=0).stdout.split() == ["session_id", "asked"]
    found = agentlens("sql", sql, "--lake", lake.parent / "by-environment", code=0).stdout.split()
    assert found == ["session_id", "moved"]


@pytest.fixture
def config(environ: Environ, tmp_path: Path) -> Path:
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    path = tmp_path / "config" / "agentlens" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_option_beats_environment_beats_config_file(
    agentlens: Agentlens, environ: Environ, config: Path, sample: Path, tmp_path: Path
) -> None:
    config.write_text(f'[usage]\nlake = "{sample}"\nby = "month"\nformat_name = "json"\n', encoding="utf-8")
    assert "month" in json.loads(agentlens("usage", code=0).stdout)[0]
    environ["AGENTLENS_USAGE_BY"] = "week"
    assert "week" in json.loads(agentlens("usage", code=0).stdout)[0]
    assert "session" in json.loads(agentlens("usage", "--by", "session", code=0).stdout)[0]
    one_error(agentlens("usage", "--lake", tmp_path / "other"), 1, "other")


def test_the_environments_lake_beats_that_of_the_config_file(
    agentlens: Agentlens, environ: Environ, config: Path, sample: Path, tmp_path: Path
) -> None:
    config.write_text(f'[usage]\nlake = "{tmp_path / "other"}"\n', encoding="utf-8")
    environ["AGENTLENS_LAKE"] = str(sample)
    agentlens("usage", code=0)


@pytest.mark.parametrize("text", ["usage = [", "\udcff\udcfe"], ids=["broken", "no-text"])
def test_a_broken_config_file_is_named(agentlens: Agentlens, config: Path, text: str) -> None:
    config.write_bytes(text.encode("utf-8", "surrogateescape"))
    one_error(agentlens("usage"), 2, "config.toml")


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", contracts.public_names())
def test_every_view_is_a_command_with_help(agentlens: Agentlens, view: str) -> None:
    shown = agentlens(view, "--help", code=0).stdout
    assert not [column.name for column in contracts.load(view).columns if f" {column.name} " not in shown]


def test_counts_in_json_say_whether_they_are_measured(agentlens: Agentlens, sample: Path) -> None:
    rows = json.loads(agentlens("skills", "--lake", sample, "--format", "json", code=0).stdout)
    assert rows
    for row in rows:
        for name in ("baseline", "load", "carry", "overhead_tokens"):
            assert row[name].keys() == {"count", "measured"}
            assert row[name]["measured"] is False
        assert isinstance(row["requests"], int)
        assert row["overhead_usd"] is None or isinstance(row["overhead_usd"], float)
    assert {"count": None, "measured": False} in [row["body_tokens"] for row in rows]


def test_money_in_json_is_two_plain_numbers(agentlens: Agentlens, sample: Path) -> None:
    rows = json.loads(agentlens("usage", "--lake", sample, "--format", "json", code=0).stdout)
    assert {type(row["estimated_usd"]) for row in rows} == {float, type(None)}  # a model of the sample has no price
    assert {row["measured_usd"] for row in rows} == {None}


@pytest.mark.parametrize("by", ["day", "week", "month", "session", "block"])
def test_usage_by_a_period(agentlens: Agentlens, sample: Path, by: str) -> None:
    rows = list(csv.DictReader(io.StringIO(agentlens("usage", "--lake", sample, "--by", by, code=0).stdout)))
    assert next(iter(rows[0])) == by
    assert sum(int(row["requests"]) for row in rows) == SAMPLE_REQUESTS


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_two_sides(agentlens: Agentlens, sample: Path) -> None:
    def requests(where: str) -> int:
        done = agentlens("sql", f"select sum(n_requests) as n from requests where {where}", "--lake", sample, code=0)
        return int(done.stdout.split()[1])

    sides = ["--a", "client=codex", "--b", "project=/projects/ledger/"]
    rows = rows_of(agentlens("compare", "--lake", sample, *sides, code=0))
    a, b = requests("client = 'codex'"), requests("project = '/projects/ledger'")
    found = [(row["group_name"], int(row["requests"])) for row in rows]
    assert found == [("A: client=codex", a), ("B: project=/projects/ledger", b), ("difference", b - a)]


@pytest.mark.parametrize("view", ["flow", "timeline"])
def test_one_session(agentlens: Agentlens, sample: Path, view: str) -> None:
    everything = rows_of(agentlens(view, "--lake", sample, code=0))
    chosen = everything[-1]["session_id"]
    expected = [row for row in everything if row["session_id"] == chosen]
    assert rows_of(agentlens(view, "--lake", sample, "--session", chosen, code=0)) == expected
    assert rows_of(agentlens(view, "--lake", sample, "--session", chosen[:13], code=0)) == expected
    assert rows_of(agentlens(view, "--lake", sample, "--session", "none-such", code=0)) == []


@pytest.mark.parametrize("view", contracts.public_names())
def test_every_view_is_sorted_cut_and_made_compact(agentlens: Agentlens, sample: Path, view: str) -> None:
    """By its last column that is no flag, largest first, n/a last; a table says how much of it is shown."""
    column = [column.name for column in contracts.load(view).columns if not column.is_flag][-1]
    by = ["--sort", f"{column}:desc", "--lake", str(sample)]
    everything = rows_of(agentlens(view, *by, code=0))
    keys = [row[column] for row in everything]
    known = [key for key in keys if key]
    assert keys == [*known, *[""] * (len(keys) - len(known))]
    values = [float(key) for key in known] if re.fullmatch(r"-?[\d.]+(e-?\d+)?", known[0] if known else "") else known
    assert values == sorted(values, reverse=True)
    assert rows_of(agentlens(view, *by, "--limit", "2", code=0)) == everything[:2]
    shown = agentlens(view, *by, "--limit", "1", "--compact", "--format", "table", code=0).stdout
    assert len(everything) < 2 or f"1 of {len(everything):,} rows" in shown


def test_sorted_by_several_columns(agentlens: Agentlens, sample: Path) -> None:
    by = ["--by", "month", "--sort", "client", "--sort", "-output tokens", "--sort", "month"]
    rows = rows_of(agentlens("usage", "--lake", sample, *by, code=0))
    keys = [(row["client"], -int(row["output_tokens"])) for row in rows]
    assert keys == sorted(keys)
    (first,) = rows_of(agentlens("usage", "--lake", sample, *by, "--limit", "1", code=0))
    assert first == rows[0]


def test_a_total_is_of_all_rows(agentlens: Agentlens, sample: Path) -> None:
    shown = agentlens("usage", "--lake", sample, "--limit", "2", "--format", "table", code=0).stdout
    (total,) = (line.split() for line in shown.splitlines() if line.startswith("total"))
    assert total[1] == str(SAMPLE_REQUESTS)
    assert "the totals are of all" in shown


def test_the_course_of_a_session(agentlens: Agentlens, environ: Environ, sample: Path) -> None:
    """Bars on a terminal, and in no file; letters where the terminal has no bars."""
    session = "cccecb3b-30c0-49f0-a1a2-e6e633eb866e"
    contexts = [
        int(row["context_tokens"]) for row in rows_of(agentlens("flow", "--lake", sample, "--session", session))
    ]
    call = ["flow", "--lake", str(sample), "--session", session]
    (line,) = (
        line
        for line in agentlens(*call, "--format", "table", code=0).stdout.splitlines()
        if "claude-code cccecb3b" in line
    )
    bars = line.split()[2]
    assert len(bars) == len(contexts)
    assert bars[contexts.index(max(contexts))] == "█"
    assert bars[contexts.index(min(contexts))] == "▁"
    assert line.endswith(f"{min(contexts):,} to {max(contexts):,}")
    assert "█" not in agentlens(*call, code=0).stdout + agentlens(*call, "--format", "json", code=0).stdout
    environ["PYTHONIOENCODING"] = "ascii"
    plain = agentlens(*call, "--format", "table", code=0).stdout
    assert plain.isascii()
    assert "#" in plain


def test_filters(agentlens: Agentlens, sample: Path) -> None:
    def requests(*options: str) -> int:
        done = agentlens("usage", "--lake", sample, *options, "--format", "json", code=0)
        return sum(row["requests"] for row in json.loads(done.stdout))

    codex, claude = requests("--client", "codex"), requests("--client", "claude-code")
    assert 0 < codex < SAMPLE_REQUESTS
    assert codex + claude == requests("--client", "codex", "--client", "claude-code") == SAMPLE_REQUESTS
    assert requests("--project", "ledger") == requests("--project", "/projects/ledger/")
    assert requests("--project", "ledger") + requests("--project", "harbor-web") == requests()
    assert requests("--project", "edger") == 0


def test_limit_and_line_ends(agentlens: Agentlens, sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "usage.csv"
    agentlens("usage", "--lake", sample, "--limit", "2", "--newline", "crlf", "--output", out, code=0)
    assert out.read_bytes().count(b"\r\n") == out.read_bytes().count(b"\n") == 3
    assert [path.name for path in tmp_path.glob("usage*")] == ["usage.csv"]


def test_the_format_of_a_files_name(agentlens: Agentlens, sample: Path, tmp_path: Path) -> None:
    agentlens("usage", "--lake", sample, "--output", tmp_path / "usage.json", code=0)
    assert json.loads((tmp_path / "usage.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-03-29", "2026-03-29", ["first", "last"]),
        ("2026-03-29", None, ["first", "last", "after"]),
        (None, "2026-03-28", ["before"]),
        (None, "2026-03-29", ["before", "first", "last"]),
        ("2026-03-29T12:00", None, ["last", "after"]),
        ("2026-03-29T21:59:59Z", None, ["last", "after"]),
    ],
)
def test_days_are_whole_in_a_zone_whose_clocks_change(
    agentlens: Agentlens, home: Path, lake: Path, since: str | None, until: str | None, expected: list[str]
) -> None:
    """29 March 2026 has 23 hours in Berlin: 28 March 23:00 to 29 March 22:00 UTC."""
    times = {"before": "28T22:59:59", "first": "28T23:00:00", "last": "29T21:59:59", "after": "29T22:00:00"}
    for name, time in times.items():
        row = json.loads(response(name, 0)) | {"timestamp": f"2026-03-{time}.000Z"}
        (project(home) / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    options = [*(("--since", since) if since else ()), *(("--until", until) if until else ())]
    shown = agentlens("requests", "--lake", lake, "--timezone", "Europe/Berlin", *options, "--format", "json", code=0)
    assert sorted(row["session_id"] for row in json.loads(shown.stdout)) == sorted(expected)


# --- run and export --------------------------------------------------------------------------------------------------


def test_run_writes_every_view(agentlens: Agentlens, lake: Path, tmp_path: Path) -> None:
    done = agentlens("run", "--home", SAMPLE, "--lake", lake, "--output", tmp_path / "csv", code=0)
    assert {path.name for path in (tmp_path / "csv").iterdir()} == {f"{name}.csv" for name in contracts.public_names()}
    assert done.stdout == ""
    agentlens("run", "--home", SAMPLE, "--lake", lake, code=0)
    assert (lake.parent / "csv" / "usage.csv").exists()


def test_a_workbook_is_a_sheet_a_view(agentlens: Agentlens, environ: Environ, sample: Path, tmp_path: Path) -> None:
    environ["AGENTLENS_LAKE"] = str(sample)
    book = tmp_path / "report.xlsx"
    agentlens("export", "--view", "skills", "--view", "idle", "--format", "xlsx", "--output", book, code=0)
    sheets = openpyxl.load_workbook(book)
    assert sheets.sheetnames == ["skills", "idle", "Notes"]
    (total,) = json.loads(agentlens("sql", "select sum(overhead_tokens) as n from skills", "-f", "json", code=0).stdout)
    header, *rows = sheets["skills"].iter_rows()
    at = [cell.value for cell in header].index("overhead_tokens")
    assert sum(row[at].value or 0 for row in rows) == total["n"] > 0
    assert all(row[at].number_format.startswith('"~"') for row in rows if row[at].value is not None)
    agentlens("export", "--output", book, code=0)
    assert openpyxl.load_workbook(book, read_only=True).sheetnames == [*contracts.public_names(), "Notes"]
    agentlens("skills", "--output", tmp_path / "skills.xlsx", code=0)
    assert openpyxl.load_workbook(tmp_path / "skills.xlsx").sheetnames == ["skills", "Notes"]
    agentlens("export", "--view", "skills", "--format", "xlsx", "--output", tmp_path / "folder", code=0)
    assert (tmp_path / "folder" / "skills.xlsx").read_bytes() == (tmp_path / "skills.xlsx").read_bytes()


def test_parquet_holds_what_the_view_says(agentlens: Agentlens, environ: Environ, sample: Path, tmp_path: Path) -> None:
    environ["AGENTLENS_LAKE"] = str(sample)
    agentlens("export", "--format", "parquet", "--output", tmp_path / "all", code=0)
    assert {path.stem for path in (tmp_path / "all").glob("*.parquet")} == set(contracts.public_names())
    agentlens("sql", "select * from usage", "--format", "parquet", "-o", tmp_path / "x.parquet", code=0)
    by = ["day", "client", "model", "project"]
    assert_frame_equal(
        pl.read_parquet(tmp_path / "x.parquet").sort(by), pl.read_parquet(tmp_path / "all" / "usage.parquet").sort(by)
    )


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_one_file_for_many_views_is_a_workbook_or_an_error(
    agentlens: Agentlens, sample: Path, tmp_path: Path, form: str
) -> None:
    out = tmp_path / f"out.{form}"
    done = agentlens("export", "--view", "skills", "--view", "idle", "--output", out, "--lake", sample)
    one_error(done, 2, str(out), "--view", "--format xlsx")
    assert not out.exists()


@pytest.mark.parametrize("command", [["usage"], ["sql", "select 1"], ["export", "--output", "-"]])
def test_no_workbook_to_a_terminal(environ: Environ, sample: Path, tmp_path: Path, command: list[str]) -> None:
    """As typed by somebody who forgot the file."""
    pty = pytest.importorskip("pty")
    mine, its = pty.openpty()
    call = [sys.executable, "-m", "pipeline", *command, "--format", "xlsx", "--lake", str(sample)]
    done = subprocess.run(call, env=environ, cwd=tmp_path, stdout=its, stderr=subprocess.PIPE, text=True, check=False)
    os.close(its)
    os.close(mine)
    assert done.returncode == 2
    assert done.stderr == "agentlens: error: xlsx is not for a terminal; name a file: --output FILE.xlsx\n"


def test_a_workbook_into_a_pipe(environ: Environ, sample: Path, tmp_path: Path) -> None:
    call = [sys.executable, "-m", "pipeline", "usage", "--format", "xlsx", "--lake", str(sample)]
    done = subprocess.run(call, env=environ, cwd=tmp_path, capture_output=True, check=True)
    assert openpyxl.load_workbook(io.BytesIO(done.stdout)).sheetnames == ["usage", "Notes"]


def test_run_strict_tells_of_skipped_lines(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2) + b"{broken\n")
    done = agentlens("run", "--home", home, "--lake", lake, "--strict", code=1)
    assert "lines skipped: 1" in done.stderr
    agentlens("run", "--home", home, "--lake", lake.parent / "other", code=0)


def test_run_strict_tells_of_models_without_a_price(agentlens: Agentlens, home: Path, lake: Path) -> None:
    line = response("s", 0).replace(b"claude-sonnet-5", b"no-such-model")
    (project(home) / "s.jsonl").write_bytes(line)
    done = agentlens("run", "--home", home, "--lake", lake, "--strict", code=1)
    assert "models without a price: 1" in done.stderr


def test_run_strict_is_0_when_all_is_well(agentlens: Agentlens, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    agentlens("run", "--home", home, "--lake", lake, "--strict", code=0)


def test_run_shows_the_sample_where_there_is_nothing(
    agentlens: Agentlens, home: Path, lake: Path, tmp_path: Path
) -> None:
    done = agentlens("run", "--home", home, "--lake", lake, "--output", tmp_path / "csv", "--sample-if-empty", code=0)
    assert "sample" in done.stderr
    assert "/projects/ledger" in (tmp_path / "csv" / "usage.csv").read_text(encoding="utf-8")
    assert "ledger" not in agentlens("sessions", "--lake", lake, code=0).stdout
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 2))
    agentlens("run", "--home", home, "--lake", lake, "--output", tmp_path / "csv", "--sample-if-empty", code=0)
    assert "ledger" not in (tmp_path / "csv" / "usage.csv").read_text(encoding="utf-8")


def test_prices_are_remembered_until_none(agentlens: Agentlens, tmp_path: Path, home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(response("s", 0).replace(b"claude-sonnet-5", b"my-model"))
    prices = tmp_path / "prices.csv"
    # 3 x 0.001 + 20 x 0.01 + 1000 x 0.0001 + 40 x 0.002
    prices.write_text(f"{HEADER}my-model,1000,10000,100,2000\n", encoding="utf-8")

    def cost(*options: str | Path) -> float | None:
        agentlens("ingest", "--home", home, "--lake", lake, *options, code=0)
        (row,) = json.loads(agentlens("requests", "--lake", lake, "--format", "json", code=0).stdout)
        found: float | None = row["estimated_usd"]
        return found

    assert cost() is None
    assert cost("--prices", prices) == pytest.approx(0.383)
    prices.unlink()
    assert cost() == pytest.approx(0.383)
    assert "my-model" in agentlens("prices", "--lake", lake, code=0).stdout
    assert cost("--prices", "none") is None
    assert "my-model" not in agentlens("prices", "--lake", lake, code=0).stdout


def test_a_bad_price_file_leaves_the_good_one(agentlens: Agentlens, tmp_path: Path, home: Path, lake: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text(f"{HEADER}my-model,1,2,3,4\n", encoding="utf-8")
    agentlens("ingest", "--home", home, "--lake", lake, "--prices", prices, code=0)
    no_number(prices)
    agentlens("ingest", "--home", home, "--lake", lake, "--prices", prices, code=2)
    assert "my-model" in agentlens("prices", "--lake", lake, code=0).stdout


def test_a_lake_that_was_moved_answers(agentlens: Agentlens, sample: Path, tmp_path: Path) -> None:
    """Its views name the files' place: they are made anew."""
    shutil.copytree(sample, tmp_path / "moved")
    before = agentlens("usage", "--lake", sample, code=0).stdout
    assert agentlens("usage", "--lake", tmp_path / "moved", code=0).stdout == before


def test_schema_tells_of_tables_and_views(agentlens: Agentlens) -> None:
    rows = json.loads(agentlens("schema", "--format", "json", code=0).stdout)
    assert {"lake.requests", "lake.sources", "usage", "skills"} <= {row["relation"] for row in rows}
    (baseline,) = (row for row in rows if (row["relation"], row["column"]) == ("skills", "baseline"))
    assert (baseline["type"], baseline["unit"], baseline["measured"]) == ("BIGINT", "tokens", "baseline_measured")
    only = json.loads(agentlens("schema", "lake.requests", "--format", "json", code=0).stdout)
    assert {row["relation"] for row in only} == {"lake.requests"}


def test_every_format_can_be_asked_for() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES


# --- estimators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [name for name in contracts.public_names() if contracts.load(name).sizes_texts])
def test_a_report_says_how_sizes_were_estimated(agentlens: Agentlens, sample: Path, view: str) -> None:
    shown = agentlens(view, "--lake", sample, "--format", "table", "--estimator", "calibrated", code=0).stdout
    assert "Sizes of texts: estimated" in " ".join(shown.split())
    written = agentlens(view, "--lake", sample, "--format", "csv", code=0)
    assert "Sizes of texts" not in written.stdout + written.stderr


def test_only_views_with_sizes_of_texts_have_an_estimator(agentlens: Agentlens, sample: Path) -> None:
    assert agentlens("usage", "--lake", sample, "--estimator", "calibrated").returncode == 2
    assert agentlens("skills", "--lake", sample, "--estimator", "exactly").returncode == 2


def test_an_export_says_how_sizes_were_estimated(agentlens: Agentlens, sample: Path, tmp_path: Path) -> None:
    done = agentlens("export", "--view", "skills", "--view", "idle", "--lake", sample, "-o", tmp_path / "out", code=0)
    assert "Sizes of texts: estimated as characters / 4" in done.stderr
    assert "Sizes of texts" not in agentlens("export", "--view", "usage", "--lake", sample, "-o", tmp_path).stderr
