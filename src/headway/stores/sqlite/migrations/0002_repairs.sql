-- What a job's answers and its table have to look like, for whoever goes on with it: JSON, `schema` and `columns`.
ALTER TABLE jobs ADD COLUMN form TEXT NOT NULL DEFAULT '{}';

-- Answers that came well and did not fit. `request` is what was asked next, the whole conversation; NULL: nothing was.
-- While `open`, the unit goes on with it, or has its answer from it; one that ended otherwise starts over.
CREATE TABLE repairs (
    id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    job INTEGER AS (uid >> 32) VIRTUAL,
    "index" INTEGER AS (uid & 4294967295) VIRTUAL,
    attempt INTEGER NOT NULL,        -- the number of the attempt whose answer it was
    answer BLOB NOT NULL,
    request BLOB,
    more_chars INTEGER NOT NULL DEFAULT 0,  -- how much longer than the unit's own request that is
    open INTEGER NOT NULL
);
CREATE INDEX repairs_by_unit ON repairs (uid, open);

-- The conversation of every unit, now with the turns in which an answer was asked for again.
DROP VIEW messages;
CREATE VIEW messages AS
WITH
    asked AS (
        SELECT requests.uid, coalesce(repairs.request, requests.body) AS body
        FROM requests LEFT JOIN repairs ON repairs.uid = requests.uid AND repairs.open = 1
    ),
    sent AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM asked),
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
