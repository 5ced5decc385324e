-- One row a text and model that were counted: the newest count, whatever machine made it.
select
    sha256,
    model_id,
    arg_max(tokens, counted_at) as tokens,
    max(counted_at) as counted_at
from lake.exact_counts
group by sha256, model_id
