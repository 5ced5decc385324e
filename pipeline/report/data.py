"""What the page shows, asked of the views. Sums over groups are made in SQL; a table holds a bounded number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline import contracts
from pipeline.contracts import ViewColumn
from pipeline.report.tables import Table, chosen, of_view, table

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.warehouse import Warehouse, Window

Row = dict[str, Any]

TOP = 20  # rows of a table by size
MODELS = 30
SERIES = 8  # models with a colour of their own
PERIODS = (("day", 186), ("week", 186), ("month", 1200))  # the first that gives no more of them than so many
POINTS = 240  # stretches of a session's flow, each of which has a point
COMPACTIONS = 100  # of a session, that are drawn
MONEY = ("measured_usd", "estimated_usd")
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_SUMS = ("requests", *MONEY, *_TOKENS, "unpriced_requests", "requests_without_usage")
_IDLE = (
    "item_kind", "item", "client", "project", "verdict", "requests", "month_spared_tokens", "month_spared_usd",
    "request_spared_tokens", "request_spared_usd", "idle_cost", "idle_usd", "tokens", "evidence", "last_used_at",
)  # fmt: skip
_REWRITES = (
    "ts", "client", "project", "session_id", "model", "cause", "gap_seconds", "rewritten_tokens", "extra_usd",
)  # fmt: skip
_UNPRICED = ("client", "model", "model_id", "requests", "tokens", *_TOKENS, "last_used_at")


@dataclass(frozen=True, slots=True)
class Flow:
    """A session, and those of its requests that are drawn."""

    session: Row
    points: list[Row]

    @property
    def n_requests(self) -> int:
        return int(self.points[0]["n_requests"]) if self.points else 0

    @property
    def n_compactions(self) -> int:
        return int(self.points[0]["n_compactions"]) if self.points else 0


@dataclass(frozen=True, slots=True)
class Spend:
    """What was spent: all together, by period, by model, and by both for the charts."""

    period: str
    total: Row
    complete: dict[str, bool]  # is a sum of `total` that of all models, or are there some of which nothing is known
    by_period: Table
    by_model: Table
    by_both: list[Row]
    series: list[str]


class Asked:
    """The views of a lake in a window, each asked once."""

    def __init__(self, warehouse: Warehouse, window: Window) -> None:
        self._warehouse = warehouse
        self._window = window
        self.timezone = window.timezone or "UTC"

    def _select(self, text: str, values: Sequence[Any] | None = None, by: str = "day") -> pa.Table:
        window = replace(self._window, options={**self._window.options, "by": by})
        return self._warehouse.ask(text, window, values).table()

    def _rows(self, text: str, values: Sequence[Any] | None = None) -> list[Row]:
        rows: list[Row] = self._select(text, values).to_pylist()
        return rows

    def _table(self, name: str, columns: Sequence[ViewColumn], text: str) -> Table:
        batches = self._warehouse.ask(text, self._window).batches()
        return table(name, columns, batches, limit=TOP, timezone=self.timezone)

    def of_view(self, name: str, names: Sequence[str] | None = None, *, order: str = "", limit: int = TOP) -> Table:
        """The first rows of a view, in its own order if none is given, and the totals of all."""
        contract = contracts.load(name)
        shown = names or [column.name for column in contract.columns if not column.is_flag]
        order = order or ", ".join(contract.order or contract.grain)
        text = f"select {', '.join(chosen(contract, shown))} from main.{name} order by {order}"
        batches = self._warehouse.ask(text, self._window).batches()
        return of_view(contract, shown, batches, limit=limit, timezone=self.timezone)

    # --- what was spent ------------------------------------------------------------------------------------------

    def spend(self) -> Spend:
        """Sums of `usage`: each is one of the view's own, over the rows of a period or model."""
        import pyarrow.compute as pc

        for period, most in PERIODS:
            sums = self._select(_SPEND, by=period)
            parts = {kind: sums.filter(pc.equal(sums["kind"], kind)) for kind in ("all", "period", "model", "both")}
            if parts["period"].num_rows <= most:
                break
        of_usage = {column.name: column for column in contracts.load("usage").columns}
        columns = [of_usage[name] for name in _SUMS]

        def grouped(kind: str, keys: Sequence[ViewColumn], order: Sequence[tuple[str, str]], limit: int) -> Table:
            rows = parts[kind].sort_by(order).select([column.name for column in (*keys, *columns)])
            return table("usage", (*keys, *columns), rows.to_batches(), limit=limit, timezone=self.timezone)

        by_period = grouped("period", [of_usage["day"]], [("day", "descending")], PERIODS[-1][1])
        by_period.headings[0] = replace(by_period.headings[0], text=period)
        order = [("tokens", "descending"), ("model", "ascending"), ("client", "ascending")]
        by_model = grouped("model", [of_usage["model"], of_usage["client"]], order, MODELS)
        both: list[Row] = parts["both"].to_pylist()
        complete = {column.name: not parts["model"][column.name].null_count for column in columns}
        return Spend(period, parts["all"].to_pylist()[0], complete, by_period, by_model, both, _series(both))

    # --- how contexts grew ---------------------------------------------------------------------------------------

    def flows(self, sessions: int) -> list[Flow]:
        """The sessions whose requests carried the most, and of each the requests that are drawn."""
        carried = "input_tokens + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0)"
        largest = self._rows(
            f"select *, {carried} as carried_tokens from main.sessions where max_context_tokens is not null"
            f" order by carried_tokens desc nulls last, client, session_id limit {int(sessions)}"
        )
        if not largest:
            return []
        ids = [row["session_id"] for row in largest]
        points = self._rows(_FLOW.format(ids=", ".join("?" * len(ids))), ids)
        return [Flow(row, [p for p in points if _session(p) == _session(row)]) for row in largest]

    # --- what is carried -----------------------------------------------------------------------------------------

    def overhead(self) -> Table:
        """Items by what carrying them came to, over all projects."""
        of_context = {column.name: column for column in contracts.load("context").columns}
        columns = [
            *(of_context[name] for name in ("item_kind", "item", "client")),
            ViewColumn("projects", "BIGINT", "projects whose sessions carried it", "projects", "always"),
            # Of requests there is no total: one carries many items.
            *(replace(of_context[name], total=False) for name in ("requests", "unpriced_requests")),
            of_context["unsized_items"],
            replace(of_context["tokens"], name="size_tokens", doc="latest size; the largest of its projects"),
            *(of_context[name] for name in ("overhead_tokens", "overhead_usd", "tokens_measured", "overhead_measured")),
        ]
        return self._table("context", columns, _OVERHEAD)

    def idle(self) -> Table:
        return self.of_view("idle", _IDLE)

    # --- cache rewrites, prices, sources ---------------------------------------------------------------------------

    def rewrites(self) -> tuple[Table, Table]:
        """Prefixes written again: sums by cause, and the largest."""
        import pyarrow.compute as pc

        contract = contracts.load("cache_rewrites")
        rows = self._select(
            f"select {', '.join(_REWRITES)} from main.cache_rewrites"
            " order by rewritten_tokens desc, ts desc, client, session_id, seq"
        )
        largest = of_view(contract, _REWRITES, rows.to_batches(), limit=TOP, timezone=self.timezone)
        no_sum_of_nothing = pc.ScalarAggregateOptions(min_count=1)
        sums = (
            rows.group_by("cause")
            .aggregate([([], "count_all"), ("rewritten_tokens", "sum"), ("extra_usd", "sum", no_sum_of_nothing)])
            .select(["cause", "count_all", "rewritten_tokens_sum", "extra_usd_sum"])
            .rename_columns(["cause", "rewrites", "rewritten_tokens", "extra_usd"])
            .sort_by([("rewritten_tokens", "descending"), ("cause", "ascending")])
        )
        columns = [
            contract.column("cause"),
            ViewColumn("rewrites", "BIGINT", "prefixes written again", "rewrites", "always", total=True),
            replace(contract.column("rewritten_tokens"), total=True),
            replace(contract.column("extra_usd"), total=True),
        ]
        by_cause = table("cache_rewrites", columns, sums.to_batches(), limit=TOP, timezone=self.timezone)
        return by_cause, largest

    def unpriced(self) -> Table:
        return self.of_view("unpriced", _UNPRICED)

    def savings(self) -> Table | None:
        """The view `savings`, where there is one."""
        return self.of_view("savings") if "savings" in contracts.public_names() else None

    def warnings(self) -> tuple[Row, Table]:
        """How many sources there are and have something to say, and those of the last kind."""
        known = {column.name: column for column in contracts.load("sources").columns}
        columns = [
            *(replace(known[name], total=False) for name in ("path", "client", "lines", "skipped_lines")),
            ViewColumn("said", "VARCHAR", "the first warnings", None, None, "none"),
            known["gone_at"],
        ]
        counts = self._rows(
            "select count(*) as sources, count(gone_at) as gone, cast(sum(skipped_lines) as bigint) as skipped_lines,"
            " count(*) filter (where len(warnings) > 0) as warned from main.sources"
        )[0]
        return counts, self._table("sources", columns, _WARNED)


def _summed(name: str) -> str:
    return f"sum({name}) as {name}" if name in MONEY else f"cast(sum({name}) as bigint) as {name}"


def _session(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row["client"], row["session_id"]


def _series(rows: Sequence[Row]) -> list[str]:
    """Models by their tokens, the largest first; n/a is one of them."""
    tokens: dict[str, int] = {}
    for row in rows:
        name = model_of(row)
        tokens[name] = tokens.get(name, 0) + sum(row[column] or 0 for column in _TOKENS)
    return sorted(tokens, key=lambda name: (-tokens[name], name))


def model_of(row: Mapping[str, Any]) -> str:
    """The model's name, also where none is recorded."""
    return "model n/a" if row["model"] is None else str(row["model"])


_SPEND = f"""
select
    case grouping_id(day, client, model) when 0 then 'both' when 3 then 'period' when 4 then 'model' else 'all' end
        as kind,
    day,
    client,
    model,
    {", ".join(map(_summed, _SUMS))},
    cast({" + ".join(f"coalesce(sum({name}), 0)" for name in _TOKENS)} as bigint) as tokens
from main.usage
group by grouping sets ((day, client, model), (day), (client, model), ())
order by day, client, model
"""

# The requests of a session are cut into stretches of equal length; of each the one with the largest
# context is drawn. First and last are, too, and each compaction with the request before it.
_FLOW = f"""
with requests as (
    select * from main.flow where session_id in ({{ids}})
),
numbered as (
    select
        *,
        ntile({POINTS}) over session as stretch,
        row_number() over session as place,
        lead(is_compacted, 1, false) over session as is_before_compaction,
        sum(cast(is_compacted as integer)) over (session rows between unbounded preceding and 1 following) as so_far,
        count(*) over (partition by client, session_id) as n_requests,
        sum(cast(is_compacted as integer)) over (partition by client, session_id) as n_compactions
    from requests
    window session as (partition by client, session_id order by seq)
),
ranked as (
    select
        *,
        row_number() over (partition by client, session_id, stretch order by context_tokens desc nulls last, seq)
            as rank_in_stretch
    from numbered
)
select * exclude (stretch, rank_in_stretch)
from ranked
where rank_in_stretch = 1 or place = 1 or place = n_requests
    or ((is_compacted or is_before_compaction) and so_far <= {COMPACTIONS})
order by client, session_id, seq
"""

_OVERHEAD = """
select
    item_kind,
    item,
    client,
    count(distinct coalesce(project, '')) as projects,
    cast(sum(requests) as bigint) as requests,
    cast(sum(unpriced_requests) as bigint) as unpriced_requests,
    cast(sum(unsized_items) as bigint) as unsized_items,
    max(tokens) as size_tokens,
    cast(sum(overhead_tokens) as bigint) as overhead_tokens,
    sum(overhead_usd) as overhead_usd,
    coalesce(bool_and(tokens_measured), false) as tokens_measured,
    coalesce(bool_and(overhead_measured), false) as overhead_measured
from main.context
group by item_kind, item, client
order by overhead_tokens desc nulls last, client, item_kind, item
"""

_WARNED = """
select
    path,
    client,
    lines,
    skipped_lines,
    nullif(concat(
        array_to_string(warnings[1:3], '; '),
        case when len(warnings) > 3 then concat('; and ', len(warnings) - 3, ' more') else '' end
    ), '') as said,
    gone_at
from main.sources
where skipped_lines > 0 or gone_at is not null or len(warnings) > 0
order by skipped_lines desc, len(warnings) desc, gone_at desc nulls last, path, source_id
"""
