"""DuckDB over the lake: a file that holds nothing but views, a way to ask it, and the lock-down for other people's SQL.

The views read each other in four schemas: `lake` (the Parquet files as they are), `ref` (prices and the like),
`stg` (a lake table made right), `int` (steps between); the public ones are in `main`. A window or filter is a
session variable that the views read by `getvariable`, so that the same file answers the same in a bare DuckDB.
"""

from __future__ import annotations

import contextlib
import graphlib
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import __version__, contracts
from pipeline.errors import LakeError, QueryError
from pipeline.paths import put_in_place, resource
from pipeline.schema import PACKED, PARTITION_KEYS, TABLES, columns

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from pipeline.prices import PriceBook

DATABASE = "agentlens.duckdb"
REFERENCE = "ref"
Sort = tuple[str, bool]  # a column, and whether the largest comes first; n/a is last either way
VARIABLES = ("since", "until", "clients", "project", "timezone", "by", "session", "a", "b", "rates")
CALIBRATED = "calibrated"  # the estimator that goes by what was measured on the lake's own data
ENOUGH_STEPS = 30  # of a family of models, to go by them
_SMALL_BYTES = 32 << 20  # of Parquet
_MEMORY = "650MB"  # of DuckDB, so that the process stays below 1 GB; what is more goes to disk
_STORAGE = "v0.9.2"  # the oldest that DuckDB 2 writes: 1.1 and 1.4 open it (tried); 1.1 is slow to plan views
DUCKDB_TYPES = {
    "string": "varchar",
    "bigint": "bigint",
    "double": "double",
    "boolean": "boolean",
    "timestamp": "timestamp with time zone",
    "list<string>": "varchar[]",
}


@dataclass(frozen=True, slots=True)
class Window:
    """Which requests a view looks at. Empty: all. `since` is included, `until` is not; both are aware times."""

    since: datetime | None = None
    until: datetime | None = None
    clients: tuple[str, ...] = ()
    project: str | None = None
    timezone: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # what a view asks for beside the window, such as `by`

    def variables(self) -> dict[str, Any]:
        named = {
            "since": self.since,
            "until": self.until,
            "clients": list(self.clients) or None,
            "project": self.project,
            "timezone": self.timezone,
            **self.options,
        }
        return {name: value for name, value in named.items() if value is not None and name != "estimator"}


# --- making the file ---------------------------------------------------------------------------------------------


USER_PRICES = f"{REFERENCE}/user_prices.csv"  # the user's own price table, as the lake remembers it


def fingerprint(lake: Path) -> str:
    """What the views are made of: other texts, prices, tables or place, other fingerprint. Reads no file's content."""
    digest = hashlib.sha256(f"{__version__}\n{lake.resolve()}\n".encode())
    for table in TABLES:
        digest.update(f"{table}={_has_files(lake, table)}\n".encode())
    parts = [view.path for view in contracts.views()]
    for path in (*parts, *sorted(resource("data").glob("*.csv")), lake / USER_PRICES):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def is_current(lake: Path) -> bool:
    """Is the lake's file of views there, and made of what would be used today?"""
    try:
        note = (lake / REFERENCE / "fingerprint").read_text(encoding="ascii")
    except OSError:
        return False
    return (lake / DATABASE).exists() and note == fingerprint(lake)


def refresh(lake: Path, wait_seconds: float = 60.0) -> None:
    """Make the lake's file of views, if it is not there or not of today. Raises LakeError, ConfigError for prices."""
    if not is_current(lake):
        from pipeline.lake import lock

        with lock(lake, wait_seconds):
            make_current(lake)


def make_current(lake: Path) -> None:
    """The same for a caller that holds the lake's lock."""
    if not is_current(lake):
        from pipeline import prices

        own = lake / USER_PRICES
        build(lake, prices.load(resource("data"), own if own.exists() else None))


def build(lake: Path, book: PriceBook) -> None:
    """Write the reference tables and the file of views anew, each replaced as one step. Needs the lake's lock."""
    import duckdb
    import pyarrow.parquet as pq

    reference = lake / REFERENCE
    try:
        for leftover in (*lake.glob(f"{DATABASE}.*.tmp"), *reference.glob("*.tmp")):
            leftover.unlink(missing_ok=True)  # of a run that was killed
        reference.mkdir(parents=True, exist_ok=True)
        for name, rows in _reference_tables(book).items():
            with put_in_place(reference / f"{name}.parquet") as path:
                pq.write_table(rows, path)
        with put_in_place(lake / DATABASE) as path:
            _write_views(path, lake)
        with put_in_place(reference / "fingerprint") as path:
            path.write_text(fingerprint(lake), encoding="ascii")
    except (OSError, duckdb.Error) as error:
        raise LakeError(f"cannot write the views of the lake {lake}: {error}", path=lake) from error


def _write_views(path: Path, lake: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"attach {_quoted(path)} as made (storage_version '{_STORAGE}')")
        connection.execute("use made")
        _define(connection, lake)
        connection.execute("use memory")
        connection.execute("detach made")


def _define(connection: duckdb.DuckDBPyConnection, lake: Path, book: PriceBook | None = None) -> None:
    """Make the views of today. With a price book the reference tables are made of it, not read from the lake."""
    for schema in ("lake", "ref", "stg", "int"):
        connection.execute(f"create schema {schema}")
    # Views are checked as they are made; over empty tables that is quick, and the real ones have the same columns.
    for table in TABLES:
        connection.execute(f"create view lake.{table} as {_empty_table(table)}")
    if book is not None:
        _fill_reference(connection, book)
    else:
        for path in sorted((lake / REFERENCE).glob("*.parquet")):
            connection.execute(f"create view ref.{path.stem} as select * from read_parquet({_quoted(path.resolve())})")
    for view in ordered(contracts.views()):
        connection.execute(f"create view {view.qualified} as {view.sql}")
    for table in TABLES:
        if _has_files(lake, table):
            connection.execute(f"create or replace view lake.{table} as {_full_table(lake, table)}")


def _reference_tables(book: PriceBook) -> dict[str, pa.Table]:
    """What views read beside the lake, by name in the schema `ref`."""
    from pipeline import retrieval
    from pipeline.prices import tables

    return tables(book) | {"retrieval_tools": retrieval.table()}


def _fill_reference(connection: duckdb.DuckDBPyConnection, book: PriceBook) -> None:
    for name, rows in _reference_tables(book).items():
        connection.register("reference_rows", rows)
        connection.execute(f"create table ref.{name} as select * from reference_rows")
        connection.unregister("reference_rows")


def _has_files(lake: Path, table: str) -> bool:
    return next((lake / table).glob("client=*/month=*/*.parquet"), None) is not None


def _full_table(lake: Path, table: str) -> str:
    """All files of a table."""
    names = ", ".join(c.name for c in (*PARTITION_KEYS, *columns(table)))
    pattern = _quoted(_no_glob(lake.resolve()) + f"/{table}/client=*/month=*/*.parquet")
    kinds = "hive_types = {'client': varchar, 'month': varchar}"
    files = f"read_parquet({pattern}, hive_partitioning = true, {kinds}"
    if table not in PACKED:
        # Few and small, so that each may be looked into: one of an older version may lack a column.
        return f"select {names} from ({_empty_table(table)} union all by name from {files}, union_by_name = true))"
    return f"select {names} from {files})"


def _empty_table(table: str) -> str:
    """A relation of a table's form without rows, as a glob of nothing is an error."""
    typed = [f"cast(null as {DUCKDB_TYPES[c.type]}) as {c.name}" for c in (*PARTITION_KEYS, *columns(table))]
    return f"select {', '.join(typed)} where false"


def _no_glob(path: Path) -> str:
    """A path in which nothing is a wildcard."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path.as_posix())


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def ordered(views: Sequence[contracts.View]) -> list[contracts.View]:
    """Views so that each comes after those that it reads."""
    import duckdb

    by_name = {view.qualified: view for view in views}
    with duckdb.connect() as connection:
        reads = {view.qualified: set(reads_of(connection, view)) & by_name.keys() for view in views}
    return [by_name[name] for name in graphlib.TopologicalSorter(reads).static_order()]


def reads_of(connection: duckdb.DuckDBPyConnection, view: contracts.View) -> Iterator[str]:
    """The relations that a view's text names, with their schemas; parsed, not bound."""
    for node in syntax(connection, view.sql):
        if node.get("type") == "BASE_TABLE":
            yield f"{node.get('schema_name') or 'main'}.{node['table_name']}"


def syntax(connection: duckdb.DuckDBPyConnection, text: str) -> Iterator[dict[str, Any]]:
    """The nodes of a query's syntax tree. Raises QueryError for what is no query."""
    found = connection.execute("select json_serialize_sql(?)", [text]).fetchall()
    tree = json.loads(found[0][0])
    if tree.get("error"):
        raise QueryError(" ".join(str(tree.get("error_message")).split()))
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            yield node
            pending += node.values()


_EXPLAIN = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b", re.IGNORECASE | re.DOTALL)
_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_RUNS_SQL = {"json_execute_serialized_sql", "query", "query_table", "getenv"}
_TABLE_FUNCTIONS = {
    "range", "generate_series", "unnest", "json_each", "json_tree", "repeat", "repeat_row", "summary", "test_all_types",
    "read_parquet", "parquet_scan", "parquet_schema", "parquet_metadata", "parquet_file_metadata", "glob",
    "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_schemas", "duckdb_settings", "duckdb_tables",
    "duckdb_types", "duckdb_variables", "duckdb_views", "pragma_table_info", "pragma_version",
}  # fmt: skip


def _refused(node: Mapping[str, Any]) -> str | None:
    """What in a node of somebody's query may do more than read the lake, in words."""
    kind = str(node.get("type", ""))
    if kind.endswith("_NODE") and kind not in _QUERY_NODES:
        return kind.removesuffix("_NODE").removesuffix("_QUERY")
    name = str(node.get("function_name", "")).lower()
    if name in _RUNS_SQL:
        return f"the function {name}"
    if kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        if name not in _TABLE_FUNCTIONS:
            return f"the table function {name}"
    return None


# --- asking it ---------------------------------------------------------------------------------------------------


class Answer:
    """Rows of a query, as Arrow batches that are read once: already there, or made while they are read."""

    def __init__(self, rows: duckdb.DuckDBPyRelation | pa.Table) -> None:
        self._rows = rows

    def batches(self, rows: int = 65_536) -> pa.RecordBatchReader:
        """The rows as Arrow batches. Raises QueryError if the query fails on the way."""
        import pyarrow as pa

        if isinstance(self._rows, pa.Table):
            return self._rows.to_reader(max_chunksize=rows)
        try:
            return self._rows.to_arrow_reader(rows)
        except _duckdb_error() as error:
            raise QueryError(_first_line(error)) from error

    def table(self) -> pa.Table:
        """All rows as one Arrow table."""
        import pyarrow as pa

        if isinstance(self._rows, pa.Table):
            return self._rows
        try:
            return self._rows.to_arrow_table()
        except _duckdb_error() as error:
            raise QueryError(_first_line(error)) from error


class Warehouse:
    """An open lake. Use `connect`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake: Path) -> None:
        self._connection = connection
        self.lake = lake

    def view(self, name: str, window: Window | None = None, sort: Sequence[Sort] = ()) -> Answer:
        """The rows of a public view, columns as its contract says; in its order, or by others first.

        Raises ContractError for a column to sort by that the view has not.
        """
        contract = contracts.load(name)
        names = ", ".join(f'"{column.name}"' for column in contract.columns)
        first = [f'"{contract.column(column).name}" {"desc" if down else "asc"} nulls last' for column, down in sort]
        order = ", ".join([*first, *(contract.order or contract.grain)])
        return self.ask(f"select {names} from main.{name} order by {order}", window)

    def ask(self, text: str, window: Window | None = None, values: Sequence[Any] | None = None) -> Answer:
        """The rows of a SELECT of ours, over a window of the public views, with values for its `?`."""
        for variable in VARIABLES:
            self._connection.execute(f'reset variable "{variable}"')
        window = window or Window()
        values_of = window.variables()
        if window.options.get("estimator") == CALIBRATED:
            values_of["rates"] = self._rates()
        for variable, value in values_of.items():
            self._connection.execute(f'set variable "{variable}" = ?', [value])
        return self._made(text, values) if self._is_small else self._ask(text, values)

    def _rates(self) -> list[dict[str, Any]]:
        """Characters a token, by client and family of models, where enough of them were measured."""
        return [
            {
                "client": family["client"],
                "model_family": family["model_family"],
                "chars_per_token": family["median_chars_per_token"],
            }
            for family in self.calibration()
            if family["steps"] >= ENOUGH_STEPS
        ]

    def calibration(self) -> list[dict[str, Any]]:
        """The rows of the view for all of the lake. Reports look for them each time, so they are kept beside it."""
        path = self.lake / REFERENCE / "calibration.json"
        stamp = _stamp(self.lake)
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # not there or not whole: made anew
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["stamp"] == stamp:
                return list(kept["rows"])
        rows: list[dict[str, Any]] = self.view("calibration").table().to_pylist()
        with contextlib.suppress(OSError), put_in_place(path) as made:  # a lake that one may only read has no notes
            made.write_text(json.dumps({"stamp": stamp, "rows": rows}), encoding="utf-8")
        return rows

    @cached_property
    def _is_small(self) -> bool:
        """Does any answer fit into memory? Then it is made at once: rows on demand cost planning a view twice."""
        return sum(status.st_size for _, status in _data_files(self.lake)) < _SMALL_BYTES

    def _made(self, text: str, values: Sequence[Any] | None) -> Answer:
        import duckdb

        try:
            self._connection.execute(text, values)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it copies the rows; of a small lake there are few
                return Answer(self._connection.to_arrow_table())
        except duckdb.Error as error:
            raise QueryError(_first_line(error)) from error

    def sql(self, text: str) -> Answer:
        """The rows of one SELECT that somebody wrote. Raises QueryError for anything else, and for what is refused."""
        explained = _EXPLAIN.match(text)
        if explained:
            return self._ask(f"explain {self._select(text[explained.end() :])}")
        return self._ask(self._select(text))

    def _select(self, text: str) -> str:
        """The text of one statement that only reads: what DuckDB calls SELECT may write, in a WITH or by a function."""
        import duckdb

        try:
            statements = duckdb.extract_statements(text)
        except duckdb.Error as error:
            raise QueryError(_first_line(error)) from error
        if len(statements) != 1:
            raise QueryError(f"one statement at a time, please: this is {len(statements)}")
        kind = str(statements[0].type).rpartition(".")[2]
        if kind != "SELECT":
            raise QueryError(f"only SELECT is allowed here, not {kind}", hint="the lake is read-only for queries")
        query: str = statements[0].query
        for node in syntax(self._connection, query):
            refused = _refused(node)
            if refused:
                raise QueryError(f"{refused} is not allowed here", hint="the lake is read-only for queries")
        return query

    def _ask(self, text: str, values: Sequence[Any] | None = None) -> Answer:
        import duckdb

        try:
            relation = self._connection.sql(text, params=values)
        except duckdb.Error as error:
            raise QueryError(_first_line(error)) from error
        if relation is None:
            raise QueryError("the query has no result")
        return Answer(relation)

    def interrupt_after(self, seconds: float) -> threading.Timer:
        """Start a timer that ends what this connection runs. Cancel it when the query is done."""
        timer = threading.Timer(seconds, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        return timer


def _stamp(lake: Path) -> str:
    """What the lake's rows are made of: other files or views, other stamp. Reads no file's content."""
    digest = hashlib.sha256(fingerprint(lake).encode())
    for path, status in sorted(_data_files(lake)):
        digest.update(f"{path.relative_to(lake)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _data_files(lake: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The Parquet files of a lake; one that a run takes away just now is none."""
    for table in TABLES:
        for path in (lake / table).glob("client=*/month=*/*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


@contextmanager
def connect(lake: Path, *, locked_down: bool = True) -> Iterator[Warehouse]:
    """Open a lake's views for reading; nothing can be written, and nothing outside the lake be read.

    Raises LakeError if there is no lake.
    """
    path = lake / DATABASE
    if not path.exists():
        raise LakeError(f"there is no lake at {lake}", hint="make one with: agentlens ingest", path=lake)
    with _connection() as (connection, spill):
        _attach(connection, path)
        _set_up(connection, spill)
        if locked_down:
            _lock_down(connection, lake)
        yield Warehouse(connection, lake)


@contextmanager
def connect_current(lake: Path) -> Iterator[Warehouse]:
    """The same with views of today, which are made where they are not there. Raises LakeError, ConfigError too."""
    if lake.exists():
        refresh(lake)
    with connect(lake) as warehouse:
        yield warehouse


@contextmanager
def connect_apart(lake: Path) -> Iterator[Warehouse]:
    """Open a lake by views of today that are made in memory: its own file of views is neither read nor written.

    Raises LakeError for files that no view can be made over, ConfigError for prices.
    """
    import duckdb

    from pipeline import prices

    own = lake / USER_PRICES
    book = prices.load(resource("data"), own if own.exists() else None)
    with _connection() as (connection, spill):
        try:
            connection.execute("attach ':memory:' as agentlens")
            connection.execute("use agentlens")
            _define(connection, lake, book)
        except duckdb.Error as error:
            raise LakeError(f"no views can be made over {lake}: {_first_line(error)}", path=lake) from error
        _set_up(connection, spill)
        _lock_down(connection, lake)
        yield Warehouse(connection, lake)


@contextmanager
def _connection() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """A database of its own, and a folder for what does not fit into memory.

    Views are attached to it: one opened by its path would be shared with every other connection of this process, and
    so would the lock-down.
    """
    import duckdb

    connection = duckdb.connect()
    spill = Path(tempfile.gettempdir()) / f"agentlens-{os.getpid()}-{secrets.token_hex(8)}"
    try:
        yield connection, spill
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def _set_up(connection: duckdb.DuckDBPyConnection, spill: Path) -> None:
    connection.execute("set enable_progress_bar = false")  # it would go to stdout, among the data
    connection.execute("set TimeZone = 'UTC'")
    connection.execute("set parquet_metadata_cache = true")  # a view may read a table more than once
    # It would put the large side of a join into memory where it takes the small one for larger; in the views the small
    # side stands on the right.
    connection.execute("set disabled_optimizers = 'build_side_probe_side'")
    connection.execute(f"set memory_limit = '{_MEMORY}'")
    # Where large sorts go. The default is a folder of the working directory, and queries may read what lies there.
    connection.execute(f"set temp_directory = {_quoted(spill)}")


def _lock_down(connection: duckdb.DuckDBPyConnection, lake: Path) -> None:
    folders = {lake.resolve().as_posix(), _no_glob(lake.resolve())}
    allowed = ", ".join(_quoted(f"{folder}/") for folder in sorted(folders))
    connection.execute(f"set allowed_directories = [{allowed}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    import duckdb

    try:
        connection.execute(f"attach {_quoted(path)} as agentlens (read_only)")
    except duckdb.Error as error:
        hint = "is it open for writing elsewhere? open it with `duckdb -readonly`" if "lock" in str(error) else None
        raise LakeError(f"cannot open {path}: {_first_line(error)}", hint=hint, path=path) from error
    connection.execute("use agentlens")


def _duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _first_line(error: Exception) -> str:
    """The part of a DuckDB message that says what is wrong, without its drawing of the query."""
    return " ".join(line.strip() for line in str(error).split("\n\n")[0].splitlines())
