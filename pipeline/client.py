"""What a client is to the pipeline: where its transcripts lie, and how one becomes rows.

A client is one module in `pipeline.clients` that ends in `CLIENT = ...`, and one folder of cases in `tests/cases`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, Literal, Protocol

from pipeline.schema import ContextEvent, Prompt, Request, Session, ToolCall

Support = Literal["measured", "estimated", "absent"]
MAX_WARNINGS = 20  # of one file; more are counted in the last one
MOST_TOKENS = 10**12  # of one response: no model reads or writes as many, and sums of them fit their columns


@dataclass(frozen=True, slots=True)
class Home:
    """A home directory to read clients' data below, and the environment that may move it.

    With `--home` the environment is empty, so that nothing outside that directory is read.
    """

    path: Path
    environ: Mapping[str, str]
    unreadable: list[str] = field(default_factory=list)  # folders that could not be looked into, and why

    def roots(self, variable: str, *defaults: str) -> list[Path]:
        """The directories that an environment variable names (comma list), else the defaults below the home."""
        named = [part.strip() for part in self.environ.get(variable, "").split(",") if part.strip()]
        return [Path(part).expanduser() for part in named] or [self.path / part for part in defaults]


@dataclass(frozen=True, slots=True)
class Source:
    """A transcript file that a client claims."""

    path: Path
    source_id: str
    size: int
    mtime_ns: int


@dataclass(slots=True)
class Report:
    """What reading one file taught about the file itself. Warnings are texts for people, with line numbers."""

    lines: int = 0
    skipped_lines: int = 0
    line_number: int = 0  # of the line at hand, while lines are looked at one by one
    warnings: list[str] = field(default_factory=list)
    dropped_warnings: int = 0
    texts: dict[str, str | None] | None = None  # by SHA-256: those that are asked for, to be filled in; never stored

    def warn(self, text: str) -> None:
        """Tell something that a reader of the numbers should know."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text)
        else:
            self.dropped_warnings += 1

    def show(self, sha256: str | None, text: str | None) -> None:
        """Hand a text of a context event over, for it to be kept if it was asked for."""
        if self.texts is not None and sha256 in self.texts:
            self.texts[sha256] = text

    def skip(self, why: str) -> None:
        """Count the line at hand as one that holds no readable record."""
        self.skipped_lines += 1
        self.warn(f"line {self.line_number}: skipped: {why}")


@dataclass(slots=True)
class Parsed:
    """The rows of one file. Rows of several sessions may stand in it (a session and its inline subagents)."""

    sessions: list[Session] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    context_events: list[ContextEvent] = field(default_factory=list)
    client_version: str | None = None


class Client(Protocol):
    """One AI coding client. `parse` never raises on bad input: it skips, counts and warns in the report.

    One that can also tell what is installed for it has the method of `config.ReadsItems`.
    """

    name: str
    parser_version: int
    supports: Mapping[str, Support]

    def discover(self, home: Home) -> Iterator[Path]:
        """Yield the transcript files below the client's roots, each real file once."""
        ...

    def parse(self, source: Source, stream: BinaryIO, report: Report) -> Parsed:
        """Turn one file into rows. Raises UnknownFormatError for a file that is none of this client's."""
        ...


def walk(root: Path, suffixes: tuple[str, ...], unreadable: list[str] | None = None) -> Iterator[Path]:
    """Yield the regular files below a directory whose names end so, each once, links followed, loops survived.

    Real files come before links to them, so that a file that is found by two paths keeps its own name.
    An unreadable directory yields nothing, and is told in `unreadable`.
    """
    seen: set[tuple[int, int]] = set()
    pending: list[str] = [os.fspath(root)]
    linked: list[os.DirEntry[str]] = []
    while pending or linked:
        if not pending:
            entry = linked.pop(0)
            yield from _linked(entry, suffixes, seen, pending)
            continue
        for entry in _scan(pending.pop(), seen, unreadable):
            if entry.is_symlink():
                linked.append(entry)
            elif entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif entry.name.endswith(suffixes) and entry.is_file(follow_symlinks=False):
                seen.add((entry.stat(follow_symlinks=False).st_dev, entry.inode()))
                yield Path(entry.path)


def _scan(directory: str, seen: set[tuple[int, int]], unreadable: list[str] | None) -> list[os.DirEntry[str]]:
    try:
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:
            return []
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if unreadable is not None:
            unreadable.append(f"{directory}: cannot be read: {error.strerror}")
        return []


def _linked(
    entry: os.DirEntry[str], suffixes: tuple[str, ...], seen: set[tuple[int, int]], pending: list[str]
) -> Iterator[Path]:
    try:
        status = entry.stat()
        is_dir = entry.is_dir()
    except OSError:
        return  # a dangling link or a loop
    if is_dir:
        pending.append(entry.path)
    elif entry.name.endswith(suffixes) and entry.is_file() and (status.st_dev, status.st_ino) not in seen:
        seen.add((status.st_dev, status.st_ino))
        yield Path(entry.path)


def count(value: object, report: Report, what: str) -> int | None:
    """A token count as a client wrote it: whole numbers, floats that are whole, numbers in quotes; else None.

    A negative or impossible number is not recorded, with a warning; NULL is not recorded, without one.
    """
    if type(value) is int and 0 <= value <= MOST_TOKENS:
        return value
    if value is None or value == "":
        return None
    try:
        number = _number(value)
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        report.warn(f"{what}: not a number; taken as not recorded")
        return None
    if whole != number or not 0 <= whole <= MOST_TOKENS:
        report.warn(f"{what}: impossible count {str(value)[:30]}; taken as not recorded")
        return None
    return whole


def _number(value: object) -> int | float:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return value


def amount(value: object) -> float | None:
    """An amount of money as a client wrote it, or None."""
    try:
        number = float(value) if value not in (None, "") else None  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number < float("inf") else None


def timestamp(value: object) -> int | None:
    """Microseconds since 1970 UTC of an ISO 8601 text or of epoch seconds, milliseconds or microseconds; else None."""
    if isinstance(value, str):
        try:
            return _iso(value)
        except (ValueError, OverflowError):
            try:
                value = float(value)
            except ValueError:
                return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e17:
        return None
    for limit, scale in ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1)):
        if value < limit:
            return round(value * scale)
    return None


def _iso(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def text_bytes(text: str) -> int:
    """UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def sha256(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def short_id(*parts: object) -> str:
    """An id made of parts: equal parts, equal id. It begins with a letter, so that no spreadsheet makes it a number."""
    joined = "\x1f".join(map(str, parts)).encode("utf-8", "replace")
    return "x" + hashlib.blake2b(joined, digest_size=8).hexdigest()


def mcp_name(tool: str) -> tuple[str, str] | None:
    """Server and tool of `mcp__<server>__<tool>`; None for any other name."""
    if not tool.startswith("mcp__"):
        return None
    server, _, name = tool[5:].partition("__")
    return (server, name) if server and name else None


_WORKTREE = re.compile(r"^(?P<repo>.+?)[/\\]\.(?:claude[/\\]worktrees|worktrees)[/\\][^/\\]+")


@lru_cache(maxsize=4096)
def fold_project(cwd: str) -> str:
    """A working directory as a project: a worktree becomes its repository, a Windows drive letter a capital."""
    if re.match(r"^[a-z]:[\\/]", cwd):
        cwd = cwd[0].upper() + cwd[1:]
    found = _WORKTREE.match(cwd)
    if found:
        return found["repo"]
    return _git_worktree(cwd) or cwd


def _git_worktree(cwd: str) -> str | None:
    """The main repository of a linked worktree, where its `.git` file is on this disk."""
    try:
        with open(os.path.join(cwd, ".git"), encoding="utf-8", errors="replace") as file:
            text = file.read(4096)
    except (OSError, ValueError):
        return None
    found = re.match(r"gitdir:\s*(.+?)[/\\]\.git[/\\]worktrees[/\\]", text)
    return found[1] if found else None


@lru_cache(maxsize=4096)
def repo_root(project: str) -> str | None:
    """The folder at or above a project that holds `.git`, if the project is on this disk."""
    if not os.path.isabs(project):
        return None
    folder = project
    while True:
        try:
            if os.path.exists(os.path.join(folder, ".git")):
                return folder
        except ValueError:
            return None
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def relative_item(path: str, base: str | None) -> str:
    """A file's path as a short name: relative to the working directory if it lies below it."""
    kind = PureWindowsPath if "\\" in path else PurePosixPath
    if base:
        try:
            return str(kind(path).relative_to(kind(base)))
        except ValueError:
            return path
    return path


def absent(client: Client) -> Iterable[str]:
    """The fields (`table.column`) that a client's files never hold."""
    return (name for name, support in client.supports.items() if support == "absent")
