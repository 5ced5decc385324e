-- One row a text of a skill or instruction file and a model of Anthropic that carried it, and that nobody counted yet.
with texts as (
    select
        client,
        session_id,
        sha256,
        from_seq,
        until_seq
    from int.item_intervals
    where item_kind in ('skill', 'command', 'skill_body', 'instruction') and sha256 is not null
),

models as (
    select distinct model_id
    from ref.model_prices
    where lower(vendor) = 'anthropic'
),

runs as (
    select
        model_runs.client,
        model_runs.session_id,
        model_runs.model_id,
        model_runs.from_seq,
        model_runs.to_seq
    from int.model_runs as model_runs
    inner join models on model_runs.model_id = models.model_id
)

select
    texts.sha256,
    runs.model_id,
    min(texts.client) as client
from texts
inner join runs
    on
        texts.client = runs.client
        and texts.session_id = runs.session_id
        and texts.from_seq < runs.to_seq
        and (texts.until_seq is null or texts.until_seq > runs.from_seq)
left join stg.exact_counts as exact_counts
    on texts.sha256 = exact_counts.sha256 and runs.model_id = exact_counts.model_id
where exact_counts.sha256 is null
group by texts.sha256, runs.model_id
