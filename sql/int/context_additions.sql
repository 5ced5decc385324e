-- One row a request and session: estimated tokens of what came in since the request before it.
with rated as (
    select
        requests.client,
        requests.session_id,
        requests.seq,
        model_rates.chars_per_token
    from stg.requests as requests
    inner join int.model_ids as model_ids on requests.model = model_ids.model
    inner join int.model_rates as model_rates
        on requests.client = model_rates.client and model_ids.model_id = model_rates.model_id
),

pieces as (
    select
        pieces.client,
        pieces.session_id,
        pieces.seq,
        pieces.piece,
        pieces.chars,
        ceil(pieces.chars / coalesce(rated.chars_per_token, 4.0)) as tokens
    from int.context_pieces as pieces
    left join rated
        on
            pieces.client = rated.client
            and pieces.session_id = rated.session_id
            and pieces.seq = rated.seq
)

select
    client,
    session_id,
    seq,
    cast(sum(case when piece = 'tool_result' then tokens end) as bigint) as tool_result_tokens,
    cast(sum(case when piece = 'prompt' then tokens end) as bigint) as prompt_tokens,
    cast(sum(case when piece = 'skill_body' then tokens end) as bigint) as skill_body_tokens,
    cast(sum(case when piece = 'instruction' then tokens end) as bigint) as instruction_tokens,
    cast(sum(case when piece = 'listing' then tokens end) as bigint) as listing_tokens,
    -- Some clients write the summary down with the compaction, some as a text of its own.
    cast(sum(case when piece in ('attachment', 'compaction') then tokens end) as bigint) as attachment_tokens,
    cast(sum(tokens) as bigint) as added_tokens,
    cast(sum(case when chars is null and piece <> 'compaction' then 1 else 0 end) as bigint) as unsized_items,
    bool_or(piece = 'compaction') as is_compacted
from pieces
group by client, session_id, seq
