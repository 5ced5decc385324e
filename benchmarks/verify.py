"""Compare a lake with the true totals of a made corpus, to the token, by client, model and UTC day.

    python -m benchmarks.verify LAKE CORPUS/expected.json

Prints each cell that differs; exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import duckdb

CLIENTS = {"claude": "claude-code", "codex": "codex"}  # name in expected.json -> client
FIELDS = {  # name in expected.json -> column of `requests`
    "requests": "n_requests",
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "cache_write_5m": "cache_write_5m_tokens",
    "cache_write_1h": "cache_write_1h_tokens",
    "reasoning": "reasoning_tokens",
}
Key = tuple[str, str, str]  # client, model, day
Cells = dict[str, int | None]


def expected(path: Path) -> dict[Key, Cells]:
    """The true totals."""
    rows = json.loads(path.read_text(encoding="utf-8"))["usage"]
    return {
        (CLIENTS[row["client"]], row["model"], row["day"]): {name: row[name] for name in FIELDS if name in row}
        for row in rows
    }


def found(lake: Path) -> dict[Key, Cells]:
    """What the lake says."""
    sums = ", ".join(f"sum({column})::bigint" for column in FIELDS.values())
    day = "strftime(ts at time zone 'UTC', '%Y-%m-%d')"
    with duckdb.connect(str(lake / "agentlens.duckdb"), read_only=True) as connection:
        rows = connection.execute(f"select client, model, {day}, {sums} from requests group by all").fetchall()
    return {(client, model, when): dict(zip(FIELDS, sums, strict=True)) for client, model, when, *sums in rows}


def differences(lake: Path, path: Path) -> list[str]:
    """One line a cell that is not as it must be."""
    want, got = expected(path), found(lake)
    lines = [f"{' '.join(map(str, key))}: not in the corpus" for key in sorted(got.keys() - want.keys(), key=str)]
    for key, cells in want.items():
        mine = got.get(key, {})
        lines += [
            f"{' '.join(key)} {name}: {mine.get(name)} instead of {value}"
            for name, value in cells.items()
            if mine.get(name) != value
        ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("lake", type=Path)
    parser.add_argument("expected", type=Path)
    args = parser.parse_args()
    wrong = differences(args.lake, args.expected)
    print("\n".join(wrong) or f"equal: {len(expected(args.expected))} groups of client, model and day")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
