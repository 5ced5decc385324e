-- One row a model without a price: what it was used for is known, what it cost is not.
select
    client,
    model,
    model_id,
    cast(sum(n_requests) as bigint) as requests,
    cast(
        sum(
            coalesce(input_tokens, 0) + coalesce(output_tokens, 0) + coalesce(cache_read_tokens, 0)
            + coalesce(cache_write_tokens, 0)
        ) as bigint
    ) as tokens,
    cast(sum(input_tokens) as bigint) as input_tokens,
    cast(sum(output_tokens) as bigint) as output_tokens,
    cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
    cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
    max(ts) as last_used_at
from int.window_requests
where is_unpriced
group by client, model, model_id
