-- One row a client and model family: measured characters a token of tool results, and how far characters / 4 is off.
with results as (
    -- Nothing but results came in, of all calls, each of them a text; nothing was compacted away.
    select
        client,
        session_id,
        seq,
        tool_result_chars as chars,
        tool_result_tokens as estimated_tokens
    from int.context_additions
    where is_tool_results_only and unsized_items = 0 and tool_result_chars >= 1000
),

-- Two requests in a row of one model, with nothing else between them.
steps as (
    select
        steps.client,
        coalesce(model_families.family, steps.model_id, steps.model) as model_family,
        results.chars,
        results.estimated_tokens,
        steps.context_tokens - steps.previous_context_tokens - steps.previous_output_tokens as tokens
    from int.request_steps as steps
    inner join results
        on
            steps.client = results.client
            and steps.session_id = results.session_id
            and steps.seq = results.seq
    left join int.model_families as model_families on steps.model_id = model_families.model_id
    where
        steps.seq = steps.previous_seq + 1
        and steps.model = steps.previous_model
        and steps.n_requests = 1
        and (getvariable('since') is null or steps.ts >= cast(getvariable('since') as timestamp with time zone))
        and (getvariable('until') is null or steps.ts < cast(getvariable('until') as timestamp with time zone))
        and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), steps.client))
        and (
            getvariable('project') is null
            or steps.project = cast(getvariable('project') as varchar)
            or ends_with(steps.project, concat('/', cast(getvariable('project') as varchar)))
            or ends_with(steps.project, concat(chr(92), cast(getvariable('project') as varchar)))
        )
)

select
    client,
    model_family,
    count(*) as steps,
    cast(sum(chars) as bigint) as result_chars,
    cast(sum(tokens) as bigint) as result_tokens,
    quantile_cont(chars / tokens, 0.25) as q1_chars_per_token,
    quantile_cont(chars / tokens, 0.5) as median_chars_per_token,
    quantile_cont(chars / tokens, 0.75) as q3_chars_per_token,
    sum(chars) / sum(tokens) as pooled_chars_per_token,
    sum(estimated_tokens) / sum(tokens) - 1 as chars4_error
from steps
-- Anything else came or went in a step whose ratio no text has.
where tokens > 0 and chars between 0.8 * tokens and 14 * tokens
group by client, model_family
