-- One row a window: when its newest request was made (copies do no harm here).
select max(ts) as ts
from lake.requests
where
    (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
