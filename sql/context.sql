-- One row a client, project and item that stood in the context: its size, how often it was carried, what that came to.
select
    client,
    project,
    item_kind,
    item,
    min(scope) as scope,
    case when min(evidence) = max(evidence) then min(evidence) else 'both' end as evidence,
    count(distinct session_key) as sessions,
    cast(sum(distinct_requests) as bigint) as requests,
    cast(sum(case when tokens is null then 1 else 0 end) as bigint) as unsized_items,
    cast(sum(unpriced_requests) as bigint) as unpriced_requests,
    arg_max(tokens, coalesce(ts, timestamptz '1970-01-01 00:00:00+00')) as tokens,
    cast(sum(tokens * requests) as bigint) as overhead_tokens,
    round(sum(case when requests > unpriced_requests then tokens * usd_per_token end), 12) as overhead_usd,
    max(first_request_tokens) as first_request_tokens,
    coalesce(bool_and(tokens_measured and tokens is not null), false) as tokens_measured,
    coalesce(bool_and(tokens_measured and tokens is not null), false) as overhead_measured
from int.window_item_costs
group by client, project, item_kind, item
