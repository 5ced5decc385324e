-- One row a text of an installed item, and the time in which it held.
select
    client,
    machine,
    item_id,
    item_kind,
    item,
    scope,
    project,
    path,
    baseline_chars,
    baseline_sha256,
    body_chars,
    sha256,
    valid_from,
    valid_to,
    -- How a transcript names it: commands are listed and loaded as skills, files go by their paths.
    case item_kind when 'command' then 'skill' else item_kind end as transcript_kind,
    case when item_kind in ('instruction', 'memory') then path else item end as transcript_name
from lake.items
where item_kind <> 'plugin'
