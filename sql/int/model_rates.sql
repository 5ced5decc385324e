-- One row a client and model whose characters a token were measured often enough: only where they are asked for.
with families as (
    select
        client,
        model_family,
        quantile_cont(chars / tokens, 0.5) as chars_per_token
    from int.calibration_steps
    where cast(getvariable('estimator') as varchar) = 'calibrated'
    group by client, model_family
    having count(*) >= 30
),

models as (
    select distinct
        model_ids.model_id,
        coalesce(model_families.family, model_ids.model_id) as model_family
    from int.model_ids as model_ids
    left join int.model_families as model_families on model_ids.model_id = model_families.model_id
)

select
    families.client,
    models.model_id,
    families.chars_per_token
from families
inner join models on families.model_family = models.model_family
