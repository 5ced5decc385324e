-- One row a request that differs from the one before it by tool results alone: their characters, and their tokens.
with results as (
    -- Nothing but results came in, of all calls, each of them a text; nothing was compacted away.
    select
        client,
        session_id,
        seq,
        cast(sum(chars) as bigint) as chars,
        cast(sum(ceil(chars / 4.0)) as bigint) as chars4_tokens
    from int.context_pieces
    group by client, session_id, seq
    having bool_and(piece = 'tool_result' and chars is not null) and sum(chars) >= 1000
),

-- Two requests in a row of one model, with nothing else between them.
steps as (
    select
        steps.client,
        steps.session_id,
        steps.seq,
        steps.ts,
        steps.project,
        steps.model_id,
        coalesce(model_families.family, steps.model_id, steps.model) as model_family,
        results.chars,
        results.chars4_tokens,
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
)

select *
from steps
-- Anything else came or went in a step whose ratio no text has.
where tokens > 0 and chars between 0.8 * tokens and 14 * tokens
