-- One row a model name as recorded that is known: its entry in the price list, by exact look-up and never by likeness.
with recorded as (
    select distinct
        model,
        lower(model) as name
    from lake.requests
    where model is not null
),

-- A gateway's wrapping may be taken off, two at the most.
unwrapped_once as (
    select distinct
        recorded.model,
        regexp_replace(recorded.name, model_wrappings.pattern, '') as name
    from recorded
    cross join ref.model_wrappings as model_wrappings
),

unwrapped_twice as (
    select distinct
        unwrapped_once.model,
        regexp_replace(unwrapped_once.name, model_wrappings.pattern, '') as name
    from unwrapped_once
    cross join ref.model_wrappings as model_wrappings
),

candidates as (
    select
        model,
        name,
        0 as taken_off
    from recorded
    union all
    select
        model,
        name,
        1 as taken_off
    from unwrapped_once
    union all
    select
        model,
        name,
        2 as taken_off
    from unwrapped_twice
),

found as (
    select
        candidates.model,
        model_aliases.model_id,
        model_aliases.service_tier,
        rank() over (partition by candidates.model order by candidates.taken_off) as choice
    from candidates
    inner join ref.model_aliases as model_aliases on candidates.name = model_aliases.alias
)

-- Two answers are none.
select
    model,
    min(model_id) as model_id,
    min(service_tier) as service_tier
from found
where choice = 1
group by model
having count(distinct model_id) = 1
