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

-- name: jobs_in
SELECT id, name, kind, state, input, digest, models, settings, unfinished, out, total, serial, attempts, refused, input_tokens,
    output_tokens, cost_usd, created_utc, started_utc, finished_utc, form, unpriced, repeated, repeated_usd, repeated_tokens,
    unsure, unsure_usd, succeeded, failed, timed_out, cached, skipped, cancelled
FROM jobs WHERE state IN (SELECT json_array_elements_text(?::json)) ORDER BY id DESC;

-- name: attempt_starts
SELECT lane, trunc((started_utc - ?3) / ?4)::bigint AS place, count(*),
    sum(coalesce(charged_tokens, input_tokens + output_tokens, 0)), count(*) FILTER (WHERE outcome = 'throttled')
FROM attempts WHERE uid BETWEEN ?1 AND ?2 AND started_utc IS NOT NULL GROUP BY lane, place;

-- name: attempt_ends
SELECT lane, trunc((finished_utc - ?3) / ?4)::bigint AS place, count(*), count(*) FILTER (WHERE outcome = 'succeeded'), sum(coalesce(cost_usd, 0))
FROM attempts WHERE uid BETWEEN ?1 AND ?2 AND started_utc IS NOT NULL AND finished_utc IS NOT NULL GROUP BY lane, place;

-- name: last_samples
SELECT DISTINCT ON (lane) lane, starts, tokens, input_tokens, output_tokens, refused, tick FROM lane_samples WHERE job = ?
ORDER BY lane, tick DESC;

-- name: listed_units
-- Units as rows of a list, in the order of the numbers. Of bodies only the beginning is read: a file in a prompt may have megabytes.
SELECT units.uid & 4294967295, custom_id, status, coalesce(lanes.name, routes.provider || CASE routes.model WHEN '' THEN '' ELSE '/' || routes.model END),
    attempts, started_utc, finished_utc, cost_usd, code, message,
    substr(coalesce(rendered.body, of_source.body, requests.body), 1, ?2), substr(answers.body, 1, ?2)
FROM unnest(translate(?1, '[]', '{}')::bigint[]) WITH ORDINALITY AS asked (value, key)
JOIN units ON units.uid = asked.value
JOIN routes ON routes.id = units.route
JOIN requests ON requests.uid = units.uid
LEFT JOIN rendered ON rendered.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid
LEFT JOIN rendered AS of_source ON of_source.uid = hits.source
LEFT JOIN answers ON answers.uid = coalesce(hits.source, units.uid)
LEFT JOIN lanes ON lanes.id = units.lane
ORDER BY asked.key;

-- name: filtered_uids
-- ?3, ?4, ?5: lists of statuses, of codes, and of lanes; ?6: the routes of units that no lane has had yet. NULL: any.
SELECT uid FROM units WHERE uid > ?1 AND uid <= ?2
    AND (?3 IS NULL OR status IN (SELECT json_array_elements_text(?3::json)))
    AND (?4 IS NULL OR code IN (SELECT json_array_elements_text(?4::json)))
    AND (?5 IS NULL OR lane IN (SELECT value FROM json_each(?5)) OR (lane IS NULL AND route IN (SELECT value FROM json_each(?6))))
ORDER BY uid LIMIT ?7;

-- name: filtered_among
SELECT uid FROM unnest(translate(?1, '[]', '{}')::bigint[]) WITH ORDINALITY AS asked (value, key) JOIN units ON units.uid = asked.value
WHERE (?2 IS NULL OR status IN (SELECT json_array_elements_text(?2::json)))
    AND (?3 IS NULL OR code IN (SELECT json_array_elements_text(?3::json)))
    AND (?4 IS NULL OR lane IN (SELECT value FROM json_each(?4)) OR (lane IS NULL AND route IN (SELECT value FROM json_each(?5))))
ORDER BY asked.key;

-- name: claim_submission
-- Engines on several machines claim: the clock of the server counts.
UPDATE submissions SET claimed_until = extract(epoch FROM clock_timestamp())::double precision + ?2::double precision
WHERE job = ?3::bigint AND ?1::double precision IS NOT NULL
    AND claimed_until <= extract(epoch FROM clock_timestamp())::double precision RETURNING job;

-- Claims count by the clock of the server: those of other machines may be wrong. The time that the program gives is not used.

-- name: note_claimant
INSERT INTO claimants (id, job, seen_utc) VALUES (?1, ?2, extract(epoch FROM clock_timestamp()) + 0 * ?3::double precision)
ON CONFLICT (id) DO UPDATE SET seen_utc = excluded.seen_utc;

-- name: claimants
SELECT id FROM claimants
WHERE job <> ?1 AND abs(seen_utc - extract(epoch FROM clock_timestamp()) + 0 * ?3::double precision) <= ?2::double precision;

-- name: claim
INSERT INTO claims (claimant, lane, claim) VALUES (?, ?, ?)
ON CONFLICT (claimant, lane) DO UPDATE SET claim = excluded.claim, change = DEFAULT;

-- Claims are written beside these transactions. What belongs to others is removed without waiting for them.

-- name: forget_old_claims
DELETE FROM claims WHERE (claimant, lane) IN (
    SELECT claimant, lane FROM claims WHERE NOT EXISTS (
        SELECT 1 FROM claimants
        WHERE id = claims.claimant AND abs(seen_utc - extract(epoch FROM clock_timestamp()) + 0 * ?2::double precision) <= ?1::double precision
    ) FOR UPDATE SKIP LOCKED
);

-- name: forget_old_claimants
DELETE FROM claimants WHERE id IN (
    SELECT id FROM claimants
    WHERE abs(seen_utc - extract(epoch FROM clock_timestamp()) + 0 * ?2::double precision) > ?1::double precision FOR UPDATE SKIP LOCKED
);

-- name: clock_utc
SELECT extract(epoch FROM clock_timestamp())::double precision;
