"""What retrieval tools spare: sizes of the files that their results name, and a ledger of all calls ever counted.

The ledger is a SQLite file beside the lake, with the table that a code-index server keeps of itself. What was counted
once is never counted again, and stays when transcripts, or the lake, are gone: docs/decisions/0003-savings.md.
"""

from __future__ import annotations

import hashlib
import ntpath
import os
import posixpath
import sqlite3
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from pipeline import retrieval
from pipeline.client import Home, Parsed
from pipeline.errors import LedgerError
from pipeline.lake import month_of, read_side, write_side
from pipeline.manifest import Manifest, Move
from pipeline.schema import RepoFile, UsageLedger

FILE_CAP = 50  # distinct files that a call is credited with
PROXY_BYTES = 4096  # of a file of which no size can be had
OWN, SERVERS = "agentlens", "codelens"  # who keeps a ledger
_SUCCESSES = {"ok", None}  # None: the client records no outcomes
_LARGEST_LEDGER = 256 << 20
_WAIT_SECONDS = 30.0


# --- one call --------------------------------------------------------------------------------------------------------


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call of a tracked tool that did not fail, as a transcript tells it, and the sizes that were found on disk."""

    key: str  # equal in every copy of the call
    tool: str
    kind: str
    repo_id: str
    repo_root: str
    called_at: int | None
    bytes_served: int | None
    paths: tuple[str, ...]
    handles: int | None
    sizes: Mapping[str, int]


def repo_id(root: str) -> str:
    """The name of a repository in ledgers: of its root's path, as the transcripts write it."""
    return hashlib.sha256(root.encode("utf-8", "replace")).hexdigest()[:16]


def spared(
    kind: str, bytes_served: int | None, sizes: Sequence[int], handles: int | None
) -> tuple[int | None, str | None]:
    """Bytes that a call spared, and by which method; None where neither sizes nor handles are known.

    `sizes` are those that are known of the first 50 distinct files.
    """
    if kind != "discovery":
        return 0, None
    if bytes_served is None:
        return None, None
    if sizes:
        return max(0, sum(sizes) - bytes_served), "file_sizes"
    if handles is not None:
        return max(0, handles * PROXY_BYTES - bytes_served), "flat_proxy"
    return None, None


def find_calls(client: str, parsed: Parsed) -> tuple[Call, ...]:
    """The calls of tracked tools in a file's rows; the paths in the rows become relative to their repository."""
    calls = []
    roots = {session.session_id: session.repo_root or session.project for session in parsed.sessions}
    for call in parsed.tool_calls:
        tool = retrieval.tracked(call.mcp_server, call.mcp_tool) if call.mcp_tool is not None else None
        if tool is None:
            continue
        root = roots.get(call.session_id) or ""
        if call.result_paths:
            call.result_paths = list(dict.fromkeys(below(root, path) for path in call.result_paths))
        if call.outcome not in _SUCCESSES:
            continue
        paths = tuple(call.result_paths or ())[:FILE_CAP]
        found = {path: size for path in paths if (size := size_below(root, path)) is not None}
        key = f"{client}/{call.call_id}"
        calls.append(
            Call(
                *(key, tool.tool, tool.kind, repo_id(root) if root else "", root),
                *(call.ts, call.result_bytes, paths, call.result_handles, found),
            )
        )
    return tuple(calls)


def below(root: str, path: str) -> str:
    """A path relative to the root, where it is absolute and lies below it; else as it is."""
    if not root or not (posixpath.isabs(path) or ntpath.splitdrive(path)[0]):
        return path
    for base in (root, _real(root)):
        start = (base.replace("\\", "/") if ntpath.splitdrive(base)[0] else base).rstrip("/") + "/"
        if len(start) > 1 and path.startswith(start):
            return path[len(start) :]
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return path
    start = _real(root).rstrip(os.sep) + os.sep
    return real[len(start) :].replace(os.sep, "/") if os.path.isdir(start) and real.startswith(start) else path


def size_below(root: str, path: str) -> int | None:
    """The size of a regular file below the root; None for what a link or `..` leads out of it, and for all else."""
    if not root or not os.path.isabs(root):
        return None
    try:
        start = _real(root).rstrip(os.sep) + os.sep
        real = os.path.realpath(os.path.join(start, path))
        if not real.startswith(start):
            return None
        status = os.stat(real)
    except (OSError, ValueError):
        return None  # gone, or a name that no disk has
    return status.st_size if stat.S_ISREG(status.st_mode) else None


@lru_cache(maxsize=1024)
def _real(root: str) -> str:
    try:
        return os.path.realpath(root)
    except (OSError, ValueError):
        return root


# --- the lake and the ledger -----------------------------------------------------------------------------------------


def account(
    lake: Path, machine: str, client: str, calls: Iterable[Call], now: int
) -> tuple[list[Move], LedgerError | None]:
    """Note sizes for the lake, and the calls in the ledger. Needs the lock.

    Returns what puts the sizes in place, and why the ledger could not be written, if it could not. It comes before
    the commit of the calls themselves: what is counted twice by a run that died in between, counts once.
    """
    calls = list(calls)
    if not calls:
        return [], None
    known, moves = _update_files(lake, machine, client, calls, now)
    entries = []
    for call in calls:
        sizes = [known[call.repo_id, path] for path in call.paths if (call.repo_id, path) in known]
        saved, _ = spared(call.kind, call.bytes_served, sizes, call.handles)
        at = None if call.called_at is None else call.called_at // 1000
        entries.append(Entry(call.key, call.tool, call.repo_id, at, call.bytes_served or 0, saved or 0))
    try:
        UsageTracker(ledger_path(lake)).record_once(entries)
    except LedgerError as error:
        return moves, error
    return moves, None


def _update_files(
    lake: Path, machine: str, client: str, calls: Sequence[Call], now: int
) -> tuple[dict[tuple[str, str], int], list[Move]]:
    """The sizes that are known, those of today first; and the table brought up to date."""
    rows = {(row.repo_id, row.path): row for row in read_side("repo_files", lake, client, machine)}
    touched = set()
    for call in calls:
        for path, size in call.sizes.items():
            old = rows.get((call.repo_id, path))
            if old is not None and old.size_bytes == size:
                continue
            if old is not None:
                touched.add(month_of(old.seen_at) or "1970-01")
            rows[call.repo_id, path] = RepoFile(
                repo_id=call.repo_id, repo_root=call.repo_root, path=path, size_bytes=size, seen_at=now
            )
            touched.add(month_of(now) or "1970-01")
    months: dict[str, list[RepoFile]] = {month: [] for month in touched}
    for _, row in sorted(rows.items()):
        month = month_of(row.seen_at) or "1970-01"
        if month in touched:
            months[month].append(row)
    moves = write_side("repo_files", lake, client, machine, months)
    return {key: row.size_bytes for key, row in rows.items()}, moves


def ledger_path(lake: Path) -> Path:
    """Our own ledger: beside the lake, so that it outlives it."""
    whole = lake.absolute()
    return whole.parent / f"{whole.name}.usage.db"


def _ledgers(lake: Path, home: Home) -> tuple[tuple[str, Path], ...]:
    return (OWN, ledger_path(lake)), (SERVERS, home.path / ".codelens" / "usage.db")


def _note(path: Path) -> str:
    return f"ledger:{path}"


def _seen(path: Path) -> str:
    """What a ledger's files look like; empty if there is none. Reads nothing."""
    parts = []
    for name in (path, f"{path}-wal"):
        try:
            status = os.stat(name)
        except (OSError, ValueError):
            continue
        parts.append(f"{status.st_size} {status.st_mtime_ns}")
    return " ".join(parts)


def is_behind(lake: Path, home: Home, notes: Mapping[str, str]) -> bool:
    """Has a ledger changed since the lake's copy of it was made?"""
    return any(_seen(path) != notes.get(_note(path), "") for _, path in _ledgers(lake, home))


def copy_ledgers(lake: Path, home: Home, machine: str, manifest: Manifest, now: int) -> list[str]:
    """Copy what the ledgers say into the lake, where it changed; returns warnings. Needs the lock."""
    state = manifest.read()
    notes = state.meta if state else {}
    warnings = []
    for keeper, path in _ledgers(lake, home):
        seen = _seen(path)
        if seen == notes.get(_note(path), ""):
            continue
        try:
            rows = UsageTracker(path).snapshot() if seen else None  # one that is gone keeps its rows
        except LedgerError as error:
            warnings.append(str(error))
            if not error.is_locked:  # a bad file is told once, not at each run
                manifest.note(**{_note(path): seen})
            continue
        moves = [] if rows is None else _copy(lake, keeper, machine, path, rows, now)
        manifest.commit([], moves, {_note(path): seen})
    return warnings


def _copy(lake: Path, keeper: str, machine: str, path: Path, usage: Sequence[Usage], now: int) -> list[Move]:
    before = read_side("usage_ledgers", lake, keeper, machine)
    old = {(row.tool, row.repo_id): row for row in before if row.path == str(path)}
    rows = []
    for one in usage:
        at = None if one.last_called_at is None else one.last_called_at * 1000
        row = UsageLedger(
            path=str(path),
            tool=one.tool,
            repo_id=one.repo_id,
            calls=one.calls,
            bytes_served=one.bytes_served,
            bytes_saved=one.bytes_saved,
            last_called_at=at if month_of(at) else None,
            seen_at=now,
        )
        last = old.get((one.tool, one.repo_id))
        if last is not None:
            row.seen_at = last.seen_at
            row.seen_at = row.seen_at if row == last else now
        rows.append(row)
    if keeper != OWN:  # of several homes each has its own; of ours there is one, even if the lake was moved
        rows += [row for row in before if row.path != str(path)]
    months: dict[str, list[UsageLedger]] = defaultdict(list)
    for row in before:
        months[month_of(row.seen_at) or "1970-01"] = []
    for row in sorted(rows, key=lambda row: (row.path, row.tool, row.repo_id)):
        months[month_of(row.seen_at) or "1970-01"].append(row)
    return write_side("usage_ledgers", lake, keeper, machine, months)


# --- the ledger's file -----------------------------------------------------------------------------------------------

_USAGE = """
create table if not exists tool_usage (
    tool text not null, repo_id text not null, calls integer not null default 0, last_called_at integer,
    bytes_served integer not null default 0, bytes_saved integer not null default 0, primary key (tool, repo_id)
)"""
_COUNTED = "create table if not exists counted_calls (call text primary key) without rowid"
_ADD = """
insert into tool_usage (tool, repo_id, calls, last_called_at, bytes_served, bytes_saved) values (?, ?, ?, ?, ?, ?)
on conflict (tool, repo_id) do update set
    calls = calls + excluded.calls,
    last_called_at = max(
        coalesce(last_called_at, excluded.last_called_at), coalesce(excluded.last_called_at, last_called_at)
    ),
    bytes_served = bytes_served + excluded.bytes_served,
    bytes_saved = bytes_saved + excluded.bytes_saved"""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """A row of a ledger: what a tool did in a repository. `last_called_at` is milliseconds since 1970 UTC."""

    tool: str
    repo_id: str
    calls: int
    last_called_at: int | None
    bytes_served: int
    bytes_saved: int


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A call for a ledger. `key` is its identity: what is recorded under one key counts once."""

    key: str
    tool: str
    repo_id: str
    called_at: int | None
    bytes_served: int
    bytes_saved: int


class UsageTracker:
    """A ledger of retrieval tools, keyed by tool and repository: a SQLite file with the table `tool_usage`.

    The table is that of a code-index server's own `usage.db`, and either can read the other's file. Every method raises
    LedgerError for a file that is none, is locked, or cannot be written. Only `record`, `record_once` and `reset` make
    or change a file.
    """

    def __init__(self, path: Path, wait_seconds: float = _WAIT_SECONDS) -> None:
        self.path, self.wait_seconds = path, wait_seconds

    def record(
        self,
        tool: str,
        repo_id: str,
        bytes_served: int = 0,
        bytes_saved: int = 0,
        *,
        calls: int = 1,
        called_at: int | None = None,
    ) -> None:
        """Add calls of a tool. `called_at` is milliseconds since 1970 UTC; None: when it was is not known."""
        with self._writing() as connection:
            connection.execute(_ADD, (tool, repo_id, calls, called_at, bytes_served, bytes_saved))

    def record_once(self, entries: Iterable[Entry]) -> int:
        """Add those calls that this ledger has not counted yet, all as one step; returns how many they were."""
        added = 0
        with self._writing() as connection:
            connection.execute(_COUNTED)
            for entry in entries:
                new = connection.execute("insert or ignore into counted_calls values (?)", (entry.key,)).rowcount
                if new:
                    counts = (entry.called_at, entry.bytes_served, entry.bytes_saved)
                    connection.execute(_ADD, (entry.tool, entry.repo_id, 1, *counts))
                    added += 1
        return added

    def snapshot(self) -> list[Usage]:
        """All rows, by tool and repository; none if there is no file. Changes nothing and makes no file."""
        with self._reading() as connection:
            if connection is None:
                return []
            columns = "tool, repo_id, calls, last_called_at, bytes_served, bytes_saved"
            rows = connection.execute(f"select {columns} from tool_usage order by tool, repo_id").fetchall()
        for row in rows:
            if [type(value) for value in row if value is not None] != [str, str, *[int] * (3 + (row[3] is not None))]:
                raise LedgerError(
                    f"{self.path}: a row of tool_usage is no count: {row}", path=self.path, is_locked=False
                )
        return [Usage(*row) for row in rows]

    def reset(self) -> None:
        """Begin at zero. Calls that were counted before are not counted again."""
        with self._writing() as connection:
            connection.execute("delete from tool_usage")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._clear_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=self.wait_seconds, isolation_level=None)) as connection:
                connection.execute("begin immediate")
                connection.execute(_USAGE)
                yield connection
                connection.execute("commit")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        with self._clear_errors():
            try:
                with open(self.path, "rb") as file:
                    head = file.read(20)
            except FileNotFoundError:
                head = b""
            if not head:
                yield None
            elif head[18:19] == b"\2":
                # Write-ahead log: to open such a file makes others beside it, even for reading only.
                from tempfile import TemporaryDirectory  # not needed by a run with nothing new

                with (
                    TemporaryDirectory(prefix="agentlens-") as folder,
                    closing(sqlite3.connect(self._copied_to(Path(folder)))) as connection,
                ):
                    yield connection
            else:
                place = f"{self.path.absolute().as_uri()}?mode=ro"
                with closing(sqlite3.connect(place, uri=True, timeout=self.wait_seconds)) as connection:
                    yield connection

    def _copied_to(self, folder: Path) -> Path:
        """A copy of the file and its log, made while nobody wrote to either."""
        import shutil

        copy = folder / "usage.db"
        log = self.path.with_name(f"{self.path.name}-wal")
        for _ in range(20):
            before = _seen(self.path)
            if sum(int(size) for size in before.split()[::2]) > _LARGEST_LEDGER:
                raise LedgerError(f"{self.path} is too large to be a ledger", path=self.path, is_locked=False)
            shutil.copyfile(self.path, copy)
            copied_log = copy.with_name("usage.db-wal")
            try:
                shutil.copyfile(log, copied_log)
            except FileNotFoundError:
                copied_log.unlink(missing_ok=True)
            if _seen(self.path) == before:
                return copy
        raise LedgerError(f"{self.path} is being written to", hint="run again", path=self.path, is_locked=True)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            is_locked = "locked" in str(error) or "busy" in str(error)
            hint = "run again when nobody writes to it" if is_locked else "move it away if it is no ledger of usage"
            message = f"cannot use the ledger {self.path}: {error}"
            raise LedgerError(message, hint=hint, path=self.path, is_locked=is_locked) from error
        except OSError as error:
            message = f"cannot use the ledger {self.path}: {error.strerror or error}"
            raise LedgerError(message, path=self.path, is_locked=False) from error
