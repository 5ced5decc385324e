-- One row a run of requests that a session made with one model: its first request, and the first after it.
with requests as (
    select
        requests.client,
        requests.session_id,
        requests.seq,
        requests.ts,
        model_ids.model_id
    from stg.requests as requests
    left join int.model_ids as model_ids on requests.model = model_ids.model
),

numbered as (
    select
        *,
        row_number() over (partition by client, session_id order by seq)
        - row_number() over (partition by client, session_id, model_id order by seq) as run
    from requests
)

select
    client,
    session_id,
    model_id,
    min(seq) as from_seq,
    max(seq) + 1 as to_seq,
    min(ts) as ts
from numbered
group by client, session_id, model_id, run
