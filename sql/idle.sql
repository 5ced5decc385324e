-- One row a client, project and item that could be used and was not: what it cost to carry it for nothing.
with carried as (
    select
        client,
        project,
        item_kind,
        item,
        min(path) as path,
        min(scope) as scope,
        case when min(evidence) = max(evidence) then min(evidence) else 'both' end as evidence,
        count(distinct session_key) as sessions,
        cast(sum(distinct_requests) as bigint) as requests,
        cast(sum(case when tokens is null then 1 else 0 end) as bigint) as unsized_items,
        cast(sum(unpriced_requests) as bigint) as unpriced_requests,
        arg_max(tokens, coalesce(ts, timestamptz '1970-01-01 00:00:00+00')) as tokens,
        cast(sum(tokens * requests) as bigint) as idle_cost,
        round(sum(case when requests > unpriced_requests then tokens * usd_per_token end), 12) as idle_usd,
        coalesce(bool_and(tokens_measured and tokens is not null), false) as is_measured
    from int.window_item_costs
    where item_kind in ('skill', 'command', 'agent', 'mcp_server', 'tool')
    group by client, project, item_kind, item
),

uses as (
    select
        client,
        project,
        item_kind,
        item,
        max(ts) as last_used_at,
        sum(
            case
                when
                    (getvariable('since') is null or ts >= cast(getvariable('since') as timestamp with time zone))
                    and (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
                    then 1
                else 0
            end
        ) as uses
    from int.item_uses
    group by client, project, item_kind, item
),

used_ever as (
    select
        client,
        item_kind,
        item,
        max(last_used_at) as last_used_at
    from uses
    group by client, item_kind, item
),

-- Programs that a Codex model runs may call tools inside: where it did, that a tool was not called is not known.
unseen as (
    select
        client,
        project
    from uses
    where client = 'codex' and item_kind = 'tool' and item = 'exec'
),

-- The clock is the newest request, so that the same lake gives the same answer tomorrow.
spans as (
    select
        newest_ts,
        greatest(date_diff('second', from_ts, to_ts) / 86400.0, 1) as days
    from int.window_spans
)

select
    carried.client,
    carried.project,
    carried.item_kind,
    carried.item,
    carried.path,
    carried.scope,
    carried.evidence,
    case
        when unseen.client is not null and carried.item_kind in ('tool', 'mcp_server') then 'unknown'
        else 'idle'
    end as verdict,
    carried.sessions,
    carried.requests,
    carried.unsized_items,
    carried.unpriced_requests,
    carried.tokens,
    carried.idle_cost,
    date_diff('day', used_ever.last_used_at, spans.newest_ts) as idle_days,
    carried.idle_usd,
    used_ever.last_used_at,
    cast(round(carried.idle_cost / carried.requests) as bigint) as request_spared_tokens,
    round(carried.idle_usd / nullif(carried.requests - carried.unpriced_requests, 0), 12) as request_spared_usd,
    cast(round(carried.idle_cost * 30 / spans.days) as bigint) as month_spared_tokens,
    round(carried.idle_usd * 30 / spans.days, 12) as month_spared_usd,
    carried.is_measured as tokens_measured,
    carried.is_measured as idle_cost_measured
from carried
cross join spans
left join uses
    on
        carried.client = uses.client
        and carried.project is not distinct from uses.project
        and carried.item_kind = uses.item_kind
        and carried.item = uses.item
left join used_ever
    on
        carried.client = used_ever.client
        and carried.item_kind = used_ever.item_kind
        and carried.item = used_ever.item
left join unseen
    on carried.client = unseen.client and carried.project is not distinct from unseen.project
where coalesce(uses.uses, 0) = 0
