-- A job's counters cannot contradict its units: none is negative, and no more units have ended than there are. Earlier versions
-- counted a unit of a worker pool twice that failed and was submitted again, so the counters are first made anew from the units'
-- states: one pass over `units`, in the order of its key. SQLite adds no constraint to a table, so `jobs` is made again.

CREATE TABLE jobs_counted (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,             -- ingesting, ready, running, paused, complete, failed, stopped, parked, deadline, budget, interrupted, cancelled
    input TEXT NOT NULL,             -- where its units came from
    digest TEXT NOT NULL,            -- of what the input holds
    models TEXT NOT NULL,            -- JSON: a model as the input names it → [provider, kind, model]
    settings TEXT NOT NULL,          -- JSON: what the latest run was told
    unfinished TEXT NOT NULL DEFAULT '{}',  -- JSON: a route's number → [code, message] of its units that the last run left
    out TEXT NOT NULL DEFAULT '',
    total INTEGER NOT NULL DEFAULT 0,
    serial INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    failed INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    timed_out INTEGER NOT NULL DEFAULT 0 CHECK (timed_out >= 0),
    cached INTEGER NOT NULL DEFAULT 0 CHECK (cached >= 0),
    skipped INTEGER NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    attempts INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    created_utc REAL NOT NULL,
    started_utc REAL,
    finished_utc REAL,
    form TEXT NOT NULL DEFAULT '{}', -- JSON: what its answers and its table have to look like
    unpriced INTEGER NOT NULL DEFAULT 0,
    repeated INTEGER NOT NULL DEFAULT 0,
    repeated_usd REAL NOT NULL DEFAULT 0,
    repeated_tokens INTEGER NOT NULL DEFAULT 0,
    unsure INTEGER NOT NULL DEFAULT 0,
    unsure_usd REAL NOT NULL DEFAULT 0,
    -- While a job takes in units its total is not known, and some may have their answer from an earlier job already.
    CHECK (state = 'ingesting' OR succeeded + failed + timed_out + cached + skipped + cancelled <= total)
);

INSERT INTO jobs_counted
SELECT jobs.id, name, kind, state, input, digest, models, settings, unfinished, out,
    max(total, ends.succeeded + ends.failed + ends.timed_out + ends.cached + ends.skipped + ends.cancelled), serial,
    ends.succeeded, ends.failed, ends.timed_out, ends.cached, ends.skipped, ends.cancelled,
    attempts, refused, input_tokens, output_tokens, cost_usd, created_utc, started_utc, finished_utc, form, unpriced,
    repeated, repeated_usd, repeated_tokens, unsure, unsure_usd
FROM jobs JOIN (
    SELECT jobs.id AS job,
        count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE status = 'failed') AS failed,
        count(*) FILTER (WHERE status = 'timed_out') AS timed_out,
        count(*) FILTER (WHERE status = 'cached') AS cached,
        count(*) FILTER (WHERE status = 'skipped') AS skipped,
        count(*) FILTER (WHERE status = 'cancelled') AS cancelled
    FROM jobs LEFT JOIN units ON units.uid BETWEEN jobs.id << 32 AND (jobs.id << 32) + 4294967295
    GROUP BY jobs.id
) AS ends ON ends.job = jobs.id;

-- What only such a count had made a failure.
UPDATE jobs_counted SET state = 'complete'
WHERE kind = 'pool' AND state = 'failed' AND total > 0 AND succeeded + cached = total;

DROP TABLE jobs;
ALTER TABLE jobs_counted RENAME TO jobs;
CREATE INDEX jobs_by_digest ON jobs (digest);
