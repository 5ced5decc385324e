-- One row a client and model whose characters a token are given (session variable rates), from what was measured.
with given as (
    select
        unnest(
            cast(
                getvariable('rates') as struct(client varchar, model_family varchar, chars_per_token double)[]
            )
        ) as rate
),

models as (
    select distinct
        model_ids.model_id,
        coalesce(model_families.family, model_ids.model_id) as model_family
    from int.model_ids as model_ids
    left join int.model_families as model_families on model_ids.model_id = model_families.model_id
)

select
    given.rate.client,
    models.model_id,
    given.rate.chars_per_token
from given
inner join models on given.rate.model_family = models.model_family
