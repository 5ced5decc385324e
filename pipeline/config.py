"""Reading clients' configuration: bounded, never failing, and remembering what the answer depends on.

Everything goes through a `ConfigFiles`, which notes each path that it looked at, also those that were not there. The
next run compares those paths' sizes and times, and reads nothing if they are as they were. What a reader yields holds
no texts: only sizes, names, paths, hashes. A text leaves it only where somebody asks for that very text by its hash.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, runtime_checkable

from pipeline.client import MAX_WARNINGS, Home, sha256

LONGEST_TEXT = 1 << 20  # bytes; of a longer file only the beginning is read, and its size in characters is not known
LONGEST_SETTINGS = 64 << 20  # bytes; a client's own state may be in its settings
_DEEPEST = 8  # folders below one that is searched
_MOST_FOLDERS = 20_000  # in one search
_ABSENT = "-"
_CHANGING = "changing"  # equal to no stamp: read again next time


@dataclass(frozen=True, slots=True)
class Text:
    """What a file held. `is_whole` is false where only its beginning was read."""

    text: str
    path: str
    mtime_ns: int
    is_whole: bool = True

    @property
    def sha256(self) -> str | None:
        return sha256(self.text) if self.is_whole else None


@dataclass(frozen=True, slots=True)
class Found:
    """An item that is installed. `baseline_chars` 0: nothing of it is always in the context; None: not known."""

    item_kind: str
    item: str
    scope: str
    path: str
    mtime_ns: int
    project: str | None = None
    baseline_chars: int | None = None
    body_chars: int | None = None
    sha256: str | None = None
    baseline_sha256: str | None = None  # of the text that `baseline_chars` counts


@runtime_checkable
class ReadsItems(Protocol):
    """A client that has a configuration to read; `config_variables` name what in the environment moves it."""

    config_variables: tuple[str, ...]

    def items(self, home: Home, projects: Iterable[str], config: ConfigFiles) -> Iterator[Found]:
        """Yield what is installed for the person and for each of the projects, directories on this disk."""
        ...


@dataclass(slots=True)
class ConfigFiles:
    """The configuration as it lies on the disk. Nothing here raises for what a disk may hold."""

    seen: dict[str, str] = field(default_factory=dict)  # path -> stamp, of all that was looked at
    roots: set[str] = field(default_factory=set)  # folders of which all that counts was looked at
    unreadable: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    dropped_warnings: int = 0
    texts: dict[str, str | None] | None = None  # by SHA-256: those that are asked for, to be filled in; never stored

    def show(self, text: str | None) -> str | None:
        """SHA-256 of a text that is always in the context, None if there is none; it is kept if it was asked for."""
        if not text:
            return None
        digest = sha256(text)
        if self.texts is not None and digest in self.texts:
            self.texts[digest] = text
        return digest

    def warn(self, text: str) -> None:
        if text in self.warnings:
            return  # a file may be looked at twice
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text)
        else:
            self.dropped_warnings += 1

    def text(self, path: str, limit: int = LONGEST_TEXT) -> Text | None:
        """What a file holds, or None: there is no such file, or it cannot be read, which is told."""
        self.seen[path] = stamp(path)
        try:
            if self.seen[path] == _ABSENT and not os.path.islink(path):
                return None
            if not stat.S_ISREG(os.stat(path).st_mode):
                return None  # opening a pipe would wait for its writer
            with open(path, "rb") as file:
                data = file.read(limit + 1)
                status = os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._cannot_read(path, error)
            return None
        if _stamp(status) != self.seen[path]:
            self.seen[path] = _CHANGING
        if len(data) > limit:
            self.warn(f"{path}: larger than {limit >> 20} MiB; its size in characters is not known")
        text = data[:limit].decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        return Text(text, path, status.st_mtime_ns, len(data) <= limit)

    def is_dir(self, path: str) -> bool:
        if stamp(path).startswith("d"):
            return True  # not noted: clients write into their folders all the time
        self.seen[path] = stamp(path)
        return False

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What lies in a folder, by name; nothing if there is none."""
        self.seen[folder] = stamp(folder)
        if self.seen[folder] == _ABSENT and not os.path.islink(folder):
            return []
        try:
            with os.scandir(folder) as found:
                return sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self._cannot_read(folder, error)
            return []

    def subfolders(self, folder: str) -> Iterator[str]:
        """The folders in a folder, links followed, hidden ones last."""
        entries = sorted(self.entries(folder), key=lambda entry: entry.name.startswith("."))
        yield from (entry.path for entry in entries if _is_dir(entry))

    def tree(self, folder: str, accept: Callable[[str], bool]) -> Iterator[str]:
        """The files below a folder whose names are accepted, each folder once, links followed, loops survived."""
        visited: set[tuple[int, int]] = set()
        pending = [(folder, 0)]
        while pending:
            at, depth = pending.pop()
            identity = _identity(at)
            if identity in visited:
                continue
            if identity is not None:
                visited.add(identity)
            if len(visited) > _MOST_FOLDERS:
                self.warn(f"{folder}: more than {_MOST_FOLDERS} folders; the others are not read")
                return
            below = []
            for entry in self.entries(at):
                if _is_dir(entry):
                    below.append((entry.path, depth + 1))
                elif accept(entry.name):
                    yield entry.path
            if depth < _DEEPEST:
                pending += reversed(below)

    def json(self, path: str) -> dict[str, Any]:
        """A file of settings; empty if there is none, or if it cannot be understood, which is told."""
        import msgspec

        found = self.text(path, LONGEST_SETTINGS)
        if found is None or not found.text.strip():
            return {}
        try:
            value = msgspec.json.decode(found.text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self.unreadable.add(path)  # what it said before is not gone
            self.warn(f"{path}: not readable as JSON: {error}")
            return {}
        return mapping(value)

    def toml(self, path: str) -> dict[str, Any]:
        """The same of a file in TOML."""
        import tomllib

        found = self.text(path)
        if found is None:
            return {}
        try:
            return tomllib.loads(found.text)
        except (ValueError, RecursionError) as error:
            self.unreadable.add(path)
            self.warn(f"{path}: not readable as TOML: {error}")
            return {}

    def front(self, text: Text) -> tuple[dict[str, Any] | None, str]:
        """Frontmatter and body of a file; None and its whole text below the mark, if the frontmatter is no YAML."""
        matter, body = split_front(text.text)
        if matter is None:
            return {}, body
        try:
            return parse_yaml(matter), body
        except ValueError as error:
            plain = plain_lines(matter)
            if plain is not None:
                return plain, body
            self.warn(f"{text.path}: its frontmatter cannot be read: {error}")
            return None, body

    def mtime_ns(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns
        except (OSError, ValueError):
            return 0

    def _cannot_read(self, path: str, error: Exception) -> None:
        self.unreadable.add(path)
        self.warn(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def stamp(path: str) -> str:
    """Size and time of what lies at a path, as one word."""
    try:
        return _stamp(os.stat(path))
    except (OSError, ValueError):
        return _ABSENT


def _stamp(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return f"d{status.st_mode}.{status.st_mtime_ns}"
    return f"{status.st_mode}.{status.st_size}.{status.st_mtime_ns}"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link that leads nowhere, or in a circle


def fingerprint(paths: Iterable[str]) -> str:
    """Of sizes and times of paths: equal if nothing there changed."""
    return digest((path, stamp(path)) for path in paths)


def digest(seen: Iterable[tuple[str, str]]) -> str:
    made = hashlib.blake2b(digest_size=16)
    for path, word in seen:
        made.update(f"{path}\0{word}\n".encode("utf-8", "surrogatepass"))
    return made.hexdigest()


_FRONT = re.compile(r"\A---[ \t]*\n(?P<matter>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def split_front(text: str) -> tuple[str | None, str]:
    """The frontmatter of a file, without its marks, and the rest."""
    found = _FRONT.match(text)
    return (found["matter"], text[found.end() :]) if found else (None, text)


_PLAIN = re.compile(r"(?P<key>[A-Za-z_][\w-]*):(?:[ \t]+(?P<value>\S.*?))?[ \t]*")


def plain_lines(matter: str) -> dict[str, Any] | None:
    """Frontmatter of plain lines `key: value`; None for any other.

    People write colons into descriptions without quotes, which is no YAML, and clients take it.
    """
    found = [_PLAIN.fullmatch(line) for line in matter.splitlines() if line.strip()]
    entries = {entry["key"]: entry["value"] or "" for entry in found if entry}
    is_plain = all(found) and not any(value.startswith(tuple("[{'\"|>&*!")) for value in entries.values())
    return entries if is_plain else None


def parse_yaml(text: str) -> dict[str, Any]:
    """A mapping in YAML, its values as they are written. Raises ValueError for anything else."""
    import yaml

    try:
        value = yaml.load(text, Loader=_loader())  # noqa: S506 - it makes texts, lists and mappings, nothing else
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark else ""
        raise ValueError(f"{getattr(error, 'problem', None) or error}{where}") from error
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        raise ValueError(f"no usable YAML ({error})") from error
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise ValueError("no mapping")  # noqa: TRY004 - as for any other text that is none
    return value


@cache
def _loader() -> Any:
    import yaml

    return getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def mapping(value: object) -> dict[str, Any]:
    """A value if it is a mapping, else an empty one."""
    return {str(key): entry for key, entry in value.items()} if isinstance(value, Mapping) else {}


def words(value: object) -> str | None:
    """A text that says something, else None."""
    return value.strip() or None if isinstance(value, str) else None


def texts(value: object) -> list[str]:
    """The texts of a list, or of a list that is written with commas."""
    if isinstance(value, str):
        value = value.split(",")
    return [entry.strip() for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def is_yes(value: object) -> bool:
    return value is True or str(value).strip().lower() in {"true", "yes", "on"}


def first_paragraph(body: str) -> str | None:
    """What stands in place of a description where there is none."""
    for part in re.split(r"\n\s*\n", body.strip()):
        lines = [line for line in part.splitlines() if not line.startswith("#")]
        if text := " ".join(line.strip() for line in lines).strip():
            return text
    return None


def upward(folder: str, top: str | None = None) -> list[str]:
    """A directory and those above it, from the top down; without a top from the root of the file system."""
    chain = [folder]
    while chain[-1] != top:
        parent = os.path.dirname(chain[-1])
        if parent == chain[-1]:
            break
        chain.append(parent)
    return chain[::-1]


def relative(path: str, folder: str) -> str:
    """A path as one names it in a folder; whole, if it does not lie below."""
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return path.removeprefix(prefix)
