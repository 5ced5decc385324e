"""Measure what is promised of speed and memory, on a made corpus, beside ccusage where it is installed.

    python -m benchmarks.bench --mb 500 --pairs 3 [--corpus DIR] [--ccusage PATH] [--json FILE]

Times are of whole processes, by the wall clock. Cold ingests and ccusage's reports take turns, first one, then the
other first, so that a noisy machine is noisy to both; the ratio is the median of the pairs'. Files are read once before
the first measurement: all runs find them in the page cache. Memory is measured in a run of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import verify

MIB = 1 << 20
PEER = "ccusage"  # npm package of the same name; the targets were set against 20.0.24


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result: what, how much, and what it should be."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    runs: list[float] = field(default_factory=list)

    @property
    def is_met(self) -> bool | None:
        return None if self.limit is None else self.value <= self.limit


class Bench:
    """Runs the program on one corpus and one lake."""

    def __init__(self, agentlens: Sequence[str], corpus: Path, work: Path) -> None:
        self.agentlens, self.corpus, self.work = agentlens, corpus, work
        self.lake = work / "lake"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AGENTLENS_", "CLAUDE_", "CODEX_"))
        }
        self.environ = kept | {"HOME": str(corpus), "XDG_CONFIG_HOME": str(work / "none"), "TZ": "UTC", "NO_COLOR": "1"}

    def seconds(self, command: Sequence[str]) -> float:
        """Wall time of a command that must succeed."""
        begun = time.perf_counter()
        done = subprocess.run(command, env=self.environ, cwd=self.work, capture_output=True, check=False)
        took = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode()[-2000:]}")
        return took

    def ingest(self) -> list[str]:
        return [*self.agentlens, "ingest", "--home", str(self.corpus), "--lake", str(self.lake), "--quiet"]

    def cold(self) -> float:
        shutil.rmtree(self.lake, ignore_errors=True)
        return self.seconds(self.ingest())

    def against(self, peer: str, pairs: int) -> list[Figure]:
        """Cold ingests and the peer's reports in turn."""
        report = [peer, "daily", "--json", "--offline"]
        mine, theirs = [], []
        for number in range(pairs):
            turns: list[Callable[[], None]] = [
                lambda: mine.append(self.cold()),
                lambda: theirs.append(self.seconds(report)),
            ]
            for turn in turns if number % 2 == 0 else reversed(turns):
                turn()
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        return [
            middle("cold ingest, Parquet written", mine),
            middle(f"{PEER} daily --json --offline", theirs),
            middle(f"cold ingest / {PEER}", ratios, unit="x", limit=1.0),
        ]

    def repeated(self, what: str, command: Sequence[str], times: int, limit: float | None) -> Figure:
        return middle(what, [self.seconds(command) for _ in range(times)], limit=limit)

    def appended(self, times: int) -> Figure:
        """A session grows, and somebody asks for a report."""
        path = middle_sized(self.corpus / ".claude" / "projects")
        report = [*self.agentlens, "skills", "--lake", str(self.lake), "--format", "csv", "--quiet"]
        runs = []
        with restored(path):
            for number in range(times):
                with path.open("ab") as file:
                    file.write(more(path, number))
                runs.append(self.seconds(self.ingest()) + self.seconds(report))
        return middle("one session appended, then `skills`", runs, limit=0.6)

    def memory(self) -> list[Figure]:
        """Peak of a cold ingest: of its largest process, and of all together (sampled, shared pages counted once)."""
        shutil.rmtree(self.lake, ignore_errors=True)
        process = subprocess.Popen(self.ingest(), env=self.environ, cwd=self.work, start_new_session=True)
        together = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            together = max(together, proportional_set(process.pid))
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        figures = [Figure("peak memory, largest process", usage.ru_maxrss * 1024 / MIB, "MiB", 300.0)]
        if together:
            figures.append(Figure("peak memory, all processes", together / MIB, "MiB", 1024.0))
        return figures


def middle(what: str, runs: list[float], *, unit: str = "s", limit: float | None = None) -> Figure:
    return Figure(what, statistics.median(runs), unit, limit, runs)


def proportional_set(session: int) -> int:
    """Bytes of all processes of a session; 0 where /proc does not tell."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except (OSError, IndexError, ValueError):
            continue  # it has ended, or is not ours to look at
    return total


def middle_sized(root: Path) -> Path:
    """A main session's file of the median size."""
    paths = sorted((p for p in root.glob("*/*.jsonl") if p.stat().st_size), key=lambda p: (p.stat().st_size, p))
    return paths[len(paths) // 2]


def more(path: Path, number: int) -> bytes:
    """The last responses of a transcript once more, as new ones."""
    lines = []
    for line in path.read_bytes().splitlines()[-40:]:
        row = json.loads(line)
        if row.get("type") == "assistant" and "uuid" in row:
            row["uuid"] += f"-{number}"
            row["message"]["id"] += f"-{number}"
            row["requestId"] = row["message"]["id"]
            lines.append(json.dumps(row).encode() + b"\n")
    return b"".join(lines)


@contextmanager
def restored(path: Path) -> Iterator[None]:
    """Leave a file as it was found."""
    before = path.stat()
    try:
        yield
    finally:
        os.truncate(path, before.st_size)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def make(corpus: Path, megabytes: float, seed: int) -> None:
    script = [sys.executable, "-m", "benchmarks.make_corpus", str(corpus), "--mb", str(megabytes), "--seed", str(seed)]
    subprocess.run(script, cwd=Path(__file__).parent.parent, check=True)


def measure(bench: Bench, peer: str | None, pairs: int) -> list[Figure]:
    files = [p for p in bench.corpus.rglob("*.jsonl") if p.is_file()]
    for path in files:
        path.read_bytes()  # into the page cache
    bench.cold()  # the first run compiles the byte code
    if peer:
        figures = bench.against(peer, pairs)
    else:
        figures = [middle("cold ingest, Parquet written", [bench.cold() for _ in range(pairs)])]
    wrong = verify.differences(bench.lake, bench.corpus / "expected.json")
    if wrong:
        raise SystemExit("the totals are wrong, so the times say nothing:\n" + "\n".join(wrong[:20]))
    figures.append(bench.repeated(f"ingest with nothing new, {len(files)} files", bench.ingest(), 9, 0.15))
    figures.append(bench.appended(5))
    figures.append(bench.repeated("agentlens --help", [*bench.agentlens, "--help"], 9, 0.15))
    figures.append(bench.repeated("python -c pass", [sys.executable, "-c", "pass"], 9, None))
    return figures + bench.memory()


def table(figures: Sequence[Figure]) -> str:
    marks = {True: "met", False: "MISSED", None: ""}
    lines = [f"{'what':<44}{'median':>10}     {'to reach':>8}"]
    for figure in figures:
        limit = "" if figure.limit is None else f"{figure.limit:g}"
        line = f"{figure.what:<44}{figure.value:>10.3f} {figure.unit:<4}{limit:>8}  {marks[figure.is_met]}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--mb", type=float, default=500.0, help="size of the corpus, in MB (default 500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=3, help=f"cold ingests, each beside a run of {PEER} (default 3)")
    parser.add_argument("--corpus", type=Path, help="a corpus that make_corpus wrote; made here if it does not exist")
    parser.add_argument("--ccusage", default=shutil.which(PEER), help=f"the {PEER} program (default: the one on PATH)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    installed = Path(sys.executable).with_name("agentlens")
    agentlens = [str(installed)] if installed.exists() else [sys.executable, "-m", "pipeline"]
    with tempfile.TemporaryDirectory(prefix="agentlens-bench-") as folder:
        corpus = (args.corpus or Path(folder) / "corpus").resolve()
        if not (corpus / "expected.json").exists():
            make(corpus, args.mb, args.seed)
        (Path(folder) / "work").mkdir()
        figures = measure(Bench(agentlens, corpus, Path(folder) / "work"), args.ccusage, args.pairs)
    print(table(figures))
    if not args.ccusage:
        print(f"{PEER} is not installed: no comparison")
    if args.json:
        machine = {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}
        result = {"machine": machine, "figures": [asdict(f) | {"is_met": f.is_met} for f in figures]}
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
