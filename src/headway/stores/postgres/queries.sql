-- The statements that use what only SQLite has, in PostgreSQL's words. All others are translated from `stores/queries.sql`; those here are
-- translated in the same way. They have the same parameters and the same columns.

-- name: answers_by_id
SELECT units.custom_id, body FROM units
LEFT JOIN hits ON hits.uid = units.uid JOIN answers ON answers.uid = coalesce(hits.source, units.uid)
WHERE units.custom_id IN (SELECT json_array_elements_text(?::json)) AND units.job = ?;

-- name: session_of
-- JSON with the character U+0000 is no text here, and such a character is of no use in an id.
SELECT attempt_notes.number, note ->> 'session_id', coalesce(note ->> 'directory', ''), coalesce(outcome, ''),
    EXISTS (
        SELECT 1 FROM notes AS same JOIN transcripts ON transcripts.uid = same.uid AND transcripts.number = same.number
        WHERE same.uid = attempt_notes.uid AND json_of(same.note) ->> 'session_id' = attempt_notes.note ->> 'session_id'
            AND messages LIKE '%"role":"assistant"%'
    )
FROM (SELECT uid, number, json_of(note) AS note FROM notes) AS attempt_notes
LEFT JOIN attempts ON attempts.uid = attempt_notes.uid AND attempts.number = attempt_notes.number
WHERE attempt_notes.uid = ? AND coalesce(note ->> 'session_id', '') <> '' ORDER BY attempt_notes.number DESC LIMIT 1;

-- name: next_of_route
SELECT coalesce(json_agg(json_build_array(place, chars, max_tokens, priority, route, attempts, family, size) ORDER BY place), '[]')::text
FROM (
    SELECT uid & 4294967295 AS place, chars, max_tokens, priority, route, attempts, family,
        coalesce((SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0) AS size
    FROM units
    WHERE route = ? AND priority = ? AND serial = 0 AND uid > ? AND status = 'pending'
    ORDER BY uid LIMIT ?
) AS page;

-- name: largest_sizes
SELECT route, family, max(chars), max(max_tokens), bool_or(max_tokens = 0) FROM units
WHERE uid > ? AND uid <= ? AND status = 'pending' GROUP BY route, family;

-- name: note_running
UPDATE units SET status = 'running', started_utc = column1 FROM (VALUES (?1::double precision, ?2::bigint)) AS rows WHERE uid = column2;

-- name: change_unit
UPDATE units SET status = column1, attempts = attempts + column2, lane = coalesce(column3, lane), code = column4, message = column5,
    not_before_utc = column6, started_utc = coalesce(column7, started_utc), finished_utc = column8, input_tokens = column9,
    output_tokens = column10, cached_tokens = column11,
    cost_usd = coalesce(cost_usd + column12, cost_usd, column12)
FROM (VALUES (?1::text, ?2::bigint, ?3::bigint, ?4::text, ?5::text, ?6::double precision, ?7::double precision, ?8::double precision,
    ?9::bigint, ?10::bigint, ?11::bigint, ?12::double precision, ?13::bigint)) AS rows
WHERE uid = column13;

-- name: node_executions
-- How the executions of each node are now, by their last event of these types: how many, and the first of them.
SELECT DISTINCT ON (node, type) node, type, count(*) OVER of_type, unit, data, min(id) OVER of_type FROM node_events
WHERE id IN (
    SELECT max(id) FROM node_events WHERE job = ? AND type IN (SELECT json_array_elements_text(?::json)) GROUP BY node, unit
)
WINDOW of_type AS (PARTITION BY node, type)
ORDER BY node, type, id;

-- name: route_times
SELECT units.route, min(attempts.started_utc), max(attempts.finished_utc), count(*), count(*) FILTER (WHERE outcome = 'throttled'),
    coalesce(sum(attempts.cost_usd), 0.0)::double precision
FROM attempts JOIN units ON units.uid = attempts.uid
WHERE attempts.uid BETWEEN ? AND ? GROUP BY units.route ORDER BY units.route;

-- name: end_lost_workers
UPDATE workers SET status = 'failed', -- a process that died recorded no end: it worked at least until its last unit ended
    ended_utc = greatest(started_utc, coalesce((SELECT max(finished_utc) FROM units WHERE uid BETWEEN ? AND ?), started_utc))
WHERE job = ? AND status IN ('idle', 'busy');

-- name: results_by_id
SELECT units.uid & 4294967295, custom_id, status, lanes.name, attempts, units.input_tokens, units.output_tokens,
    units.cached_tokens, cost_usd, started_utc, finished_utc, code, message, requests.metadata,
    answers.status_code, answers.request_id, answers.body, routes.provider, routes.model
FROM units
JOIN routes ON routes.id = units.route
JOIN requests ON requests.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid
LEFT JOIN answers ON answers.uid = coalesce(hits.source, units.uid)
LEFT JOIN lanes ON lanes.id = units.lane
WHERE units.job = ? AND custom_id IN (SELECT json_array_elements_text(?::json));

-- name: turn_totals
-- Of the units of a route: what they took, and then what the answers took that were corrected in the same conversation.
SELECT coalesce(sum(input_tokens), 0)::double precision, coalesce(sum(output_tokens), 0)::double precision,
    coalesce(sum(finished_utc - started_utc), 0)::double precision, coalesce(sum(cost_usd), 0)::double precision
FROM units WHERE route = ?1 AND status = 'succeeded'
UNION ALL
SELECT coalesce(sum(attempts.input_tokens), 0)::double precision, coalesce(sum(attempts.output_tokens), 0)::double precision,
    coalesce(sum(attempts.finished_utc - attempts.started_utc), 0)::double precision,
    coalesce(sum(attempts.cost_usd), 0)::double precision
FROM units JOIN attempts ON attempts.uid = units.uid
WHERE route = ?1 AND status = 'succeeded' AND units.attempts > 1 AND outcome = 'failed' AND attempts.output_tokens IS NOT NULL;

-- name: make_reusable
CREATE TEMPORARY TABLE reusable (key bytea NOT NULL, uid bigint NOT NULL, PRIMARY KEY (key, uid));
