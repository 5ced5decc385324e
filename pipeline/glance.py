"""What `agentlens` alone shows: the last days in a few tables, as SQL over the public views.

Sums over models are made of requests, not of sums, so that one of which a part is not known is not called measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.contracts import ViewColumn

DAYS = 30


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the glance. `more` is the command that shows all of it."""

    title: str
    sql: str
    columns: tuple[ViewColumn, ...]
    keys: tuple[str, ...]
    most: int
    more: str


# The window holds for all of these.
HEAD = """
    select
        (select count(*) from sessions where requests > 0) as sessions,
        cast(coalesce(sum(requests), 0) as bigint) as requests,
        cast(coalesce(sum(requests_without_usage), 0) as bigint) as requests_without_usage
    from usage
"""
UNPRICED = "select distinct coalesce(model, 'n/a') as model from unpriced order by 1"
# And for this one none does.
LATEST = "select max(last_ts) as last_ts, max(ingested_at) as ingested_at from sources"


def _tokens(name: str) -> tuple[ViewColumn, ViewColumn]:
    count = ViewColumn(name, "BIGINT", "", unit="tokens", measured=f"{name}_measured", null="not recorded", total=True)
    return count, ViewColumn(f"{name}_measured", "BOOLEAN", "")


_CATEGORIES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_COUNTS, _FLAGS = zip(*map(_tokens, _CATEGORIES), strict=True)
_SUMS = ", ".join(f"cast(sum({name}) as bigint) as {name}" for name in _CATEGORIES)
_ARE_MEASURED = ", ".join(f"bool_and({name} is not null) as {name}_measured" for name in _CATEGORIES)

MODELS = Table(
    title="By client and model",
    sql=f"""
        with tokens as (
            select client, model, {_SUMS}, {_ARE_MEASURED} from requests group by client, model
        ),

        counted as (
            select
                client,
                model,
                cast(sum(requests) as bigint) as requests,
                cast(sum(unpriced_requests) as bigint) as unpriced_requests,
                sum(measured_usd) as measured_usd,
                sum(estimated_usd) as estimated_usd
            from usage
            group by client, model
        )

        select counted.client, counted.model, requests, unpriced_requests, {", ".join(_CATEGORIES)},
            measured_usd, estimated_usd, {", ".join(f"{name}_measured" for name in _CATEGORIES)}
        from counted
        inner join tokens on counted.client = tokens.client and counted.model is not distinct from tokens.model
        order by greatest(measured_usd, estimated_usd) desc nulls last, requests desc, counted.client, counted.model
    """,
    columns=(
        ViewColumn("client", "VARCHAR", ""),
        ViewColumn("model", "VARCHAR", ""),
        ViewColumn("requests", "BIGINT", "", measured="always", total=True),
        ViewColumn("unpriced_requests", "BIGINT", "", measured="always", total=True),
        *_COUNTS,
        ViewColumn("measured_usd", "DOUBLE", "", unit="USD", measured="always", total=True),
        ViewColumn("estimated_usd", "DOUBLE", "", unit="USD", measured="never", total=True),
        *_FLAGS,
    ),
    keys=("client", "model", "requests"),
    most=6,
    more=f"agentlens usage --since {DAYS}d",
)

SKILLS = Table(
    title="Skills that cost most",
    sql="""
        select
            client,
            skill,
            cast(sum(loads) as bigint) as loads,
            cast(sum(overhead_tokens) as bigint) as overhead_tokens,
            sum(overhead_usd) as overhead_usd,
            coalesce(bool_and(overhead_measured and overhead_tokens is not null), false) as overhead_measured
        from skills
        group by client, skill
        order by overhead_usd desc nulls last, overhead_tokens desc nulls last, client, skill
    """,
    columns=(
        ViewColumn("client", "VARCHAR", ""),
        ViewColumn("skill", "VARCHAR", ""),
        ViewColumn("loads", "BIGINT", "", measured="always"),
        ViewColumn("overhead_tokens", "BIGINT", "", unit="tokens", measured="overhead_measured", null="", total=True),
        ViewColumn("overhead_usd", "DOUBLE", "", unit="USD", measured="never", null="", total=True),
        ViewColumn("overhead_measured", "BOOLEAN", ""),
    ),
    keys=("client", "skill"),
    most=3,
    more=f"agentlens skills --since {DAYS}d",
)

IDLE = Table(
    title="Carried and never used there",
    sql="""
        select client, project, item_kind, item, idle_cost, idle_usd, idle_cost_measured
        from idle
        where verdict = 'idle'
        order by idle_usd desc nulls last, idle_cost desc nulls last, client, project, item_kind, item
    """,
    columns=(
        ViewColumn("client", "VARCHAR", ""),
        ViewColumn("project", "VARCHAR", "", null=""),
        ViewColumn("item_kind", "VARCHAR", ""),
        ViewColumn("item", "VARCHAR", ""),
        ViewColumn("idle_cost", "BIGINT", "", unit="tokens", measured="idle_cost_measured", null="", total=True),
        ViewColumn("idle_usd", "DOUBLE", "", unit="USD", measured="never", null="", total=True),
        ViewColumn("idle_cost_measured", "BOOLEAN", ""),
    ),
    keys=("item_kind", "item"),
    most=3,
    more=f"agentlens idle --since {DAYS}d",
)

TABLES = (MODELS, SKILLS, IDLE)
