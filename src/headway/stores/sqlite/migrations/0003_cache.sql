-- Answers by what was asked, across jobs. A body is stored once, with the unit that asked first: the cache and every
-- unit that was answered from it point there.

-- What a unit's request is the same as; filled only where a run uses the cache.
CREATE TABLE keys (
    uid INTEGER PRIMARY KEY,
    key BLOB NOT NULL
);

-- How far a job's keys are made, and for what: which requests count as repeatable, and where each route leads.
CREATE TABLE keyed (
    job INTEGER PRIMARY KEY,
    basis TEXT NOT NULL,
    upto INTEGER NOT NULL,           -- the last index that was looked at
    able INTEGER NOT NULL            -- how many units have a key
);

-- Units that wait for another of their job which asks the same. Made anew by every run that uses the cache.
CREATE TABLE followers (
    uid INTEGER PRIMARY KEY,
    leader INTEGER NOT NULL
);
CREATE INDEX followers_by_leader ON followers (leader);

CREATE TABLE cache (
    key BLOB PRIMARY KEY,
    uid INTEGER NOT NULL,            -- the unit whose answer it is
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    cost_usd REAL NOT NULL,          -- what the call cost; 0 where its price was not known
    at_utc REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX cache_by_uid ON cache (uid);

-- Units that were answered without a call: whose answer it is, and what the call would have cost.
CREATE TABLE hits (
    uid INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    saved_usd REAL NOT NULL
);
CREATE INDEX hits_by_source ON hits (source);

DROP VIEW messages;
CREATE VIEW messages AS
WITH
    asked AS (
        SELECT requests.uid, coalesce(repairs.request, requests.body) AS body
        FROM requests LEFT JOIN repairs ON repairs.uid = requests.uid AND repairs.open = 1
    ),
    sent AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM asked),
    theirs AS (
        SELECT units.uid, body FROM units JOIN answers ON answers.uid = units.uid
        UNION ALL SELECT hits.uid, body FROM hits JOIN answers ON answers.uid = hits.source
    ),
    got AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM theirs),
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
