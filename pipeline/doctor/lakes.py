"""The lake: its files, its lock, its views, and what the contracts of the views promise of it."""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline import contracts
from pipeline.checks import checks_of, differing_columns, question
from pipeline.doctor.finding import LISTED, Finding, Status, many, named, size, when
from pipeline.errors import AgentLensError, QueryError
from pipeline.lake import LOCK
from pipeline.manifest import Known, Manifest, State
from pipeline.schema import TABLES, arrow_schema, schema_version
from pipeline.warehouse import DATABASE, Warehouse, Window, connect, connect_apart, is_current

_MANY_FILES = 200  # in one partition: a glob over it is slow
_WEEK = timedelta(days=7)
_REPORT = "look at these rows; if the transcripts are right, this is an error of AgentLens: please report it"
_MEND = "mend the files that are named above, if any are"
_ONLY_VIEWS = f"remove {DATABASE}: it holds nothing but views, and is made anew"


@dataclass(slots=True)
class Lake:
    """What was found, for the checks that follow."""

    findings: list[Finding] = field(default_factory=list)
    known: dict[str, list[Known]] | None = None  # by client and path; None: there is no lake
    newest: datetime | None = None


def examine(lake: Path, clients: tuple[str, ...], now: datetime) -> Lake:
    """Look at a lake. Nothing is written, and its lock is not taken."""
    found = Lake()
    problem = _no_lake(lake)
    if problem:
        found.findings.append(problem)
        return found
    found.known = {}
    files = _Files(lake)
    states = list(_states(lake, found.known))
    contents = list(_inside(lake, clients, now, found))
    if any(finding.status == "broken" for finding in contents):
        files.read()  # DuckDB seldom says which file it could not read
    found.findings += [*files.findings(), *states, _lock(lake), _views(lake), *contents]
    return found


def _inside(lake: Path, clients: tuple[str, ...], now: datetime, found: Lake) -> Iterator[Finding]:
    try:
        with connect_apart(lake) as warehouse:
            yield from _contents(warehouse, Window(clients=clients), now, found)
            yield from _contracts(warehouse)
    except AgentLensError as error:
        yield Finding("contracts", "broken", error.message, error.hint or _MEND)


def _no_lake(lake: Path) -> Finding | None:
    facts = {"path": str(lake)}
    try:
        names = set(os.listdir(lake))
    except FileNotFoundError:
        return Finding("lake", "note", f"there is no lake at {lake} yet", "agentlens run", facts=facts)
    except NotADirectoryError:
        todo = "give a folder with --lake or $AGENTLENS_LAKE"
        return Finding("lake", "broken", f"{lake} is a file", todo, facts=facts)
    except OSError as error:
        todo = "give yourself the right to read it"
        return Finding("lake", "broken", f"{lake} cannot be read: {error.strerror}", todo, facts=facts)
    if names & {*TABLES, DATABASE}:
        return None
    held = "is empty" if not names else "holds no lake"
    return Finding("lake", "note", f"the folder {lake} {held}", "agentlens run", facts=facts)


# --- files -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Table:
    files: int = 0
    bytes: int = 0
    rows: int = 0
    partitions: Counter[str] = field(default_factory=Counter)


class _Files:
    """Every file of a lake, by its name, its size and, for Parquet, its footer."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.tables: dict[str, _Table] = {table: _Table() for table in TABLES}
        self.bytes = 0
        self.unreadable: list[str] = []
        self.damaged: dict[str, str] = {}
        self.leftovers: dict[str, int] = {}
        self.lacking: dict[str, set[str]] = defaultdict(set)  # by table and columns, the machines' files
        self.unknown: dict[str, set[str]] = defaultdict(set)
        for folder, _, names in os.walk(lake, onerror=self._note):
            for name in names:
                self._take(Path(folder, name))

    def _note(self, error: OSError) -> None:
        self.unreadable.append(f"{error.filename}: {error.strerror}")

    def _take(self, path: Path) -> None:
        try:
            length = path.stat().st_size
        except FileNotFoundError:
            return  # a run that writes just now has put it in its place
        except OSError as error:
            self._note(error)
            return
        self.bytes += length
        place = path.relative_to(self.lake)
        if path.suffix == ".tmp":
            self.leftovers[str(place)] = length
        elif path.suffix == ".parquet" and place.parts[0] in self.tables:
            self._footer(path, place, length)

    def _footer(self, path: Path, place: Path, length: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = self.tables[place.parts[0]]
        table.files += 1
        table.bytes += length
        table.partitions[str(place.parent)] += 1
        try:
            footer = pq.read_metadata(path)
        except FileNotFoundError:
            return
        except (pa.ArrowException, OSError) as error:
            self.damaged[str(place)] = _one_line(error)
            return
        table.rows += footer.num_rows
        columns, wanted = set(footer.schema.to_arrow_schema().names), set(arrow_schema(place.parts[0]).names)
        for names, found in ((wanted - columns, self.lacking), (columns - wanted, self.unknown)):
            if names:
                found[f"{place.parts[0]}: {', '.join(sorted(names))}"].add(str(place))

    def read(self) -> None:
        """Read every file whole, to find those whose footer is right and whose rows are not."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in self.tables:
            for path in sorted((self.lake / name).glob("client=*/month=*/*.parquet")):
                place = str(path.relative_to(self.lake))
                try:
                    with pq.ParquetFile(path) as file:
                        for group in range(file.num_row_groups):
                            file.read_row_group(group)
                except FileNotFoundError:
                    continue
                except (pa.ArrowException, OSError) as error:
                    self.damaged.setdefault(place, _one_line(error))

    def findings(self) -> Iterator[Finding]:
        total = sum(table.files for table in self.tables.values())
        facts = {"path": str(self.lake), "bytes": self.bytes, "files": total}
        yield Finding("lake", "ok", f"{self.lake}: {size(self.bytes)}, {many(total, 'Parquet file')}", facts=facts)
        for name, table in self.tables.items():
            if table.files:
                yield self._table(name, table)
        if self.unreadable:
            text = f"{many(len(self.unreadable), 'path')} of the lake cannot be read: {named(self.unreadable)}"
            told = {"unreadable": self.unreadable[:LISTED]}
            yield Finding("lake_files", "broken", text, "give yourself the right to read them", facts=told)
        yield self._damage()
        yield from self._schema()
        yield self._leftovers()

    def _table(self, name: str, table: _Table) -> Finding:
        most = max(table.partitions.values())
        facts = {"files": table.files, "bytes": table.bytes, "rows": table.rows, "most_files_per_partition": most}
        text = (
            f"{many(table.rows, 'row')}, {size(table.bytes)}, {many(table.files, 'file')}; at most {most:,} a partition"
        )
        if most > _MANY_FILES:
            todo = "lakes of many machines are quicker when each is one machine's"
            return Finding("table", "note", text, todo, name, facts)
        return Finding("table", "ok", text, subject=name, facts=facts)

    def _damage(self) -> Finding:
        facts = {"count": len(self.damaged), "damaged": dict(list(self.damaged.items())[:LISTED])}
        if not self.damaged:
            return Finding("parquet", "ok", "every Parquet file is whole", facts=facts)
        text = f"{many(len(self.damaged), 'Parquet file')} damaged: {named(list(self.damaged))}"
        todo = "move them away, then agentlens ingest --reread: what transcripts that still exist say comes back"
        return Finding("parquet", "broken", text, todo, facts=facts)

    def _schema(self) -> Iterator[Finding]:
        for found, status, what, todo in (
            (self.lacking, "warning", "lack columns of today", "agentlens ingest, on the machine that wrote them"),
            (self.unknown, "note", "have columns that this version does not know", "install the newer AgentLens"),
        ):
            if found:
                files = sorted(set().union(*found.values()))
                text = f"{many(len(files), 'file')} {what} ({'; '.join(sorted(found))})"
                facts = {"columns": sorted(found), "files": files[:LISTED]}
                yield Finding("schema", status, text, todo, facts=facts)  # type: ignore[arg-type]
        if not self.lacking and not self.unknown:
            yield Finding("schema", "ok", "all files have the columns of this version")

    def _leftovers(self) -> Finding:
        facts = {
            "files": len(self.leftovers),
            "bytes": sum(self.leftovers.values()),
            "paths": [*self.leftovers][:LISTED],
        }
        if not self.leftovers:
            return Finding("temporary_files", "ok", "no temporary files are left over", facts=facts)
        text = f"{many(len(self.leftovers), 'temporary file')}, {size(sum(self.leftovers.values()))}"
        todo = "none: a run is writing, or the next one removes what a killed one left"
        return Finding("temporary_files", "note", text, todo, facts=facts)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


# --- state, lock, file of views ----------------------------------------------------------------------------------


def _states(lake: Path, known: dict[str, list[Known]]) -> Iterator[Finding]:
    """What each machine's manifest says; its sources are put into `known`."""
    for path in sorted((lake / "state").glob("*.sqlite")):
        machine = path.stem
        try:
            state = Manifest(lake, machine).read()
        except AgentLensError as error:
            yield Finding("state", "broken", error.message, error.hint, machine)
            continue
        if state is None:
            text = "a first run has not come to its end"
            yield Finding("state", "note", text, "agentlens ingest", machine)
            continue
        for source in state.known:
            known.setdefault(f"{source.client}\n{source.path}", []).append(source)
        yield _state(machine, state)


def _state(machine: str, state: State) -> Finding:
    is_current_schema = state.meta.get("schema") == schema_version()
    facts = {"sources": len(state.known), "unfinished": state.unfinished, "schema_is_current": is_current_schema}
    if state.unfinished:
        text = "a run died while it put files in place"
        return Finding("state", "warning", text, "agentlens ingest finishes it", machine, facts)
    if not is_current_schema:
        text = "the last run was one of another version"
        return Finding("state", "note", text, "agentlens ingest brings the files to this one", machine, facts)
    return Finding("state", "ok", f"{many(len(state.known), 'source')} known", subject=machine, facts=facts)


def _lock(lake: Path) -> Finding:
    """Who holds the lake, by the note that a holder leaves; the lock itself is not touched."""
    try:
        holder = (lake / f"{LOCK}.holder").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Finding("lock", "ok", "nobody writes to the lake now", facts={"holder": None})
    facts = {"holder": holder}
    found = re.match(r"pid (\d+) on (.*) since ", holder)
    if found and found[2] == platform.node() and not _is_alive(int(found[1])):
        text = f"a run was killed while it wrote: {holder}"
        return Finding("lock", "note", text, "none: the next run goes on from there", facts=facts)
    return Finding("lock", "note", f"held by {holder}", "none: others wait for it", facts=facts)


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # a signal would end the process there, and no other way to ask comes with Python
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return getattr(error, "errno", None) == errno.EPERM
    return True


def _views(lake: Path) -> Finding:
    facts = {"path": str(lake / DATABASE), "exists": (lake / DATABASE).exists(), "is_current": is_current(lake)}
    if not facts["is_current"]:
        text = f"{DATABASE} is not there" if not facts["exists"] else f"{DATABASE} was made for other files or versions"
        todo = "none: the next command that asks the lake makes it anew"
        return Finding("views", "note", text, todo, facts=facts)
    try:
        with connect(lake):
            return Finding("views", "ok", f"{DATABASE} is of today", facts=facts)
    except AgentLensError as error:
        return Finding("views", "broken", error.message, error.hint or _ONLY_VIEWS, facts=facts)


# --- what it holds -----------------------------------------------------------------------------------------------


def _contents(warehouse: Warehouse, window: Window, now: datetime, lake: Lake) -> Iterator[Finding]:
    asked: tuple[tuple[str, Callable[[], list[Finding]]], ...] = (
        ("last_ingest", lambda: _ingests(warehouse, window, now, lake)),
        ("skipped_lines", lambda: [_skipped(warehouse, window)]),
        ("unknown_format", lambda: [_not_read(warehouse, window)]),
        ("gone", lambda: [_gone(warehouse, window)]),
        ("unpriced", lambda: [_unpriced(warehouse, window)]),
        ("requests_without_usage", lambda: [_without_usage(warehouse, window)]),
    )
    for check, ask in asked:
        try:
            yield from ask()
        except QueryError as error:
            yield Finding(check, "broken", f"cannot be told: {error.message}", _MEND)


def _rows(warehouse: Warehouse, window: Window, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = warehouse.ask(text, window).table().to_pylist()
    return rows


def _ingests(warehouse: Warehouse, window: Window, now: datetime, lake: Lake) -> list[Finding]:
    text = (
        "select machine, max(ingested_at) as read_at, max(coalesce(last_ts, mtime)) as newest, count(*) as files "
        "from sources group by machine order by machine"
    )
    findings = []
    for row in _rows(warehouse, window, text):
        facts = {key: row[key].isoformat() if row[key] else None for key in ("read_at", "newest")}
        newest = row["newest"].astimezone(UTC)
        lake.newest = max(filter(None, (lake.newest, newest)))
        said = f"last read something new on {when(row['read_at'].astimezone(UTC))}; {many(row['files'], 'file')} in all"
        is_old = now - row["read_at"] > _WEEK
        todo = "agentlens run, or a cron job that does" if is_old else None
        status = "note" if is_old else "ok"
        findings.append(Finding("last_ingest", status, said, todo, row["machine"], facts | {"files": row["files"]}))  # type: ignore[arg-type]
    return findings or [Finding("last_ingest", "note", "the lake has read no file", "agentlens ingest")]


def _skipped(warehouse: Warehouse, window: Window) -> Finding:
    text = "select path, skipped_lines from sources where skipped_lines > 0 order by skipped_lines desc, path"
    rows = _rows(warehouse, window, text)
    lines = sum(row["skipped_lines"] for row in rows)
    facts = {"lines": lines, "files": len(rows), "paths": [row["path"] for row in rows[:LISTED]]}
    if not rows:
        return Finding("skipped_lines", "ok", "no line was skipped", facts=facts)
    said = f"{many(lines, 'line')} skipped in {many(len(rows), 'file')}: {named([row['path'] for row in rows])}"
    todo = 'agentlens sql "select path, warnings from sources where skipped_lines > 0"'
    return Finding("skipped_lines", "warning", said, todo, facts=facts)


def _not_read(warehouse: Warehouse, window: Window) -> Finding:
    text = "select path, warnings from sources where len(warnings) > 0 and gone_at is null order by path"
    rows = _rows(warehouse, window, text)
    paths = [row["path"] for row in rows if any(told.startswith("not read: ") for told in row["warnings"])]
    facts = {"count": len(paths), "paths": paths[:LISTED], "files_with_warnings": len(rows)}
    if not paths:
        return Finding("unknown_format", "ok", "every file that was read is of a known format", facts=facts)
    said = f"{many(len(paths), 'file')} of no known format: {named(paths)}"
    return Finding("unknown_format", "warning", said, "move them away, or tell us what wrote them", facts=facts)


def _gone(warehouse: Warehouse, window: Window) -> Finding:
    ((row),) = _rows(warehouse, window, "select count(gone_at) as gone, count(*) as files from sources")
    facts = {"gone": row["gone"], "files": row["files"]}
    if not row["gone"]:
        return Finding("gone", "ok", "every transcript that was read is still there", facts=facts)
    said = f"{row['gone']:,} of {many(row['files'], 'transcript')} are gone from disk; the lake has kept their rows"
    return Finding("gone", "note", said, "none: clients delete their logs after some weeks", facts=facts)


def _unpriced(warehouse: Warehouse, window: Window) -> Finding:
    rows = _rows(warehouse, window, "select model, requests from unpriced order by requests desc, client, model")
    models = [row["model"] or "n/a" for row in rows]
    facts = {"models": models[:LISTED], "requests": sum(row["requests"] for row in rows)}
    if not rows:
        return Finding("unpriced", "ok", "every model that was used has a price", facts=facts)
    said = f"{many(len(models), 'model')} without a price: {named(models)} ({many(facts['requests'], 'request')})"
    return Finding("unpriced", "warning", said, "give prices with agentlens ingest --prices FILE", facts=facts)


def _without_usage(warehouse: Warehouse, window: Window) -> Finding:
    text = (
        "select coalesce(sum(requests), 0) as requests, coalesce(sum(requests_without_usage), 0) as without from usage"
    )
    ((row),) = _rows(warehouse, window, text)
    facts = {"requests": int(row["requests"]), "without_usage": int(row["without"])}
    if not facts["without_usage"]:
        return Finding(
            "requests_without_usage", "ok", f"{many(facts['requests'], 'request')}, all with usage", facts=facts
        )
    said = f"{facts['without_usage']:,} of {many(facts['requests'], 'request')} have no usage on record: in no sum"
    todo = "none: the client did not write it"
    return Finding("requests_without_usage", "note", said, todo, facts=facts)


def _contracts(warehouse: Warehouse) -> Iterator[Finding]:
    """Every check of every public view. Views that fail alike are told together."""
    asked = held = 0
    failed: dict[str, list[str]] = defaultdict(list)
    for name in contracts.public_names():
        try:
            broken, checks = _contract(warehouse, name)
        except QueryError as error:
            failed[error.message].append(name)
            continue
        asked += checks
        held += checks - len(broken)
        yield from broken
    for message, names in failed.items():
        text = f"{many(len(names), 'view')} cannot be run ({', '.join(names)}): {message}"
        is_too_large = message.startswith("Out of Memory")
        status: Status = "warning" if is_too_large else "broken"
        todo = "none: they are too large to be checked whole" if is_too_large else _MEND
        yield Finding("contracts", status, text, todo, facts={"failed_views": names})
    facts = {"checks": asked, "held": held, "views": len(contracts.public_names()) - sum(map(len, failed.values()))}
    if asked == held:
        text = f"{many(held, 'check')} on {many(facts['views'], 'view')} hold"
        yield Finding("contracts", "ok", text, facts=facts)


def _contract(warehouse: Warehouse, name: str) -> tuple[Sequence[Finding], int]:
    """What is broken of a view's contract, and how many checks there are."""
    contract = contracts.load(name)
    form = warehouse.ask(f"select * from main.{name} limit 0")
    different = differing_columns(contract, form.columns, form.types)
    if different:
        text = f"columns are not those of the contract: {', '.join(different)}"
        return [Finding("contracts", "broken", text, _REPORT, name, {"columns": different})], 1
    checks = checks_of(contract)
    (counts,) = _rows(warehouse, Window(), question(contract))
    broken = [
        Finding(
            "contracts",
            "broken",
            f"{check.column} {check.promise}: not so in {many(count, 'row')}",
            _REPORT,
            name,
            {"column": check.column, "kind": check.kind, "rows": count},
        )
        for check, count in zip(checks, counts.values(), strict=True)
        if count
    ]
    return broken, len(checks) + 1
