"""Results as bytes: rows of a view or a query in one of the output formats.

An exporter is a module with `write(rows, stream, options)`. It gets Arrow batches and the columns of the contract,
and knows neither DuckDB nor the command line. A new format is one such module and one entry in `FORMATS`. A format of
which one file holds several results has `write_all(results, stream, options)`, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Literal

from pipeline.errors import ConfigError, ExportError, QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.contracts import ViewColumn

BATCH_ROWS = 16_384  # what is held in memory at a time, however large the batches come in
ALWAYS, NEVER = "always", "never"


@dataclass(frozen=True, slots=True)
class Format:
    """An output format. `binary` ones are not for a terminal; a file of one with `many` holds several results."""

    name: str
    module: str
    extension: str
    binary: bool = False
    many: bool = False


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        format_.name: format_
        for format_ in (
            Format("table", "pipeline.export.table", "txt"),
            Format("csv", "pipeline.export.csv", "csv"),
            Format("json", "pipeline.export.json", "json"),
            Format("parquet", "pipeline.export.parquet", "parquet", binary=True),
            Format("xlsx", "pipeline.export.xlsx", "xlsx", binary=True, many=True),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Options:
    """How to write. What a format has no use for, it ignores."""

    width: int | None = None  # of the terminal; None: as wide as it gets
    color: bool = False
    newline: Literal["\n", "\r\n"] = "\n"
    limit: int | None = None
    compact: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)
    totals: bool = True
    timezone: str = "UTC"  # of times on the terminal; files are in UTC
    legend: bool = True  # of the marks, below a table
    encoding: str = "utf-8"  # of the terminal; files are in UTF-8


@dataclass(frozen=True, slots=True)
class Course:
    """A count whose course a terminal draws: a line for each group of rows, along the column `along`."""

    count: str
    groups: tuple[str, ...]
    along: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A result to write. `batches` is read once; `keys` names what tells the rows apart, as far as that is known."""

    name: str
    columns: tuple[ViewColumn, ...]
    batches: pa.RecordBatchReader | Iterable[pa.RecordBatch]
    help: str = ""
    notes: str = ""
    keys: tuple[str, ...] = ()
    course: Course | None = None

    def flag_positions(self) -> Mapping[int, int]:
        """For each count whose being measured a flag column tells: its position, and that flag's."""
        position = {column.name: i for i, column in enumerate(self.columns)}
        return {
            i: position[column.measured]
            for i, column in enumerate(self.columns)
            if column.measured not in {None, ALWAYS, NEVER} and column.measured in position
        }

    def slices(self) -> Iterator[pa.RecordBatch]:
        """The batches, none larger than `BATCH_ROWS`, each with the columns that it should have."""
        names = [column.name for column in self.columns]
        for batch in self._read():
            if batch.schema.names != names:
                raise ExportError(f"{self.name}: the rows have columns {batch.schema.names}, not {names}")
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)

    def _read(self) -> Iterator[pa.RecordBatch]:
        """The batches. Rows are made while they are read, so a query may fail here, and Arrow calls that OSError."""
        import pyarrow as pa

        try:
            yield from self.batches
        except (OSError, pa.ArrowException) as error:
            raise QueryError(f"the rows of {self.name} cannot be read: {str(error).splitlines()[0]}") from error

    def first(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """The slices of the first `limit` rows. Reads no further."""
        left = limit
        if left is None:
            yield from self.slices()
            return
        if left <= 0:
            return
        for batch in self.slices():
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


def headings(columns: Sequence[ViewColumn], options: Options) -> list[str]:
    """Names of the columns as they are to be written."""
    return [options.rename.get(column.name, column.name) for column in columns]


def distinct(names: Sequence[str]) -> list[str]:
    """Names of which none stands twice, where somebody's SQL may have given one so."""
    taken: set[str] = set()
    made: list[str] = []
    for name in names:
        key, n = name, 0
        while key in taken or (n and key in names):
            n += 1
            key = f"{name}_{n}"
        taken.add(key)
        made.append(key)
    return made


def columns_of(schema: pa.Schema) -> tuple[ViewColumn, ...]:
    """Columns of a result that no contract describes: nothing is known of what they mean."""
    from pipeline.contracts import ViewColumn  # not when this is imported: the command line wants the formats' names

    return tuple(ViewColumn(name=column.name, type=_type_name(column.type), doc="") for column in schema)


def _type_name(kind: pa.DataType) -> str:
    """An Arrow type in the words of the contracts, where they have one."""
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_type_name(kind.value_type)}[]"
    names = (
        (pa.types.is_string, "VARCHAR"),
        (pa.types.is_large_string, "VARCHAR"),
        (pa.types.is_int64, "BIGINT"),
        (pa.types.is_float64, "DOUBLE"),
        (pa.types.is_boolean, "BOOLEAN"),
        (pa.types.is_date, "DATE"),
        (pa.types.is_timestamp, "TIMESTAMP WITH TIME ZONE" if getattr(kind, "tz", None) else "TIMESTAMP"),
    )
    return next((name for is_kind, name in names if is_kind(kind)), str(kind).upper())


def write(format_name: str, rows: Rows, stream: BinaryIO, options: Options) -> None:
    """Write rows to a stream.

    Raises ConfigError for an unknown format, QueryError for rows that cannot be read, ExportError for values that
    cannot be written; an OSError of the stream passes.
    """
    import pyarrow as pa

    module = import_module(_known(format_name).module)
    try:
        module.write(rows, stream, options)
    except pa.ArrowException as error:
        raise ExportError(f"cannot write {rows.name} as {format_name}: {error}") from error


def write_all(format_name: str, results: Iterable[Rows], stream: BinaryIO, options: Options) -> None:
    """Write several results to one stream, in a format that has room for them; each is asked for when its turn comes.

    Raises what `write` raises, and ConfigError for a format of one result a file.
    """
    import pyarrow as pa

    form = _known(format_name)
    if not form.many:
        raise ConfigError(f"a file of the format {format_name} holds one result")
    try:
        import_module(form.module).write_all(results, stream, options)
    except pa.ArrowException as error:
        raise ExportError(f"cannot write it as {format_name}: {error}") from error


def _known(format_name: str) -> Format:
    if format_name not in FORMATS:
        raise ConfigError(f"there is no format {format_name!r}", hint=f"known formats: {', '.join(FORMATS)}")
    return FORMATS[format_name]
