"""Transcripts with known totals, and what a lake says of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

INPUT, WRITTEN, READ, OUTPUT = 3, 40, 1000, 20  # tokens of each response that `response` makes

Counts = tuple[int, int, int]  # requests, input tokens, output tokens


def counts(requests: int) -> Counts:
    """What a lake must say of so many responses."""
    return requests, requests * INPUT, requests * OUTPUT


def response(session: str, number: int, text: str = "done") -> bytes:
    """A line of Claude Code: one whole response, unlike any other."""
    usage = {"input_tokens": INPUT, "cache_creation_input_tokens": WRITTEN, "cache_read_input_tokens": READ}
    message: dict[str, Any] = {"id": f"msg_{session}_{number}", "type": "message", "role": "assistant"}
    message |= {"model": "claude-sonnet-5", "stop_reason": "end_turn", "usage": usage | {"output_tokens": OUTPUT}}
    message["content"] = [{"type": "text", "text": text}]
    when = f"2026-11-{1 + number // 1440 % 28:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000Z"
    row: dict[str, Any] = {"type": "assistant", "uuid": f"{session}-{number}", "parentUuid": None, "sessionId": session}
    row |= {"isSidechain": False, "cwd": "/w/app", "version": "2.1.220", "timestamp": when}
    return json.dumps(row | {"requestId": f"req_{session}_{number}", "message": message}).encode() + b"\n"


def responses(session: str, start: int, stop: int) -> bytes:
    return b"".join(response(session, number) for number in range(start, stop))


def project(home: Path) -> Path:
    """The folder of a project's transcripts."""
    folder = home / ".claude" / "projects" / "-w-app"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def corpus(home: Path, files: int, each: int) -> int:
    """Write so many sessions of so many responses; returns how many responses there are."""
    for number in range(files):
        (project(home) / f"s{number}.jsonl").write_bytes(responses(f"s{number}", 0, each))
    return files * each


def said(lake: Path) -> Counts:
    """Requests, input and output tokens, by the view `requests`."""
    query = "select coalesce(sum(n_requests), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0)"
    requests, tokens_in, tokens_out = one(lake, f"{query} from requests")
    return int(requests), int(tokens_in), int(tokens_out)


def one(lake: Path, query: str, *values: object) -> tuple[Any, ...]:
    """The only row of a query on the lake's views."""
    with duckdb.connect(str(lake / "agentlens.duckdb"), read_only=True) as connection:
        rows = connection.execute(query, values).fetchall()
    assert len(rows) == 1
    return tuple(rows[0])


def stored(lake: Path, table: str = "requests") -> list[tuple[Any, ...]]:
    """Every row that a plain glob over a table's files reads, in one order; when it was read is left out."""
    pattern = str(lake / table / "**" / "*.parquet")
    if not list(lake.glob(f"{table}/**/*.parquet")):
        return []
    when = "exclude (ingested_at)" if table == "sources" else ""
    query = (
        f"select * {when} from read_parquet('{pattern}', hive_partitioning = true, union_by_name = true) order by all"
    )
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


@dataclass(frozen=True, slots=True)
class Entry:
    """What must not change in a client's folder. The access time may: reading sets it."""

    path: str
    mode: int
    size: int
    mtime_ns: int
    inode: int


def listing(folder: Path) -> list[Entry]:
    """All that lies below a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = os.lstat(path)
        entry = Entry(str(path), status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
        found.append(entry)
    return found
