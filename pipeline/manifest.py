"""What a machine has put into a lake: a small SQLite file that is read before any heavy library is loaded.

It knows every source (size, time, parser, pack) and holds the journal that makes a commit of many files one
step: new files lie beside the old ones under temporary names, the list of renames is committed here together
with the sources, the renames follow, the list is cleared. A run that dies in between is finished by the next.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import LakeError

_SCHEMA = """
create table if not exists sources (
    source_id text primary key, client text not null, path text not null, generation integer not null,
    size integer not null, mtime_ns integer not null, head text, parser_version integer not null,
    pack integer not null, months text not null, gone_at integer
) without rowid;
create index if not exists sources_path on sources (client, path, generation);
create table if not exists journal (final text primary key, temporary text) without rowid;
create table if not exists meta (key text primary key, value text) without rowid;
"""


@dataclass(slots=True)
class Known:
    """A source as the last run left it. `months` are those in which the pack holds rows of it."""

    source_id: str
    client: str
    path: str
    generation: int
    size: int
    mtime_ns: int
    head: str | None
    parser_version: int
    pack: int
    months: tuple[str, ...]
    gone_at: int | None


@dataclass(frozen=True, slots=True)
class Move:
    """A file to put in place: renamed from its temporary name, or removed if there is none."""

    final: str
    temporary: str | None


@dataclass(frozen=True, slots=True)
class State:
    """What a manifest holds: all sources, notes, and whether a commit is left to finish."""

    known: list[Known]
    meta: dict[str, str]
    unfinished: bool


class Manifest:
    """The state of one machine in one lake. Everything but `read` needs the lake's lock."""

    def __init__(self, lake: Path, machine: str) -> None:
        self.lake = lake
        self.path = lake / "state" / f"{machine}.sqlite"

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, isolation_level=None)
            connection.execute("pragma synchronous = full")
            connection.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise LakeError(f"cannot open {self.path}: {error}", path=self.path) from error
        return connection

    def read(self) -> State | None:
        """What is known; None if nothing is, or if the file that should know was never finished."""
        if not self.path.exists():
            return None
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                rows = connection.execute("select * from sources").fetchall()
                meta = dict(connection.execute("select key, value from meta").fetchall())
                unfinished = bool(connection.execute("select count(*) from journal").fetchone()[0])
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise LakeError(f"cannot read {self.path}: {error}", path=self.path) from error
        except sqlite3.DatabaseError as error:
            hint = "remove that file to have it rebuilt from the lake"
            raise LakeError(f"cannot read {self.path}: {error}", hint=hint, path=self.path) from error
        known = []
        for row in rows:
            source_id, client, path, generation, size, mtime_ns, head, parser_version, pack, months, gone_at = row
            kept = tuple(months.split(",")) if months else ()
            known.append(
                Known(source_id, client, path, generation, size, mtime_ns, head, parser_version, pack, kept, gone_at)
            )
        return State(known, meta, unfinished)

    def commit(self, sources: Sequence[Known], moves: Sequence[Move], notes: Mapping[str, str] | None = None) -> None:
        """Make new files, new knowledge of their sources, and notes visible as one step."""
        with closing(self._connect()) as connection:
            connection.execute("begin immediate")
            connection.executemany(
                "insert or replace into journal values (?, ?)", [(move.final, move.temporary) for move in moves]
            )
            connection.executemany(
                "insert or replace into sources values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *(s.source_id, s.client, s.path, s.generation, s.size, s.mtime_ns, s.head),
                        *(s.parser_version, s.pack, ",".join(s.months), s.gone_at),
                    )
                    for s in sources
                ],
            )
            connection.executemany("insert or replace into meta values (?, ?)", (notes or {}).items())
            connection.execute("commit")
            self._finish(connection, moves)

    def recover(self) -> None:
        """Finish a commit that a dead run left, and remove its half-written files."""
        with closing(self._connect()) as connection:
            rows = connection.execute("select final, temporary from journal").fetchall()
            if rows:
                self._finish(connection, [Move(final, temporary) for final, temporary in rows])

    def _finish(self, connection: sqlite3.Connection, moves: Sequence[Move]) -> None:
        folders = set()
        for move in moves:
            final = self.lake / move.final
            folders.add(final.parent)
            if move.temporary is None:
                final.unlink(missing_ok=True)
            elif (temporary := self.lake / move.temporary).exists():
                temporary.replace(final)
        for folder in folders:
            _sync_folder(folder)
        connection.execute("delete from journal")

    def note(self, **values: str) -> None:
        """Keep small facts, such as for what the views were made."""
        with closing(self._connect()) as connection:
            connection.executemany("insert or replace into meta values (?, ?)", values.items())


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # gone, or a system that cannot open folders
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # not every file system syncs folders; the rename itself is done
    finally:
        os.close(descriptor)
