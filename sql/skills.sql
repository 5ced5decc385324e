-- One row a client, project and skill: what its listing entry and its loaded text cost while they rode along.
with costs as (
    select *
    from int.window_item_costs
    where item_kind in ('skill', 'skill_body')
),

uses as (
    select
        client,
        project,
        item,
        max(ts) as last_used_at
    from int.item_uses
    where item_kind = 'skill'
    group by client, project, item
)

select
    costs.client,
    costs.project,
    costs.item as skill,
    min(costs.scope) as scope,
    case when min(costs.evidence) = max(costs.evidence) then min(costs.evidence) else 'both' end as evidence,
    count(distinct costs.session_key) as sessions,
    cast(coalesce(sum(case when costs.item_kind = 'skill' then costs.distinct_requests end), 0) as bigint) as requests,
    cast(sum(case when costs.is_load and costs.first_requests > 0 then 1 else 0 end) as bigint) as loads,
    cast(sum(case when costs.tokens is null then 1 else 0 end) as bigint) as unsized_items,
    cast(sum(costs.unpriced_requests) as bigint) as unpriced_requests,
    arg_max(
        case when costs.item_kind = 'skill' then costs.tokens end,
        coalesce(costs.ts, timestamptz '1970-01-01 00:00:00+00')
    ) as listing_tokens,
    arg_max(
        case when costs.item_kind = 'skill_body' then costs.tokens end,
        coalesce(costs.ts, timestamptz '1970-01-01 00:00:00+00')
    ) as body_tokens,
    cast(
        sum(case when costs.item_kind = 'skill' then costs.tokens * costs.requests end) as bigint
    ) as baseline,
    cast(
        sum(
            case
                when costs.item_kind = 'skill' then 0
                when costs.is_load then costs.tokens * costs.first_requests
                when costs.tokens is not null then 0
            end
        ) as bigint
    ) as load,
    cast(
        sum(
            case
                when costs.item_kind = 'skill' then 0
                when costs.is_load then costs.tokens * (costs.requests - costs.first_requests)
                else costs.tokens * costs.requests
            end
        ) as bigint
    ) as carry,
    cast(sum(costs.tokens * costs.requests) as bigint) as overhead_tokens,
    round(sum(case when costs.requests > costs.unpriced_requests then costs.tokens * costs.usd_per_token end), 12)
        as overhead_usd,
    max(uses.last_used_at) as last_used_at,
    coalesce(bool_and(costs.tokens_measured) filter (where costs.item_kind = 'skill'), false) as baseline_measured,
    coalesce(bool_and(costs.tokens_measured) filter (where costs.item_kind = 'skill_body'), false) as carry_measured,
    coalesce(bool_and(costs.tokens_measured), false) as overhead_measured,
    coalesce(bool_and(costs.tokens_measured) filter (where costs.is_load), false) as load_measured
from costs
left join uses
    on
        costs.client = uses.client
        and costs.project is not distinct from uses.project
        and costs.item = uses.item
group by costs.client, costs.project, costs.item
