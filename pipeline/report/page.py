"""The page: what was asked, in a template that escapes everything, with a policy under which nothing else can run."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipeline import __version__
from pipeline.contracts import ViewColumn
from pipeline.estimator import CHARS4, sentence
from pipeline.export.columns import clean
from pipeline.export.marks import count, money
from pipeline.report import charts
from pipeline.report.data import COMPACTIONS, MONEY, POINTS, SERIES, TOP, Asked, Flow, Row, Spend, model_of
from pipeline.report.tables import Table, table

if TYPE_CHECKING:
    import jinja2

    from pipeline.warehouse import Warehouse, Window

_FOLDER = Path(__file__).resolve().parent
_OTHERS = "other models"
_ADDED = ("tool_result", "prompt", "skill_body", "instruction", "listing", "attachment")
_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asked for beside the window."""

    title: str = "AgentLens report"
    sessions: int = 5


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing and the sentence that says what it shows."""

    svg: str
    says: str


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the section on contexts."""

    heading: str
    facts: str
    drawn: str
    chart: Chart | None
    points: Table


def write(warehouse: Warehouse, window: Window, wanted: Wanted, now: datetime) -> bytes:
    """The report of a window as one page of HTML. Raises ConfigError if a library of the extra is missing."""
    template = _template()
    css, script = _read("page.css"), _read("page.js")
    asked = Asked(warehouse, window)
    estimator = window.options.get("estimator", CHARS4)
    said = sentence(warehouse, estimator)
    spend = asked.spend()
    sources, warned = asked.warnings()
    overhead = asked.overhead()
    rewrites_by_cause, rewrites = asked.rewrites()
    page = template.render(
        title=clean(wanted.title),
        css=css,
        script=script,
        policy=_policy(css, script),
        version=__version__,
        made=_moment(now, asked.timezone),
        window=_window(window),
        timezone=asked.timezone,
        said=said,
        estimator=estimator,
        is_empty=not spend.total["requests"],
        facts=_facts(spend),
        spend=spend,
        spend_charts=[_spend_chart(spend, column) for column in MONEY],
        series=SERIES,
        sessions=[_session(flow, asked.timezone) for flow in asked.flows(wanted.sessions)],
        points=POINTS,
        compactions=COMPACTIONS,
        top=TOP,
        overhead=overhead,
        overhead_chart=_overhead_chart(overhead),
        idle=asked.idle(),
        rewrites_by_cause=rewrites_by_cause,
        rewrites=rewrites,
        savings=asked.savings(),
        unpriced=asked.unpriced(),
        sources=sources,
        warned=warned,
        count=lambda value: count(value, measured=True),
    )
    return page.encode("utf-8")


def _template() -> jinja2.Template:
    try:
        import jinja2
    except ImportError:
        raise charts.missing("jinja2") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(css: str, script: str) -> str:
    """Nothing is loaded, and nothing runs but the page's own style and script, which their digests name."""
    style, run = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode() for text in (css, script))
    parts = ("default-src 'none'", f"script-src 'sha256-{run}'", f"style-src 'sha256-{style}'")
    return "; ".join((*parts, "base-uri 'none'", "form-action 'none'"))


# --- words ---------------------------------------------------------------------------------------------------------


def _moment(moment: datetime, timezone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(timezone)):%Y-%m-%d %H:%M}"


def _window(window: Window) -> str:
    """The window in words."""
    zone = window.timezone or "UTC"
    begin = f"from {_moment(window.since, zone)}" if window.since else ""
    end = f"before {_moment(window.until, zone)}" if window.until else ""
    clients = f"of {', '.join(window.clients)}" if window.clients else ""
    project = f"in the project {clean(window.project)}" if window.project else ""
    return " ".join(filter(None, ("All requests", clients, project, begin, end)))


_FACTS = {
    "requests": "requests",
    "measured_usd": "cost that clients reported",
    "estimated_usd": "cost by usage x price table",
    "input_tokens": "input tokens, not cached",
    "output_tokens": "output tokens",
    "cache_read_tokens": "tokens read from the cache",
    "cache_write_tokens": "tokens written to the cache",
    "unpriced_requests": "requests without a price",
    "requests_without_usage": "requests without usage",
}


def _facts(spend: Spend) -> list[tuple[str, str]]:
    """The sums of all, each with its mark: one of which some model's part is not known is not marked measured."""
    return [(words, _total(spend, name)) for name, words in _FACTS.items()]


def _total(spend: Spend, name: str) -> str:
    written = money if name in MONEY else count
    return written(spend.total[name], measured=spend.complete[name] and name != MONEY[1])


# --- charts --------------------------------------------------------------------------------------------------------


def _spend_chart(spend: Spend, column: str) -> Chart | None:
    """The money of one column over time, by model; None where there is none."""
    is_measured = column == MONEY[0]
    shown = spend.series if len(spend.series) <= SERIES else spend.series[:SERIES]
    rows = [row for row in spend.by_both if row[column] is not None and row["day"] is not None]
    sums: dict[tuple[str, str], float] = {}
    for row in rows:
        name = model_of(row) if model_of(row) in shown else _OTHERS
        sums[row["day"], name] = sums.get((row["day"], name), 0.0) + row[column]
    if not any(sums.values()):
        return None
    names = {name: charts.label(name) for name in (*shown, _OTHERS)}
    order = [name for name in (*shown, _OTHERS) if any(series == name for _, series in sums)]
    labels = charts.distinct([names[name] for name in order])
    colours = {name: i for i, name in enumerate((*shown, _OTHERS))}
    bars = []
    for period in sorted({period for period, _ in sums}):
        begin, end = _stretch(period, spend.period)
        low = 0.0
        for name, shown_name in zip(order, labels, strict=True):
            value = sums.get((period, name))
            if value:
                says = charts.harmless(f"{period}, {name}: {money(value, measured=is_measured)}")
                bars.append(charts.Bar(begin, end, low, low + value, shown_name, says))
                low += value
    places = [colours[name] if name != _OTHERS else len(charts.COLOURS) for name in order]
    mark = "" if is_measured else "~"
    word = "measured" if is_measured else "estimated"
    svg = charts.draw(charts.spend(bars, labels, places, mark=mark, axis=f"{word} USD a {spend.period}"))
    says = (
        f"Bars: {word} cost by {spend.period} and model, {_total(spend, column)} in all. Tables below hold the numbers."
    )
    return Chart(svg, says)


def _stretch(period: str, kind: str) -> tuple[int, int]:
    """Where a period begins and ends in a chart, in ms; a month is written 2026-11."""
    day = date.fromisoformat(f"{period}-01" if len(period) == 7 else period)
    if kind == "month":
        after = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        after = day + timedelta(days=7 if kind == "week" else 1)
    begin, end = (int(datetime(d.year, d.month, d.day, tzinfo=UTC).timestamp() * 1000) for d in (day, after))
    return begin + (end - begin) // 20, end - (end - begin) // 20


def _overhead_chart(overhead: Table) -> Chart | None:
    heads = [heading.text for heading in overhead.headings]
    place = heads.index("overhead tokens")
    bars: list[charts.Length] = []
    for row in overhead.rows:
        cell = row[place]
        if cell.raw is None or isinstance(cell.raw, str) or not cell.raw:
            continue
        kind, name, client = (cell.text for cell in row[:3])
        words = charts.harmless(f"{name}, {kind}, {client}: {cell.text} tokens")
        shown = f"{charts.label(name, 34)} · {kind} · {client}"
        bars.append(charts.Length(shown, cell.raw, cell.mark != "estimated", words))
    if not bars:
        return None
    svg = charts.draw(charts.lengths(bars, axis="tokens carried: size x requests"))
    return Chart(svg, f"Bars: what carrying the {len(bars)} largest items came to. The table below holds the numbers.")


def _session(flow: Flow, timezone: str) -> Session:
    row = flow.session
    name = clean(row["title"] or row["project"] or row["session_id"])
    heading = name if len(name) <= 80 else f"{name[:79]}…"
    begun = _moment(row["started_at"], timezone) if row["started_at"] else "n/a"
    spent = [money(row[column], measured=column == MONEY[0]) for column in MONEY]
    facts = (
        f"{row['client']}, session {row['session_id']}, project {row['project'] or 'n/a'}, begun {begun}: "
        f"{count(row['requests'], measured=True)} requests, largest context "
        f"{count(row['max_context_tokens'], measured=True)} tokens, {_compactions(flow)}; "
        f"measured {spent[0]}, estimated {spent[1]}"
    )
    points = [
        charts.Point(p["seq"], p["context_tokens"], p["is_compacted"], charts.harmless(_point_says(p)))
        for p in flow.points
    ]
    chart = None
    if any(point.tokens is not None for point in points):
        says = (
            f"Line: the context of {flow.n_requests:,} requests of the session {heading}, at most "
            f"{count(row['max_context_tokens'], measured=True)} tokens, with {_compactions(flow)} "
            "(dashed lines). The table below holds the points."
        )
        chart = Chart(charts.draw(charts.flow(points)), clean(says))
    drawn = f"{len(points):,} of {flow.n_requests:,} requests are drawn"
    return Session(heading, clean(facts), drawn, chart, _points(flow, timezone))


def _compactions(flow: Flow) -> str:
    return f"{flow.n_compactions:,} compaction{'' if flow.n_compactions == 1 else 's'}"


def _point_says(point: Row) -> str:
    context = count(point["context_tokens"], measured=True)
    compacted = ", compacted before it" if point["is_compacted"] else ""
    return f"request {point['seq']:,}: {context} tokens{compacted}"


def _points(flow: Flow, timezone: str) -> Table:
    """What is drawn, as a table."""
    import pyarrow as pa

    from pipeline.contracts import load

    added = (f"{name}_tokens" for name in _ADDED)
    names = ("seq", "ts", "model", "is_compacted", "context_tokens", "delta", "output_tokens", *added)
    contract = load("flow")
    kinds = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "BOOLEAN": pa.bool_()}
    columns: list[ViewColumn] = [contract.column(name) for name in (*names, "unexplained_tokens")]
    schema = pa.schema([(c.name, kinds.get(c.type, pa.timestamp("us", tz="UTC"))) for c in columns])
    rows = [{c.name: point[c.name] for c in columns} for point in flow.points]
    batches = pa.Table.from_pylist(rows, schema=schema).to_batches()
    return table("flow", columns, batches, limit=len(rows), timezone=timezone, totals=False)
