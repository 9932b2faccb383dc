-- The statements of the store, by name. They are written for SQLite and mostly standard. Another database needs other text for:
--   json_each(?)          a list as one parameter, encoded as JSON
--   json_group_array      all rows as one value: sqlite3 lets other threads run at each row, which costs more than the row
--   CROSS JOIN … ON       SQLite joins in the order that is written
--   ?, ?1 and :name       the placeholders

-- name: salt
SELECT value FROM meta WHERE key = 'salt';

-- name: add_salt
INSERT INTO meta (key, value) VALUES ('salt', ?) ON CONFLICT DO NOTHING;

-- name: add_job
INSERT INTO jobs (id, name, kind, state, input, digest, models, settings, out, created_utc, form)
SELECT 1 + coalesce(max(number), 0), :name, :kind, 'ingesting', :input, :digest, '{}', '{}', :out, :created_utc, :form
FROM (SELECT max(id) AS number FROM jobs UNION ALL SELECT max(uid) >> 32 FROM answers) AS numbers -- of removed jobs, too
RETURNING id;

-- name: add_route
INSERT INTO routes (job, provider, kind, model, label) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: route_to
SELECT id FROM routes WHERE job = ? AND provider = ? AND model = ? AND label = ?;

-- name: count_serial
SELECT count(*) FROM units WHERE uid BETWEEN ? AND ? AND serial = 1;

-- name: priorities_by_route
SELECT DISTINCT route, priority FROM units WHERE uid BETWEEN ? AND ? ORDER BY route, priority DESC;

-- name: priorities_of
SELECT id, priorities FROM routes WHERE id IN (SELECT value FROM json_each(?));

-- name: set_priorities
UPDATE routes SET priorities = ? WHERE id = ?;

-- name: add_unit
INSERT INTO units (uid, custom_id, route, priority, serial, chars, max_tokens, lane, family, status, created_utc)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: add_family
INSERT INTO families (route, number, shape, firm, "rows", words) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (route, number) DO UPDATE SET shape = excluded.shape, firm = excluded.firm, "rows" = excluded."rows",
    words = excluded.words;

-- name: families
SELECT routes.job, families.route, number, shape, firm, "rows", words FROM families
JOIN routes ON routes.id = families.route JOIN jobs ON jobs.id = routes.job
WHERE provider = ? AND model = ? AND jobs.state <> 'ingesting' ORDER BY families.route DESC, number LIMIT 2000;

-- name: forget_families
DELETE FROM families WHERE route IN (SELECT id FROM routes WHERE job = ?);

-- name: add_request
INSERT INTO requests (uid, path, body, metadata) VALUES (?1, ?2, ?3, ?4);

-- name: add_same_request
INSERT INTO requests (uid, path, body) SELECT uid, ?, ? FROM units WHERE uid BETWEEN ? AND ?;

-- name: add_attachment
INSERT INTO attachments (digest, type, width, height, pages, size, data) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (digest) DO NOTHING;

-- name: use_attachment
INSERT INTO attachment_uses (job, attachment) SELECT ?, id FROM attachments WHERE digest = ? ON CONFLICT DO NOTHING;

-- name: has_attachment
SELECT EXISTS (SELECT 1 FROM attachments WHERE digest = ?);

-- name: has_attachments
SELECT EXISTS (SELECT 1 FROM attachment_uses WHERE job = ?);

-- name: attachment_data
SELECT data FROM attachments JOIN attachment_uses ON attachment = id WHERE job = ? AND digest = ?;

-- name: attachment_facts
SELECT type, width, height, pages, size FROM attachments JOIN attachment_uses ON attachment = id WHERE job = ? AND digest = ?;

-- name: forget_attachments
DELETE FROM attachments WHERE id IN (SELECT attachment FROM attachment_uses WHERE job = ?1)
AND NOT EXISTS (SELECT 1 FROM attachment_uses WHERE attachment = attachments.id AND job <> ?1);

-- name: forget_attachment_uses
DELETE FROM attachment_uses WHERE job = ?;

-- name: add_edge
INSERT INTO edges (uid, role, before) VALUES (?, ?, ?);

-- name: has_edges
SELECT EXISTS (SELECT 1 FROM edges WHERE uid BETWEEN ? AND ?);

-- name: edges_of
SELECT edges.uid & 4294967295, role, before & 4294967295, status FROM edges JOIN units ON units.uid = edges.before
WHERE edges.uid IN (SELECT value FROM json_each(?)) ORDER BY edges.uid, role;

-- name: unit_created
SELECT created_utc FROM units WHERE uid = ?;

-- name: upstream_units
SELECT custom_id, status, finished_utc FROM edges CROSS JOIN units ON units.uid = edges.before WHERE edges.uid = ? ORDER BY edges.role;

-- name: depended_on
SELECT DISTINCT before & 4294967295 FROM edges WHERE before IN (SELECT value FROM json_each(?));

-- name: set_rendered
INSERT INTO rendered (uid, body) VALUES (?, ?) ON CONFLICT (uid) DO UPDATE SET body = excluded.body;

-- name: set_chars
UPDATE units SET chars = ? WHERE uid = ?;

-- name: forget_edges
DELETE FROM edges WHERE uid BETWEEN ? AND ?;

-- name: forget_rendered
DELETE FROM rendered WHERE uid BETWEEN ? AND ? -- except those whose answers other units point to
AND NOT EXISTS (SELECT 1 FROM hits WHERE hits.source = rendered.uid);

-- name: answer
SELECT body FROM answers WHERE uid = coalesce((SELECT source FROM hits WHERE hits.uid = ?1), ?1);

-- name: set_value
INSERT INTO job_values (job, name, n, value) VALUES (?, ?, ?, ?) ON CONFLICT (job, name, n) DO UPDATE SET value = excluded.value;

-- name: values
SELECT value FROM job_values WHERE job = ? AND name = ? AND n >= ? ORDER BY n LIMIT ?;

-- name: count_values
SELECT count(*) FROM job_values WHERE job = ? AND name = ?;

-- name: forget_values
DELETE FROM job_values WHERE job = ?;

-- name: answers_among
SELECT asked.value & 4294967295, body FROM json_each(?) AS asked
LEFT JOIN hits ON hits.uid = asked.value CROSS JOIN answers ON answers.uid = coalesce(hits.source, asked.value);

-- name: answers_by_id
SELECT asked.value, body FROM json_each(?) AS asked CROSS JOIN units ON units.job = ? AND units.custom_id = asked.value
LEFT JOIN hits ON hits.uid = units.uid CROSS JOIN answers ON answers.uid = coalesce(hits.source, units.uid);

-- name: seal_job
UPDATE jobs SET state = 'ready', total = ?, serial = ?, models = ?, digest = ? WHERE id = ?;

-- name: total_of
SELECT total FROM jobs WHERE id = ?;

-- name: ended_units
SELECT uid & 4294967295 FROM units
WHERE uid > ? AND uid <= ? AND status NOT IN ('pending', 'assigned', 'running') ORDER BY uid LIMIT ?;

-- name: set_total
UPDATE jobs SET total = ? WHERE id = ?;

-- name: forget_units
DELETE FROM units WHERE uid BETWEEN ? AND ?;

-- name: forget_requests
DELETE FROM requests WHERE uid BETWEEN ? AND ?;

-- name: forget_hits
DELETE FROM hits WHERE uid BETWEEN ? AND ?;

-- name: forget_keys
DELETE FROM keys WHERE uid BETWEEN ? AND ?;

-- name: forget_followers
DELETE FROM followers WHERE uid BETWEEN ? AND ?;

-- name: forget_keyed
DELETE FROM keyed WHERE job = ?;

-- name: forget_answers
DELETE FROM answers WHERE uid BETWEEN ? AND ? -- except those that other units or the cache point to
AND NOT EXISTS (SELECT 1 FROM cache WHERE cache.uid = answers.uid)
AND NOT EXISTS (SELECT 1 FROM hits WHERE hits.source = answers.uid);

-- name: forget_attempts
DELETE FROM attempts WHERE uid BETWEEN ? AND ?;

-- name: forget_repairs
DELETE FROM repairs WHERE uid BETWEEN ? AND ?;

-- name: forget_notes
DELETE FROM notes WHERE uid BETWEEN ? AND ?;

-- name: add_note
INSERT INTO notes (uid, number, note) VALUES (?, ?, ?) ON CONFLICT (uid, number) DO UPDATE SET note = excluded.note;

-- name: notes_of
SELECT number, note FROM notes WHERE uid = ? ORDER BY number;

-- name: add_line
INSERT INTO transcripts (uid, number, seq, at_utc, line, messages) VALUES (?, ?, ?, ?, ?, ?);

-- name: transcript
SELECT id, number, at_utc, line, messages FROM transcripts WHERE uid = ? AND id > ? ORDER BY id LIMIT ?;

-- name: last_transcript
SELECT id, number, at_utc, line, messages FROM transcripts WHERE uid = ? ORDER BY id DESC LIMIT ?;

-- name: forget_transcripts
DELETE FROM transcripts WHERE uid BETWEEN ? AND ?;

-- name: session_of
SELECT notes.number, notes.note ->> '$.session_id', coalesce(notes.note ->> '$.directory', ''), coalesce(outcome, ''),
    EXISTS (
        SELECT 1 FROM notes AS same JOIN transcripts ON transcripts.uid = same.uid AND transcripts.number = same.number
        WHERE same.uid = notes.uid AND same.note ->> '$.session_id' = notes.note ->> '$.session_id'
            AND messages LIKE '%"role":"assistant"%'
    )
FROM notes LEFT JOIN attempts ON attempts.uid = notes.uid AND attempts.number = notes.number
WHERE notes.uid = ? AND coalesce(note ->> '$.session_id', '') <> '' ORDER BY notes.number DESC LIMIT 1;

-- name: custom_id_of
SELECT custom_id FROM units WHERE uid = ?;

-- name: forget_job
DELETE FROM jobs WHERE id = ?;

-- name: forget_routes
DELETE FROM routes WHERE job = ?;

-- name: forget_node_events
DELETE FROM node_events WHERE job = ?;

-- name: forget_events
DELETE FROM events WHERE job = ?;

-- name: forget_workers
DELETE FROM workers WHERE job = ?;

-- name: forget_commands
DELETE FROM commands WHERE job = ?;

-- name: jobs
SELECT id, name, kind, state, input, digest, models, settings, unfinished, out, total, serial, attempts, refused, input_tokens,
    output_tokens, cost_usd, created_utc, started_utc, finished_utc, form, unpriced, repeated, repeated_usd, repeated_tokens,
    unsure, unsure_usd, succeeded, failed, timed_out, cached, skipped, cancelled
FROM jobs ORDER BY id DESC;

-- name: jobs_in
SELECT id, name, kind, state, input, digest, models, settings, unfinished, out, total, serial, attempts, refused, input_tokens,
    output_tokens, cost_usd, created_utc, started_utc, finished_utc, form, unpriced, repeated, repeated_usd, repeated_tokens,
    unsure, unsure_usd, succeeded, failed, timed_out, cached, skipped, cancelled
FROM jobs WHERE state IN (SELECT value FROM json_each(?)) ORDER BY id DESC;

-- name: job_numbered
SELECT id, name, kind, state, input, digest, models, settings, unfinished, out, total, serial, attempts, refused, input_tokens,
    output_tokens, cost_usd, created_utc, started_utc, finished_utc, form, unpriced, repeated, repeated_usd, repeated_tokens,
    unsure, unsure_usd, succeeded, failed, timed_out, cached, skipped, cancelled
FROM jobs WHERE id = ?;

-- name: run_starts
SELECT jobs.id, coalesce(workers.started_utc, jobs.started_utc, jobs.created_utc)
FROM jobs LEFT JOIN workers ON workers.id = jobs.worker;

-- name: run_starts_among
SELECT jobs.id, coalesce(workers.started_utc, jobs.started_utc, jobs.created_utc)
FROM jobs LEFT JOIN workers ON workers.id = jobs.worker WHERE jobs.id IN (SELECT value FROM json_each(?));

-- name: job_named
SELECT id, name, kind, state, input, digest, models, settings, unfinished, out, total, serial, attempts, refused, input_tokens,
    output_tokens, cost_usd, created_utc, started_utc, finished_utc, form, unpriced, repeated, repeated_usd, repeated_tokens,
    unsure, unsure_usd, succeeded, failed, timed_out, cached, skipped, cancelled
FROM jobs WHERE name = ?;

-- name: routes
SELECT id, provider, kind, model, priorities, label FROM routes WHERE job = ? ORDER BY id;

-- name: index_of
SELECT uid & 4294967295 FROM units WHERE job = ? AND custom_id = ?;

-- name: open_per_route
SELECT route, count(*) FROM units WHERE uid BETWEEN ? AND ? AND status = 'pending' GROUP BY route;

-- name: next_of_route
SELECT json_group_array(json_array(place, chars, max_tokens, priority, route, attempts, family, size)) FROM (
    SELECT uid & 4294967295 AS place, chars, max_tokens, priority, route, attempts, family,
        coalesce((SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0) AS size
    FROM units
    WHERE route = ? AND priority = ? AND serial = 0 AND uid > ? AND status = 'pending'
    ORDER BY uid LIMIT ?
);

-- name: sizes_of_route
SELECT uid & 4294967295, chars, max_tokens, family FROM units
WHERE route = ? AND priority = ? AND serial = 0 AND uid > ? AND status = 'pending'
ORDER BY uid LIMIT ?;

-- name: largest_sizes
SELECT route, family, max(chars), max(max_tokens), max(max_tokens = 0) FROM units
WHERE uid > ? AND uid <= ? AND status = 'pending' GROUP BY route, family;

-- name: last_of_job
SELECT coalesce(max(uid) & 4294967295, -1) FROM units WHERE uid BETWEEN ? AND ?;

-- name: waiting_units
SELECT uid & 4294967295, chars, max_tokens, priority, route, attempts, family,
    coalesce((SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0)
FROM units
WHERE uid IN (SELECT value FROM json_each(?)) AND status = 'pending' ORDER BY uid;

-- name: next_serial
SELECT uid & 4294967295, chars, max_tokens, priority, route, attempts, family,
    coalesce((SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0)
FROM units
WHERE uid > ? AND uid <= ? AND status = 'pending' AND (serial = 1 OR ?)
ORDER BY uid LIMIT ?;

-- name: request
SELECT path, coalesce(
    (SELECT body FROM rendered WHERE rendered.uid = ?1),
    (SELECT rendered.body FROM rendered JOIN hits ON hits.source = rendered.uid WHERE hits.uid = ?1),
    body
) FROM requests WHERE uid = ?1;

-- name: requests
SELECT uid & 4294967295, path, body FROM requests WHERE uid IN (SELECT value FROM json_each(?));

-- name: unknown_outcomes
SELECT uid & 4294967295, custom_id, status, lane, CASE status WHEN 'running' THEN started_utc END, chars,
    max_tokens, route, family,
    coalesce((SELECT length(body) FROM rendered WHERE rendered.uid = units.uid),
        (SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0)
FROM units
WHERE uid BETWEEN ? AND ? AND status IN ('assigned', 'running') ORDER BY uid;

-- name: add_lost_attempts
INSERT INTO attempts (uid, number, worker, lane, outcome, kind, message, started_utc)
SELECT uid, attempts + 1,
    (SELECT max(id) FROM workers WHERE job = units.job AND workers.uid = units.uid AND workers.status IN ('idle', 'busy')), lane, 'lost', 'crash', 'the process ended before its outcome was recorded',
    CASE status WHEN 'running' THEN started_utc END -- an assigned unit still has the start of its previous attempt
FROM units WHERE uid BETWEEN ? AND ? AND status IN ('assigned', 'running');

-- name: count_lost
UPDATE units SET attempts = attempts + 1 WHERE uid BETWEEN ? AND ? AND status IN ('assigned', 'running');

-- name: reopen
UPDATE units SET status = 'pending', code = NULL, message = NULL, not_before_utc = NULL, finished_utc = NULL
WHERE uid BETWEEN ? AND ? AND status NOT IN ('succeeded', 'cached')
    AND (status <> 'pending' OR code IS NOT NULL OR message IS NOT NULL OR not_before_utc IS NOT NULL); -- why it waited in an earlier run

-- name: reopen_except
UPDATE units SET status = 'pending', code = NULL, message = NULL, not_before_utc = NULL, finished_utc = NULL
WHERE uid BETWEEN ?1 AND ?2 AND status NOT IN ('succeeded', 'cached')
    AND (status <> 'pending' OR code IS NOT NULL OR message IS NOT NULL OR not_before_utc IS NOT NULL)
    AND (NOT ?3 OR status NOT IN ('skipped', 'cancelled')) -- only failed units, and what a process has left behind
    AND (status IN ('pending', 'assigned', 'running') OR uid NOT IN (SELECT value FROM json_each(?4)));

-- name: reopen_failed
UPDATE units SET status = 'pending', code = NULL, message = NULL, not_before_utc = NULL, finished_utc = NULL
WHERE uid BETWEEN ? AND ? AND (status IN ('failed', 'timed_out', 'assigned', 'running')
    OR (status = 'pending' AND (code IS NOT NULL OR message IS NOT NULL OR not_before_utc IS NOT NULL)));

-- name: count_reopened
SELECT status, count(*) FROM units
WHERE uid IN (SELECT value FROM json_each(?)) AND status IN ('failed', 'timed_out', 'skipped', 'cancelled')
GROUP BY status;

-- name: reopen_unit
UPDATE units SET status = 'pending', code = NULL, message = NULL, not_before_utc = NULL, finished_utc = NULL
WHERE uid = ? AND status IN ('failed', 'timed_out', 'skipped', 'cancelled');

-- name: count_again
SELECT status, count(*) FROM units
WHERE uid IN (SELECT value FROM json_each(?)) AND status NOT IN ('pending', 'assigned', 'running')
GROUP BY status;

-- name: run_again
UPDATE units SET status = 'pending', code = NULL, message = NULL, not_before_utc = NULL, finished_utc = NULL
WHERE uid = ? AND status NOT IN ('pending', 'assigned', 'running');

-- name: first_hit
-- The first unit that has its answer from this one.
SELECT min(uid) FROM hits WHERE source = ?;

-- name: copy_answer
INSERT INTO answers (uid, status_code, request_id, body) SELECT ?, status_code, request_id, body FROM answers WHERE uid = ?
ON CONFLICT (uid) DO UPDATE SET status_code = excluded.status_code, request_id = excluded.request_id, body = excluded.body;

-- name: move_hits
UPDATE hits SET source = ? WHERE source = ?;

-- name: forget_hit
DELETE FROM hits WHERE uid = ?;

-- name: forget_cached
DELETE FROM cache WHERE uid = ?;

-- name: forget_follower
DELETE FROM followers WHERE uid = ?;

-- name: followers_among
SELECT uid FROM followers WHERE uid IN (SELECT value FROM json_each(?));

-- name: serial_among
SELECT uid & 4294967295 FROM units WHERE uid IN (SELECT value FROM json_each(?)) AND serial = 1;

-- name: states_among
SELECT uid & 4294967295, status FROM units WHERE uid IN (SELECT value FROM json_each(?));

-- name: skipped_after
-- Units that were skipped because a unit before them did not succeed, each with the units that it waits for.
SELECT units.uid & 4294967295, before & 4294967295 FROM units JOIN edges ON edges.uid = units.uid
WHERE units.uid BETWEEN ? AND ? AND units.status = 'skipped' AND units.code = 'upstream_failed' ORDER BY units.uid;

-- name: history
-- The attempts of a job that were recorded after the attempt ?3, with the state of their units.
SELECT attempts.id, attempts.uid & 4294967295, custom_id, attempts.number, lanes.name, outcome, kind, attempts.message,
    attempts.started_utc, attempts.finished_utc, attempts.cost_usd,
    units.status, attempts.number >= units.attempts, attempts.input_tokens, attempts.output_tokens, attempts.rate_limit
FROM attempts CROSS JOIN units ON units.uid = attempts.uid LEFT JOIN lanes ON lanes.id = attempts.lane
WHERE attempts.id > ?3 AND attempts.uid BETWEEN ?1 AND ?2 ORDER BY attempts.id LIMIT ?4;

-- name: ends_without_attempt
-- Units that ended without success, and not by the end of an attempt: skipped, cancelled while they waited, out of time.
SELECT uid & 4294967295, custom_id, status, code, message, finished_utc FROM units
WHERE uid BETWEEN ?1 AND ?2 AND status IN ('failed', 'timed_out', 'skipped', 'cancelled') AND finished_utc IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM attempts
        WHERE attempts.uid = units.uid AND attempts.number = units.attempts AND attempts.finished_utc > units.finished_utc - 1
    )
ORDER BY finished_utc;

-- name: running
SELECT units.uid & 4294967295, custom_id, attempts + 1, lanes.name, started_utc FROM units LEFT JOIN lanes ON lanes.id = units.lane
WHERE units.uid BETWEEN ? AND ? AND status = 'running' AND started_utc IS NOT NULL ORDER BY started_utc;

-- name: running_among
SELECT units.uid & 4294967295, custom_id, attempts + 1, lanes.name, started_utc FROM units LEFT JOIN lanes ON lanes.id = units.lane
WHERE units.uid IN (SELECT value FROM json_each(?)) AND status = 'running' AND started_utc IS NOT NULL ORDER BY started_utc;

-- name: other_ends_among
-- The units of these that ended, and not by the end of an attempt: also with an answer from the cache.
SELECT uid & 4294967295, custom_id, status, code, message, finished_utc FROM units
WHERE uid IN (SELECT value FROM json_each(?)) AND finished_utc IS NOT NULL
    AND (status = 'cached' OR status <> 'succeeded' AND NOT EXISTS (
        SELECT 1 FROM attempts
        WHERE attempts.uid = units.uid AND attempts.number = units.attempts AND attempts.finished_utc > units.finished_utc - 1
    ))
ORDER BY finished_utc;

-- name: other_ends_since
SELECT uid & 4294967295, custom_id, status, code, message, finished_utc FROM units
WHERE uid BETWEEN ?1 AND ?2 AND finished_utc >= ?3
    AND (status = 'cached' OR status IN ('failed', 'timed_out', 'skipped', 'cancelled') AND NOT EXISTS (
        SELECT 1 FROM attempts
        WHERE attempts.uid = units.uid AND attempts.number = units.attempts AND attempts.finished_utc > units.finished_utc - 1
    ))
ORDER BY finished_utc;

-- name: command_done
SELECT done_utc FROM commands WHERE id = ?;

-- name: set_request
UPDATE requests SET body = ? WHERE uid = ?;

-- name: ends_of
SELECT uid, custom_id, status FROM units WHERE uid IN (SELECT value FROM json_each(?));

-- name: set_message
UPDATE units SET message = ? WHERE uid = ?;

-- name: put_back
UPDATE units SET status = 'pending' WHERE uid BETWEEN ? AND ? AND status IN ('assigned', 'running');

-- name: count_statuses
SELECT status, count(*) FROM units WHERE uid BETWEEN ? AND ? GROUP BY status;

-- name: set_counts
UPDATE jobs SET succeeded = :succeeded, failed = :failed, timed_out = :timed_out, cached = :cached,
    skipped = :skipped, cancelled = :cancelled
WHERE id = :job;

-- name: begin_run
UPDATE jobs SET state = 'running', started_utc = coalesce(started_utc, :utc), finished_utc = NULL, settings = :settings,
    out = :out, worker = :worker, unfinished = '{}'
WHERE id = :job;

-- name: worker_of
SELECT worker FROM jobs WHERE id = ?;

-- name: owner_of
SELECT jobs.name, workers.name, workers.pid FROM jobs LEFT JOIN workers ON workers.id = jobs.worker WHERE jobs.id = ?;

-- name: set_state
UPDATE jobs SET state = :state, finished_utc = :finished_utc WHERE id = :job;

-- name: end_run
UPDATE jobs SET state = :state, finished_utc = :finished_utc, unfinished = :unfinished WHERE id = :job;

-- name: count_up
UPDATE jobs SET succeeded = succeeded + :succeeded, failed = failed + :failed, timed_out = timed_out + :timed_out,
    cached = cached + :cached, skipped = skipped + :skipped, cancelled = cancelled + :cancelled,
    attempts = attempts + :attempts, refused = refused + :refused,
    input_tokens = input_tokens + :input_tokens, output_tokens = output_tokens + :output_tokens,
    cost_usd = cost_usd + :cost_usd, unpriced = unpriced + :unpriced, repeated = repeated + :repeated,
    repeated_usd = repeated_usd + :repeated_usd, repeated_tokens = repeated_tokens + :repeated_tokens,
    unsure = unsure + :unsure, unsure_usd = unsure_usd + :unsure_usd
WHERE id = :job;

-- name: add_use
INSERT INTO uses (route, job, attempts, refused, input_tokens, output_tokens, cost_usd, unpriced, repeated, repeated_usd,
    repeated_tokens, unsure, unsure_usd, lane)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (route) DO UPDATE SET
    attempts = uses.attempts + excluded.attempts, refused = uses.refused + excluded.refused,
    input_tokens = uses.input_tokens + excluded.input_tokens,
    output_tokens = uses.output_tokens + excluded.output_tokens, cost_usd = uses.cost_usd + excluded.cost_usd,
    unpriced = uses.unpriced + excluded.unpriced, repeated = uses.repeated + excluded.repeated,
    repeated_usd = uses.repeated_usd + excluded.repeated_usd,
    repeated_tokens = uses.repeated_tokens + excluded.repeated_tokens, unsure = uses.unsure + excluded.unsure,
    unsure_usd = uses.unsure_usd + excluded.unsure_usd, lane = coalesce(excluded.lane, uses.lane);

-- name: use_by_route
SELECT route, attempts, refused, input_tokens, output_tokens, cost_usd, unpriced, repeated, repeated_usd, repeated_tokens,
    unsure, unsure_usd, lane
FROM uses WHERE job = ? ORDER BY route;

-- name: use_by_lane
SELECT lane, sum(attempts), sum(refused), sum(input_tokens), sum(output_tokens), sum(cost_usd), sum(unpriced),
    sum(repeated), sum(repeated_usd), sum(repeated_tokens), sum(unsure), sum(unsure_usd), lane
FROM uses WHERE lane IS NOT NULL GROUP BY lane;

-- name: forget_uses
DELETE FROM uses WHERE job = ?;

-- name: intend
UPDATE units SET status = 'assigned', lane = ? WHERE uid IN (SELECT value FROM json_each(?));

-- name: release
UPDATE units SET status = 'pending' WHERE uid = ? AND status = 'assigned';

-- name: note_running
UPDATE units SET status = 'running', started_utc = column1 FROM (VALUES (?1, ?2)) WHERE uid = column2;

-- name: change_unit
UPDATE units SET status = column1, attempts = attempts + column2, lane = coalesce(column3, lane), code = column4, message = column5,
    not_before_utc = column6, started_utc = coalesce(column7, started_utc), finished_utc = column8, input_tokens = column9,
    output_tokens = column10, cached_tokens = column11,
    cost_usd = coalesce(cost_usd + column12, cost_usd, column12) -- NULL as long as no cost is known
FROM (VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)) -- rows of other units may follow, one for each
WHERE uid = column13;

-- name: add_attempt
INSERT INTO attempts (uid, number, worker, lane, outcome, kind, message, status_code, request_id, started_utc, finished_utc,
    input_tokens, output_tokens, cached_tokens, cost_usd, charged_tokens, charged_input, charged_output, rate_limit, again_utc)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20);

-- name: add_answer
INSERT INTO answers (uid, status_code, request_id, body) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (uid) DO UPDATE SET status_code = excluded.status_code, request_id = excluded.request_id, body = excluded.body;

-- name: add_repair
INSERT INTO repairs (uid, attempt, answer, request, more_chars, open) VALUES (?, ?, ?, ?, ?, ?);

-- name: close_repairs
UPDATE repairs SET open = 0 WHERE uid = ? AND open = 1;

-- name: open_repairs
SELECT repairs.uid & 4294967295, attempt, answer, request, more_chars FROM repairs JOIN units ON units.uid = repairs.uid
WHERE repairs.uid BETWEEN ? AND ? AND open = 1 AND status NOT IN ('succeeded', 'cached') ORDER BY repairs.uid;

-- name: first_answers
-- The answers that were corrected in the same conversation, also those that units have from others.
SELECT units.uid & 4294967295, repairs.answer
FROM units LEFT JOIN hits ON hits.uid = units.uid CROSS JOIN repairs ON repairs.uid = coalesce(hits.source, units.uid)
WHERE units.uid IN (SELECT value FROM json_each(?)) AND open = 1 AND answer IS NOT NULL;

-- name: repairs_of
SELECT uid & 4294967295, attempt, answer, request, more_chars FROM repairs WHERE uid = ? ORDER BY id;

-- name: add_event
INSERT INTO events (job, at_utc, lane, what, text, until_utc) VALUES (?, ?, ?, ?, ?, ?);

-- name: events
SELECT id, at_utc, lane, what, text, until_utc FROM events WHERE job = ? AND id > ? ORDER BY id;

-- name: add_node_event
INSERT INTO node_events (job, at_utc, type, node, unit, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: node_events
SELECT id, at_utc, type, node, unit, data FROM node_events WHERE job = ? AND id > ? ORDER BY id LIMIT ?;

-- name: last_node_event
SELECT coalesce(max(id), 0) FROM node_events;

-- name: node_executions
-- How the executions of each node are now, by their last event of these types: how many, and the first of them.
SELECT node, type, count(*), unit, data, min(id) FROM node_events
WHERE id IN (
    SELECT max(id) FROM node_events WHERE job = ? AND type IN (SELECT value FROM json_each(?)) GROUP BY node, unit
)
GROUP BY node, type ORDER BY node, min(id);

-- name: node_spans
SELECT node, min(at_utc), max(at_utc) FROM node_events
WHERE job = ? AND type IN ('node.started', 'node.finished', 'node.failed') GROUP BY node;

-- name: units_of_label
-- Those that failed come first.
SELECT units.uid & 4294967295, custom_id, status, attempts, coalesce(message, ''), cost_usd, started_utc, finished_utc
FROM routes CROSS JOIN units ON units.route = routes.id
WHERE routes.job = ? AND routes.label = ?
ORDER BY status IN ('failed', 'timed_out', 'cancelled') DESC, units.uid LIMIT ?;

-- name: route_units
SELECT route, status, count(*), min(started_utc), max(finished_utc) FROM units
WHERE uid BETWEEN ? AND ? GROUP BY route, status;

-- name: route_times
SELECT units.route, min(attempts.started_utc), max(attempts.finished_utc), count(*), sum(outcome = 'throttled'),
    coalesce(sum(attempts.cost_usd), 0.0)
FROM attempts CROSS JOIN units ON units.uid = attempts.uid
WHERE attempts.uid BETWEEN ? AND ? GROUP BY units.route ORDER BY units.route;

-- name: add_lane
INSERT INTO lanes (key, name) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET name = excluded.name
RETURNING id, key, name, record, view, updated_utc;

-- name: set_lane
UPDATE lanes SET record = ?, view = ?, updated_utc = ? WHERE id = ?;

-- name: lanes
SELECT id, key, name, record, view, updated_utc FROM lanes ORDER BY name, key;

-- name: latest_starts
SELECT lane, started_utc, charged_tokens, charged_input, charged_output, finished_utc, id FROM attempts
WHERE id <= ? ORDER BY id DESC LIMIT ?;

-- name: attempt_span
SELECT min(started_utc), max(finished_utc) FROM attempts WHERE uid BETWEEN ? AND ?;

-- name: attempt_starts
SELECT lane, CAST((started_utc - ?3) / ?4 AS INTEGER) AS place, count(*),
    sum(coalesce(charged_tokens, input_tokens + output_tokens, 0)), sum(outcome = 'throttled')
FROM attempts WHERE uid BETWEEN ?1 AND ?2 AND started_utc IS NOT NULL GROUP BY lane, place;

-- name: attempt_ends
SELECT lane, CAST((finished_utc - ?3) / ?4 AS INTEGER) AS place, count(*), sum(outcome = 'succeeded'), sum(coalesce(cost_usd, 0))
FROM attempts WHERE uid BETWEEN ?1 AND ?2 AND started_utc IS NOT NULL AND finished_utc IS NOT NULL GROUP BY lane, place;

-- name: attempt_charges
SELECT lane, coalesce(charged_tokens, input_tokens + output_tokens, 0), coalesce(charged_input, input_tokens, 0),
    coalesce(charged_output, output_tokens, 0), finished_utc - started_utc
FROM attempts WHERE uid BETWEEN ? AND ? AND outcome = 'succeeded' AND started_utc IS NOT NULL AND finished_utc IS NOT NULL
    AND lane IS NOT NULL
ORDER BY uid LIMIT ?;

-- name: last_attempt
SELECT coalesce(max(id), 0) FROM attempts;

-- name: add_worker
INSERT INTO workers (job, name, pid, status, started_utc) VALUES (?, ?, ?, ?, ?) RETURNING id;

-- name: set_worker
UPDATE workers SET status = ?, ended_utc = ? WHERE id = ?;

-- name: add_process
INSERT INTO workers (job, name, pid, status, started_utc, ended_utc, run, uid) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id;

-- name: set_process
UPDATE workers SET status = ?, ended_utc = ?, uid = ? WHERE id = ?;

-- name: end_workers
UPDATE workers SET status = 'terminated', ended_utc = ? WHERE job = ? AND status IN ('idle', 'busy');

-- name: end_lost_workers
UPDATE workers SET status = 'failed', -- a process that died recorded no end: it worked at least until its last unit ended
    ended_utc = max(started_utc, coalesce((SELECT max(finished_utc) FROM units WHERE uid BETWEEN ? AND ?), started_utc))
WHERE job = ? AND status IN ('idle', 'busy');

-- name: workers
SELECT id, name, pid, status, started_utc, ended_utc, run, uid & 4294967295 FROM workers WHERE job = ? ORDER BY id;

-- name: add_command
INSERT INTO commands (job, at_utc, what, args) VALUES (?, ?, ?, ?) RETURNING id;

-- name: open_commands
SELECT id, what, args FROM commands WHERE job = ? AND done_utc IS NULL ORDER BY id;

-- name: end_command
UPDATE commands SET done_utc = ? WHERE id = ?;

-- name: drop_commands
UPDATE commands SET done_utc = ? WHERE job = ? AND done_utc IS NULL AND at_utc < ?;

-- name: note_claimant
INSERT INTO claimants (id, job, seen_utc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET seen_utc = excluded.seen_utc;

-- name: claimants
-- Those of other jobs that were seen within the last ?2 seconds; ?3 is now.
SELECT id FROM claimants WHERE job <> ?1 AND abs(seen_utc - ?3) <= ?2;

-- name: clock_utc
-- The time of a store that has a clock of its own, and not that of this machine.
SELECT NULL;

-- name: claim
INSERT OR REPLACE INTO claims (claimant, lane, claim) VALUES (?, ?, ?);

-- name: changed_claims
SELECT claimants.id, claims.lane, coalesce(jobs.name, ''), claims.claim, lanes.name, lanes.key, claims.change
FROM claims JOIN claimants ON claimants.id = claims.claimant LEFT JOIN jobs ON jobs.id = claimants.job JOIN lanes ON lanes.id = claims.lane
WHERE claimants.job <> ?1 AND claims.change > ?2 ORDER BY claims.change;

-- name: forget_claims
DELETE FROM claims WHERE claimant IN (SELECT id FROM claimants WHERE job = ?);

-- name: forget_claimants
DELETE FROM claimants WHERE job = ?;

-- name: forget_old_claims
DELETE FROM claims WHERE claimant IN (SELECT id FROM claimants WHERE abs(seen_utc - ?2) > ?1);

-- name: forget_old_claimants
DELETE FROM claimants WHERE abs(seen_utc - ?2) > ?1;

-- name: results
SELECT units.uid & 4294967295, custom_id, status, lanes.name, attempts, units.input_tokens, units.output_tokens,
    units.cached_tokens, cost_usd, started_utc, finished_utc, code, message, requests.metadata,
    answers.status_code, answers.request_id, answers.body, routes.provider, routes.model
FROM units
JOIN routes ON routes.id = units.route
JOIN requests ON requests.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid
LEFT JOIN answers ON answers.uid = coalesce(hits.source, units.uid)
LEFT JOIN lanes ON lanes.id = units.lane
WHERE units.uid > ? AND units.uid <= ?
ORDER BY units.uid LIMIT ?;

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
WHERE units.job = ? AND custom_id IN (SELECT value FROM json_each(?));

-- name: unit_ends
SELECT uid & 4294967295, custom_id, status, code, message, cost_usd FROM units
WHERE uid > ? AND uid <= ? AND status NOT IN ('pending', 'assigned', 'running') ORDER BY uid LIMIT ?;

-- name: unit_ends_among
SELECT units.uid & 4294967295, custom_id, status, code, message, cost_usd FROM json_each(?) AS asked
CROSS JOIN units ON units.uid = asked.value WHERE status NOT IN ('pending', 'assigned', 'running');

-- name: first_unended
SELECT min(uid) & 4294967295 FROM units WHERE uid BETWEEN ? AND ? AND status IN ('pending', 'assigned', 'running');

-- name: attempts_of
SELECT number, worker, lanes.name, outcome, kind, message, status_code, request_id, started_utc, finished_utc, input_tokens,
    output_tokens, cached_tokens, cost_usd, rate_limit, again_utc
FROM attempts LEFT JOIN lanes ON lanes.id = attempts.lane
WHERE attempts.uid = ? ORDER BY attempts.id;

-- name: failures
SELECT ends.code, ends.n, units.uid & 4294967295, coalesce(units.message, '')
FROM (
    SELECT coalesce(code, '') AS code, count(*) AS n, min(uid) AS first FROM units
    WHERE uid BETWEEN ? AND ? AND status IN ('failed', 'timed_out', 'skipped', 'cancelled') GROUP BY 1
) AS ends JOIN units ON units.uid = ends.first
ORDER BY ends.n DESC, ends.first;

-- name: to_retry
SELECT tried.code, tried.n, units.uid & 4294967295, coalesce(units.message, '')
FROM (
    SELECT code, count(*) AS n, min(uid) AS first FROM units
    WHERE uid BETWEEN ? AND ? AND status = 'pending' AND code IS NOT NULL GROUP BY 1
) AS tried JOIN units ON units.uid = tried.first
ORDER BY tried.n DESC, tried.first;

-- name: per_route
SELECT route, status, count(*) FROM units WHERE uid BETWEEN ? AND ? GROUP BY route, status;

-- name: latencies
-- Of the units of these routes that succeeded: how many, their mean time, the median and the 95th percentile.
WITH timed AS (
    SELECT finished_utc - started_utc AS took, row_number() OVER (ORDER BY finished_utc - started_utc) AS place, count(*) OVER () AS n
    FROM units
    WHERE uid BETWEEN ? AND ? AND status = 'succeeded' AND started_utc IS NOT NULL AND route IN (SELECT value FROM json_each(?))
)
SELECT count(*), avg(took), max(CASE WHEN place = (n + 1) / 2 THEN took END), max(CASE WHEN place = (95 * n + 99) / 100 THEN took END)
FROM timed;

-- name: failed
SELECT uid & 4294967295 FROM units WHERE uid BETWEEN ? AND ? AND status IN ('failed', 'timed_out') ORDER BY uid;

-- name: edges_to_retry
-- The edges of units that failed, or were skipped because a unit before them failed.
SELECT units.uid & 4294967295, before & 4294967295, upstream.status FROM units
LEFT JOIN edges ON edges.uid = units.uid LEFT JOIN units AS upstream ON upstream.uid = before
WHERE units.uid BETWEEN ? AND ?
    AND (units.status IN ('failed', 'timed_out') OR (units.status = 'skipped' AND units.code = 'upstream_failed'))
ORDER BY units.uid;

-- name: routes_taken
SELECT routes.id FROM routes JOIN jobs ON jobs.id = routes.job
WHERE routes.provider = ? AND routes.model = ? AND jobs.succeeded > 0 ORDER BY routes.id DESC LIMIT 50;

-- name: usage_samples
-- The inner limit bounds what is read where most of a route still waits.
SELECT chars, max_tokens, input_tokens, output_tokens, coalesce(cached_tokens, 0), finished_utc - started_utc, route,
    family
FROM (SELECT * FROM units WHERE route = ? LIMIT ?) AS tried
WHERE status = 'succeeded' AND input_tokens IS NOT NULL AND finished_utc >= started_utc;

-- name: turn_totals
-- Of the units of a route: what they took, and then what the answers took that were corrected in the same conversation.
SELECT total(input_tokens), total(output_tokens), total(finished_utc - started_utc), total(cost_usd)
FROM units WHERE route = ?1 AND status = 'succeeded'
UNION ALL
SELECT total(attempts.input_tokens), total(attempts.output_tokens), total(attempts.finished_utc - attempts.started_utc),
    total(attempts.cost_usd)
FROM units CROSS JOIN attempts ON attempts.uid = units.uid
WHERE route = ?1 AND status = 'succeeded' AND units.attempts > 1 AND outcome = 'failed' AND attempts.output_tokens IS NOT NULL;

-- name: program_runs
SELECT (SELECT sum(finished_utc - started_utc) FROM attempts
        WHERE attempts.uid = tried.uid AND outcome <> 'lost' AND finished_utc >= started_utc), cost_usd
FROM (SELECT uid, status, cost_usd FROM units WHERE route = ? LIMIT ?) AS tried
WHERE status = 'succeeded';

-- The cache.

-- name: keyed
SELECT basis, upto, able FROM keyed WHERE job = ?;

-- name: set_keyed
INSERT INTO keyed (job, basis, upto, able) VALUES (?, ?, -1, 0)
ON CONFLICT (job) DO UPDATE SET basis = excluded.basis, upto = -1, able = 0;

-- name: count_keyed
UPDATE keyed SET upto = ?, able = able + ? WHERE job = ?;

-- name: unkeyed
SELECT units.uid & 4294967295, route, path, body FROM units JOIN requests ON requests.uid = units.uid
WHERE units.uid > ? AND units.uid <= ? AND status NOT IN ('succeeded', 'cached')
    AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid) -- their requests are not known yet
ORDER BY units.uid LIMIT ?;

-- name: add_key
INSERT INTO keys (uid, key) VALUES (?, ?) ON CONFLICT (uid) DO UPDATE SET key = excluded.key;

-- name: find_hits
SELECT units.uid, cache.uid, cache.input_tokens, cache.output_tokens, cache.cached_tokens, cache.cost_usd
FROM units CROSS JOIN keys ON keys.uid = units.uid CROSS JOIN cache ON cache.key = keys.key
WHERE units.uid > :after AND units.uid <= :last AND status = 'pending'
    AND (:only IS NULL OR units.uid IN (SELECT value FROM json_each(:only)))
ORDER BY units.uid LIMIT :limit;

-- name: find_same
SELECT units.uid, coalesce(hits.source, earlier.uid), earlier.input_tokens, earlier.output_tokens, earlier.cached_tokens,
    coalesce(earlier.cost_usd, hits.saved_usd, 0)
FROM units
CROSS JOIN units AS earlier ON earlier.uid = units.uid + :apart AND earlier.custom_id = units.custom_id
CROSS JOIN requests AS asked ON asked.uid = units.uid
CROSS JOIN requests AS before ON before.uid = earlier.uid AND before.path = asked.path AND before.body = asked.body
LEFT JOIN hits ON hits.uid = earlier.uid
WHERE units.uid > :after AND units.uid <= :last AND units.status = 'pending' AND earlier.status IN ('succeeded', 'cached')
ORDER BY units.uid LIMIT :limit;

-- name: sources_upstream
-- For each edge of these units: the answer that its job has for the unit before, and the answer that the earlier job has.
SELECT edges.uid, before, own.source, coalesce(theirs.source, before + :apart)
FROM edges LEFT JOIN hits AS own ON own.uid = before LEFT JOIN hits AS theirs ON theirs.uid = before + :apart
WHERE edges.uid IN (SELECT value FROM json_each(:uids));

-- name: waiting_upto
-- The last of the next waiting units.
SELECT max(uid) FROM (
    SELECT uid FROM units WHERE uid > ? AND uid <= ? AND status = 'pending' ORDER BY uid LIMIT ?
) AS page;

-- name: find_same_id
SELECT units.uid, coalesce(hits.source, earlier.uid), earlier.input_tokens, earlier.output_tokens, earlier.cached_tokens,
    coalesce(earlier.cost_usd, hits.saved_usd, 0)
FROM units
CROSS JOIN units AS earlier ON earlier.job = :earlier AND earlier.custom_id = units.custom_id
CROSS JOIN routes ON routes.id = units.route
CROSS JOIN routes AS before_route
    ON before_route.id = earlier.route AND before_route.provider = routes.provider AND before_route.model = routes.model
CROSS JOIN requests AS asked ON asked.uid = units.uid
CROSS JOIN requests AS before ON before.uid = earlier.uid AND before.path = asked.path AND before.body = asked.body
LEFT JOIN hits ON hits.uid = earlier.uid
WHERE units.uid > :after AND units.uid <= :last AND units.status = 'pending' AND earlier.status IN ('succeeded', 'cached')
    AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.uid IN (units.uid, earlier.uid))
ORDER BY units.uid;

-- name: make_reusable
-- The answered requests of an earlier job that a changed input may take over, by their digests.
CREATE TEMPORARY TABLE reusable (key BLOB NOT NULL, uid INTEGER NOT NULL, PRIMARY KEY (key, uid)) WITHOUT ROWID;

-- name: add_reusable
INSERT INTO reusable (key, uid) VALUES (?, ?);

-- name: take_reusable
DELETE FROM reusable WHERE key = ?1 AND uid = (SELECT min(uid) FROM reusable WHERE key = ?1) RETURNING uid;

-- name: drop_reusable
DROP TABLE reusable;

-- name: waiting_requests
SELECT units.uid, provider, model, path, body
FROM units CROSS JOIN routes ON routes.id = units.route CROSS JOIN requests ON requests.uid = units.uid
WHERE units.uid > ? AND units.uid <= ? AND status = 'pending' AND custom_id LIKE ?
    AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid)
ORDER BY units.uid LIMIT ?;

-- name: untaken_requests
SELECT units.uid, provider, model, path, body
FROM units CROSS JOIN routes ON routes.id = units.route CROSS JOIN requests ON requests.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid
WHERE units.uid > ?1 AND units.uid <= ?2 AND status IN ('succeeded', 'cached') AND custom_id LIKE ?3
    AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid)
    AND NOT EXISTS (
        SELECT 1 FROM hits AS taken
        WHERE taken.source = coalesce(hits.source, units.uid) AND taken.uid BETWEEN ?4 AND ?5
    )
ORDER BY units.uid LIMIT ?6;

-- name: answers_to_copy
SELECT units.uid, coalesce(hits.source, units.uid), input_tokens, output_tokens, cached_tokens,
    coalesce(cost_usd, hits.saved_usd, 0)
FROM units LEFT JOIN hits ON hits.uid = units.uid WHERE units.uid IN (SELECT value FROM json_each(?));

-- name: answered_request
SELECT provider, model, path, body
FROM units CROSS JOIN routes ON routes.id = units.route CROSS JOIN requests ON requests.uid = units.uid
WHERE units.job = ? AND custom_id = ? AND status IN ('succeeded', 'cached')
    AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid);

-- name: answered_source
-- A unit with an answer: the unit that has the answer itself, and the request.
SELECT coalesce(hits.source, units.uid), provider, model, path, body
FROM units CROSS JOIN routes ON routes.id = units.route CROSS JOIN requests ON requests.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid
WHERE units.job = ? AND custom_id = ? AND status IN ('succeeded', 'cached')
    AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid);

-- name: sent_requests
-- The requests of answered units that waited for others, as they were sent, each with the unit that has the answer.
SELECT coalesce(hits.source, units.uid), units.uid, provider, model, path, coalesce(rendered.body, of_source.body)
FROM units CROSS JOIN routes ON routes.id = units.route CROSS JOIN requests ON requests.uid = units.uid
LEFT JOIN rendered ON rendered.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid LEFT JOIN rendered AS of_source ON of_source.uid = hits.source
WHERE units.uid > ? AND units.uid <= ? AND status IN ('succeeded', 'cached')
    AND EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid) AND coalesce(rendered.body, of_source.body) IS NOT NULL
ORDER BY units.uid LIMIT ?;

-- name: waiting_late
-- The next units that have edges and wait.
SELECT units.uid & 4294967295, provider, model
FROM units CROSS JOIN routes ON routes.id = units.route
WHERE units.uid > ? AND units.uid <= ? AND status = 'pending' AND EXISTS (SELECT 1 FROM edges WHERE edges.uid = units.uid)
ORDER BY units.uid LIMIT ?;

-- name: count_open_edges
SELECT count(*) FROM edges CROSS JOIN units ON units.uid = edges.before
WHERE edges.uid = ? AND status NOT IN ('succeeded', 'cached');

-- name: original_figures
-- When the request of a unit's answer was sent, when the answer came, and what it cost.
SELECT source.started_utc, source.finished_utc, coalesce(source.cost_usd, hits.saved_usd)
FROM hits LEFT JOIN units AS source ON source.uid = hits.source WHERE hits.uid = ?;

-- name: found_by_key
SELECT cache.uid, body FROM cache JOIN answers ON answers.uid = cache.uid WHERE key = ?;

-- name: other_unit_by_key
SELECT cache.uid FROM cache CROSS JOIN answers ON answers.uid = cache.uid WHERE key = ? AND cache.uid >> 32 <> ?;

-- name: answered_unit
SELECT units.uid, keys.key FROM units CROSS JOIN keys ON keys.uid = units.uid
WHERE job = ? AND custom_id = ? AND status IN ('succeeded', 'cached');

-- name: key_of
SELECT key FROM keys WHERE uid = ?;

-- name: forget_key
DELETE FROM cache WHERE key = ? RETURNING uid;

-- name: answers_of_sources
-- Also of a removed job, as long as the cache has the answer.
SELECT asked.value, answers.uid, coalesce(cache.input_tokens, units.input_tokens), coalesce(cache.output_tokens, units.output_tokens),
    coalesce(cache.cached_tokens, units.cached_tokens), coalesce(cache.cost_usd, units.cost_usd, hits.saved_usd, 0)
FROM json_each(?) AS asked
LEFT JOIN hits ON hits.uid = asked.value CROSS JOIN answers ON answers.uid = coalesce(hits.source, asked.value)
LEFT JOIN units ON units.uid = asked.value LEFT JOIN cache ON cache.uid = answers.uid;

-- name: hit_unit
UPDATE units SET status = 'cached', code = NULL, message = NULL, not_before_utc = NULL, finished_utc = ?,
    input_tokens = ?, output_tokens = ?, cached_tokens = ?
WHERE uid = ?;

-- name: add_hit
INSERT INTO hits (uid, source, saved_usd) VALUES (?, ?, ?);

-- name: group_followers
INSERT INTO followers (uid, leader)
SELECT uid, leader FROM (
    SELECT units.uid, first_value(units.uid) OVER (
        PARTITION BY route, key ORDER BY serial DESC, priority DESC, units.uid
    ) AS leader
    FROM units JOIN keys ON keys.uid = units.uid
    WHERE units.uid BETWEEN :first AND :last AND status = 'pending'
        AND (:only IS NULL OR units.uid IN (SELECT value FROM json_each(:only)))
) AS groups
WHERE uid <> leader AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.before = groups.uid); -- the scheduler must know when it ends

-- name: count_followers
SELECT count(*) FROM followers WHERE uid BETWEEN ? AND ?;

-- name: followers_of
SELECT followers.uid, leader FROM followers JOIN units ON units.uid = followers.uid
WHERE leader IN (SELECT value FROM json_each(?)) AND status = 'pending' ORDER BY followers.uid;

-- name: end_follower
UPDATE units SET status = ?, code = ?, message = ?, finished_utc = ? WHERE uid = ?;

-- name: add_cached
INSERT INTO cache (key, uid, provider, model, bytes, input_tokens, output_tokens, cached_tokens, cost_usd, at_utc)
SELECT key, keys.uid, provider, model, ?, ?, ?, ?, ?, ?
FROM keys JOIN units ON units.uid = keys.uid JOIN routes ON routes.id = units.route
WHERE keys.uid = ? AND length(key) <= 16 ON CONFLICT DO NOTHING; -- a longer key is the job's own

-- name: leading_per_route
SELECT route, count(*) FROM units
WHERE uid BETWEEN ? AND ? AND status = 'pending'
    AND NOT EXISTS (SELECT 1 FROM followers WHERE followers.uid = units.uid)
GROUP BY route;

-- name: leading_of_route
SELECT uid & 4294967295, chars, max_tokens, priority, route, attempts, family,
    coalesce((SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0)
FROM units
WHERE route = ? AND priority = ? AND serial = 0 AND uid > ? AND status = 'pending'
    AND NOT EXISTS (SELECT 1 FROM followers WHERE followers.uid = units.uid)
ORDER BY uid LIMIT ?;

-- name: leading_sizes_of_route
SELECT uid & 4294967295, chars, max_tokens, family FROM units
WHERE route = ? AND priority = ? AND serial = 0 AND uid > ? AND status = 'pending'
    AND NOT EXISTS (SELECT 1 FROM followers WHERE followers.uid = units.uid)
ORDER BY uid LIMIT ?;

-- name: leading_serial
SELECT uid & 4294967295, chars, max_tokens, priority, route, attempts, family,
    coalesce((SELECT length(body) FROM requests WHERE requests.uid = units.uid), 0)
FROM units
WHERE uid > ? AND uid <= ? AND status = 'pending' AND (serial = 1 OR ?)
    AND NOT EXISTS (SELECT 1 FROM followers WHERE followers.uid = units.uid)
ORDER BY uid LIMIT ?;

-- name: saved
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(saved_usd), 0.0)
FROM hits JOIN units ON units.uid = hits.uid WHERE hits.uid BETWEEN ? AND ?;

-- name: source_of
SELECT jobs.name, source & 4294967295, units.custom_id FROM hits
LEFT JOIN units ON units.uid = source LEFT JOIN jobs ON jobs.id = source >> 32
WHERE hits.uid = ?;

-- name: entries_by_model
SELECT provider, model, count(*), sum(bytes), min(at_utc), max(at_utc) FROM cache
WHERE at_utc < ?1 AND (?2 IS NULL OR ?2 IN (model, provider || '/' || model))
GROUP BY provider, model ORDER BY provider, model;

-- name: clear_cache
DELETE FROM cache
WHERE at_utc < ?1 AND (?2 IS NULL OR ?2 IN (model, provider || '/' || model))
RETURNING uid;

-- name: drop_answer
DELETE FROM answers WHERE uid = ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = answers.uid >> 32)
AND NOT EXISTS (SELECT 1 FROM cache WHERE cache.uid = answers.uid)
AND NOT EXISTS (SELECT 1 FROM hits WHERE hits.source = answers.uid);

-- name: add_run_sample
INSERT INTO run_samples (job, tick, step, at_utc, ended, cost_usd)
SELECT id, ?1, ?2, ?3, succeeded + failed + timed_out + cached + skipped + cancelled, cost_usd FROM jobs WHERE id = ?4
ON CONFLICT (job, tick) DO UPDATE SET at_utc = excluded.at_utc, ended = excluded.ended, cost_usd = excluded.cost_usd;

-- name: add_lane_sample
INSERT INTO lane_samples (job, lane, tick, starts, tokens, input_tokens, output_tokens, refused, in_flight, "window", queued, remaining,
    request_limit, token_limit, input_limit, output_limit, level)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
ON CONFLICT (job, lane, tick) DO UPDATE SET starts = excluded.starts, tokens = excluded.tokens, input_tokens = excluded.input_tokens,
    output_tokens = excluded.output_tokens, refused = excluded.refused, in_flight = excluded.in_flight, "window" = excluded."window",
    queued = excluded.queued, remaining = excluded.remaining, request_limit = excluded.request_limit,
    token_limit = excluded.token_limit, input_limit = excluded.input_limit, output_limit = excluded.output_limit,
    level = excluded.level;

-- name: drop_run_samples
DELETE FROM run_samples WHERE job = ? AND tick IN (SELECT value FROM json_each(?));

-- name: drop_lane_samples
DELETE FROM lane_samples WHERE job = ? AND tick IN (SELECT value FROM json_each(?));

-- name: sample_ticks
SELECT tick, step FROM run_samples WHERE job = ? ORDER BY tick;

-- name: last_samples
-- The latest sample of each lane: SQLite takes the other columns from the row with the maximum.
SELECT lane, starts, tokens, input_tokens, output_tokens, refused, max(tick) FROM lane_samples WHERE job = ? GROUP BY lane;

-- name: run_samples
SELECT tick, at_utc, ended, cost_usd FROM run_samples
WHERE job = ?1 AND tick >= coalesce((SELECT max(tick) FROM run_samples WHERE job = ?1 AND tick < ?2), 0) ORDER BY tick;

-- name: lane_samples
SELECT lanes.name, tick, lane, starts, tokens, input_tokens, output_tokens, refused, in_flight, "window", queued, remaining,
    request_limit, token_limit, input_limit, output_limit, level
FROM lane_samples CROSS JOIN lanes ON lanes.id = lane WHERE job = ? AND tick >= ? ORDER BY lane, tick;

-- name: add_lane_wait
INSERT INTO lane_waits (job, lane, reason, for_limit, seconds) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (job, lane, reason, for_limit) DO UPDATE SET seconds = lane_waits.seconds + excluded.seconds;

-- name: lane_waits
SELECT name, reason, for_limit, sum(seconds) AS waited FROM lane_waits CROSS JOIN lanes ON lanes.id = lane
WHERE job = ? GROUP BY name, reason, for_limit ORDER BY waited DESC, name, reason, for_limit;

-- name: forget_run_samples
DELETE FROM run_samples WHERE job = ?;

-- name: forget_lane_samples
DELETE FROM lane_samples WHERE job = ?;

-- name: forget_lane_waits
DELETE FROM lane_waits WHERE job = ?;

-- name: listed_units
-- Units as rows of a list, in the order of the numbers. Of bodies only the beginning is read: a file in a prompt may have megabytes.
SELECT units.uid & 4294967295, custom_id, status, coalesce(lanes.name, routes.provider || iif(routes.model = '', '', '/' || routes.model)),
    attempts, started_utc, finished_utc, cost_usd, code, message,
    substr(coalesce(rendered.body, of_source.body, requests.body), 1, ?2), substr(answers.body, 1, ?2)
FROM json_each(?1) AS asked
CROSS JOIN units ON units.uid = asked.value
JOIN routes ON routes.id = units.route
JOIN requests ON requests.uid = units.uid
LEFT JOIN rendered ON rendered.uid = units.uid
LEFT JOIN hits ON hits.uid = units.uid
LEFT JOIN rendered AS of_source ON of_source.uid = hits.source
LEFT JOIN answers ON answers.uid = coalesce(hits.source, units.uid)
LEFT JOIN lanes ON lanes.id = units.lane
ORDER BY asked.key;

-- name: next_uids
SELECT uid FROM units WHERE uid > ? AND uid <= ? ORDER BY uid LIMIT ?;

-- name: filtered_uids
-- ?3, ?4, ?5: lists of statuses, of codes, and of lanes; ?6: the routes of units that no lane has had yet. NULL: any.
SELECT uid FROM units WHERE uid > ?1 AND uid <= ?2
    AND (?3 IS NULL OR status IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR code IN (SELECT value FROM json_each(?4)))
    AND (?5 IS NULL OR lane IN (SELECT value FROM json_each(?5)) OR (lane IS NULL AND route IN (SELECT value FROM json_each(?6))))
ORDER BY uid LIMIT ?7;

-- name: filtered_among
SELECT uid FROM json_each(?1) AS asked CROSS JOIN units ON units.uid = asked.value
WHERE (?2 IS NULL OR status IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR code IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR lane IN (SELECT value FROM json_each(?4)) OR (lane IS NULL AND route IN (SELECT value FROM json_each(?5))))
ORDER BY asked.key;

-- name: uids_by_id_prefix
SELECT uid, custom_id FROM units WHERE job = ? AND custom_id >= ? AND custom_id < ? AND custom_id > ? ORDER BY custom_id LIMIT ?;

-- name: attempted_since
-- The units of recorded attempts, of any job.
SELECT id, uid FROM attempts WHERE id > ? ORDER BY id LIMIT ?;

-- name: lanes_named
SELECT id FROM lanes WHERE name = ?;

-- name: tally_attempts
SELECT lane, outcome, kind, count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_usd), 0.0)
FROM attempts WHERE id > ? AND id <= ? GROUP BY lane, outcome, kind;

-- name: tally_waits
SELECT lane, reason, sum(seconds) FROM lane_waits GROUP BY lane, reason;

-- name: set_settings
UPDATE jobs SET settings = ? WHERE id = ?;
