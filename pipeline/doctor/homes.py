"""The clients' folders: which are there, what they hold, and what of it cannot be read."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pipeline import clients
from pipeline.client import Client, Home, Report, Source
from pipeline.doctor.finding import LISTED, Finding, many, named, size, when
from pipeline.errors import UnknownFormatError
from pipeline.jsonl import open_source
from pipeline.manifest import Known

_SNIFFED = 256 << 10  # of a file that no run has read yet, so much is parsed to tell whether it is a transcript


@dataclass(frozen=True, slots=True)
class _WatchedHome(Home):
    """A home that notes which folders a client asks for, and by which variable."""

    asked: dict[Path, str] = field(default_factory=dict)

    def roots(self, variable: str, *defaults: str) -> list[Path]:
        found = Home.roots(self, variable, *defaults)
        self.asked.update(dict.fromkeys(found, variable if self.environ.get(variable) else ""))
        return found


@dataclass(slots=True)
class _Transcript:
    client: str
    path: Path
    size: int
    mtime_ns: int


@dataclass(slots=True)
class _Place:
    """A folder that a client asks for."""

    path: Path
    variable: str = ""  # that names it; empty for a default
    files: list[_Transcript] = field(default_factory=list)

    def contents(self) -> str:
        newest = max(file.mtime_ns for file in self.files)
        held = size(sum(file.size for file in self.files))
        return f"{many(len(self.files), 'file')}, {held}, newest {when(_moment(newest))}"


@dataclass(slots=True)
class Homes:
    """What was found, for the checks that follow."""

    findings: list[Finding] = field(default_factory=list)
    newest: datetime | None = None
    in_future: list[str] = field(default_factory=list)


def examine(home: Home, names: Iterable[str], known: Mapping[str, Sequence[Known]] | None, latest: datetime) -> Homes:
    """Look at the folders of some clients. `known` is what the lake knows, by client; None if there is no lake."""
    homes = Homes()
    transcripts: list[_Transcript] = []
    unreadable: list[str] = []
    for name in names:
        watched = _WatchedHome(home.path, home.environ)
        places, found = _places(name, watched, unreadable)
        homes.findings += _client(name, places, found)
        transcripts += found
    unreadable += [f"{t.path}: cannot be read" for t in transcripts if not os.access(t.path, os.R_OK)]
    homes.findings.append(_unreadable(unreadable))
    moments = {str(t.path): _moment(t.mtime_ns) for t in transcripts}
    homes.newest = max(moments.values(), default=None)
    homes.in_future = [path for path, moment in moments.items() if moment > latest]
    fresh = [t for t in transcripts if not _is_known(t, known or {})]
    if known is not None:
        homes.findings.append(_fresh(fresh, len(transcripts)))
    homes.findings += _strangers(fresh)
    return homes


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)


def _places(name: str, home: _WatchedHome, unreadable: list[str]) -> tuple[list[_Place], list[_Transcript]]:
    """The folders that a client asks for, with its files; files elsewhere are put under what they have in common."""
    found = []
    for path in clients.load(name).discover(home):
        try:
            status = path.stat()
        except OSError as error:
            unreadable.append(f"{path}: cannot be read: {error.strerror}")
            continue
        found.append(_Transcript(name, path, status.st_size, status.st_mtime_ns))
    unreadable += home.unreadable
    places = [_Place(path, variable) for path, variable in home.asked.items()]
    elsewhere: list[_Transcript] = []
    for transcript in found:
        place = next((p for p in places if transcript.path.is_relative_to(p.path)), None)
        (place.files if place else elsewhere).append(transcript)
    if elsewhere:
        common = os.path.commonpath([transcript.path.parent for transcript in elsewhere])
        places.append(_Place(Path(common), files=elsewhere))
    return places, found


def _client(name: str, places: list[_Place], found: list[_Transcript]) -> Iterator[Finding]:
    for place in places:
        facts = {
            "path": str(place.path),
            "variable": place.variable or None,
            "exists": place.path.exists(),
            "files": len(place.files),
            "bytes": sum(file.size for file in place.files),
            "newest": _moment(max(file.mtime_ns for file in place.files)).isoformat() if place.files else None,
        }
        by = f" (named by {place.variable})" if place.variable else ""
        if place.files:
            yield Finding("client", "ok", f"{place.path}{by}: {place.contents()}", subject=name, facts=facts)
        elif place.path.is_dir():
            text = f"{place.path}{by} holds no transcripts"
            yield Finding("client", "note", text, subject=name, facts=facts)
        elif facts["exists"]:
            text = f"{place.path}{by} is no folder"
            yield Finding("client", "warning", text, "move that file away", name, facts)
        elif place.variable:
            todo = f"set {place.variable} right, or unset it"
            yield Finding("client", "warning", f"{place.path}{by} is not there", todo, name, facts)
    if not found and not any(place.variable or place.path.exists() for place in places):
        looked = ", ".join(str(place.path) for place in places) or "its usual places"
        text = f"not found: nothing in {looked}"
        yield Finding("client", "note", text, "if you use it, say where with --home or its own variable", name)


def _unreadable(told: list[str]) -> Finding:
    facts = {"count": len(told), "unreadable": told[:LISTED]}
    if not told:
        return Finding("unreadable", "ok", "all folders and transcripts can be read", facts=facts)
    text = f"{many(len(told), 'path')} cannot be read: {named(told)}"
    return Finding("unreadable", "warning", text, "give yourself the right to read them", facts=facts)


def _is_known(transcript: _Transcript, known: Mapping[str, Sequence[Known]]) -> bool:
    return any(
        (k.size, k.mtime_ns) == (transcript.size, transcript.mtime_ns)
        for k in known.get(f"{transcript.client}\n{transcript.path}", ())
    )


def _fresh(fresh: list[_Transcript], total: int) -> Finding:
    facts = {"files": total, "new_or_changed": len(fresh)}
    if not fresh:
        return Finding("new_files", "ok", f"the lake has read {many(total, 'file')}, all of them", facts=facts)
    verb = "is" if len(fresh) == 1 else "are"
    text = f"{many(len(fresh), 'file')} of {total:,} {verb} new or changed since the last run"
    return Finding("new_files", "note", text, "agentlens ingest", facts=facts)


def _strangers(fresh: list[_Transcript]) -> Iterator[Finding]:
    """Files that no run has read yet and that are no transcripts. Those that were read stand in the lake."""
    loaded: dict[str, Client] = {}
    strange = []
    for transcript in fresh:
        client = loaded.setdefault(transcript.client, clients.load(transcript.client))
        if transcript.size and _is_strange(client, transcript):
            strange.append(str(transcript.path))
    if strange:
        text = f"{many(len(strange), 'file')} not read yet and of no known format: {named(strange)}"
        facts = {"count": len(strange), "paths": strange[:LISTED]}
        todo = "move them away, or tell us what wrote them"
        yield Finding("unknown_format", "warning", text, todo, "on disk", facts)


def _is_strange(client: Client, transcript: _Transcript) -> bool:
    source = Source(transcript.path, "x", transcript.size, transcript.mtime_ns)
    try:
        with open_source(transcript.path) as stream:
            client.parse(source, _beginning(stream), Report())
    except UnknownFormatError:
        return True
    except Exception:  # noqa: BLE001 - no input may end the doctor; the run that reads the file says what is wrong
        return False
    return False


def _beginning(stream: BinaryIO) -> BinaryIO:
    """The first bytes of a stream, which may come in pieces."""
    read = b""
    while len(read) < _SNIFFED and (piece := stream.read(_SNIFFED - len(read))):
        read += piece
    return io.BytesIO(read)
