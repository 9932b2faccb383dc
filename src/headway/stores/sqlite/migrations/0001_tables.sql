-- A unit's key is one integer, its job in the upper half and its index in the lower: the fastest key that SQLite has,
-- and the rows of a job lie side by side. What people ask for by job and index, the generated columns answer.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs (
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
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    timed_out INTEGER NOT NULL DEFAULT 0,
    cached INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    created_utc REAL NOT NULL,
    started_utc REAL,
    finished_utc REAL
);
CREATE INDEX jobs_by_digest ON jobs (digest);

-- Where a unit is to be sent. Which lane that is depends on the key of the day, so it is decided at the start of a run.
CREATE TABLE routes (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    provider TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    priorities TEXT NOT NULL DEFAULT '[0]',  -- JSON: those that occur, the highest first
    UNIQUE (job, provider, model)
);

CREATE TABLE units (
    uid INTEGER PRIMARY KEY,
    job INTEGER AS (uid >> 32) VIRTUAL,
    "index" INTEGER AS (uid & 4294967295) VIRTUAL,
    custom_id TEXT NOT NULL,
    route INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    priority INTEGER NOT NULL DEFAULT 0,
    serial INTEGER NOT NULL DEFAULT 0,
    chars INTEGER NOT NULL DEFAULT 0,
    max_tokens INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    lane INTEGER,
    code TEXT,
    message TEXT,
    not_before_utc REAL,
    started_utc REAL,
    finished_utc REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    cost_usd REAL
);
CREATE UNIQUE INDEX units_by_custom_id ON units (job, custom_id);
CREATE INDEX units_by_route ON units (route, priority, serial, uid);

-- What is large has its own tables, so that a scan for open units reads nothing else.
CREATE TABLE requests (
    uid INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    body BLOB NOT NULL,
    metadata BLOB
);

CREATE TABLE answers (
    uid INTEGER PRIMARY KEY,
    status_code INTEGER,
    request_id TEXT,
    body BLOB NOT NULL
);

CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    job INTEGER AS (uid >> 32) VIRTUAL,
    "index" INTEGER AS (uid & 4294967295) VIRTUAL,
    number INTEGER NOT NULL,
    worker INTEGER,
    lane INTEGER,
    outcome TEXT NOT NULL,           -- succeeded, throttled, failed, timed_out, cancelled, lost
    kind TEXT,
    message TEXT,
    status_code INTEGER,
    request_id TEXT,
    started_utc REAL,
    finished_utc REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    cost_usd REAL,
    charged_tokens REAL,             -- what the lane's meters were charged, to restore their levels
    charged_input REAL,
    charged_output REAL,
    rate_limit TEXT                  -- JSON: source, retry_after_s, message, detected_utc
);
CREATE INDEX attempts_by_unit ON attempts (uid);

CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    record TEXT,                     -- JSON: what the lane has learned
    view TEXT,                       -- JSON: how it looked last
    updated_utc REAL
);

CREATE TABLE workers (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    pid INTEGER NOT NULL,
    status TEXT NOT NULL,            -- idle, busy, failed, terminated
    started_utc REAL NOT NULL,
    ended_utc REAL
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at_utc REAL NOT NULL,
    lane TEXT,
    what TEXT NOT NULL,
    text TEXT NOT NULL,
    until_utc REAL
);
CREATE INDEX events_by_job ON events (job);

-- What another terminal asks of a running job.
CREATE TABLE commands (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at_utc REAL NOT NULL,
    what TEXT NOT NULL,
    args TEXT NOT NULL DEFAULT '{}',
    done_utc REAL
);
CREATE INDEX commands_open ON commands (job) WHERE done_utc IS NULL;

-- The conversation of every unit, read out of what was sent and what came back; `content` is JSON.
CREATE VIEW messages AS
WITH
    sent AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM requests),
    got AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM answers),
    said AS (
        SELECT uid, coalesce(body -> '$.choices[0].message', body -> '$.content', body -> '$.output') AS content FROM got
    )
SELECT uid >> 32 AS job, uid & 4294967295 AS "index", -1 AS position, 'system' AS role, body -> '$.system' AS content
FROM sent WHERE body -> '$.system' IS NOT NULL
UNION ALL
SELECT uid >> 32, uid & 4294967295, turn.key, turn.value ->> '$.role', turn.value -> '$.content'
FROM sent, json_each(sent.body, '$.messages') AS turn WHERE turn.type = 'object'
UNION ALL
SELECT uid >> 32, uid & 4294967295, 1000000, 'assistant', content
FROM said WHERE content IS NOT NULL;
