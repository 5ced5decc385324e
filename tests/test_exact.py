"""`--exact` against a server on loopback that speaks the token counting endpoint."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipeline import contracts, exact
from pipeline.client import Home, sha256
from pipeline.clients.claude_code import ClaudeCode
from pipeline.schema import ExactCount
from tests.conftest import ROOT, Agentlens
from tests.robustness.killing import MOMENTS, deadly
from tests.robustness.transcripts import project
from tests.tools.lakes import MACHINE, ask, ingest, query

pytest.importorskip("anthropic")

SONNET, OPUS = "claude-sonnet-5", "claude-opus-4-6"
FRAME = 9  # tokens that the server counts for a request beside its text
LISTING = "- pdf: reads and fills PDF forms"
BODY = "Base directory for this skill: /h/pdf\n\nUse the form reader, then say what you found."
CLAUDE_MD = "Write short sentences. Test first."
TYPED = "the launch codes are 0000"  # by a person: it must never be sent

Reply = tuple[int, dict[str, str], object]


def tokens(text: str, model: str) -> int:
    """Tokens of a text by the server's own arithmetic: a letter is one for each model."""
    words = len(text.split())
    return words if model == SONNET else 3 * words - 2


def counted(model: str, text: str) -> Reply:
    return 200, {}, {"input_tokens": FRAME + tokens(text, model)}


def failing(status: int, message: str, **headers: str) -> Reply:
    return status, {"retry-after-ms": "1", **headers}, {"type": "error", "error": {"type": "e", "message": message}}


@dataclass
class Endpoint:
    """The server: what it was asked, and how it answers."""

    url: str = ""
    answer: Callable[[str, str], Reply] = counted
    asked: list[tuple[str, str]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    bodies: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What it was asked beside the measuring of frames."""
        return [(model, text) for model, text in self.asked if text != "x"]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    seen = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            asked = json.loads(body)
            seen.paths.add(self.path)
            seen.bodies.append(body)
            seen.asked.append((asked["model"], asked["messages"][0]["content"]))
            status, headers, answer = seen.answer(*seen.asked[-1])
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in ({"content-type": "application/json"} | headers).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    seen.url = f"http://127.0.0.1:{server.server_port}"
    yield seen
    server.shutdown()
    thread.join()
    server.server_close()


# --- a session whose numbers are known -------------------------------------------------------------------------------


def row(kind: str, number: int, **more: Any) -> bytes:
    when = f"2026-11-01T09:{number:02d}:00.000Z"
    same = {"type": kind, "uuid": f"u{number}", "parentUuid": None, "sessionId": "S", "isSidechain": False}
    return json.dumps(same | {"cwd": "/w/app", "version": "2.1.220", "timestamp": when} | more).encode() + b"\n"


def response(number: int, model: str) -> bytes:
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "usage": usage}
    text = [{"type": "text", "text": TYPED}]
    return row("assistant", number, requestId=f"req_{number}", message=message | {"content": text})


def listing(number: int, text: str = LISTING, name: str = "pdf") -> bytes:
    return row("attachment", number, attachment={"type": "skill_listing", "content": text, "names": [name]})


def session(*more: bytes) -> bytes:
    """Two requests of one model, a third one of another: listing and CLAUDE.md in all, the body from the second on."""
    memory = {"path": "/w/app/sub/CLAUDE.md", "content": CLAUDE_MD, "type": "Project"}
    body = {"role": "user", "content": [{"type": "text", "text": BODY}]}
    rows = [
        row("user", 0, message={"role": "user", "content": TYPED}),
        listing(1),
        row("attachment", 2, attachment={"type": "nested_memory", "path": memory["path"], "content": memory}),
        response(3, SONNET),
        row("user", 4, isMeta=True, message=body),
        response(5, SONNET),
        response(6, OPUS),
        *more,
    ]
    return b"".join(rows)


@pytest.fixture
def read(home: Path, lake: Path) -> Path:
    """The lake of that session."""
    (project(home) / "S.jsonl").write_bytes(session())
    ingest(home, lake)
    return lake


@dataclass
class Said:
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    counted: int = 0


def count(lake: Path, url: str, key: str | None = "sk-test", **environ: str) -> Said:
    """What `--exact` does, in this process, for the home beside the lake."""
    said = Said()
    known = {exact.BASE_URL: url, **({exact.KEY: key} if key else {}), **environ}
    said.counted = exact.count(
        exact.Options(lake, Home(lake.parent / "home", {}), MACHINE, known), said.notes.append, said.warnings.append
    )
    return said


def flags(found: dict[str, Any]) -> set[bool]:
    return {value for name, value in found.items() if name.endswith("_measured")}


def skill(lake: Path) -> dict[str, Any]:
    (found,) = ask(lake, "skills")
    return found


def instruction(lake: Path) -> dict[str, Any]:
    (found,) = [item for item in ask(lake, "context") if item["item_kind"] == "instruction"]
    return found


# --- what is counted -------------------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_server_and_measured(read: Path, endpoint: Endpoint) -> None:
    assert flags(skill(read)) == {False}
    said = count(read, endpoint.url)
    assert said.warnings == []
    assert said.counted == 6
    found = skill(read)
    # By hand: the listing has 7 words, 7 or 19 tokens; the body 15 words, 15 or 43 tokens.
    assert (found["baseline"], found["load"], found["carry"]) == (7 + 7 + 19, 15, 43)
    assert found["overhead_tokens"] == 33 + 15 + 43
    assert (found["listing_tokens"], found["body_tokens"]) == (19, 43)
    assert flags(found) == {True}
    (idle,) = [item for item in ask(read, "context") if item["item_kind"] == "skill"]
    assert (idle["overhead_tokens"], idle["overhead_measured"]) == (33, True)
    assert (instruction(read)["overhead_tokens"], instruction(read)["tokens"]) == (5 + 5 + 13, 13)
    assert flags(instruction(read)) == {True}


def test_a_skill_that_is_carried_for_nothing(home: Path, lake: Path, endpoint: Endpoint) -> None:
    (project(home) / "S.jsonl").write_bytes(row("user", 0, message={"content": "hi"}) + listing(1) + response(2, OPUS))
    ingest(home, lake)
    count(lake, endpoint.url)
    (found,) = ask(lake, "idle")
    assert (found["tokens"], found["idle_cost"]) == (19, 19)
    assert flags(found) == {True}


def test_what_is_sent(read: Path, endpoint: Endpoint) -> None:
    said = count(read, endpoint.url)
    assert sorted(endpoint.texts) == sorted((m, t) for m in (SONNET, OPUS) for t in (LISTING, BODY, CLAUDE_MD))
    assert sorted(endpoint.asked) == sorted([*endpoint.texts, (SONNET, "x"), (OPUS, "x")])
    assert endpoint.paths == {"/v1/messages/count_tokens"}
    assert {frozenset(json.loads(body)) for body in endpoint.bodies} == {frozenset({"model", "messages"})}
    assert not [body for body in endpoint.bodies if TYPED in body]
    assert "3 texts of skills and instruction files for 2 models (6 counts) to 127.0.0.1" in said.notes[0]
    assert "6 counted with 8 requests" in said.notes[1]


def test_the_lake_keeps_counts_and_no_texts(read: Path, endpoint: Endpoint) -> None:
    count(read, endpoint.url)
    rows = query(read, "select client, machine, sha256, model_id, tokens from lake.exact_counts")
    kept = {(row["sha256"], row["model_id"]): row["tokens"] for row in rows}
    assert kept == {(sha256(text), model): tokens(text, model) for model, text in endpoint.texts}
    assert {(row["client"], row["machine"]) for row in rows} == {("claude-code", MACHINE)}
    (file,) = read.glob("exact_counts/client=claude-code/month=*/*.parquet")
    assert file.name.startswith(f"{MACHINE}-")
    assert not [path for path in read.rglob("*") if path.is_file() and b"form reader" in path.read_bytes()]


def test_nothing_is_counted_twice(home: Path, read: Path, endpoint: Endpoint) -> None:
    count(read, endpoint.url)
    endpoint.asked.clear()
    assert count(read, endpoint.url) == Said(notes=["exact: nothing new to count"])
    assert endpoint.asked == []
    more = listing(10, "- pdf: another text", "pdf")
    (project(home) / "S.jsonl").write_bytes(session(more, response(11, OPUS)))
    ingest(home, read)
    assert count(read, endpoint.url).counted == 1
    assert endpoint.asked == [(OPUS, "x"), (OPUS, "- pdf: another text")]
    assert len(list(read.glob("exact_counts/*/*/*.parquet"))) == 1
    assert query(read, "select count(*) as n from lake.exact_counts") == [{"n": 7}]


def test_counts_outlive_the_reading_of_everything_again(home: Path, read: Path, endpoint: Endpoint) -> None:
    count(read, endpoint.url)
    before = skill(read)
    (read / "state" / f"{MACHINE}.sqlite").unlink()
    ingest(home, read)
    assert skill(read) == before
    assert count(read, endpoint.url).counted == 0


def test_a_model_of_another_vendor_is_not_asked_for(home: Path, lake: Path, endpoint: Endpoint) -> None:
    (project(home) / "S.jsonl").write_bytes(
        row("user", 0, message={"content": "hi"}) + listing(1) + response(2, "gpt-5.5") + response(3, "house-model")
    )
    ingest(home, lake)
    assert count(lake, endpoint.url).notes == ["exact: nothing new to count"]
    assert endpoint.asked == []


def test_a_text_that_is_gone_is_told(home: Path, read: Path, endpoint: Endpoint) -> None:
    (project(home) / "S.jsonl").unlink()
    said = count(read, endpoint.url)
    assert len(said.warnings) == 1
    assert "3 texts do not stand in a transcript or in the configuration on this machine" in said.warnings[0]
    assert endpoint.asked == []


def test_a_blank_text_is_not_sent(home: Path, lake: Path, endpoint: Endpoint) -> None:
    blank = {"type": "nested_memory", "path": "/w/app/sub/CLAUDE.md", "content": {"content": " \n"}}
    (project(home) / "S.jsonl").write_bytes(
        row("user", 0, message={"content": "hi"}) + row("attachment", 1, attachment=blank) + response(2, SONNET)
    )
    ingest(home, lake)
    assert count(lake, endpoint.url).warnings == []
    assert endpoint.asked == []


# --- what only the configuration holds -------------------------------------------------------------------------------

ENTRY = "- form: fills PDF forms"  # 5 words
ROOT_MD, MORE_MD = "Write short sentences.\n@more.md\n", "Test first.\n"  # 4 and 2 words
LONG_AGO = 1_767_225_600  # 2026-01-01


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def plain_session(name: str, *more: bytes) -> bytes:
    """A request of each model; the file is one of a version that records nothing else, but for what is given."""
    rows = [row("user", 0, message={"content": TYPED}), *more, response(3, SONNET), response(4, OPUS)]
    return b"".join(rows).replace(b'"S"', f'"{name}"'.encode()).replace(b"msg_", f"msg_{name}".encode())


@pytest.fixture
def installed(home: Path, lake: Path) -> Path:
    """The lake of such a session, and of a home with a skill, a subagent, notes, and a CLAUDE.md with an import."""
    root = home / ".claude"
    put(root / "skills" / "form" / "SKILL.md", "---\ndescription: fills PDF forms\n---\nThe body stays here.\n")
    put(root / "agents" / "rev.md", "---\ndescription: reviews\n---\nBe strict.\n")
    put(root / "CLAUDE.md", f"<!-- a note to myself -->\n{ROOT_MD}")
    put(root / "more.md", MORE_MD)
    (project(home) / "S.jsonl").write_bytes(plain_session("S"))
    ingest(home, lake)
    return lake


def of_kind(lake: Path, kind: str) -> list[dict[str, Any]]:
    return [item for item in ask(lake, "context") if item["item_kind"] == kind]


def test_what_only_the_configuration_holds_is_counted(installed: Path, endpoint: Endpoint) -> None:
    assert flags(skill(installed)) == {False}
    said = count(installed, endpoint.url)
    assert said.warnings == []
    assert sorted(endpoint.texts) == sorted((m, t) for m in (SONNET, OPUS) for t in (ENTRY, ROOT_MD, MORE_MD))
    # By hand, a request of each model: 5 words are 5 and 13 tokens, 4 are 4 and 10, 2 are 2 and 4.
    found = skill(installed)
    assert (found["evidence"], found["listing_tokens"], found["baseline"]) == ("config", 13, 5 + 13)
    assert (found["baseline_measured"], found["overhead_measured"]) == (True, True)
    (listed,) = of_kind(installed, "skill")
    assert (listed["evidence"], listed["tokens"], listed["overhead_tokens"]) == ("config", 13, 18)
    assert flags(listed) == {True}
    (idle,) = [item for item in ask(installed, "idle") if item["item_kind"] == "skill"]
    assert (idle["tokens"], idle["idle_cost"]) == (13, 18)
    assert flags(idle) == {True}
    sizes = {Path(i["item"]).name: (i["tokens"], i["overhead_tokens"]) for i in of_kind(installed, "instruction")}
    assert sizes == {"CLAUDE.md": (10, 14), "more.md": (4, 6)}
    assert {flag for item in of_kind(installed, "instruction") for flag in flags(item)} == {True}
    (agent,) = of_kind(installed, "agent")
    assert flags(agent) == {False}


def test_nothing_of_the_configuration_is_counted_twice_or_kept(home: Path, installed: Path, endpoint: Endpoint) -> None:
    count(installed, endpoint.url)
    endpoint.asked.clear()
    assert count(installed, endpoint.url) == Said(notes=["exact: nothing new to count"])
    # A session that lists the skill lists the same text: it is counted already, whatever shows it.
    (project(home) / "T.jsonl").write_bytes(plain_session("T", listing(1, ENTRY, "form")))
    ingest(home, installed)
    assert count(installed, endpoint.url) == Said(notes=["exact: nothing new to count"])
    assert endpoint.asked == []
    assert (skill(installed)["evidence"], skill(installed)["baseline"]) == ("both", 2 * 18)
    assert not [path for path in installed.rglob("*") if path.is_file() and b"PDF forms" in path.read_bytes()]


def test_a_file_that_changed_since_is_told(home: Path, installed: Path, endpoint: Endpoint) -> None:
    put(home / ".claude" / "skills" / "form" / "SKILL.md", "---\ndescription: fills in PDF forms\n---\nBody.\n")
    (home / ".claude" / "more.md").unlink()
    said = count(installed, endpoint.url)
    assert {text for _, text in endpoint.texts} == {ROOT_MD}
    (warning,) = said.warnings
    assert "2 texts do not stand in a transcript or in the configuration on this machine" in warning
    assert flags(skill(installed)) == {False}


def test_a_configuration_that_cannot_be_read_costs_no_count(
    home: Path, installed: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project(home) / "T.jsonl").write_bytes(plain_session("T", listing(1)))
    ingest(home, installed)

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ClaudeCode, "items", fail)
    said = count(installed, endpoint.url)
    assert {text for _, text in endpoint.texts} == {LISTING}
    assert ["3 texts" in warning for warning in said.warnings] == [True]


def test_an_entry_whose_text_the_transcript_does_not_hold(home: Path, installed: Path, endpoint: Endpoint) -> None:
    named = {"type": "dynamic_skill", "skillNames": ["form"], "skillDir": "/h/form"}
    (project(home) / "S.jsonl").write_bytes(plain_session("S", row("attachment", 1, attachment=named)))
    ingest(home, installed)
    count(installed, endpoint.url)
    (listed,) = of_kind(installed, "skill")
    assert (listed["evidence"], listed["tokens"], listed["overhead_tokens"]) == ("both", 13, 18)
    assert flags(listed) == {True}


def test_flow_has_sizes_of_its_own_which_stay_estimated(home: Path, installed: Path, endpoint: Endpoint) -> None:
    (project(home) / "T.jsonl").write_bytes(plain_session("T", listing(1, ENTRY, "form")))
    ingest(home, installed)
    before = ask(installed, "flow")
    assert {request["listing_tokens"] for request in before} == {None, 6}  # ceil(23 / 4), with the first of T
    assert count(installed, endpoint.url).counted == 6
    assert ask(installed, "flow") == before
    estimated = {column.name: column.measured for column in contracts.load("flow").columns if "listing" in column.name}
    assert estimated == {"listing_tokens": "never"}


# --- what may be in the way ------------------------------------------------------------------------------------------


def test_a_rate_limit_that_passes(read: Path, endpoint: Endpoint) -> None:
    refusals = iter([failing(429, "slow down", **{"retry-after": "0.01"})] * 3)
    endpoint.answer = lambda model, text: next(refusals, None) or counted(model, text)
    said = count(read, endpoint.url)
    assert (said.counted, said.warnings) == (6, [])
    assert flags(skill(read)) == {True}


def test_a_rate_limit_that_stays_keeps_what_was_counted(read: Path, endpoint: Endpoint) -> None:
    endpoint.answer = lambda m, t: counted(m, t) if len(endpoint.asked) <= 3 else failing(429, "slow down")
    said = count(read, endpoint.url)
    assert said.counted == 2
    (warning,) = said.warnings
    assert "rate limit" in warning
    assert "slow down" in warning
    assert "4 stay estimated" in said.notes[-1]
    endpoint.answer = counted
    assert count(read, endpoint.url).counted == 4
    assert flags(skill(read)) == {True}


TROUBLE = {
    "key": (failing(401, "invalid x-api-key"), "invalid x-api-key"),
    "broken": (failing(500, "oops"), "oops"),
    "busy": (failing(529, "overloaded"), "overloaded"),
    "no-json": ((200, {"content-type": "text/html"}, "<html>login</html>"), "127.0.0.1"),
    "no-count": ((200, {}, {"hello": "world"}), "127.0.0.1"),
    "no-number": ((200, {}, {"input_tokens": "many"}), "127.0.0.1"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_one_line_and_sizes_stay_estimated(read: Path, endpoint: Endpoint, name: str) -> None:
    reply, part = TROUBLE[name]
    before = skill(read)
    endpoint.answer = lambda *_: reply
    said = count(read, endpoint.url)
    (warning,) = said.warnings
    assert part in warning
    assert "\n" not in warning
    assert said.counted == 0
    assert skill(read) == before


def test_a_refused_model(read: Path, endpoint: Endpoint) -> None:
    endpoint.answer = lambda m, t: failing(404, f"model: {m}") if m == OPUS else counted(m, t)
    said = count(read, endpoint.url)
    (warning,) = said.warnings
    assert OPUS in warning
    assert [model for model, _ in endpoint.asked].count(OPUS) == 1
    found = skill(read)
    # Two requests counted, the third one ceil(32 / 4) = 8: a sum with an estimated part.
    assert (found["baseline"], found["baseline_measured"]) == (7 + 7 + 8, False)
    # The load was in a request of the model that answered; what is carried after it was not.
    assert (found["load"], found["load_measured"], found["overhead_measured"]) == (15, True, False)


def test_a_refused_text(read: Path, endpoint: Endpoint) -> None:
    endpoint.answer = lambda m, t: failing(400, "prompt is too long") if t == BODY else counted(m, t)
    said = count(read, endpoint.url)
    assert said.counted == 4
    (warning,) = said.warnings
    assert "2 counts refused" in warning
    found = skill(read)
    assert (found["baseline_measured"], found["load_measured"]) == (True, False)


def test_no_network(read: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "RETRIES", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        said = count(read, f"http://127.0.0.1:{taken.getsockname()[1]}")
    (warning,) = said.warnings
    assert "cannot be reached" in warning


@pytest.mark.parametrize("url", ["nonsense", "http://[", "ftp://127.0.0.1"])
def test_an_address_that_is_none(read: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(exact, "RETRIES", 0)
    assert len(count(read, url).warnings) == 1


def test_a_key_that_no_header_can_hold_is_not_shown(
    read: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "RETRIES", 0)
    for key in ("sk-very\nsecret", "sk-very\u2026secret"):
        (warning,) = count(read, endpoint.url, key).warnings
        assert "secret" not in warning
    assert endpoint.asked == []


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def ready(home: Path, environ: dict[str, str], endpoint: Endpoint) -> Path:
    """A home with that session, and an environment with a key and the server."""
    (project(home) / "S.jsonl").write_bytes(session())
    environ |= {exact.KEY: "sk-test", exact.BASE_URL: endpoint.url}
    return home


@pytest.mark.parametrize("command", ["ingest", "run"])
def test_the_command(agentlens: Agentlens, ready: Path, lake: Path, endpoint: Endpoint, command: str) -> None:
    done = agentlens(command, "--home", ready, "--lake", lake, "--exact", code=0)
    assert done.stdout == ""
    assert "3 texts of skills and instruction files for 2 models (6 counts) to 127.0.0.1" in done.stderr
    assert len(endpoint.texts) == 6
    assert "true,true,true,true" in agentlens("skills", "--lake", lake, "--format", "csv", code=0).stdout
    again = agentlens(command, "--home", ready, "--lake", lake, "--exact", "--quiet", code=0)
    assert again.stderr == ""
    assert len(endpoint.texts) == 6


def test_the_command_reads_the_home_that_it_was_given(
    agentlens: Agentlens, ready: Path, lake: Path, endpoint: Endpoint
) -> None:
    put(ready / ".claude" / "CLAUDE.md", ROOT_MD)
    done = agentlens("run", "--home", ready, "--lake", lake, "--exact", code=0)
    assert "4 texts of skills and instruction files for 2 models (8 counts) to 127.0.0.1" in done.stderr
    assert "warning" not in done.stderr
    assert (OPUS, ROOT_MD) in endpoint.texts


def test_without_a_key(agentlens: Agentlens, environ: dict[str, str], ready: Path, lake: Path) -> None:
    del environ[exact.KEY]
    done = agentlens("run", "--home", ready, "--lake", lake, "--exact", code=0)
    (warning,) = [line for line in done.stderr.splitlines() if "warning" in line]
    assert exact.KEY in warning
    assert "3 texts of skills and instruction files for 2 models (6 counts) not sent" in warning


def test_without_the_extra(
    agentlens: Agentlens, environ: dict[str, str], tmp_path: Path, ready: Path, lake: Path, endpoint: Endpoint
) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "anthropic.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "none"), str(ROOT)])
    done = agentlens("ingest", "--home", ready, "--lake", lake, "--exact", code=0)
    (warning,) = [line for line in done.stderr.splitlines() if "warning" in line]
    assert "agentlens-pipeline[exact]" in warning
    assert endpoint.asked == []


def test_without_the_option_no_socket_is_opened(
    agentlens: Agentlens, environ: dict[str, str], tmp_path: Path, ready: Path, lake: Path, endpoint: Endpoint
) -> None:
    """An audit hook ends the process at the first socket; with the option it does."""
    (tmp_path / "watch").mkdir()
    hook = "import os, sys\nsys.addaudithook(lambda event, _: os._exit(99) if event.startswith('socket.') else None)\n"
    (tmp_path / "watch" / "sitecustomize.py").write_text(hook, encoding="utf-8")
    environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "watch"), str(ROOT)])
    done = agentlens("run", "--home", ready, "--lake", lake, code=0, python=("-X", "importtime"))
    assert "anthropic" not in done.stderr
    agentlens("skills", "--lake", lake, code=0)
    assert agentlens("ingest", "--home", ready, "--lake", lake, "--exact").returncode == 99
    assert endpoint.asked == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_counts_are_kept(
    agentlens: Agentlens,
    environ: dict[str, str],
    tmp_path: Path,
    ready: Path,
    lake: Path,
    endpoint: Endpoint,
    moment: str,
) -> None:
    put(ready / ".claude" / "CLAUDE.md", ROOT_MD)
    agentlens("ingest", "--home", ready, "--lake", lake, "--machine", MACHINE, code=0)
    hook = deadly(environ, tmp_path / "hook", moment, "exact_counts")["PYTHONPATH"]
    usual, environ["PYTHONPATH"] = environ["PYTHONPATH"], hook
    killed = agentlens("ingest", "--home", ready, "--lake", lake, "--machine", MACHINE, "--exact")
    assert killed.returncode == -signal.SIGKILL
    assert len(endpoint.texts) == 8
    environ["PYTHONPATH"] = usual
    agentlens("ingest", "--home", ready, "--lake", lake, "--machine", MACHINE, "--exact", code=0)
    # What was not committed is lost, and counted again; what was is there, once.
    assert len(endpoint.texts) == (16 if moment == "before-the-commit" else 8)
    kept = query(lake, "select count(*) as n, count(distinct (sha256, model_id)) as texts from lake.exact_counts")
    assert kept == [{"n": 8, "texts": 8}]
    assert not list(lake.rglob("*.tmp"))


# --- the table -------------------------------------------------------------------------------------------------------


def test_counts_are_put_behind_those_that_are_there(read: Path) -> None:
    options = exact.Options(read, Home(read.parent, {}), MACHINE, {})
    moments = [1_700_000_000_000_000, 1_700_000_100_000_000, 1_710_000_000_000_000]
    rows = [ExactCount(sha256=f"h{n}", model_id=OPUS, tokens=n, counted_at=when) for n, when in enumerate(moments)]
    exact._keep(options, "claude-code", rows[:1])
    exact._keep(options, "claude-code", rows[1:])
    found = query(read, "select sha256, tokens, month from lake.exact_counts order by sha256")
    assert [(row["sha256"], row["tokens"], row["month"]) for row in found] == [
        ("h0", 0, "2023-11"),
        ("h1", 1, "2023-11"),
        ("h2", 2, "2024-03"),
    ]
    assert len(list(read.glob("exact_counts/*/*/*"))) == 2
