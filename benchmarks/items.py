"""Time and memory of the item views on a lake of many requests, each session with many items: a process a view.

    python -m benchmarks.items [--requests 1000000] [--sessions 5000] [--items 200] [--lake FOLDER] [VIEW ...]

The lake is written by SQL: sessions of equal length, every item listed before the first request, a third of the
sessions compacted in the middle and told all of it again, ten skill bodies loaded along the way.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from pipeline import schema
from pipeline.warehouse import DUCKDB_TYPES, refresh

_MONTH = "2026-06"
_ROWS = {
    "sessions": """
        select 's' || i as session_id, 'f' || i as source_id, '/home/ada/project-' || i % 40 as project,
            false as is_subagent, '2.1.' || i % 5 as client_version, {start} as started_at
        from range({sessions}) as t(i)""",
    "requests": """
        select 's' || i as session_id, 'f' || i as source_id, 'r' || i || '-' || j as request_id, j as seq,
            {start} + to_seconds(20 * j) as ts, '/home/ada/project-' || i % 40 as project, 1 as n_requests,
            case when i % 7 = 0 then 'claude-opus-4-5' else 'claude-sonnet-4-5' end as model, 10 as input_tokens,
            500 as output_tokens, 20000 + 100 * j as cache_read_tokens, 600 as cache_write_tokens,
            600 as cache_write_5m_tokens, 0 as cache_write_1h_tokens, 20610 + 100 * j as context_tokens,
            false as is_subagent, false as is_output_partial, 0 as copy_rank
        from range({sessions}) as t(i), range({per_session}) as u(j)""",
    "context_events": """
        with lists as (
            select i, 0 as seq, 0 as position from range({sessions}) as t(i)
            union all
            select i, {per_session} // 2, 5000 from range({sessions}) as t(i) where i % 3 = 0
        )
        select 's' || i as session_id, 'f' || i as source_id, 'e' || i || '-' || position + k as event_id, seq,
            {start} + to_seconds(20 * seq) as ts, position + k as position, 'listed' as event,
            case when k % 10 < 6 then 'skill' when k % 10 < 9 then 'tool' else 'agent' end as item_kind,
            'item-' || k as item, 200 + k as chars, md5('text ' || k) as sha256
        from lists, range(1, {items} + 1) as u(k)
        union all
        select 's' || i, 'f' || i, 'c' || i, seq, {start} + to_seconds(20 * seq), position, 'compacted', null, null,
            3000, null
        from lists where seq > 0
        union all
        select 's' || i, 'f' || i, 'b' || i || '-' || k, {per_session} * k // 12, {start} + to_seconds(20 * k),
            10000 + k, 'loaded', 'skill_body', 'item-' || 10 * k, 6000, md5('body ' || k)
        from range({sessions}) as t(i), range(1, 11) as u(k)""",
}


def make(lake: Path, requests: int, sessions: int, items: int) -> None:
    """Write the lake's Parquet files and its views."""
    numbers = {"sessions": sessions, "per_session": requests // sessions, "items": items}
    start = "timestamptz '2026-06-01 08:00:00+00' + to_seconds(400 * i)"
    with duckdb.connect() as connection:
        for table, text in _ROWS.items():
            rows = text.format(start=start, **numbers)
            folder = lake / table / "client=claude-code" / f"month={_MONTH}"
            folder.mkdir(parents=True)
            columns = schema.columns(table)
            typed = ", ".join(f"cast(null as {DUCKDB_TYPES[column.type]}) as {column.name}" for column in columns)
            empty = f"select {typed} where false"
            common = f"select *, 'bench' as machine from ({rows})"
            connection.execute(
                f"copy ({empty} union all by name {common}) to '{folder / 'bench.parquet'}' (compression zstd)"
            )
    refresh(lake)


def measure(lake: Path, view: str) -> tuple[float, float, float]:
    """Seconds of wall time, of processor time, and MiB at the peak, of a process that writes the view as CSV."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pipeline", view, "--lake", str(lake), "-f", "csv", "-o", f"{folder}/x.csv"]
        with subprocess.Popen(command) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{view} failed")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Make the lake where it is not there yet, then time the views."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--lake", type=Path, help="keep the lake here")
    parser.add_argument("views", nargs="*", default=["context", "skills", "idle"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        lake = chosen.lake or Path(scratch) / "lake"
        if not lake.exists():
            make(lake, chosen.requests, chosen.sessions, chosen.items)
        refresh(lake)
        for view in chosen.views:
            runs = [measure(lake, view) for _ in range(3)]
            wall, processor, memory = (min(run[i] for run in runs) for i in range(3))
            print(f"{view:16} {wall:6.2f} s, {processor:6.2f} s of processor time, {memory:7.0f} MiB")


if __name__ == "__main__":
    main()
