-- Units that wait for other units of their job. `role` says what the request of a unit takes from the answer that it waits for: the
-- kind of job gives it a meaning (a batch: "conversation", or "register:NAME").
CREATE TABLE edges (
    uid INTEGER NOT NULL,            -- waits …
    role TEXT NOT NULL,
    before INTEGER NOT NULL,         -- … for this unit
    PRIMARY KEY (uid, role)
) WITHOUT ROWID;
CREATE INDEX edges_by_before ON edges (before);

-- The requests of units that wait for others, as they were sent: made from the unit's own row (`requests`) and from those answers.
CREATE TABLE rendered (
    uid INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

DROP VIEW messages;
CREATE VIEW messages AS
WITH
    asked AS (
        SELECT requests.uid, coalesce(repairs.request, rendered.body, of_source.body, requests.body) AS body
        FROM requests LEFT JOIN repairs ON repairs.uid = requests.uid AND repairs.open = 1
        LEFT JOIN rendered ON rendered.uid = requests.uid
        LEFT JOIN hits ON hits.uid = requests.uid LEFT JOIN rendered AS of_source ON of_source.uid = hits.source
    ),
    sent AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM asked),
    theirs AS (
        SELECT units.uid, body FROM units JOIN answers ON answers.uid = units.uid
        UNION ALL SELECT hits.uid, body FROM hits JOIN answers ON answers.uid = hits.source
    ),
    got AS (SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM theirs),
    said AS (
        SELECT uid, coalesce(body -> '$.choices[0].message', body -> '$.content', body -> '$.output') AS content FROM got
        WHERE NOT EXISTS (SELECT 1 FROM notes WHERE notes.uid = got.uid AND note -> '$.messages' IS NOT NULL)
    )
SELECT uid >> 32 AS job, uid & 4294967295 AS "index", -1 AS position, 'system' AS role, body -> '$.system' AS content,
    NULL AS attempt
FROM sent WHERE body -> '$.system' IS NOT NULL
UNION ALL
SELECT uid >> 32, uid & 4294967295, turn.key, turn.value ->> '$.role', turn.value -> '$.content', NULL
FROM sent, json_each(sent.body, '$.messages') AS turn WHERE turn.type = 'object'
UNION ALL
SELECT uid >> 32, uid & 4294967295, turn.key, turn.value ->> '$.role', coalesce(turn.value -> '$.content', turn.value),
    number
FROM notes, json_each(notes.note, '$.messages') AS turn WHERE turn.type = 'object'
UNION ALL
SELECT uid >> 32, uid & 4294967295, 1000000, 'assistant', content, NULL
FROM said WHERE content IS NOT NULL;
