"""The lake's files: partitions of Parquet that are only ever replaced whole, and the lock for those who write.

A machine's sources are put into *packs*. A pack is one file a table, client and month, so that a changed source
costs the rewriting of its pack and a lake of any size has few files. At every moment each file is right.
"""

from __future__ import annotations

import os
import platform
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import repeat
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from pipeline.client import short_id
from pipeline.errors import LakeError, LakeLockedError
from pipeline.manifest import Known, Move
from pipeline.schema import PACKED, TABLES, TIME_COLUMN, Item, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

LOCK = "lake.lock"
_DAY = 86_400_000_000


@contextmanager
def lock(lake: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the lake for writing. Raises LakeLockedError, naming the holder, if it is not free in time."""
    import filelock

    try:
        lake.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"cannot make the lake {lake}: {error.strerror}", path=lake) from error
    note = lake / f"{LOCK}.holder"
    holding = filelock.FileLock(lake / LOCK, timeout=wait_seconds)
    try:
        holding.acquire()
    except filelock.Timeout as error:
        holder = _holder(note)
        hint = "wait for it, or give it longer with --wait SECONDS"
        raise LakeLockedError(f"the lake {lake} is locked by {holder}", hint=hint, path=lake, holder=holder) from error
    except OSError as error:
        raise LakeError(f"cannot write to the lake {lake}: {error.strerror}", path=lake) from error
    try:
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        note.write_text(f"pid {os.getpid()} on {platform.node()} since {since}", encoding="utf-8")
        yield
    finally:
        note.unlink(missing_ok=True)
        holding.release()


def _holder(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8") or "another run"
    except OSError:
        return "another run"


def pack_file(table: str, client: str, month: str, machine: str, pack: int) -> str:
    """Path of a pack's file below the lake."""
    return f"{table}/client={client}/month={month}/{machine}-{pack:06d}.parquet"


def month_of(moment: int | None) -> str | None:
    """The UTC month of a time in microseconds, as `YYYY-MM`; None for None or a time that no calendar has."""
    if moment is None:
        return None
    day = moment // _DAY
    month = _MONTHS.get(day)
    if month is None:
        try:
            month = _MONTHS[day] = datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m")
        except (ValueError, OverflowError, OSError):
            return None
    return month


_MONTHS: dict[int, str] = {}


def by_month(table: str, rows: Iterable[Any], fallback: Mapping[str, str]) -> dict[str, list[Any]]:
    """Rows by the month of their own time; a row without one goes to the month of its source."""
    months: dict[str, list[Any]] = defaultdict(list)
    time = attrgetter(TIME_COLUMN[table])
    for row in rows:
        months[month_of(time(row)) or fallback[row.source_id]].append(row)
    return months


def to_table(table: str, rows: Sequence[Any], machine: str) -> pa.Table:
    """Rows as an Arrow table of the declared schema. Raises an Arrow error for a value of the wrong type."""
    import pyarrow as pa

    schema = arrow_schema(table)
    machine_column, *fields = schema
    arrays = [pa.repeat(pa.scalar(machine, machine_column.type), len(rows))]
    # A row type's fields are the columns, in order: to turn whole rows takes half as long as to get value by value.
    values = zip(*map(astuple, rows), strict=True) if rows else repeat((), len(fields))
    arrays += [pa.array(column, field.type) for column, field in zip(values, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


class PackWriter:
    """Writes one pack anew, with some of its sources replaced, under temporary names.

    `write` may be called once a table; `moves` then tells what puts the files in place.
    """

    def __init__(self, lake: Path, client: str, machine: str, pack: int, replaced: frozenset[str]) -> None:
        self.lake, self.client, self.machine, self.pack, self.replaced = lake, client, machine, pack, replaced
        self.moves: list[Move] = []

    def write(self, table: str, months: Mapping[str, Sequence[Any]], touched: Iterable[str]) -> None:
        """Write the new rows of a table, month by month, also those months that held rows of the replaced ones."""
        import pyarrow as pa

        for month in sorted({*months, *touched}):
            final = pack_file(table, self.client, month, self.machine, self.pack)
            old = self._read(table, final)
            parts = [part for part in _by_source(old) if part[0] not in self.replaced]
            if months.get(month):
                parts += _by_source(to_table(table, months[month], self.machine))
            if parts:
                parts.sort(key=itemgetter(0))  # the same rows, the same bytes, whenever they came
                self._put(final, pa.concat_tables(rows for _, rows in parts))
            elif old is not None:
                self.moves.append(Move(final, None))

    def append(self, table: str, months: Mapping[str, Sequence[Any]]) -> None:
        """Put rows behind those that are there, in a table that belongs to no transcripts."""
        import pyarrow as pa

        for month, rows in sorted(months.items()):
            final = pack_file(table, self.client, month, self.machine, self.pack)
            old = self._read(table, final)
            new = to_table(table, rows, self.machine)
            self._put(final, new if old is None else pa.concat_tables([old, new]))

    def _read(self, table: str, final: str) -> pa.Table | None:
        """The rows of a file, in the schema of today; None if there is no such file."""
        path = self.lake / final
        return _read(table, path) if path.exists() else None

    def _put(self, final: str, rows: pa.Table) -> None:
        move = _move(self.lake, final)
        self.moves.append(move)  # before it is written, so that `abandon` finds half of it
        _write(self.lake, move, rows)

    def mark(self, gone_at: Mapping[str, int | None], months: Iterable[str]) -> None:
        """Note in the table `sources` when files went; None for one that came back."""
        import pyarrow as pa

        for month in sorted(months):
            final = pack_file("sources", self.client, month, self.machine, self.pack)
            rows = self._read("sources", final)
            if rows is None:
                continue
            field = rows.schema.field("gone_at")
            was = rows["gone_at"].cast(pa.int64()).to_pylist()
            now = [gone_at.get(s, at) for s, at in zip(rows["source_id"].to_pylist(), was, strict=True)]
            at = rows.schema.get_field_index("gone_at")
            self._put(final, rows.set_column(at, field, pa.array(now, pa.int64()).cast(field.type)))

    def abandon(self) -> None:
        """Remove what was written under temporary names."""
        for move in self.moves:
            if move.temporary:
                (self.lake / move.temporary).unlink(missing_ok=True)


def _read(table: str, path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            return conform(file.read(), arrow_schema(table))
    except (pa.ArrowException, OSError) as error:
        hint = "move that file away and run again"
        raise LakeError(f"cannot read {path}: {error}", hint=hint, path=path) from error


def _move(lake: Path, final: str) -> Move:
    """What will put a file in place, and the temporary name that it is written under."""
    path = lake / final
    path.parent.mkdir(parents=True, exist_ok=True)
    return Move(final, f"{Path(final).parent.as_posix()}/{path.name}.{os.getpid()}.tmp")


def _write(lake: Path, move: Move, rows: pa.Table) -> None:
    import pyarrow.parquet as pq

    with (lake / str(move.temporary)).open("wb") as file:
        pq.write_table(rows, file, compression="zstd", use_dictionary=_few_values(rows.schema))
        file.flush()
        os.fsync(file.fileno())


# Tables that belong to no transcript are small: one file a client and month, with this behind the machine's name.
SIDE_TABLES = {"items": "items", "repo_files": "files", "usage_ledgers": "ledgers"}


def side_file(table: str, client: str, month: str, machine: str) -> str:
    """Path of a machine's file of a table that belongs to no transcripts, below the lake."""
    return f"{table}/client={client}/month={month}/{machine}-{SIDE_TABLES[table]}.parquet"


def read_side(table: str, lake: Path, client: str, machine: str) -> list[Any]:
    """All rows of such a table that are of a client and a machine."""
    found: list[Any] = []
    for path in sorted(lake.glob(side_file(table, client, "*", machine))):
        rows = _read(table, path)
        for field in rows.schema:
            if str(field.type).startswith("timestamp"):
                rows = rows.set_column(
                    rows.schema.get_field_index(field.name), field.name, rows[field.name].cast("int64")
                )
        found += [TABLES[table](**row) for row in rows.drop_columns(["machine"]).to_pylist()]
    return found


def write_side(table: str, lake: Path, client: str, machine: str, months: Mapping[str, Sequence[Any]]) -> list[Move]:
    """Write some months of such a table anew under temporary names; returns what puts them in place.

    A month without rows loses its file.
    """
    moves = []
    for month, rows in sorted(months.items()):
        final = side_file(table, client, month, machine)
        if rows:
            move = _move(lake, final)
            _write(lake, move, to_table(table, rows, machine))
            moves.append(move)
        elif (lake / final).exists():
            moves.append(Move(final, None))
    return moves


def read_items(lake: Path, client: str, machine: str) -> list[Item]:
    """All that is known of a client's items on a machine."""
    return read_side("items", lake, client, machine)


def write_items(lake: Path, client: str, machine: str, months: Mapping[str, Sequence[Item]]) -> list[Move]:
    """Write the items of some months anew under temporary names; returns what puts them in place."""
    ordered = {month: sorted(rows, key=lambda row: (row.item_id, row.valid_from)) for month, rows in months.items()}
    return write_side("items", lake, client, machine, ordered)


def projects_of(lake: Path, machine: str) -> dict[str, set[str]]:
    """The projects that a machine's sessions name, by client."""
    import pyarrow.parquet as pq

    found: dict[str, set[str]] = defaultdict(set)
    for client, _, _, path in _files(lake, "sessions", machine):
        with pq.ParquetFile(path) as file:
            found[client].update(p for p in file.read(["project"])["project"].to_pylist() if p)
    return found


def _by_source(rows: pa.Table | None) -> list[tuple[str, pa.Table]]:
    """Rows cut where the next source begins. Slices need none of Arrow's compute functions, whose import takes long."""
    if rows is None or not rows.num_rows:
        return []
    owners = rows["source_id"].to_pylist()
    starts = [0, *(i for i in range(1, len(owners)) if owners[i] != owners[i - 1])]
    ends = [*starts[1:], len(owners)]
    return [(owners[start], rows.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)]


_MANY_VALUES = frozenset({"request_id", "response_id", "call_id", "event_id", "sha256"})


def _few_values(schema: pa.Schema) -> list[str]:
    """Columns that a dictionary makes smaller: texts that repeat."""
    return [field.name for field in schema if str(field.type) in ("string", "bool") and field.name not in _MANY_VALUES]


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that an older version wrote, in today's schema: a column that it did not have is NULL or its default."""
    import pyarrow as pa

    if rows.schema.equals(schema):
        return rows
    defaults = {"bool": False, "int64": 0, "string": ""}
    arrays = []
    for field in schema:
        if field.name in rows.column_names:
            arrays.append(rows[field.name].cast(field.type))
        else:
            value = None if field.nullable else defaults.get(str(field.type))
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows.num_rows))
    return pa.Table.from_arrays(arrays, schema=schema)


def migrate(lake: Path, machine: str) -> list[Move]:
    """Write this machine's files of an older schema anew, under temporary names; returns what puts them in place."""
    import pyarrow.parquet as pq

    moves: list[Move] = []
    for table in (*PACKED, "exact_counts"):
        for client, month, pack, path in _files(lake, table, machine):
            if not pq.read_schema(path).equals(arrow_schema(table)):
                writer = PackWriter(lake, client, machine, pack, frozenset())
                if table in PACKED:
                    writer.write(table, {}, [month])
                else:
                    writer.append(table, {month: []})
                moves += writer.moves
    for table in SIDE_TABLES:
        for path in sorted(lake.glob(side_file(table, "*", "*", machine))):
            if not pq.read_schema(path).equals(arrow_schema(table)):
                move = _move(lake, path.relative_to(lake).as_posix())
                _write(lake, move, _read(table, path))
                moves.append(move)
    return moves


def _files(lake: Path, table: str, machine: str) -> Iterator[tuple[str, str, int, Path]]:
    """A machine's files of a table: client, month, pack, path."""
    pattern = re.compile(re.escape(machine) + r"-(\d{6})\.parquet$")
    for path in sorted((lake / table).glob(f"client=*/month=*/{machine}-*.parquet")):
        match = pattern.match(path.name)
        if match:  # else a machine whose name only begins like this one's
            yield path.parts[-3].partition("=")[2], path.parts[-2].partition("=")[2], int(match[1]), path


def rebuild_manifest(lake: Path, machine: str) -> list[Known]:
    """What the manifest of a machine must have held, read from the lake's own files."""
    import pyarrow.parquet as pq

    months: dict[str, set[str]] = defaultdict(set)
    found: dict[str, Known] = {}
    for table in PACKED:
        for client, month, pack, path in _files(lake, table, machine):
            with pq.ParquetFile(path) as file:
                rows = file.read()
            for identity in rows["source_id"].unique().to_pylist():
                months[identity].add(month)
            if table == "sources":
                for row in rows.to_pylist():
                    found[row["source_id"]] = _known(row, client, pack)
    for known in found.values():
        known.months = tuple(sorted(months[known.source_id]))
    return list(found.values())


def _known(row: Mapping[str, Any], client: str, pack: int) -> Known:
    """A source as its row in the lake tells it; read again at the next run, as its exact time is not in the row."""
    gone = round(row["gone_at"].timestamp() * 1_000_000) if row["gone_at"] else None
    identity = (row["machine"], client, row["path"])
    generation = next((n for n in range(1000) if source_id(*identity, n) == row["source_id"]), 0)
    # The lake's mtime is in microseconds; -1 makes the next run look at the file once more.
    return Known(row["source_id"], client, row["path"], generation, row["size_bytes"], -1, None, -1, pack, (), gone)


def source_id(machine: str, client: str, path: str, generation: int) -> str:
    """Identity of a transcript file. A file that was replaced by another one of the same name is a new generation."""
    return short_id(machine, client, path, generation)


def sweep(lake: Path, machine: str) -> None:
    """Remove half-written files of dead runs: those of this machine. Needs the lock."""
    patterns = [f"{table}/client=*/month=*/{machine}-*.parquet.*.tmp" for table in TABLES]
    for pattern in patterns:
        for path in lake.glob(pattern):
            path.unlink(missing_ok=True)
