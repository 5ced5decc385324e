-- One row a text that a session carried, of the window and filters that were asked for.
select *
from int.item_costs
where
    getvariable('project') is null
    or project = cast(getvariable('project') as varchar)
    or ends_with(project, concat('/', cast(getvariable('project') as varchar)))
    or ends_with(project, concat(chr(92), cast(getvariable('project') as varchar)))
