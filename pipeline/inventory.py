"""What is installed, kept as history: the items of the clients' configuration, and how long each text of them held.

A text that is as it was is not written again; one that changed ends, and a new row begins; one that is gone ends.
What a run needs to see that nothing changed lies in the manifest: the paths that the last reading looked at.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pipeline import clients
from pipeline.client import Home, short_id
from pipeline.config import ConfigFiles, Found, ReadsItems, digest, fingerprint
from pipeline.lake import month_of, read_items, write_items
from pipeline.manifest import Manifest
from pipeline.schema import Item

VERSION = 2  # of the readers: a higher one reads once more
PROJECTS = "projects"  # the note that holds the projects of all sessions, by client


class _Note(msgspec.Struct):
    """What the last reading of a client's configuration depended on."""

    asked: str  # digest of where was looked, and for which projects
    seen: str  # digest of what lay at the paths
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Question:
    """A client's configuration to read."""

    client: str
    reader: ReadsItems
    home: Home
    projects: tuple[str, ...]
    asked: str

    @property
    def note(self) -> str:
        return f"items:{self.client}"


def questions(home: Home, names: Iterable[str], notes: Mapping[str, str]) -> list[Question]:
    """The clients whose configuration changed since it was last read."""
    known = projects(notes)
    found = []
    for name in names:
        reader = clients.load(name)
        if not isinstance(reader, ReadsItems):
            continue  # of some clients only the transcripts are read
        there = _there(known.get(name, ()))
        where = [(variable, home.environ.get(variable, "")) for variable in reader.config_variables]
        place = [(str(home.path), f"{VERSION} {bool(home.environ)}")]
        question = Question(name, reader, home, there, digest([*place, *where, *((p, "") for p in there)]))
        if not _is_as_it_was(question, notes.get(question.note)):
            found.append(question)
    return found


def projects(notes: Mapping[str, str]) -> dict[str, list[str]]:
    """The projects that the lake's sessions name, by client."""
    return msgspec.json.decode(notes.get(PROJECTS, "{}"), type=dict[str, list[str]])


def projects_note(known: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The same as a note of the manifest."""
    ordered = {client: sorted(paths) for client, paths in sorted(known.items())}
    return {PROJECTS: msgspec.json.encode(ordered).decode()}


def show_texts(home: Home, names: Iterable[str], notes: Mapping[str, str], texts: dict[str, str | None]) -> None:
    """Fill in texts that the configuration puts into the context, asked for by their SHA-256. Nothing is written."""
    known = projects(notes)
    for name in names:
        reader = clients.load(name)
        if not isinstance(reader, ReadsItems) or None not in texts.values():
            continue
        try:
            for _ in reader.items(home, _there(known.get(name, ())), ConfigFiles(texts=texts)):
                pass  # the reader fills them in
        except Exception:  # noqa: BLE001, S112 - as in `update`, which told it; what was not found is told by the caller
            continue


def _there(known: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(path for path in known if _is_directory(path)))


def _is_directory(path: str) -> bool:
    try:
        return os.path.isabs(path) and os.path.isdir(path)
    except ValueError:
        return False  # a name that no disk has


def _is_as_it_was(question: Question, note: str | None) -> bool:
    if note is None:
        return False
    try:
        last = msgspec.json.decode(note, type=_Note)
    except msgspec.MsgspecError:
        return False
    return last.asked == question.asked and last.seen == fingerprint(last.paths)


def update(lake: Path, machine: str, manifest: Manifest, asked: Sequence[Question], now: int) -> list[str]:
    """Read what changed and put it into the lake; returns warnings. Needs the lock."""
    warnings: list[str] = []
    for question in asked:
        config = ConfigFiles()
        try:
            found = list(question.reader.items(question.home, question.projects, config))
        except Exception as error:  # noqa: BLE001 - no configuration may end a run; what is known of it stays
            warnings.append(f"{question.client}: its configuration is not read: {type(error).__name__}: {error}")
            continue
        before = read_items(lake, question.client, machine)
        changed = history(before, _named(found, machine, question.client), config, now)
        note = _Note(question.asked, digest(config.seen.items()), list(config.seen))
        moves = write_items(lake, question.client, machine, changed)
        manifest.commit([], moves, {question.note: msgspec.json.encode(note).decode()})
        warnings += config.warnings
        if config.dropped_warnings:
            warnings.append(f"and {config.dropped_warnings} more of the configuration of {question.client}")
    return warnings


def _named(found: Iterable[Found], machine: str, client: str) -> dict[str, Found]:
    """Items by their identity. What is found twice, by two ways to the same file, is one."""
    named: dict[str, Found] = {}
    for item in found:
        identity = (machine, client, item.item_kind, item.scope, item.project, item.path, item.item)
        named.setdefault(short_id(*identity), item)
    return named


def history(before: Sequence[Item], found: Mapping[str, Found], config: ConfigFiles, now: int) -> dict[str, list[Item]]:
    """The months whose rows changed, with all of their rows."""
    months: dict[str, list[Item]] = defaultdict(list)
    last: dict[str, Item] = {}
    for row in before:
        months[_month(row)].append(row)
        if row.item_id not in last or row.valid_from > last[row.item_id].valid_from:
            last[row.item_id] = row
    touched = set()
    for identity, row in last.items():
        if row.valid_to is None and identity not in found and _is_gone(row, config):
            touched.add(_put(months, row, replace(row, valid_to=now)))
    for identity, item in found.items():
        changed_at = max(0, min(now, item.mtime_ns // 1000))
        old = last.get(identity)
        if old is not None and old.valid_to is None:
            if _is_same(old, item):
                if old.baseline_sha256 != item.baseline_sha256:
                    touched.add(_put(months, old, replace(old, baseline_sha256=item.baseline_sha256)))
                continue
            # The file's own time tells when its text changed, unless it was put back to a time before the old one.
            changed_at = changed_at if changed_at > old.valid_from else now
            touched.add(_put(months, old, replace(old, valid_to=changed_at)))
        elif old is not None and old.valid_to is not None:
            changed_at = max(changed_at, old.valid_to)
        row = _row(identity, item, changed_at)
        months[_month(row)].append(row)
        touched.add(_month(row))
    return {month: months[month] for month in touched}


def _is_same(row: Item, item: Found) -> bool:
    """Is an item's text as it was? A row of before there were hashes of it has none, and is told by its file."""
    if (row.baseline_chars, row.body_chars, row.sha256) != (item.baseline_chars, item.body_chars, item.sha256):
        return False
    return row.baseline_sha256 == item.baseline_sha256 or (row.baseline_sha256 is None and row.sha256 is not None)


def _row(identity: str, item: Found, since: int) -> Item:
    return Item(
        item_id=identity,
        item_kind=item.item_kind,
        item=item.item,
        scope=item.scope,
        project=item.project,
        path=item.path,
        baseline_chars=item.baseline_chars,
        baseline_sha256=item.baseline_sha256,
        body_chars=item.body_chars,
        sha256=item.sha256,
        valid_from=since,
    )


def _month(row: Item) -> str:
    return month_of(row.valid_from) or "1970-01"


def _put(months: Mapping[str, list[Item]], row: Item, instead: Item) -> str:
    """Put a row in the place of one of the same month, which is returned."""
    rows = months[_month(row)]
    rows[rows.index(row)] = instead
    return _month(row)


def _is_gone(row: Item, config: ConfigFiles) -> bool:
    """Was an item that was not found looked for? What another home holds, or cannot be read now, is not gone."""
    above = _above(row.path)
    if any(path in config.unreadable for path in above):
        return False
    if row.path in config.seen or any(path in config.roots for path in above):
        return True
    try:
        os.lstat(row.path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _above(path: str) -> list[str]:
    """A path and the folders above it."""
    chain = [path]
    while (parent := os.path.dirname(chain[-1])) != chain[-1]:
        chain.append(parent)
    return chain
