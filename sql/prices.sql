-- One row a price of the table in use: model, period, tier and band, with source and date.
select
    vendor,
    model_id,
    service_tier,
    effective_from,
    effective_to,
    min_context_tokens,
    origin,
    source_url,
    checked_on,
    note,
    input_usd_per_mtok,
    output_usd_per_mtok,
    cache_read_usd_per_mtok,
    cache_write_5m_usd_per_mtok,
    cache_write_1h_usd_per_mtok
from ref.model_prices
