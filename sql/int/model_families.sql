-- One row a model of the lake that is of a listed family: those share a tokenizer. Only for sizes, never for prices.
with models as (
    select distinct model_id
    from int.model_ids
)

select
    models.model_id,
    min(model_families.family) as family
from models
inner join ref.model_families as model_families on regexp_matches(models.model_id, model_families.pattern)
group by models.model_id
