"""Write the sample home: three weeks of made-up Claude Code and Codex transcripts, small enough to ship.

    python -m benchmarks.make_sample data/sample/home

Same script, same bytes. The texts are invented; the shapes of the rows follow what the clients write. Two projects,
/projects/ledger and /projects/harbor-web, show what the views are there for: skills that are listed and never used, one
that the model loads and one that a person calls by slash command, idle MCP servers, deferred tools, a subagent, a
compaction, a fork that copies its parent's history, a cache that died of a pause, a model without a price.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.make_corpus import Ids, Row, Text, dump, iso

LEDGER, HARBOR = "/projects/ledger", "/projects/harbor-web"
OPUS, SONNET, HAIKU, HOUSE = "claude-opus-4-6", "claude-sonnet-5", "claude-haiku-4-5-20251001", "house-coder-7b"
CHARS_PER_TOKEN = 3.6  # of these texts; not 4, so that `calibration` has something to say

SKILLS = {  # name -> (description, what a load brings)
    "release-notes": (
        "Write the release notes of a version from its commits. Use when a tag is cut or somebody asks what changed.",
        "Collect the commits since the last tag, group them by what a user notices, and write one line each.",
    ),
    "sql-review": (
        "Review a SQL migration for locks, missing indexes and data that could be lost. Use before one is merged.",
        "Read the migration, name the locks that each statement takes, and say what happens to a running service.",
    ),
    "invoice-fixtures": (
        "Make invoices for tests: currencies, rounding, credit notes. Use when a test needs one.",
        "Start from the smallest invoice that shows the fault.",
    ),
    "pdf-forms": ("Fill in and read PDF forms with the tools that are installed here.", "List the fields first."),
    "brand-voice": (
        "The tone of texts that customers read: short sentences, no promises. Use for mails and the interface.",
        "Read the text aloud once.",
    ),
    "load-test": ("Run the load test against staging and compare it with the last one.", "Never against production."),
    "accessibility": (
        "Check a page for contrast, focus order, labels and keyboard use. Use when a component changes.",
        "Walk through the page with the keyboard alone.",
    ),
    "incident-report": ("Write an incident report from a timeline of alerts and messages.", "Facts first, no blame."),
}
AGENTS = {
    "Explore": "- Explore: looks through a code base and answers questions about it (Tools: Glob, Grep, Read)",
    "migration-tester": "- migration-tester: runs a migration up and down on a copy of the data (Tools: Bash, Read)",
    "copy-editor": "- copy-editor: corrects texts of the user interface (Tools: Read, Edit)",
}
DEFERRED = {
    "mcp__github__get_issue": "Get one issue of a repository with its comments.",
    "mcp__github__list_pull_requests": "List pull requests, newest first.",
    "mcp__postgres__query": "Run a read-only SQL query on the development database.",
    "mcp__browser__snapshot": "Take a snapshot of the page's accessibility tree.",
    "mcp__browser__click": "Click an element of the page.",
    "mcp__calendar__list_events": "List the events of a calendar between two days.",
    "WebFetch": "Fetch a page and answer a question about it.",
}
SERVERS = {
    "github": "## github\nPrefer search to listing. Give owner and repository by name.",
    "postgres": "## postgres\nRead-only. Put a limit on every query, and name the columns that you need.",
    "browser": "## browser\nTake a snapshot before you click. References are valid until the page changes.",
    "calendar": "## calendar\nTimes are local to the calendar. Ask before you change an event.",
}
TOOLS = {
    "Bash": "Run a command in a shell and return what it prints. Quote paths with spaces. No interactive programs.",
    "Read": "Read a file, whole or from a line on. Images are shown. Read a file before you edit it.",
    "Edit": "Replace a text that occurs once in a file by another one.",
    "Grep": "Search files by regular expression.",
    "Skill": "Load a skill of the list by its name.",
    "ToolSearch": "Find tools by name or words, and load their definitions.",
}
USER_RULES = (
    "# How I work\n\n- Small commits, each with its test.\n- Ask before you add a dependency.\n- British spelling.\n"
)
LEDGER_RULES = (
    "# ledger\n\nInvoices in, journal entries out. `make test` runs everything.\n\n"
    "- Money is a Decimal with two places; never a float.\n- Dates are of the customer's time zone.\n"
    "- A migration goes up and down, and has a test on a copy of the data.\n- No query in a loop.\n"
)
HARBOR_RULES = (
    "# harbor-web\n\nThe customers' pages. `npm test` runs the unit tests, `npm run e2e` the rest.\n\n"
    "- Components are functions; state lives in the route.\n- CSS modules, no inline styles.\n"
    "- Every text comes from `messages/`.\n"
)
PROJECT_RULES = {LEDGER: LEDGER_RULES, HARBOR: HARBOR_RULES}
UI_RULES = "# migrations\n\nOne change a file. Name it by date and purpose. Add the index before the constraint.\n"
BASE = (
    "You are a coding agent in a terminal. Work in small steps, say what you are about to do, run the tests, and stop "
    "when the task is done. Prefer the tools of the repository to new ones. Do not touch files that the task does not "
    "need. When a command fails, read its output before you try again. "
)


class Clock:
    """The time of a session, as text of a transcript."""

    def __init__(self, start: str) -> None:
        self.now = datetime.fromisoformat(start).replace(tzinfo=UTC)

    def after(self, seconds: float) -> str:
        self.now += timedelta(seconds=seconds)
        return iso(self.now)


class Maker:
    """What all sessions share: one seed, ids, and slices of code-like text."""

    def __init__(self) -> None:
        self.rng = random.Random(1128)
        self.text, self.ids = Text(self.rng, 40_000), Ids(self.rng)


class Claude:
    """One file of Claude Code: a session, or a subagent of one."""

    def __init__(
        self, maker: Maker, cwd: str, start: str, model: str, *, version: str = "2.1.272", hidden: int = 14_000
    ) -> None:
        self.maker, self.cwd, self.model, self.version = maker, cwd, model, version
        self.clock, self.session = Clock(start), maker.ids.uuid()
        self.agent: str | None = None
        self.rows: list[Row] = []
        self.parent: str | None = None
        self.hour_cache = False
        self.context, self.pending = 0, float(hidden)  # tokens in the cache; tokens not sent yet
        self.called = self.clock.now

    def emit(self, kind: str, seconds: float = 0.1, **rest: Any) -> str:
        """Append a row of the conversation and return its uuid."""
        row: Row = {"parentUuid": self.parent, "isSidechain": self.agent is not None}
        row |= {"cwd": self.cwd, "sessionId": self.session, "version": self.version}
        row |= {"gitBranch": "main"} | ({"agentId": self.agent} if self.agent else {})
        self.parent = self.maker.ids.uuid()
        self.rows.append(row | {"type": kind, **rest, "uuid": self.parent, "timestamp": self.clock.after(seconds)})
        return self.parent

    def note(self, kind: str, **rest: Any) -> None:
        """Append a row that is no part of the conversation."""
        self.rows.append({"type": kind, **rest, "sessionId": self.session})

    def bring(self, text: str) -> None:
        self.pending += len(text) / CHARS_PER_TOKEN

    def attach(self, text: str, **attachment: Any) -> None:
        """Append an attachment; recent versions also keep the text as it was delivered."""
        rest: Row = {"attachment": attachment}
        if self.version >= "2.1.27":
            text = f"<system-reminder>\n{text}\n</system-reminder>"
            rest["rendered"] = [{"content": text}]
        self.bring(text)
        self.emit("attachment", 0.01, **rest)

    def begin(self, skills: Sequence[str], servers: Sequence[str]) -> None:
        """What the client puts in front of the first prompt."""
        self.note("permission-mode", permissionMode="default")
        listing = "\n".join(f"- {name}: {SKILLS[name][0]}" for name in skills)
        names = list(skills)
        self.attach(listing, type="skill_listing", content=listing, names=names, skillCount=len(names), isInitial=True)
        lines = list(AGENTS.values())
        text = "\n".join(lines)
        delta: Row = {"addedTypes": list(AGENTS), "addedLines": lines, "removedTypes": [], "isInitial": True}
        self.attach(text, type="agent_listing_delta", **delta)
        tools = [t for t in DEFERRED if t == "WebFetch" or t.split("__")[1] in servers]
        self.attach("\n".join(tools), type="deferred_tools_delta", addedNames=tools, addedLines=tools, removedNames=[])
        blocks = [SERVERS[s] for s in servers]
        named: Row = {"addedNames": list(servers), "addedBlocks": blocks, "removedNames": []}
        self.attach("\n\n".join(blocks), type="mcp_instructions_delta", **named)
        if self.version >= "2.1.27":
            self.render(tools)

    def render(self, tools: Sequence[str]) -> None:
        """What only recent versions write: instruction files, the system prompt, definitions of deferred tools."""
        files = [
            {"path": "/home/me/.claude/CLAUDE.md", "type": "User", "content": USER_RULES},
            {"path": f"{self.cwd}/CLAUDE.md", "type": "Project", "content": PROJECT_RULES[self.cwd]},
        ]
        self.attach("\n\n".join(f["content"] for f in files), type="instructions", files=files)
        entries = [{"name": t, "description": DEFERRED[t], "schema": schema(t)} for t in tools]
        self.emit("attachment", 0.01, attachment={"type": "deferred_tools_record", "entries": entries})
        upfront = [{"name": t, "description": d, "schema": schema(t)} for t, d in TOOLS.items()]
        prompt = [BASE * 2, "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__", f"Working directory: {self.cwd}"]
        snapshot: Row = {"type": "prompt_snapshot", "systemPrompt": prompt, "tools": upfront}
        self.bring(json.dumps(snapshot))
        self.emit("attachment", 0.01, attachment=snapshot)

    def prompt(self, text: str, pause: float = 1.0) -> None:
        self.bring(text)
        self.emit("user", pause, message={"role": "user", "content": text}, promptSource="typed")

    def slash(self, skill: str, args: str) -> None:
        """A person calls a skill by its name; its body follows."""
        said = f"<command-message>{skill}</command-message>\n<command-name>/{skill}</command-name>\n"
        said += f"<command-args>{args}</command-args>"
        self.bring(said)
        self.emit("user", 1.0, message={"role": "user", "content": said})
        self.body(skill)

    def body(self, skill: str, **rest: Any) -> None:
        text = body_of(skill)
        self.bring(text)
        content = [{"type": "text", "text": text}]
        self.emit("user", 0.01, isMeta=True, **rest, message={"role": "user", "content": content})

    def say(self, text: str, *calls: tuple[str, Row], thinks: bool = False, seconds: float = 6.0) -> list[str]:
        """One response of the model: a row a block, usage repeated on each. Returns the ids of its tool calls."""
        ids = self.maker.ids
        blocks: list[Row] = [{"type": "thinking", "thinking": "", "signature": ids.short("Eq", 60)}] if thinks else []
        blocks += [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": ids.short("toolu_01"), "name": n, "input": args} for n, args in calls]
        usage = self.usage(sum(len(json.dumps(b)) for b in blocks), thinks=thinks)
        body: Row = {"model": self.model, "id": ids.short("msg_01"), "type": "message", "role": "assistant"}
        rest: Row = {} if self.model == HOUSE else {"requestId": ids.short("req_011C", 20)}
        for i, block in enumerate(blocks):
            done = i == len(blocks) - 1
            stop = ("tool_use" if calls else "end_turn") if done else None
            message = body | {"content": [block], "stop_reason": stop, "usage": usage}
            self.emit("assistant", seconds if i == 0 else 0.6, message=message, **rest)
        return [b["id"] for b in blocks if b["type"] == "tool_use"]

    def usage(self, chars: int, *, thinks: bool) -> Row:
        """Usage of the next response; a pause beyond the cache's life writes the whole prefix again."""
        rng = self.maker.rng
        life = 3600 if self.hour_cache else 300
        if (self.clock.now - self.called).total_seconds() > life:
            self.pending += self.context
            self.context = 0
        self.called = self.clock.now
        fresh = rng.randrange(2, 9)
        written = max(0, round(self.pending) - fresh)
        thought = rng.randrange(150, 900) if thinks else 0
        output = round(chars / CHARS_PER_TOKEN) + thought + 4
        read, self.context, self.pending = self.context, self.context + written, float(output - thought)
        if self.model == HOUSE:  # a gateway without a cache: everything is input
            return {"input_tokens": read + written + fresh, "output_tokens": output}
        split = {
            "ephemeral_5m_input_tokens": 0 if self.hour_cache else written,
            "ephemeral_1h_input_tokens": written if self.hour_cache else 0,
        }
        usage: Row = {"input_tokens": fresh, "cache_creation_input_tokens": written, "cache_read_input_tokens": read}
        usage |= {"cache_creation": split, "output_tokens": output, "service_tier": "standard"}
        return usage | ({"output_tokens_details": {"thinking_tokens": thought}} if thinks else {})

    def result(self, call: str, text: str, *, seconds: float = 1.5, is_error: bool = False, **rest: Any) -> None:
        """The row that answers a tool call."""
        self.bring(text)
        block: Row = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": is_error}
        self.emit("user", seconds, message={"role": "user", "content": [block]}, **rest)

    def use(self, tool: str, args: Row, text: str, *, say: str = "", is_error: bool = False) -> None:
        """A response with one tool call, and its result."""
        (call,) = self.say(say, (tool, args))
        # The client repeats the text in this sidecar, for its own display; here it would only double the sample.
        sidecar: Any = {"stderr": "", "interrupted": False} if tool == "Bash" else {"numLines": text.count("\n")}
        self.result(call, text, is_error=is_error, toolUseResult=f"Error: {text}" if is_error else sidecar)

    def load(self, skill: str) -> None:
        """The model loads a skill: the call's result is a notice, the body follows in a row of its own."""
        (call,) = self.say("", ("Skill", {"skill": skill, "args": ""}))
        loaded = {"success": True, "commandName": skill}
        self.result(call, f"Launching skill: {skill}", seconds=0.1, toolUseResult=loaded)
        self.body(skill, sourceToolUseID=call)

    def discover(self, tool: str) -> None:
        """The model searches for a deferred tool, and its definition comes into the context."""
        (call,) = self.say("", ("ToolSearch", {"query": f"select:{tool}"}))
        self.bring(json.dumps(schema(tool)) + DEFERRED[tool])
        content = [{"type": "tool_reference", "tool_name": tool}]
        block: Row = {"type": "tool_result", "tool_use_id": call, "content": content}
        found = {"query": tool, "matches": [tool], "total_deferred_tools": len(DEFERRED)}
        self.emit("user", 0.3, message={"role": "user", "content": [block]}, toolUseResult=found)

    def end_turn(self) -> None:
        self.emit("system", 0.1, subtype="turn_duration", durationMs=self.maker.rng.randrange(9_000, 90_000))

    def compact(self, skills: Sequence[str]) -> None:
        """The conversation is summarised; the bodies of loaded skills are attached again."""
        before, self.parent = self.parent, None
        summary = "This session is being continued from a previous conversation.\n" + self.maker.text.take(1500)
        kept = len(summary) / CHARS_PER_TOKEN + 15_500
        meta = {"trigger": "manual", "preTokens": self.context, "postTokens": round(kept), "durationMs": 21_400}
        self.emit(
            "system", 21.4, subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=before,
            compactMetadata=meta,
        )  # fmt: skip
        shown: Row = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        self.emit("user", message={"role": "user", "content": summary}, **shown)
        self.context, self.pending = 0, kept
        again = [{"name": s, "path": f"userSettings:{s}", "content": body_of(s)} for s in skills]
        self.attach("\n\n".join(str(s["content"]) for s in again), type="invoked_skills", skills=again)

    def title(self, text: str) -> None:
        self.note("ai-title", aiTitle=text)

    def child(self, model: str) -> Claude:
        """A subagent of this session, in a file of its own."""
        child = Claude(self.maker, self.cwd, self.clock.now.replace(tzinfo=None).isoformat(), model, hidden=5_200)
        child.session, child.agent, child.version = self.session, "a" + self.maker.ids.hex(16), self.version
        return child

    def fork(self, start: str) -> Claude:
        """A new session whose file begins with a copy of this one's rows; only the session id is rewritten."""
        fork = Claude(self.maker, self.cwd, start, self.model, version=self.version)
        fork.rows = [row | {"sessionId": fork.session} for row in self.rows if "uuid" in row]
        fork.parent, fork.context, fork.pending = self.parent, self.context, self.pending
        fork.called = self.called
        return fork


def schema(tool: str) -> Row:
    """A tool's parameters, as JSON Schema."""
    field = {"type": "string", "description": "what to look for" if tool.startswith("mcp__") else "what to work on"}
    return {"type": "object", "properties": {"query": field}, "required": ["query"], "additionalProperties": False}


def body_of(skill: str) -> str:
    """What a load of a skill brings."""
    where = f"Base directory for this skill: /home/me/.claude/skills/{skill}"
    return f"{where}\n\n{skill_text(skill)}"


def skill_text(skill: str) -> str:
    """A skill's text below its head. Its size follows from its name, so that every file of it agrees."""
    seed = int.from_bytes(hashlib.sha256(skill.encode()).digest()[:4], "big")
    rng = random.Random(seed)
    steps = ("Read what is there", "Say what you found", "Ask if two readings are possible", "Make the smallest change")
    lines = [f"{i}. {rng.choice(steps)}; then check it against the example." for i in range(1, rng.randrange(8, 22))]
    return f"# {skill}\n\n{SKILLS[skill][1]}\n\n" + "\n".join(lines) + "\n"


class Codex:
    """One rollout file of Codex."""

    def __init__(self, maker: Maker, cwd: str, start: str, model: str, version: str, parent: str | None = None) -> None:
        self.maker, self.cwd, self.model = maker, cwd, model
        self.clock, self.session = Clock(start), maker.ids.uuid()
        self.start = self.clock.now
        self.rows: list[Row] = []
        self.total: Counter[str] = Counter()
        self.cached, self.pending = 0, 9_300.0
        self.turn = ""
        meta: Row = {"id": self.session, "timestamp": iso(self.start), "cwd": cwd, "originator": "codex-tui"}
        meta |= {"cli_version": version, "source": "cli", "thread_source": "user", "model_provider": "openai"}
        if parent:
            spawn = {"parent_thread_id": parent, "depth": 1, "agent_nickname": "Scout", "agent_role": "explorer"}
            meta |= {"source": {"subagent": {"thread_spawn": spawn}}, "thread_source": "subagent"}
        meta |= {"base_instructions": {"text": BASE * 2}, "git": {"branch": "main"}}
        self.pending += len(BASE * 2) / CHARS_PER_TOKEN
        self.emit("session_meta", meta)

    def emit(self, kind: str, payload: Row, seconds: float = 0.1) -> None:
        self.rows.append({"timestamp": self.clock.after(seconds), "type": kind, "payload": payload})

    def message(self, role: str, text: str) -> Row:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    def inject(self, role: str, text: str) -> None:
        self.pending += len(text) / CHARS_PER_TOKEN
        self.emit("response_item", self.message(role, text))

    def instruct(self, skills: Sequence[str]) -> None:
        """What the client puts in front of the first prompt, and again after a compaction."""
        self.inject("developer", "<permissions instructions>\nCommands run in a sandbox.\n</permissions instructions>")
        rules = f"{USER_RULES}\n--- project-doc ---\n\n{PROJECT_RULES[self.cwd]}"
        self.inject("user", f"# AGENTS.md instructions for {self.cwd}\n\n<INSTRUCTIONS>\n{rules}\n</INSTRUCTIONS>")
        if skills:
            lines = "\n".join(f"- {s}: {SKILLS[s][0]} (file: /home/me/.agents/skills/{s}/SKILL.md)" for s in skills)
            text = "## Skills\nA skill is a set of instructions in a file.\n### Available skills\n" + lines
            text += "\n### How to use skills\nOpen the file of a skill when its description fits the task."
            self.inject("developer", f"<skills_instructions>\n{text}\n</skills_instructions>")

    def ask(self, text: str, skill: str | None = None, pause: float = 60.0) -> None:
        """A turn begins: the prompt, and the skill that it names."""
        self.turn = self.maker.ids.uuid()
        begun = {"type": "task_started", "turn_id": self.turn, "model_context_window": 258_400}
        self.emit("event_msg", begun, pause)
        context: Row = {"turn_id": self.turn, "cwd": self.cwd, "approval_policy": "on-request", "model": self.model}
        self.emit("turn_context", context | {"effort": "medium", "summary": "auto"})
        self.inject("user", text)
        self.emit("event_msg", {"type": "user_message", "message": text, "images": []})
        if skill:
            head = f"---\nname: {skill}\ndescription: {SKILLS[skill][0]}\n---\n\n"
            path = f"/home/me/.agents/skills/{skill}/SKILL.md"
            self.inject(
                "user", f"<skill>\n<name>{skill}</name>\n<path>{path}</path>\n{head}{skill_text(skill)}</skill>"
            )

    def tokens(self, output: int, reasoning: int) -> None:
        """The count that follows a response. Cached input is a part of input, reasoning one of output."""
        whole = self.cached + round(self.pending)
        last = {"input_tokens": whole, "cached_input_tokens": self.cached, "output_tokens": output}
        last |= {"reasoning_output_tokens": reasoning, "total_tokens": whole + output}
        self.total.update(last)
        self.count(last)
        self.pending = float(output - reasoning + whole % 128)
        self.cached = whole // 128 * 128

    def count(self, last: Row) -> None:
        info = {"total_token_usage": dict(self.total), "last_token_usage": last, "model_context_window": 258_400}
        self.emit("event_msg", {"type": "token_count", "info": info, "rate_limits": None}, 0.2)

    def think(self) -> int:
        sealed = self.maker.ids.short("gAAA", 80)
        item: Row = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": sealed}
        self.emit("response_item", item, 4.0)
        return self.maker.rng.randrange(40, 400)

    def answer(self, text: str) -> None:
        """The last response of a turn."""
        reasoning = self.think()
        self.emit("response_item", self.message("assistant", text), 3.0)
        self.emit("event_msg", {"type": "agent_message", "message": text})
        self.tokens(round(len(text) / CHARS_PER_TOKEN) + reasoning, reasoning)
        self.emit("event_msg", {"type": "task_complete", "turn_id": self.turn, "duration_ms": 41_000})

    def run(self, command: str, output: str, *, code: int = 0) -> None:
        """A response with one command, and its output."""
        lines = f"Chunk ID: {self.maker.ids.hex(6)}\nWall time: 0.4180 seconds\nProcess exited with code {code}\n"
        self.use("exec_command", {"cmd": command, "workdir": self.cwd}, f"{lines}Output:\n{output}")

    def use(self, tool: str, args: Row, output: str, **rest: Any) -> str:
        """A response with one function call; returns the id of the call."""
        reasoning, call = self.think(), self.maker.ids.short("call_", 24)
        item: Row = {"type": "function_call", "name": tool, **rest, "arguments": json.dumps(args), "call_id": call}
        self.emit("response_item", item)
        self.tokens(round(len(item["arguments"]) / CHARS_PER_TOKEN) + reasoning + 12, reasoning)
        self.pending += len(output) / CHARS_PER_TOKEN
        self.emit("response_item", {"type": "function_call_output", "call_id": call, "output": output}, 0.8)
        return call

    def mcp(self, server: str, tool: str, args: Row, output: str) -> None:
        call = self.use(tool, args, output, namespace=f"mcp__{server}")
        answer = {"Ok": {"content": [{"type": "text", "text": output}], "isError": False}}
        invocation = {"server": server, "tool": tool, "arguments": args}
        lasted = {"secs": 1, "nanos": 250_000_000}
        end: Row = {"type": "mcp_tool_call_end", "call_id": call, "invocation": invocation}
        self.emit("event_msg", end | {"duration": lasted, "result": answer})

    def compact(self, skills: Sequence[str]) -> None:
        summary = "Summary of the work so far.\n" + self.maker.text.take(900)
        self.emit("compacted", {"message": summary, "replacement_history": [self.message("user", summary)]}, 14.0)
        self.emit("event_msg", {"type": "context_compacted"})
        self.cached, self.pending = 0, 9_300 + len(BASE * 2 + summary) / CHARS_PER_TOKEN
        self.instruct(skills)


class Sample:
    """Writes sessions below a home, and the config that the transcripts speak of."""

    def __init__(self, home: Path) -> None:
        self.home, self.maker = home, Maker()

    def code(self, chars: int) -> str:
        return self.maker.text.take(chars // 3)

    def write(self, path: str, content: bytes) -> None:
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def keep(self, session: Claude) -> None:
        slug = session.cwd.replace("/", "-")
        name = f"{session.session}/subagents/agent-{session.agent}" if session.agent else session.session
        self.write(f".claude/projects/{slug}/{name}.jsonl", b"".join(map(dump, session.rows)))

    def keep_rollout(self, session: Codex) -> None:
        start = session.start
        name = f"{start:%Y/%m/%d}/rollout-{start:%Y-%m-%dT%H-%M-%S}-{session.session}.jsonl"
        self.write(f".codex/sessions/{name}", b"".join(map(dump, session.rows)))

    def run(self) -> None:
        self.config()
        self.release()
        fork = self.review()
        self.explore()
        self.house()
        self.second_thought(fork)
        self.browser()
        self.codex_fixtures()
        self.codex_pair()
        self.codex_totals()

    def config(self) -> None:
        for name, (description, _) in SKILLS.items():
            text = f"---\nname: {name}\ndescription: {description}\n---\n\n{skill_text(name)}"
            self.write(f".claude/skills/{name}/SKILL.md", text.encode())
        for name, line in AGENTS.items():
            if name != "Explore":  # built in
                text = line.partition(": ")[2].partition(" (Tools")[0]
                head = f"---\nname: {name}\ndescription: {text}\n---\n\nWork alone and report in five lines.\n"
                self.write(f".claude/agents/{name}.md", head.encode())
        self.write(".claude/CLAUDE.md", USER_RULES.encode())
        servers = {s: {"command": f"{s}-mcp", "args": []} for s in SERVERS}
        self.write(".claude.json", dump({"mcpServers": servers}))
        self.write(".codex/AGENTS.md", USER_RULES.encode())
        toml = "".join(f'[mcp_servers.{s}]\ncommand = "{s}-mcp"\n\n' for s in ("github", "postgres"))
        self.write(".codex/config.toml", toml.encode())

    def release(self) -> None:
        """A long session on Opus with the one-hour cache: a skill by tool, an MCP call, a compaction."""
        s = Claude(self.maker, LEDGER, "2026-11-09T08:12:00", OPUS, version="2.1.251", hidden=17_500)
        s.hour_cache = True
        s.begin(list(SKILLS), ["github", "postgres", "browser", "calendar"])
        s.prompt("What changed since 3.4? Write the notes for 3.5 and put them into CHANGELOG.md.")
        s.load("release-notes")
        s.use("Bash", {"command": "git log --oneline v3.4..HEAD", "description": "Commits"}, self.code(2600))
        s.discover("mcp__github__get_issue")
        s.use("mcp__github__get_issue", {"owner": "ledger", "repo": "ledger", "number": 214}, self.code(1400))
        s.use("Read", {"file_path": f"{LEDGER}/CHANGELOG.md"}, self.code(3000), say="First the existing notes.")
        s.use(
            "Edit", {"file_path": f"{LEDGER}/CHANGELOG.md", "old_string": "## 3.4", "new_string": self.code(500)}, "ok"
        )
        s.say("The notes for 3.5 are in CHANGELOG.md: four fixes, two new reports, one change that breaks an option.")
        s.end_turn()
        s.title("Release notes for 3.5")
        s.prompt("The rounding fix deserves an example. Look at the test and add one.", 1900)
        s.use("Grep", {"pattern": "def test_round", "path": LEDGER, "output_mode": "content"}, self.code(1200))
        s.use("Read", {"file_path": f"{LEDGER}/tests/test_rounding.py"}, self.code(3200))
        s.use("Bash", {"command": "pytest -q tests/test_rounding.py"}, "Exit code 1\n" + self.code(700), is_error=True)
        s.use("Bash", {"command": "pytest -q tests/test_rounding.py"}, "6 passed in 0.41s", say="A path was wrong.")
        s.say("Added: 0.125 rounds to 0.12, and 0.135 to 0.14; with the reason.", thinks=True)
        s.end_turn()
        s.compact(["release-notes"])
        s.prompt("And a line for the upgrade guide.", 40)
        s.use("Read", {"file_path": f"{LEDGER}/docs/upgrade.md"}, self.code(1500))
        s.say("Done; the guide names the option and what replaces it.")
        s.end_turn()
        self.keep(s)

    def review(self) -> Claude:
        """A review on Sonnet: a skill by slash command, nested rules, a pause that outlives the five-minute cache.

        Returns a fork of it, as it stood after the first turn.
        """
        s = Claude(self.maker, LEDGER, "2026-11-12T13:40:00", SONNET, hidden=9_000)
        s.begin(list(SKILLS), ["github", "postgres"])
        s.slash("sql-review", "migrations/0042_currency.sql")
        s.use("Read", {"file_path": f"{LEDGER}/migrations/0042_currency.sql"}, self.code(1800), say="I read it first.")
        rules = {"path": f"{LEDGER}/migrations/CLAUDE.md", "type": "Project", "content": UI_RULES}
        s.attach(UI_RULES, type="nested_memory", path=rules["path"], displayPath="migrations/CLAUDE.md", content=rules)
        s.discover("mcp__postgres__query")
        s.use("mcp__postgres__query", {"query": "select count(*) from invoices"}, '[{"count": 182340}]')
        s.say("The second statement locks `invoices` for as long as it rewrites it; split it in three.", thinks=True)
        s.end_turn()
        s.title("Review of migration 0042")
        fork = s.fork("2026-11-23T10:20:00")
        s.prompt("Split it, please, and run it on the copy.", 1380)
        s.use("Edit", {"file_path": f"{LEDGER}/migrations/0042_currency.sql", "new_string": self.code(700)}, "ok")
        s.use("Bash", {"command": "make migrate-copy"}, "Exit code 2\n" + self.code(400), is_error=True)
        s.use("Bash", {"command": "make migrate-copy DB=copy"}, self.code(900))
        s.say("It runs in three steps, none of which locks the table for more than 40 ms.")
        s.end_turn()
        self.keep(s)
        return fork

    def explore(self) -> None:
        """A question on Opus that a subagent on Haiku looks into."""
        s = Claude(self.maker, HARBOR, "2026-11-16T09:05:00", OPUS, version="2.1.251", hidden=15_500)
        s.hour_cache = True
        s.begin(list(SKILLS)[3:], ["browser", "github", "calendar"])
        s.prompt("Where do we decide which currency a customer sees? I want to change it for Switzerland.")
        task = {"description": "Find the currency choice", "prompt": "Find where a page's currency is chosen."}
        (call,) = s.say("", ("Agent", task | {"subagent_type": "Explore"}), thinks=True)
        child = s.child(HAIKU)
        child.prompt(task["prompt"], 0.2)
        for pattern in ("currency", "formatMoney"):
            child.use("Grep", {"pattern": pattern, "path": HARBOR, "output_mode": "content"}, self.code(1700))
        child.use("Read", {"file_path": f"{HARBOR}/src/money/choose.ts"}, self.code(2400))
        child.say("It is chosen in src/money/choose.ts, by the country of the account and not of the page.")
        self.keep(child)
        found = "src/money/choose.ts, function chooseCurrency; called by the route loader."
        meta = {"agentType": "Explore", "description": task["description"], "toolUseId": call}
        slug = HARBOR.replace("/", "-")
        self.write(f".claude/projects/{slug}/{s.session}/subagents/agent-{child.agent}.meta.json", dump(meta))
        s.clock.now = child.clock.now
        done: Row = {"status": "completed", "agentId": child.agent, "agentType": "Explore", "totalTokens": 9120}
        s.result(call, found, toolUseResult=done | {"totalToolUseCount": 3, "totalDurationMs": 31_000})
        s.use("Read", {"file_path": f"{HARBOR}/src/money/choose.ts"}, self.code(2400))
        s.use("Edit", {"file_path": f"{HARBOR}/src/money/choose.ts", "new_string": self.code(400)}, "ok")
        s.use("Bash", {"command": "npm test -- money"}, self.code(800))
        s.say("Switzerland now gets francs unless the account says otherwise; two tests added.")
        s.end_turn()
        s.title("Currency for Switzerland")
        self.keep(s)

    def house(self) -> None:
        """A model behind a gateway: no request ids, no cache, no price."""
        s = Claude(self.maker, HARBOR, "2026-11-18T15:30:00", HOUSE, version="2.1.118", hidden=8_000)
        s.prompt("Translate the new messages into German.")
        s.use("Read", {"file_path": f"{HARBOR}/messages/en.json"}, self.code(1600))
        s.use("Write", {"file_path": f"{HARBOR}/messages/de.json", "content": self.code(1200)}, "File created")
        s.say("Eleven messages translated; `cart.hint` is too long for the button.")
        s.end_turn()
        s.prompt("Shorten that one.", 95)
        s.use("Edit", {"file_path": f"{HARBOR}/messages/de.json", "new_string": "In den Korb"}, "ok")
        s.say("Done.")
        s.end_turn()
        self.keep(s)

    def second_thought(self, s: Claude) -> None:
        """The fork, eleven days later: what was copied counts once, what it sends anew is spent again."""
        s.prompt("Same migration for the archive tables: what is different there?")
        s.use("Grep", {"pattern": "archive_", "path": f"{LEDGER}/migrations"}, self.code(900))
        s.use("Read", {"file_path": f"{LEDGER}/migrations/0031_archive.sql"}, self.code(1300))
        s.say("The archive is partitioned by year: the same three steps, once a partition.", thinks=True)
        s.end_turn()
        self.keep(s)

    def browser(self) -> None:
        """Two days on Sonnet: a deferred tool that is loaded, a denial, a queued prompt, and a switch to Haiku."""
        s = Claude(self.maker, HARBOR, "2026-11-27T16:45:00", SONNET, hidden=9_500)
        s.begin(list(SKILLS)[3:], ["browser", "github", "calendar"])
        s.prompt("The cart button does nothing on a phone. Find out why.")
        s.discover("mcp__browser__snapshot")
        s.use("mcp__browser__snapshot", {"query": "http://localhost:3000/cart"}, self.code(3400))
        queued = "Only in Safari, by the way."
        s.bring(queued)
        s.emit("attachment", 2, attachment={"type": "queued_command", "prompt": queued, "commandMode": "prompt"})
        s.use("Grep", {"pattern": "onTouchStart", "path": f"{HARBOR}/src"}, self.code(1100))
        (call,) = s.say("I would clear the cache first.", ("Bash", {"command": "rm -rf node_modules/.cache"}))
        refused = "The user doesn't want to proceed with this tool use."
        s.result(call, refused, is_error=True, toolDenialKind="user-rejected", toolUseResult="User rejected tool use")
        s.use("Read", {"file_path": f"{HARBOR}/src/cart/Button.tsx"}, self.code(1900), say="Then by reading.")
        s.say("The handler listens to `touchstart` on a parent that Safari does not deliver it to.", thinks=True)
        s.end_turn()
        s.title("Cart button on phones")
        s.model = HAIKU
        s.context, s.pending = 0, s.context + s.pending  # another model, another cache
        s.prompt("Fix it and run the tests.", 61_200)
        s.use("Edit", {"file_path": f"{HARBOR}/src/cart/Button.tsx", "new_string": self.code(500)}, "ok")
        s.use("Bash", {"command": "npm test -- cart"}, self.code(700))
        s.say("Fixed with pointer events; all tests of the cart pass.")
        s.end_turn()
        self.keep(s)

    def codex_fixtures(self) -> None:
        """A skill by name, one that is read in the shell, a failing command, a repeated count."""
        skills = ["invoice-fixtures", "sql-review", "pdf-forms", "load-test"]
        s = Codex(self.maker, LEDGER, "2026-11-11T07:55:00", "gpt-5.3-codex", "0.128.0")
        s.instruct(skills)
        s.ask("$invoice-fixtures a credit note in yen, please", "invoice-fixtures", 5)
        s.run("rg -n credit_note tests", self.code(1300))
        s.run("pytest -q tests/test_credit.py", self.code(900), code=1)
        s.use("shell", {"command": ["sed", "-n", "1,80p", "tests/fixtures/yen.py"]}, self.code(1600))
        s.answer("The fixture is in tests/fixtures/yen.py; yen has no minor unit, so the amounts are whole.")
        s.count(s.rows[-2]["payload"]["info"]["last_token_usage"])  # said again, with the total unmoved
        s.ask("Check the migration that it needs.", pause=200)
        path = "/home/me/.agents/skills/sql-review/SKILL.md"
        s.run(f"cat {path}", skill_text("sql-review"))
        s.run("cat migrations/0043_yen.sql", self.code(800))
        s.answer("Nothing in it locks for long; add the index first.")
        self.keep_rollout(s)

    def codex_pair(self) -> None:
        """A session with a compaction, and the subagent that it sent out."""
        s = Codex(self.maker, HARBOR, "2026-11-20T11:00:00", "gpt-5.5", "0.144.1")
        skills = ["brand-voice", "accessibility"]
        s.instruct(skills)
        s.ask("Which pages still use the old date picker? Send somebody to look.", pause=4)
        child = Codex(self.maker, HARBOR, "2026-11-20T11:00:20", "gpt-5.3-codex", "0.144.1", s.session)
        child.ask("List the pages that import OldDatePicker.", pause=1)
        child.run("rg -l OldDatePicker src", self.code(600))
        child.run("sed -n 1,60p src/booking/Page.tsx", self.code(1500))
        child.answer("Three pages: booking, invoices, profile.")
        spawned = s.use("spawn_agent", {"message": "List the pages"}, json.dumps({"agent_id": child.session}))
        event = {"type": "collab_agent_spawn_end", "call_id": spawned, "new_thread_id": child.session}
        s.emit("event_msg", event)
        s.use("wait_agent", {"ids": [child.session]}, json.dumps({child.session: "completed"}))
        s.mcp("github", "list_pull_requests", {"repo": "harbor-web"}, self.code(1200))
        s.answer("Booking, invoices and profile. A pull request for booking is open already.")
        s.compact(skills)
        s.ask("Then do invoices.", pause=120)
        s.run("sed -n 1,120p src/invoices/Page.tsx", self.code(1900))
        s.run("npm test -- invoices", self.code(500))
        s.answer("Invoices uses the new picker; its two tests pass.")
        self.keep_rollout(s)
        self.keep_rollout(child)

    def codex_totals(self) -> None:
        """A short session in the third week, on the last day."""
        s = Codex(self.maker, LEDGER, "2026-11-28T09:10:00", "gpt-5.5", "0.144.1")
        s.instruct(["invoice-fixtures", "sql-review"])
        s.ask("Why do the monthly totals differ from the journal by a cent?", pause=3)
        s.run("rg -n quantize src", self.code(700))
        s.run("sed -n 1,90p src/totals.py", self.code(1700))
        s.answer("The totals round each line, the journal rounds the sum. The contract says: the sum.")
        self.keep_rollout(s)


def main() -> None:
    home = Path(sys.argv[1])
    shutil.rmtree(home, ignore_errors=True)
    Sample(home).run()
    files = [p for p in home.rglob("*") if p.is_file()]
    print(f"{len(files)} files, {sum(p.stat().st_size for p in files):,} bytes -> {home}")


if __name__ == "__main__":
    main()
