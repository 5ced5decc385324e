"""From transcripts to the lake: find what is new, parse it in parallel, put it in place as one step.

The unit of work is a pack (see `lake`): a worker parses its new files and writes its Parquet under temporary
names, the main process makes it visible. What a run needs to see that nothing is new is read without any heavy
library. A bad source never ends a run: it becomes a warning.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import clients, inventory, retrieval, savings
from pipeline.client import Client, Home, Parsed, Report, Source
from pipeline.errors import LakeError, SourceError
from pipeline.jsonl import open_source
from pipeline.lake import (
    PackWriter,
    by_month,
    lock,
    migrate,
    month_of,
    projects_of,
    rebuild_manifest,
    source_id,
    sweep,
    to_table,
)
from pipeline.manifest import Known, Manifest, Move, State
from pipeline.schema import PACKED, schema_version
from pipeline.schema import Source as SourceRow
from pipeline.warehouse import make_current

if TYPE_CHECKING:
    from concurrent.futures import Executor

PACK_BYTES = 64 << 20  # transcripts in one pack: what a changed source costs to rewrite
IN_PROCESS_BYTES = 6 << 20  # less than this is parsed at once, without starting workers
TOLD_WARNINGS = 5  # of one file at once; the table `sources` has more of them
_HEAD = 4096
_EDGE = 4 << 10


@dataclass(frozen=True, slots=True)
class Options:
    """What to read, and into which lake."""

    lake: Path
    home: Home
    machine: str
    clients: tuple[str, ...] = ()  # empty: all
    wait_seconds: float = 300.0
    jobs: int = 1
    reread: bool = False


@dataclass(slots=True)
class RunReport:
    """What a run found and did. Counts are of files unless they say otherwise."""

    found: int = 0
    read: int = 0
    unchanged: int = 0
    gone: int = 0
    bytes_read: int = 0
    lines: int = 0
    skipped_lines: int = 0
    requests: int = 0
    failed: int = 0
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    @property
    def mb_per_second(self) -> float | None:
        return self.bytes_read / 1e6 / self.seconds if self.bytes_read and self.seconds else None


@dataclass(frozen=True, slots=True)
class Job:
    """A file to read: what will be known of it, and the name under which its rows go."""

    known: Known
    previous: Known | None  # the rows that this reading replaces


@dataclass(slots=True)
class Plan:
    """What is to be done. Empty if nothing is new."""

    jobs: list[Job] = field(default_factory=list)
    gone: list[Known] = field(default_factory=list)
    back: list[Known] = field(default_factory=list)
    found: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.jobs or self.gone or self.back)


@dataclass(frozen=True, slots=True)
class Task:
    """A pack to write: picklable, so that a worker can do it."""

    lake: Path
    machine: str
    client: str
    pack: int
    jobs: tuple[Job, ...]
    now: int


@dataclass(slots=True)
class Outcome:
    """What became of one file."""

    known: Known | None  # None: it could not be read, and what was known of it stays
    row: SourceRow | None
    warnings: list[str]
    requests: int = 0
    projects: frozenset[str] = frozenset()
    calls: tuple[savings.Call, ...] = ()  # of retrieval tools


Progress = Callable[[int, int], None]  # bytes done, bytes in all


def run(options: Options, progress: Progress | None = None) -> RunReport:
    """Bring the lake up to date with the transcripts. Raises LakeError where nothing can be done."""
    started = time.perf_counter()
    manifest = Manifest(options.lake, options.machine)
    state = manifest.read()
    names = options.clients or clients.names()
    plan = make_plan(options, names, state.known if state else [])
    report = RunReport(found=plan.found, warnings=plan.warnings)
    is_ready = state is not None and not state.unfinished and state.meta.get("schema") == schema_version()
    notes = state.meta if state else {}
    is_quiet = is_ready and plan.empty and not savings.is_behind(options.lake, options.home, notes)
    if not is_quiet or inventory.questions(options.home, names, notes):
        with _workers(plan, options.jobs) as pool, lock(options.lake, options.wait_seconds):
            fresh = _prepare(options, manifest)
            if fresh.known != (state.known if state else []):  # another run was quicker
                plan = make_plan(options, names, fresh.known)
                report.warnings = plan.warnings
            _execute(options, manifest, fresh, plan, report, progress, pool)
    report.unchanged = report.found - report.read - report.failed
    report.seconds = time.perf_counter() - started
    return report


def _prepare(options: Options, manifest: Manifest) -> State:
    """Finish what a dead run left, and bring the lake's files to today's schema. Needs the lock."""
    state = manifest.read()
    if state is None:
        manifest.commit(rebuild_manifest(options.lake, options.machine), [])
    manifest.recover()
    sweep(options.lake, options.machine)
    state = manifest.read() or State([], {}, unfinished=False)
    if state.meta.get("schema") != schema_version():
        manifest.commit([], migrate(options.lake, options.machine), {"schema": schema_version()})
    if inventory.PROJECTS not in state.meta:
        found = inventory.projects_note(projects_of(options.lake, options.machine))
        manifest.note(**found)
        state.meta.update(found)
    return state


def make_plan(options: Options, names: Iterable[str], known: Sequence[Known]) -> Plan:
    """Compare what lies on disk with what is known of it."""
    plan = Plan()
    latest: dict[tuple[str, str], Known] = {}
    for source in known:
        key = (source.client, source.path)
        if key not in latest or source.generation > latest[key].generation:
            latest[key] = source
    for name in names:
        client = clients.load(name)
        present = set()
        for path in client.discover(options.home):
            plan.found += 1
            text = str(path)
            present.add(text)
            _look_at(plan, options, name, client.parser_version, path, latest.get((name, text)))
        missing = [s for (owner, text), s in latest.items() if owner == name and text not in present]
        # A file outside this home is not gone: only one that is not there any more is.
        plan.gone += [s for s in missing if s.gone_at is None and not os.path.lexists(s.path)]
    plan.warnings += options.home.unreadable
    options.home.unreadable.clear()
    plan.warnings += [f"{s.path}: the file is gone; its rows are kept" for s in plan.gone]
    return plan


def _look_at(plan: Plan, options: Options, name: str, version: int, path: Path, old: Known | None) -> None:
    try:
        status = path.stat()
    except OSError as error:
        plan.warnings.append(f"{path}: cannot be read: {error.strerror}")
        return
    text = str(path)
    if old and (old.size, old.mtime_ns) == (status.st_size, status.st_mtime_ns) and old.parser_version >= version:
        if old.gone_at is not None:
            plan.back.append(old)
        if not options.reread:
            return
    generation = old.generation if old else 0
    if old and old.size and _is_another(path, old, status.st_size):
        # What was read before stays in the lake under its own id: nothing is lost when a file is cut or replaced.
        plan.warnings.append(f"{path}: the file was cut or replaced; what was read before is kept")
        plan.gone.append(old)
        generation, old = generation + 1, None
    new = Known(
        source_id=source_id(options.machine, name, text, generation),
        client=name,
        path=text,
        generation=generation,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        head=None,
        parser_version=version,
        pack=-1,
        months=(),
        gone_at=None,
    )
    plan.jobs.append(Job(new, old))


def _is_another(path: Path, old: Known, size: int) -> bool:
    """Was the file cut, or does it begin with something else than what was read before?"""
    if size < old.size:
        return True
    if old.head is None:
        return False
    try:
        with path.open("rb") as file:
            return _head(file.read(min(_HEAD, old.size))) != old.head
    except OSError:
        return False  # the reader will say so


def _head(start: bytes) -> str:
    return hashlib.blake2b(start, digest_size=16).hexdigest()


def make_tasks(options: Options, known: Sequence[Known], plan: Plan, now: int) -> list[Task]:
    """Spread files over packs: a changed file stays in its own, new ones fill the last open pack, then new packs."""
    sizes: dict[tuple[str, int], int] = defaultdict(int)
    last: dict[str, int] = defaultdict(int)
    for source in known:
        sizes[source.client, source.pack] += source.size
        last[source.client] = max(last[source.client], source.pack)
    packs: dict[tuple[str, int], list[Job]] = defaultdict(list)
    new = {id(job): _first_time(job.known) for job in plan.jobs if not job.previous}
    for job in sorted(plan.jobs, key=lambda job: (job.known.client, new.get(id(job), ""), job.known.path)):
        name = job.known.client
        if job.previous:
            pack = job.previous.pack
        else:
            if sizes[name, last[name]] and sizes[name, last[name]] + job.known.size > PACK_BYTES:
                last[name] += 1
            pack = last[name]
            sizes[name, pack] += job.known.size
        job.known.pack = pack
        packs[name, pack].append(job)
    return [
        Task(options.lake, options.machine, name, pack, tuple(sorted(jobs, key=lambda job: job.known.source_id)), now)
        for (name, pack), jobs in packs.items()
    ]


_TIME = re.compile(rb'"timestamp"\s*:\s*"(\d{4}-\d\d-\d\dT[\d:]*)')


def _first_time(known: Known) -> str:
    """When a file's records begin, so that those of one month come to lie in one pack; else when it was changed."""
    try:
        with open(known.path, "rb", buffering=0) as file:
            found = _TIME.search(file.read(_HEAD))
    except OSError:
        found = None  # the reader will say so
    if found:
        return found[1].decode()
    return datetime.fromtimestamp(known.mtime_ns / 1e9, UTC).isoformat()


def _execute(
    options: Options,
    manifest: Manifest,
    state: State,
    plan: Plan,
    report: RunReport,
    progress: Progress | None,
    pool: Executor | None,
) -> None:
    now = time.time_ns() // 1000
    retrieval.tools()  # a bad table is told once, and not as the fault of each transcript
    _mark(options, manifest, plan, now)
    tasks = make_tasks(options, state.known, plan, now)
    projects = {client: set(paths) for client, paths in inventory.projects(state.meta).items()}
    total = sum(job.known.size for task in tasks for job in task.jobs)
    done = 0
    errors = []
    for task, result in _results(tasks, pool):
        if isinstance(result, LakeError):
            errors.append(result)
            continue
        outcomes, moves = result
        projects.setdefault(task.client, set()).update(*(o.projects for o in outcomes))
        moves = [*moves, *_account(options, task.client, outcomes, report, now)]
        manifest.commit([o.known for o in outcomes if o.known], moves, inventory.projects_note(projects))
        if not done:  # so that the views are made of all tables there will be
            _take_stock(options, manifest, report, now)
        make_current(options.lake)  # while other packs are still being made
        _tally(report, outcomes)
        done += sum(job.known.size for job in task.jobs)
        if progress:
            progress(done, total)
    _take_stock(options, manifest, report, now)
    report.gone = len(plan.gone)
    if errors:
        raise errors[0]


def _account(options: Options, client: str, outcomes: Sequence[Outcome], report: RunReport, now: int) -> list[Move]:
    """Count the calls of retrieval tools. Where the ledger cannot be written, their files are read again next time."""
    calls = [call for outcome in outcomes for call in outcome.calls]
    moves, problem = savings.account(options.lake, options.machine, client, calls, now)
    if problem is not None:
        report.warnings += [text for text in [str(problem)] if text not in report.warnings]
        for outcome in outcomes:
            if outcome.calls and outcome.known is not None:
                outcome.known.parser_version = -1
    return moves


def _take_stock(options: Options, manifest: Manifest, report: RunReport, now: int) -> None:
    """Read what lies beside the transcripts, where it changed: the clients' configuration, ledgers of usage.

    The configuration also where a session names a project that none named before.
    """
    state = manifest.read()
    asked = inventory.questions(options.home, options.clients or clients.names(), state.meta if state else {})
    told = inventory.update(options.lake, options.machine, manifest, asked, now)
    told += savings.copy_ledgers(options.lake, options.home, options.machine, manifest, now)
    report.warnings += [text for text in told if text not in report.warnings]


def _tally(report: RunReport, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        report.warnings += outcome.warnings
        report.requests += outcome.requests
        if outcome.row is None or outcome.known is None:
            report.failed += 1
            continue
        report.read += 1
        report.bytes_read += outcome.known.size
        report.lines += outcome.row.lines
        report.skipped_lines += outcome.row.skipped_lines


_Result = tuple[list[Outcome], list[Move]] | LakeError


def _results(tasks: Sequence[Task], pool: Executor | None) -> Iterator[tuple[Task, _Result]]:
    """Do the tasks, in worker processes if there are any, and yield them as they are done."""
    if pool is None:
        for task in tasks:
            yield task, _attempt(task)
        return
    from concurrent.futures import as_completed

    ordered = sorted(tasks, key=lambda task: -sum(job.known.size for job in task.jobs))
    futures = {pool.submit(_attempt, task): task for task in ordered}
    for future in as_completed(futures):
        yield futures.pop(future), future.result()


@contextmanager
def _workers(plan: Plan, jobs: int) -> Iterator[Executor | None]:
    """Worker processes where there is enough to read for them; they load what they need while the plan is made."""
    if jobs < 2 or sum(job.known.size for job in plan.jobs) < IN_PROCESS_BYTES:
        yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    methods = multiprocessing.get_all_start_methods()
    # No thread runs in this process yet, so a fork is safe where it exists, and far quicker than a new interpreter.
    method = "fork" if "fork" in methods and threading.active_count() == 1 else "spawn"
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(os.getpid(),)) as pool:
        for _ in range(jobs):
            pool.submit(_load)
        yield pool


def _load() -> None:
    """Import what writing a pack will need."""
    import pyarrow.parquet  # noqa: F401


def _start_worker(parent: int) -> None:
    """A worker ends when the main process does, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _attempt(task: Task) -> _Result:
    """Do a task; an error of the lake is a result, so that it crosses processes whole."""
    try:
        return do_task(task)
    except LakeError as error:
        return LakeError(error.message, hint=error.hint)
    except OSError as error:
        return LakeError(f"cannot write to the lake {task.lake}: {error.strerror or error}")


def do_task(task: Task) -> tuple[list[Outcome], list[Move]]:
    """Parse a pack's new files and write the pack under temporary names."""
    enabled = gc.isenabled()
    gc.disable()  # nothing here makes cycles, and the collector would walk millions of rows
    try:
        return _do_task(task)
    finally:
        if enabled:
            gc.enable()


def _do_task(task: Task) -> tuple[list[Outcome], list[Move]]:
    client = clients.load(task.client)
    read = [read_source(job, client, task.now) for job in task.jobs]
    try:
        moves = _write_pack(task, read)
    except (TypeError, ValueError, OverflowError):  # Arrow's errors, too: some row does not fit its table
        read = [(_vet(outcome, parsed), parsed) for outcome, parsed in read]
        moves = _write_pack(task, read)
    return [outcome for outcome, _ in read], moves


def _write_pack(task: Task, read: Sequence[tuple[Outcome, Parsed]]) -> list[Move]:
    good = [(outcome, parsed) for outcome, parsed in read if outcome.row is not None]
    rows: dict[str, list[Any]] = {"sources": [outcome.row for outcome, _ in good]}
    for table in PACKED:
        if table != "sources":
            rows[table] = [row for _, parsed in good for row in getattr(parsed, table)]
    months = {row.source_id: month_of(row.first_ts) or month_of(row.mtime) or "1970-01" for row in rows["sources"]}
    placed = {table: by_month(table, rows[table], months) for table in PACKED}
    touched = {
        month for job in task.jobs if job.previous and job.known.source_id in months for month in job.previous.months
    }
    writer = PackWriter(task.lake, task.client, task.machine, task.pack, frozenset(months))
    try:
        for table in PACKED:
            writer.write(table, placed[table], touched)
    except BaseException:
        writer.abandon()
        raise
    _remember_months(good, placed)
    return writer.moves


def _vet(outcome: Outcome, parsed: Parsed) -> Outcome:
    """An outcome without rows, if the rows of this file do not fit their tables."""
    if outcome.row is None or outcome.known is None:
        return outcome
    try:
        for table in PACKED:
            to_table(table, [outcome.row] if table == "sources" else getattr(parsed, table), "")
    except (TypeError, ValueError, OverflowError) as error:
        return Outcome(None, None, [f"{outcome.known.path}: not read: {error}"])
    return outcome


def _remember_months(read: Sequence[tuple[Outcome, Parsed]], placed: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for months in placed.values():
        for month, rows in months.items():
            for identity in {row.source_id for row in rows}:
                found[identity].add(month)
    for outcome, _ in read:
        if outcome.known:
            outcome.known.months = tuple(sorted(found[outcome.known.source_id]))


def read_source(job: Job, client: Client, now: int) -> tuple[Outcome, Parsed]:
    """Parse one file into rows. Whatever is wrong with it becomes a warning that names it."""
    known = job.known
    path = Path(known.path)
    report = Report()
    problem = None
    parsed = Parsed()
    sha256 = None
    try:
        with open_source(path) as stream:
            head, sha256 = _fingerprint(path, known.size)
            known.head = head
            parsed = client.parse(Source(path, known.source_id, known.size, known.mtime_ns), stream, report)
        for position, event in enumerate(parsed.context_events):
            event.position = position
    except OSError as error:
        return Outcome(None, None, [f"{path}: cannot be read: {error.strerror or error}"]), parsed
    except SourceError as error:
        problem = f"not read: {error.message}"
    except Exception as error:  # noqa: BLE001 - no input may end a run; the file is named and the run goes on
        problem = f"not read: {type(error).__name__}: {error}"
    if problem:
        if job.previous:  # what was read before is worth more than nothing
            return Outcome(None, None, [f"{path}: {problem}; what was read before is kept"]), Parsed()
        parsed = Parsed()
        report.warnings, report.dropped_warnings = [problem], 0  # that the whole file is none says it all
    row = _source_row(known, parsed, report, now, sha256)
    told = report.warnings[:TOLD_WARNINGS]
    more = len(report.warnings) + report.dropped_warnings - len(told)
    if more:
        told.append(f"and {more} more; see `agentlens sources`")
    projects = frozenset(session.project for session in parsed.sessions if session.project)
    calls = savings.find_calls(client.name, parsed)
    return Outcome(known, row, [f"{path}: {text}" for text in told], len(parsed.requests), projects, calls), parsed


def _source_row(known: Known, parsed: Parsed, report: Report, now: int, sha256: str | None) -> SourceRow:
    warnings = list(report.warnings)
    if report.dropped_warnings:
        warnings.append(f"and {report.dropped_warnings} more warnings")
    starts = [s.started_at for s in parsed.sessions if s.started_at is not None]
    ends = [s.ended_at for s in parsed.sessions if s.ended_at is not None]
    return SourceRow(
        source_id=known.source_id,
        path=known.path,
        client_version=parsed.client_version,
        size_bytes=known.size,
        mtime=known.mtime_ns // 1000,
        sha256=sha256,
        lines=report.lines,
        skipped_lines=report.skipped_lines,
        warnings=warnings,
        first_ts=min(starts, default=None),
        last_ts=max(ends, default=None),
        ingested_at=now,
        parser_version=known.parser_version,
    )


def _fingerprint(path: Path, size: int) -> tuple[str, str]:
    """The head's digest, and SHA-256 of the size, the first and the last 4 KiB."""
    with path.open("rb") as file:
        start = file.read(min(_EDGE, size))
        end = b""
        if size > _EDGE:
            file.seek(max(_EDGE, size - _EDGE))
            end = file.read(_EDGE)
    digest = hashlib.sha256(b"%d\n" % size)
    digest.update(start)
    digest.update(end)
    return _head(start[: min(_HEAD, size)]), digest.hexdigest()


def _mark(options: Options, manifest: Manifest, plan: Plan, now: int) -> None:
    """Write into the lake which files went and which came back. Their other rows stay as they are."""
    packs: dict[tuple[str, int], list[Known]] = defaultdict(list)
    for source in plan.gone:
        source.gone_at = source.gone_at or now
    for source in plan.back:
        source.gone_at = None
    for source in (*plan.gone, *plan.back):
        packs[source.client, source.pack].append(source)
    for (client, pack), members in packs.items():
        writer = PackWriter(options.lake, client, options.machine, pack, frozenset())
        writer.mark({s.source_id: s.gone_at for s in members}, {month for s in members for month in s.months})
        manifest.commit(members, writer.moves)
