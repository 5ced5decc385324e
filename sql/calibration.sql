-- One row a client and model family: measured characters a token of tool results, and how far characters / 4 is off.
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
    sum(chars4_tokens) / sum(tokens) - 1 as chars4_error
from int.calibration_steps
where
    (getvariable('since') is null or ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
    and (
        getvariable('project') is null
        or project = cast(getvariable('project') as varchar)
        or ends_with(project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
group by client, model_family
