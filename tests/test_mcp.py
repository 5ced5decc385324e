"""The MCP server as agents meet it: the SDK's own client, over stdin and stdout of a process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent, Tool

from pipeline import contracts
from tests.conftest import Agentlens
from tests.tools.lakes import sample_lake

TOOLS = [*contracts.public_names(), "sql"]
ENDLESS = "select count(*) from range(1000000000000) where sin(range) > 2"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake(tmp_path_factory.getbasetemp())


@dataclass
class Server:
    """Runs `agentlens mcp` for one session."""

    environ: dict[str, str]
    lake: Path
    stderr: Path
    options: tuple[str, ...] = ()
    said: str = field(default="", init=False)

    def session(self, talk: Callable[[Client], Awaitable[None]]) -> None:
        """Start the server, talk with it, end it. What it says on stderr is kept."""
        arguments = ["-m", "pipeline", "mcp", "--lake", str(self.lake), *self.options]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=self.environ)

        async def run() -> None:
            with self.stderr.open("w+", encoding="utf-8") as errors:
                with anyio.fail_after(90):
                    async with Client(stdio_client(parameters, errlog=errors)) as client:
                        await talk(client)
                errors.seek(0)
                self.said = errors.read()

        anyio.run(run)

    def ask(self, *calls: tuple[str, dict[str, Any]]) -> list[CallToolResult]:
        """The answers to some calls, one after another in one session."""
        found: list[CallToolResult] = []

        async def talk(client: Client) -> None:
            for tool, arguments in calls:
                found.append(await client.call_tool(tool, arguments))

        self.session(talk)
        return found

    def error(self, tool: str, **arguments: Any) -> str:
        """The sentence that a call fails with, by a server that goes on."""
        failed, works = self.ask((tool, arguments), ("sql", {"query": "select 1 as one"}))
        assert failed.is_error
        assert rows(works) == [{"one": 1}]
        assert self.said == ""
        return text(failed)


@pytest.fixture
def server(environ: dict[str, str], sample: Path, tmp_path: Path) -> Server:
    return Server(environ, sample, tmp_path / "stderr.txt")


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def facts(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    found: dict[str, Any] = json.loads(text(result))
    assert result.structured_content == found
    return found


def rows(result: CallToolResult) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = facts(result)["rows"]
    return found


def test_a_tool_a_view_and_one_for_sql(server: Server) -> None:
    listed: list[Tool] = []

    async def talk(client: Client) -> None:
        listed.extend((await client.list_tools()).tools)
        assert client.server_info is not None
        assert client.server_info.name == "agentlens"
        assert "never add them" in str(client.instructions)

    server.session(talk)
    assert [tool.name for tool in listed] == TOOLS
    for tool in listed:
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
        assert tool.input_schema["additionalProperties"] is False
        assert "limit" in tool.input_schema["properties"]
    by_name = {tool.name: tool for tool in listed}
    window = {"since", "until", "clients", "project", "timezone", "limit"}
    sized = {"estimator", *window}
    assert set(by_name["skills"].input_schema["properties"]) == sized
    assert set(by_name["compare"].input_schema["properties"]) == {"by", "a", "b", *sized}
    assert set(by_name["flow"].input_schema["properties"]) == {"session", *sized}
    assert set(by_name["prices"].input_schema["properties"]) == {"limit"}
    assert by_name["usage"].input_schema["properties"]["by"]["enum"] == ["day", "week", "month", "session", "block"]
    assert by_name["sql"].input_schema["required"] == ["query"]
    skills = (by_name["skills"].description or "").splitlines()
    assert [line.partition(":")[0] for line in skills[1:4]] == [
        "Measured",
        "Estimated",
        "Measured or estimated, as each says",
    ]
    assert "carry (" in skills[3]


def test_definitions_are_not_what_fills_a_context_window(server: Server) -> None:
    """About ten thousand tokens at most, as characters / 4, of all tools together."""
    listed: list[Tool] = []

    async def talk(client: Client) -> None:
        listed.extend((await client.list_tools()).tools)

    server.session(talk)
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in listed) < 40_000


def test_every_view_answers_as_the_command_does(server: Server, agentlens: Agentlens, sample: Path) -> None:
    answers = server.ask(
        *((view, {"limit": 1000, "timezone": "UTC"}) for view in WINDOWED), ("prices", {"limit": 1000})
    )
    for view, found in zip([*WINDOWED, "prices"], answers, strict=True):
        shown = agentlens(view, "--lake", sample, "--format", "json", code=0).stdout
        assert rows(found) == json.loads(shown), view
        assert facts(found)["truncated"] is False
        assert facts(found)["row_count"] == len(rows(found))
    assert server.said == ""


WINDOWED = [view for view in contracts.public_names() if contracts.load(view).has_window]


def test_counts_say_whether_they_are_measured(server: Server) -> None:
    (found,) = server.ask(("skills", {}))
    assert {row["baseline"]["measured"] for row in rows(found)} == {False}
    assert {"count": None, "measured": False} in [row["body_tokens"] for row in rows(found)]


def test_windows_filters_and_options_of_a_view(server: Server, agentlens: Agentlens, sample: Path) -> None:
    asked: list[tuple[str, dict[str, Any], list[str]]] = [
        ("usage", {"by": "month"}, ["--by", "month"]),
        ("usage", {"clients": ["codex"], "project": "ledger"}, ["--client", "codex", "--project", "ledger"]),
        ("usage", {"since": "2026-11-20", "until": "2026-11-25"}, ["--since", "2026-11-20", "--until", "2026-11-25"]),
        (
            "compare",
            {"a": "client=codex", "b": "client=claude-code"},
            ["--a", "client=codex", "--b", "client=claude-code"],
        ),
        ("compare", {"by": "project", "clients": None}, ["--by", "project"]),
        ("flow", {"session": "no-such-session"}, ["--session", "no-such-session"]),
    ]
    answers = server.ask(*((tool, arguments) for tool, arguments, _ in asked))
    for found, (tool, _, options) in zip(answers, asked, strict=True):
        shown = agentlens(tool, *options, "--lake", sample, "--format", "json", code=0).stdout
        assert rows(found) == json.loads(shown)
    assert "month" in rows(answers[0])[0]
    assert rows(answers[-1]) == []


def test_what_was_left_out_is_said(server: Server) -> None:
    server.options = ("--row-limit", "60")
    cut, most, whole, by_default = server.ask(
        ("sql", {"query": "select range as n from range(1000000000000)", "limit": 3}),
        ("sql", {"query": "select range as n from range(100)", "limit": 60}),
        ("sql", {"query": "select range as n from range(3)", "limit": 3}),
        ("sql", {"query": "select range as n from range(51)"}),
    )
    assert rows(cut) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (facts(cut)["truncated"], facts(cut)["row_count"]) == (True, 3)
    assert facts(cut)["note"] == "there are more rows; raise limit, to 60 at most; sums over these are not of all"
    assert facts(most)["truncated"] is True
    assert "raise limit" not in facts(most)["note"]
    assert (facts(whole)["truncated"], "note" in facts(whole)) == (False, False)
    assert (facts(by_default)["truncated"], facts(by_default)["row_count"]) == (True, 50)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool": ("no_such_view", {}, "no_such_view"),
    "argument": ("skills", {"from": "7d"}, "'from'"),
    "window-of-prices": ("prices", {"since": "7d"}, "'since'"),
    "since": ("skills", {"since": "last tuesday"}, "since: 'last tuesday' is no time"),
    "since-before-time": ("skills", {"since": "0001-01-01", "timezone": "Asia/Tokyo"}, "is no time"),
    "since-a-number": ("skills", {"since": 7}, "since: 7 is no text"),
    "until": ("skills", {"until": "2026-02-30"}, "2026-02-30"),
    "zone": ("skills", {"timezone": "Mars/Olympus"}, "Mars/Olympus"),
    "client": ("skills", {"clients": ["no-such-client"]}, "claude-code"),
    "clients-a-text": ("skills", {"clients": "codex"}, "no list"),
    "by": ("usage", {"by": "fortnight"}, "none of day, week"),
    "one-side": ("compare", {"a": "project=x"}, "give both"),
    "side": ("compare", {"a": "x", "b": "y"}, "COLUMN=VALUE"),
    "limit": ("skills", {"limit": 0}, "from 1 to 1,000"),
    "limit-above": ("skills", {"limit": 1001}, "from 1 to 1,000"),
    "limit-a-truth": ("skills", {"limit": True}, "whole number"),
    "no-query": ("sql", {}, "query is missing"),
    "no-sql": ("sql", {"query": "what does it cost?"}, "syntax error"),
    "no-column": ("sql", {"query": "select cost from usage"}, "cost"),
    "late": ("sql", {"query": "select cast(s as int) as n from (values ('1'), ('x')) t(s)"}, "x"),
    "empty": ("sql", {"query": ""}, "one statement"),
    "two": ("sql", {"query": "select 1; select 2"}, "one statement"),
    "large": ("sql", {"query": "select repeat('x', 2000000)"}, "2,000,032 bytes"),
}


@pytest.mark.parametrize("part", range(4))
def test_a_wrong_call_is_a_sentence(server: Server, part: int) -> None:
    names = list(WRONG)[part::4]
    answers = server.ask(*((WRONG[name][0], WRONG[name][1]) for name in names), ("sql", {"query": "select 1 as one"}))
    for name, found in zip(names, answers[:-1], strict=True):
        assert found.is_error, name
        assert WRONG[name][2] in text(found), name
        assert "\n" not in text(found)
    assert rows(answers[-1]) == [{"one": 1}]
    assert server.said == ""


def test_sql_writes_nothing_and_reads_nothing_else(server: Server, tmp_path: Path, sample: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\nsecret\n", encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in sample.rglob("*")}
    refused = [
        "create table t (a int)",
        "insert into usage values (1)",
        f"copy (select 1) to '{tmp_path}/out.csv'",
        f"copy (select 1) to '{sample}/out.csv'",
        f"export database '{sample}/out'",
        "explain analyze copy (select 1) to 'out.csv'",
        "attach 'x.db'",
        "install httpfs",
        "set variable since = 1",
        f"select * from read_csv('{tmp_path}/secret.csv')",
        f"select * from '{tmp_path}/secret.csv'",
        "select * from read_text('/etc/hostname')",
        "select getenv('HOME')",
    ]
    for query, found in zip(refused, server.ask(*(("sql", {"query": query}) for query in refused)), strict=True):
        assert found.is_error, query
        assert "secret" not in text(found).replace("secret.csv", "")
    assert {path: path.stat().st_mtime_ns for path in sample.rglob("*")} == before
    assert not list(tmp_path.glob("out*"))


def test_a_query_without_end_is_stopped(server: Server) -> None:
    server.options = ("--time-limit", "0.5")
    begun = time.monotonic()
    assert "time limit of 0.5 seconds" in server.error("sql", query=ENDLESS)
    assert time.monotonic() - begun < 30


def test_calls_do_not_wait_for_each_other(server: Server) -> None:
    server.options = ("--time-limit", "5")
    done: list[str] = []

    async def talk(client: Client) -> None:
        async def call(name: str, tool: str, arguments: dict[str, Any]) -> None:
            found = await client.call_tool(tool, arguments)
            assert found.is_error == (name == "endless")
            done.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(call, "endless", "sql", {"query": ENDLESS})
            for project in ("ledger", "harbor-web", "ledger", "nowhere"):
                group.start_soon(call, project, "skills", {"project": project})

    server.session(talk)
    assert done[-1] == "endless"
    assert len(done) == 5


def test_a_lake_that_comes_later(server: Server, sample: Path, tmp_path: Path) -> None:
    server.lake = tmp_path / "later"

    async def talk(client: Client) -> None:
        for tool, arguments in (("usage", {}), ("sql", {"query": "select 1"})):
            nothing = await client.call_tool(tool, arguments)
            assert nothing.is_error
            assert text(nothing) == f"there is no lake at {server.lake} yet; make one with: agentlens run"
        shutil.copytree(sample, server.lake)
        assert rows(await client.call_tool("usage", {}))

    server.session(talk)
    assert server.said == ""


# --- the process ---------------------------------------------------------------------------------------------------


def lines(*messages: dict[str, Any] | str) -> str:
    return "".join(f"{m if isinstance(m, str) else json.dumps({'jsonrpc': '2.0', **m})}\n" for m in messages)


HELLO = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
READY = {"method": "notifications/initialized"}


@pytest.fixture
def raw(environ: dict[str, str], sample: Path, tmp_path: Path) -> Callable[[str], Iterator[Any]]:
    """What the process answers to lines on its stdin, which then ends."""

    def talk(text: str) -> Iterator[Any]:
        command = [sys.executable, "-m", "pipeline", "mcp", "--lake", str(sample)]
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        wanted = text.count('"id"')
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(wanted)]
        rest, errors = process.communicate(timeout=60)
        assert (rest, errors, process.returncode) == ("", "", 0)
        yield from answers

    return talk


def test_stdout_is_protocol_and_the_end_of_stdin_the_end(raw: Callable[[str], Iterator[Any]]) -> None:
    call = {"id": 2, "method": "tools/call", "params": {"name": "usage", "arguments": {"limit": 1}}}
    hello, answer = raw(lines(HELLO, READY, call))
    assert hello["result"]["serverInfo"]["name"] == "agentlens"
    assert json.loads(answer["result"]["content"][0]["text"])["row_count"] == 1


def test_what_is_no_message_ends_nothing(raw: Callable[[str], Iterator[Any]]) -> None:
    nul = {"id": 4, "method": "tools/call", "params": {"name": "usage", "arguments": {"project": "\0"}}}
    call = {"id": 5, "method": "tools/call", "params": {"name": "sql", "arguments": {"query": "select 1 as one"}}}
    answers = {answer.get("id"): answer for answer in raw(lines(HELLO, READY, "no json", "", nul, call))}
    assert json.loads(answers[5]["result"]["content"][0]["text"])["rows"] == [{"one": 1}]
    assert "result" in answers[4]


def test_without_the_extra(agentlens: Agentlens, tmp_path: Path, environ: dict[str, str]) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mcp':\n"
        "            raise ModuleNotFoundError(f'no {name}')\n"
        "sys.meta_path.insert(0, Hide())\n",
        encoding="utf-8",
    )
    environ["PYTHONPATH"] = f"{hidden}:{environ['PYTHONPATH']}"
    done = agentlens("mcp", code=1)
    assert done.stdout == ""
    assert done.stderr == (
        "agentlens: error: the package mcp, 2.3 or newer, is not installed (no mcp); "
        "install it with: pip install 'agentlens-pipeline[mcp]'\n"
    )


def test_its_help_says_how_to_register_it_and_loads_nothing(agentlens: Agentlens) -> None:
    done = agentlens("mcp", "--help", code=0, python=("-X", "importtime"))
    assert "claude mcp add --scope user agentlens -- agentlens mcp" in done.stdout
    assert "codex mcp add agentlens -- agentlens mcp" in done.stdout
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert not loaded & {"mcp", "pydantic", "anyio", "duckdb", "pyarrow", "polars"}
