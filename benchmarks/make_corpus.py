#!/usr/bin/env python3
"""Write a fake HOME tree of AI coding client transcripts, with known true totals.

    python benchmarks/make_corpus.py OUT --mb 200 --seed 1 [--codex-share 0.3] [--plain | --traps fork,btw]

OUT then holds
    .claude/projects/<slug>/<session>.jsonl
    .claude/projects/<slug>/<session>/subagents/agent-<id>.jsonl (+ .meta.json)
    .codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl
    expected.json     the totals that a correct parser must report

Same arguments, same bytes. Only the standard library is used. The text inside
is synthetic; the row shapes follow what the clients write.

What `expected.json` means
--------------------------
A *request* is one call of the model API. For Claude it is one distinct
(message.id, requestId); its usage is that of its last row (the rows of one
message repeat the input side and grow output_tokens). For Codex it is one
token_count event whose cumulative total moved. Rows of the model
"<synthetic>" are no request. `input` never includes cached tokens (Codex logs
input_tokens with the cached part in it; here it is taken out). `output`
includes reasoning. `cache_write` of Codex is null: the version written here does
not log it (0.144 and later do).
A day is the UTC day of the request; no request straddles midnight.

Traps (--plain: none; --traps: the ones named), counted in `traps` and in `naive`
---------------------------------------------------------------------------------
fork          a session file that begins with a copy of another's rows
              (same message.id, requestId, uuid; new sessionId)
btw           a sidechain file that replays a parent message under a new requestId
null_args     a tool_use whose input has `"id": null`, in a row with usage
no_request_id rows of a gateway's model: message.id alone tells one request from another
user_usage    a tool result row that carries the subagent's summed usage
truncated     a last line cut in the middle, and an empty file
codex_repeat  a token_count event repeated with an unmoved total
codex_replay  a subagent rollout that begins with its parent's events, re-stamped
              in one second
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Row = dict[str, Any]

TRAPS = frozenset(
    ["fork", "btw", "null_args", "no_request_id", "user_usage", "truncated", "codex_repeat", "codex_replay"]
)
DAYS = 120
PROJECTS = 25
LAST_DAY = datetime(2026, 11, 28, tzinfo=UTC)
WINDOW = 200_000  # tokens of a Claude context window
COMPACT_AT = 165_000  # auto-compaction starts about here

CLAUDE_MODELS = (
    ("claude-opus-4-6", 40),
    ("claude-sonnet-4-5-20250929", 35),
    ("claude-haiku-4-5-20251001", 20),
    ("house-coder-7b", 5),  # a gateway's model: in no price table
)
CODEX_MODELS = (("gpt-5.3-codex", 50), ("gpt-5.2-codex", 30), ("gpt-5.2", 20))
TOOLS = (
    ("Read", 30),
    ("Bash", 26),
    ("Grep", 14),
    ("Edit", 14),
    ("Glob", 4),
    ("TodoWrite", 3),
    ("mcp__github__get_issue", 2),
    ("mcp__github__search_code", 2),
    ("mcp__postgres__query", 2),
    ("mcp__browser__snapshot", 1),
    ("Skill", 1.2),
    ("Agent", 0.8),
)
CODEX_TOOLS = (("exec_command", 70), ("apply_patch", 18), ("update_plan", 7), ("mcp__github__get_issue", 5))
SKILLS = tuple(
    f"{a}-{b}"
    for a in ("release", "review", "sql", "docs", "deploy", "test")
    for b in ("notes", "checklist", "helper", "style", "guide")
)
MCP_TOOLS = (
    *(n for n, _ in TOOLS if n.startswith("mcp__")),
    "mcp__linear__list_issues",
    "mcp__linear__create_issue",
    "mcp__browser__click",
)


def weighted(rng: random.Random, pairs: tuple[tuple[str, float], ...]) -> str:
    return rng.choices([p[0] for p in pairs], [p[1] for p in pairs])[0]


class Text:
    """Slices of one pool of code-like text: cheap, varied, with what JSON must escape."""

    def __init__(self, rng: random.Random, chars: int = 1_500_000) -> None:
        words = [
            "parse",
            "row",
            "offset",
            "token",
            "cache",
            "event",
            "batch",
            "model",
            "usage",
            "record",
            "stream",
            "index",
            "filter",
            "merge",
            "group",
            "total",
            "value",
            "count",
            "price",
            "window",
            "session",
            "request",
            "buffer",
            "writer",
            "reader",
            "schema",
            "column",
        ]
        forms = (
            "    def {a}_{b}(self, {c}: int) -> dict[str, {d}]:\n",
            '        raise ValueError(f"bad {a} in {{path!r}}: {b}")\n',
            '\t\tif err := {a}.{b}(ctx, "{c}"); err != nil {{\n\t\t\treturn nil, err\n\t\t}}\n',
            "export const {a} = ({b}: string): {c} => `${{{b}}}/{d}`;\n",
            "{n}\u2192    for {a} in {b}.{c}():  # {d}\n",
            "src/{a}/{b}_{c}.py:{n}:    {d} = {a}[{n}]\n",
            "SELECT {a}, sum({b}) AS {c} FROM {d} GROUP BY 1;\n",
            "2026-10-0{e} 12:{f}:{f} INFO  {a}.{b}: {c} took {n} ms \u2714\n",
            "| {a} | {b} | caf\u00e9 {c} | {n} |\n",
            "\n",
        )
        parts: list[str] = []
        size = 0
        while size < chars:
            a, b, c, d = rng.choices(words, k=4)
            line = rng.choice(forms).format(
                a=a, b=b, c=c, d=d, n=rng.randrange(1, 5000), e=rng.randrange(1, 10), f=rng.randrange(10, 60)
            )
            parts.append(line)
            size += len(line)
        self.pool = "".join(parts)
        self.rng = rng

    def take(self, chars: int) -> str:
        at = self.rng.randrange(len(self.pool) - 1)
        out = self.pool[at : at + chars]
        while len(out) < chars:
            out += self.pool[: chars - len(out)]
        return out

    def heavy(self, low: int, typical: int, high: int) -> str:
        """Text of a log-normal length around `typical`, kept within [low, high]."""
        chars = int(math.exp(self.rng.gauss(math.log(typical), 1.1)))
        return self.take(max(low, min(high, chars)))


@dataclass
class Usage:
    input: int = 0
    output: int = 0
    cache_read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    reasoning: int = 0

    @property
    def cache_write(self) -> int:
        return self.write_5m + self.write_1h


@dataclass
class Truth:
    """The totals, kept while the rows are made."""

    usage: dict[tuple[str, str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    naive: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tools: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    result_chars: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    skills: Counter[str] = field(default_factory=Counter)
    traps: Counter[str] = field(default_factory=Counter)

    def request(self, client: str, model: str, when: datetime, u: Usage) -> None:
        self.usage[client, model, when.strftime("%Y-%m-%d")].update(
            requests=1,
            input=u.input,
            output=u.output,
            cache_read=u.cache_read,
            cache_write=u.cache_write,
            cache_write_5m=u.write_5m,
            cache_write_1h=u.write_1h,
            reasoning=u.reasoning,
        )

    def row(self, client: str, u: Usage, output: int) -> None:
        """What a parser that sums every row with a usage object would add."""
        self.naive[client].update(
            rows=1, input=u.input, output=output, cache_read=u.cache_read, cache_write=u.cache_write
        )

    def as_json(self) -> Row:
        def cells(client: str, c: Counter[str]) -> Row:
            names = ["requests", "input", "output", "cache_read", "cache_write", "cache_write_5m", "cache_write_1h"]
            row: Row = {n: c[n] for n in names}
            if client == "codex":
                row.update(cache_write=None, cache_write_5m=None, cache_write_1h=None, reasoning=c["reasoning"])
            return row

        totals: dict[str, Counter[str]] = defaultdict(Counter)
        for (client, _, _), c in self.usage.items():
            totals[client].update(c)
        return {
            "totals": {k: cells(k, v) for k, v in sorted(totals.items())},
            "usage": [
                {"client": c, "model": m, "day": d, **cells(c, v)} for (c, m, d), v in sorted(self.usage.items())
            ],
            "counts": {k: dict(sorted(v.items())) for k, v in sorted(self.counts.items())},
            "tool_calls": {k: dict(sorted(v.items())) for k, v in sorted(self.tools.items())},
            "tool_result_chars": {k: dict(sorted(v.items())) for k, v in sorted(self.result_chars.items())},
            "skill_loads": dict(sorted(self.skills.items())),
            "naive": {k: dict(v) for k, v in sorted(self.naive.items())},
            "traps": {k: v for k, v in sorted(self.traps.items()) if v},
        }


class Ids:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def short(self, prefix: str, n: int = 22) -> str:
        return prefix + "".join(self.rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789", k=n))

    def hex(self, n: int) -> str:
        return f"{self.rng.getrandbits(4 * n):0{n}x}"


def iso(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


def dump(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Clock:
    """Time within one session. Keeps the rows of one request within one UTC day."""

    def __init__(self, start: datetime) -> None:
        self.now = start

    def add(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def clear_midnight(self, seconds: float) -> None:
        if (self.now + timedelta(seconds=seconds)).date() != self.now.date():
            midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
            self.now = midnight + timedelta(seconds=1)


@dataclass
class Project:
    cwd: str
    slug: str
    last_rows: list[Row] = field(default_factory=list)  # rows of a short session, for a fork to copy


class ClaudeSession:
    """One Claude Code session file, or one subagent file of it."""

    def __init__(
        self, gen: Generator, project: Project, clock: Clock, session: str, *, model: str, agent: str | None = None
    ) -> None:
        self.gen, self.rng, self.text, self.ids = gen, gen.rng, gen.text, gen.ids
        self.truth = gen.truth
        self.project, self.clock, self.session, self.agent, self.model = project, clock, session, agent, model
        self.gateway = model.startswith("house-") and "no_request_id" in gen.traps
        self.version = self.rng.choice(("2.1.62", "2.1.88", "2.1.118", "2.1.251"))
        patch = int(self.version.rpartition(".")[2])
        self.grows = patch < 100  # older versions log a growing output_tokens, right on the last row only
        self.lists_skills, self.lists_names = patch >= 96, patch >= 148
        self.hour_cache = agent is None and self.rng.random() < 0.6
        self.parent: str | None = None
        self.rows: list[Row] = []
        self.agents: list[tuple[str, list[Row], str]] = []  # (agent id, rows, agent type)
        self.context = 0  # tokens the cache holds for this session
        self.pending = self.rng.randrange(9_000, 22_000)  # tokens not sent yet: the system prompt and tools
        self.last_call = clock.now

    def emit(self, kind: str, when: datetime, **rest: Any) -> Row:
        row: Row = {"parentUuid": self.parent, "isSidechain": self.agent is not None, "userType": "external"}
        row |= {"cwd": self.project.cwd, "sessionId": self.session, "version": self.version, "gitBranch": "main"}
        if self.agent:
            row["agentId"] = self.agent
        row |= {"type": kind, **rest, "uuid": self.ids.uuid(), "timestamp": iso(when)}
        self.parent = row["uuid"]
        self.rows.append(row)
        return row

    def attach(self, attachment: Row, text: str) -> None:
        self.emit("attachment", self.clock.add(0.01), attachment=attachment)
        self.pending += len(text) // 4

    def start(self) -> None:
        if self.agent is None:
            self.rows.append({"type": "permission-mode", "permissionMode": "default", "sessionId": self.session})
            if self.lists_skills:
                self.list_skills()
            names = list(MCP_TOOLS)
            self.attach(
                {"type": "deferred_tools_delta", "addedNames": names, "addedLines": names, "removedNames": []},
                "\n".join(names),
            )
            block = self.text.take(1800)
            self.attach(
                {
                    "type": "mcp_instructions_delta",
                    "addedNames": ["github"],
                    "addedBlocks": [block],
                    "removedNames": [],
                },
                block,
            )

    def list_skills(self) -> None:
        listing = "\n".join(f"- {s}: {self.text.take(self.rng.randrange(60, 400))!r}" for s in SKILLS)
        row: Row = {"type": "skill_listing", "content": listing, "skillCount": len(SKILLS), "isInitial": True}
        if self.lists_names:
            row["names"] = list(SKILLS)
        self.attach(row, listing)
        self.truth.counts["claude"]["skill_listings"] += 1

    def prompt(self, text: str) -> None:
        self.emit("user", self.clock.add(self.rng.uniform(0.1, 2)), message={"role": "user", "content": text})
        self.pending += len(text) // 4

    def idle(self) -> None:
        """The user reads, thinks or goes to lunch. A gap beyond the cache's life empties it."""
        self.clock.add(min(90_000.0, math.exp(self.rng.gauss(math.log(70), 1.6))))

    def call(self, blocks: list[Row], output: int) -> None:
        """One request: usage, and one row per content block. Tool calls add their results."""
        rng, truth = self.rng, self.truth
        self.clock.add(rng.uniform(1, 9))
        self.clock.clear_midnight(4 * len(blocks) + 5)
        gap = (self.clock.now - self.last_call).total_seconds()
        if gap > (3600 if self.hour_cache else 300):
            self.pending += self.context
            self.context = 0
        self.last_call = self.clock.now
        fresh = rng.randrange(1, 12)
        written = max(0, self.pending - fresh)
        u = Usage(input=fresh, output=output, cache_read=self.context)
        if self.hour_cache:
            u.write_1h = written
        else:
            u.write_5m = written
        self.context += written
        self.pending = output

        message, request = self.ids.short("msg_01"), self.ids.short("req_011C", 20)
        tools = [b for b in blocks if b["type"] == "tool_use"]
        results: list[Row] = []
        early = len(tools) > 1 and rng.random() < 0.4  # results may come before the message's last row
        for i, block in enumerate(blocks):
            last = i == len(blocks) - 1
            shown = output if last or not self.grows else max(1, output * (i + 1) // (3 * len(blocks)))
            usage: Row = {
                "input_tokens": u.input,
                "cache_creation_input_tokens": u.cache_write,
                "cache_read_input_tokens": u.cache_read,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": u.write_5m,
                    "ephemeral_1h_input_tokens": u.write_1h,
                },
                "output_tokens": shown,
                "service_tier": "standard",
            }
            stop = ("tool_use" if tools else "end_turn") if last else None
            body: Row = {"model": self.model, "id": message, "type": "message", "role": "assistant"}
            body |= {"content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage}
            rest: Row = {"message": body}
            if not self.gateway:
                rest["requestId"] = request
            self.emit("assistant", self.clock.add(rng.uniform(0.2, 2)), **rest)
            truth.row("claude", u, shown)
            if block["type"] == "tool_use":
                results.append(block)
                truth.tools["claude"][block["name"]] += 1
                if early and not last:
                    self.result(results.pop())
        truth.request("claude", self.model, self.clock.now, u)
        truth.traps["no_request_id"] += self.gateway
        for block in results:
            self.result(block)

    def tool_use(self) -> Row:
        rng = self.rng
        name = weighted(rng, TOOLS)
        if name == "Agent" and (self.agent or rng.random() < 0.3):
            name = "Read"
        path = f"{self.project.cwd}/src/{rng.choice(SKILLS)}/{rng.randrange(400)}.py"
        args: Row = {
            "Read": {"file_path": path},
            "Bash": {"command": "pytest -q " + path, "description": "Run the tests"},
            "Grep": {"pattern": "def .*row", "path": self.project.cwd, "output_mode": "content"},
            "Glob": {"pattern": "**/*.sql"},
            "Skill": {"skill": rng.choice(SKILLS), "args": ""},
            "Agent": {"description": "Look around", "prompt": self.text.take(900), "subagent_type": "Explore"},
        }.get(name, {"query": self.text.take(120)})
        if name == "Edit":
            args = {
                "file_path": path,
                "old_string": self.text.heavy(30, 400, 6000),
                "new_string": self.text.heavy(30, 500, 8000),
                "replace_all": False,
            }
        elif name == "TodoWrite":
            args = {"todos": [{"content": self.text.take(60), "status": "pending"} for _ in range(5)]}
        elif name.startswith("mcp__") and "null_args" in self.gen.traps and rng.random() < 0.05:
            args = {"query": {"id": None, "text": self.text.take(80)}}
            self.truth.traps["null_args"] += 1
        return {"type": "tool_use", "id": self.ids.short("toolu_01"), "name": name, "input": args}

    def result(self, use: Row) -> None:
        """The user row that answers one tool call; its content is repeated in toolUseResult, as the client does."""
        rng, name, args = self.rng, use["name"], use["input"]
        extra: Row
        self.clock.add(rng.uniform(0.05, 8))
        if name == "Skill":
            content, extra = f"Launching skill: {args['skill']}", {"success": True, "commandName": args["skill"]}
        elif name == "Agent":
            content, extra = self.subagent(args)
        else:
            typical = {"Read": 5200, "Bash": 1500, "Grep": 2200, "mcp__browser__snapshot": 14000}.get(name, 900)
            content = self.text.heavy(200, typical, 60_000)
            shapes: dict[str, Row] = {
                "Read": {"type": "text", "file": {"filePath": args.get("file_path"), "content": content}},
                "Bash": {"stdout": content, "stderr": "", "interrupted": False, "isImage": False},
            }
            extra = shapes.get(name, {"content": content, "numFiles": 0})
        block: Row = {"tool_use_id": use["id"], "type": "tool_result", "content": content}
        if name.startswith("mcp__") or name == "Agent":
            block["content"] = [{"type": "text", "text": content}]
        if name == "Bash":
            block["is_error"] = rng.random() < 0.08
        self.emit("user", self.clock.now, message={"role": "user", "content": [block]}, toolUseResult=extra)
        self.pending += len(content) // 4
        self.truth.result_chars["claude"][name] += len(content)
        if name == "Skill":
            body = f"Base directory for this skill: ~/.claude/skills/{args['skill']}\n\n" + self.text.heavy(
                1500, 6000, 24_000
            )
            self.emit(
                "user",
                self.clock.add(0.01),
                message={"role": "user", "content": [{"type": "text", "text": body}]},
                isMeta=True,
                sourceToolUseID=use["id"],
            )
            self.pending += len(body) // 4
            self.truth.skills[args["skill"]] += 1

    def subagent(self, args: Row) -> tuple[str, Row]:
        agent = "a" + self.ids.hex(16)
        child = ClaudeSession(
            self.gen, self.project, Clock(self.clock.now), self.session, model="claude-haiku-4-5-20251001", agent=agent
        )
        child.prompt(args["prompt"])
        child.turn(self.rng.randrange(2, 14))
        self.clock.now = child.clock.now
        self.agents.append((agent, child.rows, args["subagent_type"]))
        self.truth.counts["claude"]["subagents"] += 1
        content = self.text.heavy(300, 2500, 12_000)
        extra: Row = {"status": "completed", "agentId": agent, "content": [{"type": "text", "text": content}]}
        if "user_usage" in self.gen.traps:
            extra["usage"] = {"input_tokens": 9, "output_tokens": 4321, "cache_read_input_tokens": 98765}
            self.truth.traps["user_usage"] += 1
        return content, extra

    def turn(self, calls: int) -> None:
        for i in range(calls):
            final = i == calls - 1
            blocks: list[Row] = []
            if self.rng.random() < 0.45:
                thinking = self.text.heavy(80, 900, 9000)
                signature = base64.b64encode(self.rng.randbytes(min(1500, 200 + len(thinking) // 4))).decode()
                blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
            if final or self.rng.random() < 0.35:
                blocks.append({"type": "text", "text": self.text.heavy(40, 500, 6000)})
            if not final:
                blocks += [self.tool_use() for _ in range(self.rng.choice((1, 1, 1, 1, 2, 2, 3)))]
            written = sum(len(json.dumps(b, ensure_ascii=False)) for b in blocks)
            self.call(blocks, max(5, written // 4))
            if self.context > COMPACT_AT:
                self.compact()

    def compact(self) -> None:
        self.truth.counts["claude"]["compactions"] += 1
        meta = {"trigger": "auto", "preTokens": self.context}
        old, self.parent = self.parent, None
        self.emit(
            "system",
            self.clock.add(20),
            subtype="compact_boundary",
            content="Conversation compacted",
            level="info",
            isMeta=False,
            logicalParentUuid=old,
            compactMetadata=meta,
        )
        summary = "This session is being continued from a previous conversation.\n" + self.text.take(9000)
        self.emit(
            "user",
            self.clock.add(0.1),
            message={"role": "user", "content": summary},
            isCompactSummary=True,
            isVisibleInTranscriptOnly=True,
        )
        self.context, self.pending = 0, len(summary) // 4 + 15_000

    def run(self, requests: int) -> None:
        self.start()
        left = requests
        while left > 0:
            self.prompt(self.text.heavy(20, 160, 5000))
            calls = min(left, 1 + int(self.rng.expovariate(1 / 9)))
            self.turn(calls)
            left -= calls
            self.emit(
                "system", self.clock.add(0.1), subtype="turn_duration", durationMs=self.rng.randrange(900, 400_000)
            )
            if self.rng.random() < 0.25:
                snapshot: Row = {"messageId": self.parent, "trackedFileBackups": {}, "timestamp": iso(self.clock.now)}
                self.rows.append(
                    {
                        "type": "file-history-snapshot",
                        "messageId": self.parent,
                        "snapshot": snapshot,
                        "isSnapshotUpdate": False,
                    }
                )
            if self.rng.random() < 0.02:
                self.api_error()
            self.idle()

    def api_error(self) -> None:
        usage = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        body: Row = {"model": "<synthetic>", "id": self.ids.uuid(), "type": "message", "role": "assistant"}
        body |= {
            "content": [{"type": "text", "text": "API Error: Overloaded"}],
            "stop_reason": "stop_sequence",
            "usage": usage,
        }
        self.emit("assistant", self.clock.add(1), message=body, isApiErrorMessage=True)


class CodexSession:
    """One Codex rollout file."""

    def __init__(self, gen: Generator, project: Project, clock: Clock, session: str) -> None:
        self.gen, self.rng, self.text, self.ids = gen, gen.rng, gen.text, gen.ids
        self.truth, self.project, self.clock, self.session = gen.truth, project, clock, session
        self.model = weighted(self.rng, CODEX_MODELS)
        self.rows: list[Row] = []
        self.total: Counter[str] = Counter()
        self.context, self.pending = 0, self.rng.randrange(7_000, 14_000)

    def emit(self, kind: str, payload: Row) -> None:
        self.rows.append({"timestamp": iso(self.clock.now), "type": kind, "payload": payload})

    def start(self, parent: str | None = None) -> None:
        meta: Row = {"id": self.session, "timestamp": iso(self.clock.now), "cwd": self.project.cwd, "source": "cli"}
        if parent:
            meta["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
            meta["forked_from_id"] = parent
        meta |= {"originator": "codex_cli_rs", "cli_version": "0.98.0", "model_provider": "openai"}
        meta |= {"base_instructions": {"text": self.text.take(9000)}, "git": {"branch": "main"}}
        self.emit("session_meta", meta)

    def context_row(self) -> str:
        turn = self.ids.uuid()
        self.emit("event_msg", {"type": "task_started", "turn_id": turn, "model_context_window": 258_400})
        payload: Row = {"turn_id": turn, "cwd": self.project.cwd, "approval_policy": "on-request"}
        payload |= {"sandbox_policy": {"type": "read-only"}, "model": self.model, "effort": "medium", "summary": "auto"}
        self.emit("turn_context", payload)
        return turn

    def tokens(self, last: Row | None) -> None:
        rates = {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1_790_000_000}
        info = None
        if last is not None:
            info = {"total_token_usage": dict(self.total), "last_token_usage": last, "model_context_window": 258_400}
        self.emit(
            "event_msg", {"type": "token_count", "info": info, "rate_limits": {"primary": rates, "secondary": None}}
        )

    def call(self, tools: int) -> None:
        rng = self.rng
        self.clock.clear_midnight(10)
        self.clock.add(rng.uniform(1, 6))
        secret = base64.b64encode(rng.randbytes(rng.randrange(300, 3000))).decode()
        self.emit("response_item", {"type": "reasoning", "summary": [], "content": None, "encrypted_content": secret})
        uses: list[tuple[str, str]] = []
        size = 0
        for _ in range(tools):
            name, call_id = weighted(rng, CODEX_TOOLS), self.ids.short("call_", 24)
            self.truth.tools["codex"][name] += 1
            uses.append((name, call_id))
            if name == "apply_patch":
                patch = "*** Begin Patch\n" + self.text.heavy(100, 900, 9000) + "*** End Patch"
                item: Row = {
                    "type": "custom_tool_call",
                    "status": "completed",
                    "call_id": call_id,
                    "name": name,
                    "input": patch,
                }
                size += len(patch)
            else:
                arguments = json.dumps({"cmd": "rg -n " + self.text.take(40), "workdir": self.project.cwd})
                item = {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}
                size += len(arguments)
            self.emit("response_item", item)
        if not uses:
            said = self.text.heavy(60, 700, 6000)
            size += len(said)
            content = [{"type": "output_text", "text": said}]
            self.emit("response_item", {"type": "message", "role": "assistant", "content": content})
            self.emit("event_msg", {"type": "agent_message", "message": said})
        reasoning = rng.randrange(0, 900)
        out = size // 4 + reasoning + 5
        cached = self.context if rng.random() < 0.93 else 0
        whole = self.context + self.pending
        last: Row = {"input_tokens": whole, "cached_input_tokens": cached, "output_tokens": out}
        last |= {"reasoning_output_tokens": reasoning, "total_tokens": whole + out}
        self.total.update(last)
        u = Usage(input=whole - cached, output=out, cache_read=cached, reasoning=reasoning)
        self.context, self.pending = whole // 128 * 128, out
        self.pending += whole - self.context
        self.clock.add(0.3)
        self.tokens(last)
        self.truth.request("codex", self.model, self.clock.now, u)
        self.truth.row("codex", u, out)
        if "codex_repeat" in self.gen.traps and rng.random() < 0.06:
            self.clock.add(0.4)
            self.tokens(last)
            self.truth.row("codex", u, out)
            self.truth.traps["codex_repeat"] += 1
        for name, call_id in uses:
            self.clock.add(rng.uniform(0.1, 6))
            output = self.text.heavy(200, 2600, 40_000)
            kind = "custom_tool_call_output" if name == "apply_patch" else "function_call_output"
            self.emit("response_item", {"type": kind, "call_id": call_id, "output": output})
            self.pending += len(output) // 4
            self.truth.result_chars["codex"][name] += len(output)
        if self.context > 225_000:
            self.truth.counts["codex"]["compactions"] += 1
            self.clock.add(15)
            self.emit("compacted", {"message": self.text.take(3000), "replacement_history": []})
            self.emit("event_msg", {"type": "context_compacted"})
            self.context, self.pending = 0, 12_000

    def run(self, requests: int) -> None:
        self.tokens(None)
        left = requests
        while left > 0:
            if self.rng.random() < 0.04:
                self.model = weighted(self.rng, CODEX_MODELS)
            turn = self.context_row()
            said = self.text.heavy(20, 200, 6000)
            content = [{"type": "input_text", "text": said}]
            self.emit("response_item", {"type": "message", "role": "user", "content": content})
            self.emit("event_msg", {"type": "user_message", "message": said, "images": []})
            self.pending += len(said) // 4
            calls = min(left, 1 + int(self.rng.expovariate(1 / 10)))
            for i in range(calls):
                self.call(0 if i == calls - 1 else self.rng.choice((1, 1, 2)))
            left -= calls
            self.emit("event_msg", {"type": "task_complete", "turn_id": turn, "last_agent_message": None})
            self.clock.add(min(90_000.0, math.exp(self.rng.gauss(math.log(90), 1.6))))


class Generator:
    def __init__(self, out: Path, seed: int, codex_share: float, traps: frozenset[str]) -> None:
        self.out, self.codex_share, self.traps = out, codex_share, traps
        self.rng = random.Random(seed)
        self.text, self.ids, self.truth = Text(self.rng), Ids(self.rng), Truth()
        self.files = self.bytes = self.rows = 0
        names = self.rng.sample(
            [f"{a}-{b}" for a in ("ledger", "atlas", "harbor", "loom", "quill") for b in SKILLS], PROJECTS
        )
        self.projects = [Project(f"/home/dev/src/{n}", f"-home-dev-src-{n}") for n in names]

    def write(self, path: Path, rows: list[Row], tail: bytes = b"") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"".join(map(dump, rows)) + tail
        path.write_bytes(data)
        self.files += 1
        self.bytes += len(data)
        self.rows += len(rows)

    def start_time(self) -> datetime:
        day = LAST_DAY - timedelta(days=self.rng.randrange(2, DAYS))
        return day + timedelta(seconds=self.rng.gauss(14.5, 4.0) % 24 * 3600)

    def length(self) -> int:
        """Requests of a session: log-normal, so that a few sessions hold most of the bytes."""
        return max(1, min(4000, int(math.exp(self.rng.gauss(math.log(9), 1.5)))))

    def trap(self, name: str, chance: float) -> bool:
        hit = name in self.traps and self.rng.random() < chance
        if hit:
            self.truth.traps[name] += 1
        return hit

    def claude(self) -> None:
        project = self.rng.choices(self.projects, [1 / (i + 1) for i in range(PROJECTS)])[0]
        folder = self.out / ".claude" / "projects" / project.slug
        s = ClaudeSession(
            self, project, Clock(self.start_time()), self.ids.uuid(), model=weighted(self.rng, CLAUDE_MODELS)
        )
        if project.last_rows and self.trap("fork", 0.04):
            copied = [r | {"sessionId": s.session} if "sessionId" in r else r for r in project.last_rows]
            self.count_copies(copied)
            s.rows += copied
            s.clock.now = max(s.clock.now, datetime.fromisoformat(copied[-1]["timestamp"]))
        s.run(self.length())
        tail = b""
        if self.trap("truncated", 0.01):
            tail = dump(s.rows[-1])[:-40]
        self.write(folder / f"{s.session}.jsonl", s.rows, tail)
        self.truth.counts["claude"]["sessions"] += 1
        for agent, rows, kind in s.agents:
            self.write(folder / s.session / "subagents" / f"agent-{agent}.jsonl", rows)
            meta = json.dumps({"agentType": kind, "description": "Look around"})
            (folder / s.session / "subagents" / f"agent-{agent}.meta.json").write_text(meta)
        if self.trap("btw", 0.02):
            self.aside(s, folder)
        ended = [i for i, r in enumerate(s.rows) if r.get("subtype") == "turn_duration"]
        if len(s.rows) < 400:
            project.last_rows = s.rows[: ended[0] + 1]

    def count_copies(self, rows: list[Row]) -> None:
        for r in rows:
            usage = r.get("message", {}).get("usage")
            if usage:
                u = Usage(
                    usage["input_tokens"],
                    usage["output_tokens"],
                    usage["cache_read_input_tokens"],
                    usage["cache_creation_input_tokens"],
                )
                self.truth.row("claude", u, u.output)

    def aside(self, s: ClaudeSession, folder: Path) -> None:
        """A side question: the last parent message under another requestId, then one answer of its own."""
        agent = "aside_question-" + self.ids.hex(16)
        side = ClaudeSession(self, s.project, Clock(s.clock.now), s.session, model=s.model, agent=agent)
        replay = [r for r in s.rows if r["type"] == "assistant" and not r.get("isApiErrorMessage")][-1]
        replay = replay | {"isSidechain": True, "agentId": agent, "uuid": self.ids.uuid()}
        if "requestId" in replay:
            replay["requestId"] = self.ids.short("req_011C", 20)
        side.rows.append(replay)
        self.count_copies([replay])
        side.prompt("What does this column mean?")
        side.turn(1)
        self.write(folder / s.session / "subagents" / f"agent-{agent}.jsonl", side.rows)
        self.truth.counts["claude"]["asides"] += 1

    def codex(self) -> None:
        project = self.rng.choices(self.projects, [1 / (i + 1) for i in range(PROJECTS)])[0]
        s = CodexSession(self, project, Clock(self.start_time()), self.ids.uuid())
        s.start()
        start = s.clock.now
        s.run(self.length())
        self.write_codex(s, start)
        self.truth.counts["codex"]["sessions"] += 1
        if len(s.rows) < 500 and self.trap("codex_replay", 0.12):
            self.codex_child(s)

    def codex_child(self, parent: CodexSession) -> None:
        """A spawned thread: the parent's rows re-stamped in one second, then its own, totals running on."""
        child = CodexSession(self, parent.project, Clock(parent.clock.now), self.ids.uuid())
        start = child.clock.now
        child.start(parent.session)
        when = iso(child.clock.now)
        for r in parent.rows:
            child.rows.append(r | {"timestamp": when})
            info = r["payload"].get("info")
            if info:
                last = info["last_token_usage"]
                cached = last["cached_input_tokens"]
                u = Usage(last["input_tokens"] - cached, last["output_tokens"], cached)
                self.truth.row("codex", u, u.output)
        child.total = Counter(parent.total)
        child.context, child.pending, child.model = parent.context, parent.pending, parent.model
        child.clock.add(3)
        child.run(self.rng.randrange(1, 10))
        self.write_codex(child, start)
        self.truth.counts["codex"]["spawned"] += 1

    def write_codex(self, s: CodexSession, start: datetime) -> None:
        name = f"rollout-{start:%Y-%m-%dT%H-%M-%S}-{s.session}.jsonl"
        self.write(self.out / ".codex" / "sessions" / f"{start:%Y/%m/%d}" / name, s.rows)

    def run(self, megabytes: float) -> Iterator[float]:
        goal = int(megabytes * 1_000_000)
        codex_bytes = 0
        while self.bytes < goal:
            before = self.bytes
            if codex_bytes < self.codex_share * self.bytes:
                self.codex()
                codex_bytes += self.bytes - before
            else:
                self.claude()
            yield self.bytes / goal
        if "truncated" in self.traps:
            self.write(self.out / ".claude" / "projects" / self.projects[0].slug / f"{self.ids.uuid()}.jsonl", [])
            self.truth.traps["empty_file"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=200.0, help="size of the transcripts, in MB (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--codex-share", type=float, default=0.3, help="share of the bytes that are Codex (default 0.3)"
    )
    parser.add_argument("--traps", default="all", help=f"all, none, or some of: {', '.join(sorted(TRAPS))}")
    parser.add_argument("--plain", action="store_const", const="none", dest="traps", help="the same as --traps none")
    args = parser.parse_args()
    traps = {"all": TRAPS, "none": frozenset[str]()}.get(args.traps, frozenset(args.traps.split(",")))
    if traps - TRAPS:
        parser.error(f"no such trap: {', '.join(sorted(traps - TRAPS))}")
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"{args.out} is not empty")
    gen = Generator(args.out, args.seed, args.codex_share, traps)
    for _ in gen.run(args.mb):
        pass
    expected: Row = {
        "args": {"mb": args.mb, "seed": args.seed, "codex_share": args.codex_share, "traps": sorted(traps)},
        "files": gen.files,
        "bytes": gen.bytes,
        "rows": gen.rows,
    }
    expected |= gen.truth.as_json()
    (args.out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(f"{gen.files} files, {gen.bytes / 1e6:.1f} MB, {gen.rows} rows -> {args.out}")


if __name__ == "__main__":
    main()
