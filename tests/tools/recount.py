"""Count requests and tokens of a home of Claude Code and Codex transcripts, from the formats alone.

    python tests/tools/recount.py HOME      prints {client: {model: {requests, input_tokens, ...}}} as JSON

It is a second opinion: it knows nothing of the pipeline and imports nothing but the standard library, so that an error
must be made twice to go unseen. It keeps to the rules of the formats and leaves out everything that counting does not
need. A model that is not recorded is named "n/a"; a count that no request of a model records is null.

Claude Code: one response is one (message.id, requestId), over all files; message.id alone without a requestId, the
row's uuid without both. Its usage is the snapshot with the largest output, its model that of the same row. Notices
that the client wrote (`<synthetic>`, errors of the API) are no requests. A response that occurs on a sidechain and off
it under different request ids counts once. Advisor calls (`usage.iterations`) are calls of their own.

Codex: a `token_count` is a response if the cumulative total moved. Its usage is `last_token_usage`; what the total
moved beyond that is a response whose own count is lost. Totals that hold only `total_tokens` are the client's
estimates. What a fork or subagent copied from its parent's file (by turn id, else in the second that it began) is the
parent's. Cached input is taken out of the input, and so are cache writes, where they are recorded.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Count = dict[str, int | None]
FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def recount(home: Path) -> dict[str, dict[str, Count]]:
    """Totals by client and model."""
    totals: dict[str, dict[str, Count]] = {}
    for client, calls in (("claude-code", claude(home)), ("codex", codex(home))):
        models: dict[str, Count] = defaultdict(lambda: {"requests": 0, **dict.fromkeys(FIELDS)})
        for model, usage in calls:
            into = models[model or "n/a"]
            into["requests"] = (into["requests"] or 0) + 1
            for name in FIELDS:
                into[name] = plus(into[name], usage.get(name))
        if models:
            totals[client] = dict(sorted(models.items()))
    return totals


def plus(a: int | None, b: int | None) -> int | None:
    """A sum in which what is not recorded adds nothing, and nothing recorded stays so."""
    if a is None or b is None:
        return a if b is None else b
    return a + b


def whole(value: object) -> int | None:
    """A count as a client may write it: a number, a number in quotes; else not recorded."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if isinstance(value, bool) or not 0 <= number < 2**63:
        return None
    return value if isinstance(value, int) else round(number)


def lines(path: Path) -> Iterator[Row]:
    """The objects of a JSON Lines file, plain or compressed; anything else in it is passed over."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    if path.suffix == ".zst":
        import zstandard

        content = zstandard.ZstdDecompressor().stream_reader(content).read()
    for line in content.split(b"\n"):
        try:
            row = json.loads(line.strip(b"\0 \t\r\xef\xbb\xbf").decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def files(root: Path, *patterns: str) -> list[Path]:
    """Regular files below a folder, each once, links followed."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        for path in sorted(root.rglob(pattern)):
            if path.is_file():
                found.setdefault(path.resolve(), path)
    return list(found.values())


# --- Claude Code -----------------------------------------------------------------------------------------------------


def claude(home: Path) -> Iterator[tuple[str | None, Count]]:
    """Model and usage of each response below the two folders that the client has used."""
    best: dict[tuple[str, str], tuple[int, Row, bool]] = {}
    for root in (home / ".claude", home / ".config" / "claude"):
        for path in files(root / "projects", "*.jsonl"):
            for outer in lines(path):
                for row in (outer, inner(outer)):
                    keep_fullest(best, row)
    off_sidechain = {message for (message, _), (_, _, sidechain) in best.items() if not sidechain}
    for (message, _), (_, row, sidechain) in best.items():
        if sidechain and message in off_sidechain and row["message"].get("id"):
            continue
        yield row["message"].get("model"), claude_usage(usage_of(row))
        yield from advisors(usage_of(row))


def inner(row: Row) -> Row:
    """The subagent's row that an old progress row carries."""
    data = row.get("data")
    carried = data.get("message") if isinstance(data, dict) and row.get("type") == "progress" else None
    return carried if isinstance(carried, dict) else {}


def keep_fullest(best: dict[tuple[str, str], tuple[int, Row, bool]], row: Row) -> None:
    """Remember the snapshot of a response that has the largest output."""
    message = row.get("message")
    if row.get("type") != "assistant" or not isinstance(message, dict):
        return
    if message.get("model") == "<synthetic>":
        return
    if row.get("isApiErrorMessage") and not any(v for v in usage_of(row).values() if isinstance(v, (int, float))):
        return  # a notice of the client: nothing was spent
    if not message.get("id") and not usage_of(row):
        return  # says nothing of a response
    if message.get("id"):
        key = (str(message["id"]), str(row.get("requestId") or ""))
    else:
        key = (str(row.get("requestId") or row.get("uuid")), "")
    size = whole(usage_of(row).get("output_tokens")) or 0
    sidechain = bool(row.get("isSidechain")) and best.get(key, (0, row, True))[2]
    if key not in best or size > best[key][0]:
        best[key] = (size, row, sidechain)
    else:
        best[key] = (*best[key][:2], sidechain)


def usage_of(row: Row) -> Row:
    """A response may have no usage: it happened, and its tokens are not recorded."""
    usage = row["message"].get("usage")
    return usage if isinstance(usage, dict) else {}


def claude_usage(usage: Row) -> Count:
    written = whole(usage.get("cache_creation_input_tokens"))
    split = usage.get("cache_creation")
    if isinstance(split, dict):
        parts = [whole(split.get(f"ephemeral_{life}_input_tokens")) for life in ("5m", "1h")]
        known = [part for part in (written, plus(*parts)) if part is not None]
        written = max(known, default=None)
    details = usage.get("output_tokens_details")
    return {
        "input_tokens": whole(usage.get("input_tokens")),
        "output_tokens": whole(usage.get("output_tokens")),
        "cache_read_tokens": whole(usage.get("cache_read_input_tokens")),
        "cache_write_tokens": written,
        "reasoning_tokens": whole(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    }


def advisors(usage: Row) -> Iterator[tuple[str | None, Count]]:
    for step in usage.get("iterations") or []:
        if isinstance(step, dict) and step.get("type") == "advisor_message":
            yield step.get("model"), claude_usage(step)


# --- Codex -----------------------------------------------------------------------------------------------------------


def codex(home: Path) -> Iterator[tuple[str | None, Count]]:
    """Model and usage of each response; a thread that stands in two places is read from the better one."""
    threads: dict[str, list[Row]] = {}
    for path in rollouts(home / ".codex"):
        rows = [row for row in lines(path) if isinstance(row.get("payload"), dict)]
        own = next((row["payload"] for row in rows if row.get("type") == "session_meta"), None)
        if own is None:
            continue
        thread = str(own.get("id"))
        if len(rows) > len(threads.get(thread, [])):
            threads[thread] = rows
    for rows in threads.values():
        yield from thread_calls(rows, threads)


def rollouts(root: Path) -> Iterable[Path]:
    for folder in ("sessions", "archived_sessions"):
        yield from files(root / folder, "rollout-*.jsonl", "rollout-*.jsonl.zst")


def thread_calls(rows: list[Row], threads: dict[str, list[Row]]) -> Iterator[tuple[str | None, Count]]:
    cut = copied(rows, threads)
    records = [row["payload"] for row in rows[cut:] if row.get("type") == "token_usage_record"]
    model: str | None = None
    before: Row | None = None
    answered: set[str] = set()
    recorded = {record.get("turn_id") for record in records}
    turn: str | None = None
    for at, row in enumerate(rows):
        payload = row["payload"]
        if row.get("type") == "turn_context":
            model, turn = payload.get("model") or model, payload.get("turn_id")
        elif row.get("type") == "token_usage_record" and at >= cut:
            response = str(payload.get("response_id"))
            if response not in answered:
                answered.add(response)
                yield model, codex_usage(payload.get("usage") or {})
        elif payload.get("type") == "token_count" and isinstance(payload.get("info"), dict):
            calls, before = moved(payload["info"], before)
            if at >= cut and not (recorded and turn in recorded):
                for usage in calls:
                    yield payload.get("model") or payload["info"].get("model") or model, codex_usage(usage)


def moved(info: Row, before: Row | None) -> tuple[list[Row], Row | None]:
    """The responses that a token count adds, and the total that the next one is compared with."""
    total, last = info.get("total_token_usage"), info.get("last_token_usage")
    named = [last] if isinstance(last, dict) and is_call(last) else []
    if not isinstance(total, dict):
        return named, before
    if not is_call(total):
        return [], before
    if before is None or volume(total) < volume(before):
        return (named if isinstance(last, dict) else [total]), total
    if volume(total) == volume(before):
        return [], total
    step = difference(total, before)
    if not named or volume(step) < volume(named[0]):
        return [step], total
    hidden = difference(step, named[0])  # a response whose own count is lost
    return ([hidden] if is_call(hidden) else []) + named, total


def difference(later: Row, earlier: Row) -> Row:
    return {name: max(0, (whole(later.get(name)) or 0) - (whole(earlier.get(name)) or 0)) for name in later}


def is_call(usage: Row) -> bool:
    """Only a response has input or output; a total alone is the client's estimate of the context."""
    return volume(usage) > 0


def volume(usage: Row) -> int:
    return (whole(usage.get("input_tokens")) or 0) + (whole(usage.get("output_tokens")) or 0)


def codex_usage(usage: Row) -> Count:
    gross = whole(usage.get("input_tokens"))
    cached = whole(usage.get("cached_input_tokens", usage.get("cache_read_input_tokens")))
    written = whole(usage.get("cache_write_input_tokens"))
    if gross is not None and cached is not None:
        cached = min(cached, gross)
    net = None if gross is None else max(0, gross - (cached or 0) - (written or 0))
    return {
        "input_tokens": net,
        "output_tokens": whole(usage.get("output_tokens")),
        "cache_read_tokens": cached,
        "cache_write_tokens": written,
        "reasoning_tokens": whole(usage.get("reasoning_output_tokens")),
    }


def copied(rows: list[Row], threads: dict[str, list[Row]]) -> int:
    """The number of leading rows that a thread copied from the one it was forked or spawned from."""
    own = rows[0]["payload"]
    parent = own.get("forked_from_id") or parent_thread(own)
    if not parent:
        return 0
    theirs = {turn_of(row) for row in threads.get(str(parent), [])} - {None}
    end = 0
    for at, row in enumerate(rows):
        turn = turn_of(row)
        if turn is not None and theirs and turn not in theirs:
            break
        if turn in theirs:
            end = at + 1
    if end:
        return next((at for at in range(end, len(rows)) if turn_of(rows[at]) not in {None, *theirs}), len(rows))
    replays = any(row.get("type") == "session_meta" for row in rows[1:])
    return sum(1 for row in rows if second(row) == second(rows[0])) if replays else 0


def parent_thread(meta: Row) -> str | None:
    source = meta.get("source")
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return meta.get("parent_thread_id") or (spawn.get("parent_thread_id") if isinstance(spawn, dict) else None)


def turn_of(row: Row) -> str | None:
    payload = row["payload"]
    begins = row.get("type") == "turn_context" or payload.get("type") in {"task_started", "turn_started"}
    turn = payload.get("turn_id") if begins else None
    return turn if isinstance(turn, str) else None


def second(row: Row) -> str:
    return str(row.get("timestamp"))[:19]


if __name__ == "__main__":
    print(json.dumps(recount(Path(sys.argv[1])), indent=1))  # noqa: T201
