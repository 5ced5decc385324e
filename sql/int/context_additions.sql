-- One row a request and session: estimated tokens (characters / 4) of what came in since the request before it.
with pieces as (
    -- A result comes in with the request after the one that called: by the call, never by its place in the file.
    select
        client,
        session_id,
        seq + 1 as seq,
        'tool_result' as piece,
        result_chars as chars
    from stg.tool_calls
    where seq is not null and session_id is not null
    union all
    select
        client,
        session_id,
        seq,
        'prompt' as piece,
        chars
    from stg.prompts
    where session_id is not null and not is_copied
    union all
    select
        client,
        session_id,
        seq,
        case
            when event in ('compacted', 'cleared') then 'compaction'
            when event = 'attachment' then 'attachment'
            when event in ('listed', 'tool_definitions') or item_kind = 'tool' then 'listing'
            when item_kind = 'skill_body' then 'skill_body'
            else 'instruction'
        end as piece,
        chars
    from stg.context_events
    where
        session_id is not null
        and not is_copied
        and event not in ('removed', 'reported')
        -- A body that was read with a tool is a part of that tool's result.
        and not (item_kind = 'skill_body' and coalesce(cause, '') = 'read')
)

select
    client,
    session_id,
    seq,
    cast(sum(case when piece = 'tool_result' then ceil(chars / 4.0) end) as bigint) as tool_result_tokens,
    cast(sum(case when piece = 'prompt' then ceil(chars / 4.0) end) as bigint) as prompt_tokens,
    cast(sum(case when piece = 'skill_body' then ceil(chars / 4.0) end) as bigint) as skill_body_tokens,
    cast(sum(case when piece = 'instruction' then ceil(chars / 4.0) end) as bigint) as instruction_tokens,
    cast(sum(case when piece = 'listing' then ceil(chars / 4.0) end) as bigint) as listing_tokens,
    -- Some clients write the summary down with the compaction, some as a text of its own.
    cast(sum(case when piece in ('attachment', 'compaction') then ceil(chars / 4.0) end) as bigint)
        as attachment_tokens,
    cast(sum(ceil(chars / 4.0)) as bigint) as added_tokens,
    cast(sum(case when piece = 'tool_result' then chars end) as bigint) as tool_result_chars,
    cast(sum(case when chars is null and piece <> 'compaction' then 1 else 0 end) as bigint) as unsized_items,
    bool_or(piece = 'compaction') as is_compacted,
    bool_and(piece = 'tool_result') as is_tool_results_only
from pieces
group by client, session_id, seq
