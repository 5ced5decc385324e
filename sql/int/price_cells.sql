-- One row a model, tier, period and band of the whole prompt: the one price that holds there, if any does.
with price_rows as (
    select
        model_prices.*,
        coalesce(effective_from, date '0001-01-01') as starts_on,
        coalesce(effective_to, date '9999-12-31') as ends_on
    from ref.model_prices as model_prices
),

bounds as (
    select
        model_id,
        service_tier,
        starts_on as from_day
    from price_rows
    union
    select
        model_id,
        service_tier,
        ends_on as from_day
    from price_rows
),

periods as (
    select
        model_id,
        service_tier,
        from_day,
        lead(from_day) over (partition by model_id, service_tier order by from_day) as to_day
    from bounds
)

select
    periods.model_id,
    periods.service_tier,
    periods.from_day,
    periods.to_day,
    price_rows.min_context_tokens as from_tokens,
    lead(price_rows.min_context_tokens, 1, 9223372036854775807) over (
        partition by periods.model_id, periods.service_tier, periods.from_day
        order by price_rows.min_context_tokens
    ) as to_tokens,
    price_rows.input_usd_per_mtok / 1000000 as input_usd,
    price_rows.output_usd_per_mtok / 1000000 as output_usd,
    price_rows.cache_read_usd_per_mtok / 1000000 as cache_read_usd,
    price_rows.cache_write_5m_usd_per_mtok / 1000000 as cache_write_5m_usd,
    price_rows.cache_write_1h_usd_per_mtok / 1000000 as cache_write_1h_usd
from periods
inner join price_rows
    on
        periods.model_id = price_rows.model_id
        and periods.service_tier = price_rows.service_tier
        and periods.from_day >= price_rows.starts_on
        and periods.to_day <= price_rows.ends_on
