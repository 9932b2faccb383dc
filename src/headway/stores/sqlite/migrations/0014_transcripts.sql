-- What programs and agent CLIs print, line by line, written while they run. `line` is as it was printed, without secrets; a row that
-- Headway added itself has an empty line. `messages` are the messages that the line stands for, as JSON.
CREATE TABLE transcripts (
    id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    number INTEGER NOT NULL,         -- of the attempt
    seq INTEGER NOT NULL,            -- of the line within the attempt, from 0
    at_utc REAL NOT NULL,
    line BLOB NOT NULL,
    messages TEXT NOT NULL
);
CREATE INDEX transcripts_by_unit ON transcripts (uid);

-- Worker processes are workers, too.
ALTER TABLE workers ADD COLUMN run INTEGER;  -- the worker whose run started the process; NULL: it is a run itself
ALTER TABLE workers ADD COLUMN uid INTEGER;  -- the unit that it runs, or ran when it ended
CREATE INDEX workers_by_job ON workers (job);
CREATE INDEX living_workers ON workers (job, uid) WHERE status IN ('idle', 'busy');

-- The conversation of every unit, as every API writes it: chat completions, Anthropic, Responses, Gemini, Converse. `attempt` is NULL for
-- what a request and its answer say. `position` orders the messages of an attempt. `content` is JSON: the content of a message that has
-- nothing else, otherwise the whole message (tool calls, ids).
DROP VIEW messages;
CREATE VIEW messages AS
WITH
    asked AS (
        SELECT requests.uid, path, coalesce(repairs.request, rendered.body, of_source.body, requests.body) AS body
        FROM requests LEFT JOIN repairs ON repairs.uid = requests.uid AND repairs.open = 1
        LEFT JOIN rendered ON rendered.uid = requests.uid
        LEFT JOIN hits ON hits.uid = requests.uid LEFT JOIN rendered AS of_source ON of_source.uid = hits.source
    ),
    sent AS (SELECT uid, path, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM asked),
    theirs AS (
        SELECT units.uid, body FROM units JOIN answers ON answers.uid = units.uid
        UNION ALL SELECT hits.uid, body FROM hits JOIN answers ON answers.uid = hits.source
    ),
    got AS (
        SELECT uid, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body FROM theirs
        WHERE NOT EXISTS (SELECT 1 FROM notes WHERE notes.uid = theirs.uid AND note -> '$.messages' IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM transcripts WHERE transcripts.uid = theirs.uid)
    ),
    said AS (
        SELECT uid, choice.key AS number, coalesce(choice.value -> '$.message', choice.value -> '$.text') AS content
        FROM got, json_each(got.body, '$.choices') AS choice WHERE choice.type = 'object'
        UNION ALL
        SELECT uid, candidate.key, candidate.value -> '$.content.parts'
        FROM got, json_each(got.body, '$.candidates') AS candidate WHERE candidate.type = 'object'
        UNION ALL
        SELECT uid, 0, coalesce(body -> '$.output.message.content', body -> '$.content', body -> '$.output') FROM got
    ),
    conversation AS (
        SELECT uid, -1 AS position, 'system' AS role,
            coalesce(body -> '$.system', body -> '$.systemInstruction.parts', body -> '$.system_instruction.parts',
                CASE WHEN path LIKE '%/responses%' THEN body -> '$.instructions' END) AS content, NULL AS attempt
        FROM sent
        UNION ALL
        SELECT uid, turn.key, turn.value ->> '$.role',
            CASE WHEN json_remove(turn.value, '$.role', '$.content') = '{}' THEN turn.value -> '$.content' ELSE turn.value END, NULL
        FROM sent, json_each(sent.body, '$.messages') AS turn WHERE turn.type = 'object'
        UNION ALL
        SELECT uid, turn.key, CASE turn.value ->> '$.role' WHEN 'model' THEN 'assistant' ELSE coalesce(turn.value ->> '$.role', 'user') END,
            turn.value -> '$.parts', NULL
        FROM sent, json_each(sent.body, '$.contents') AS turn WHERE turn.type = 'object'
        UNION ALL
        SELECT uid, turn.key,
            coalesce(turn.value ->> '$.role', CASE WHEN turn.value ->> '$.type' LIKE '%_output' THEN 'tool' ELSE 'assistant' END),
            CASE WHEN turn.value ->> '$.role' IS NULL THEN turn.value ELSE turn.value -> '$.content' END, NULL
        FROM sent, json_each(sent.body, '$.input') AS turn WHERE turn.type = 'object' AND sent.path LIKE '%/responses%'
        UNION ALL
        SELECT uid, 0, 'user', body -> '$.input', NULL
        FROM sent WHERE json_type(body, '$.input') = 'text' AND sent.path LIKE '%/responses%'
        UNION ALL
        SELECT uid, 0, 'user', body -> '$.prompt', NULL FROM sent
        WHERE json_type(body, '$.prompt') = 'text'
        AND NOT EXISTS (SELECT 1 FROM notes WHERE notes.uid = sent.uid AND note -> '$.messages' IS NOT NULL)
        UNION ALL
        SELECT uid, turn.key, turn.value ->> '$.role', coalesce(turn.value -> '$.content', turn.value), number
        FROM notes, json_each(notes.note, '$.messages') AS turn WHERE turn.type = 'object'
        UNION ALL
        SELECT uid, seq * 10000 + turn.key, turn.value ->> '$.role', coalesce(turn.value -> '$.content', turn.value), number
        FROM transcripts, json_each(transcripts.messages) AS turn WHERE turn.type = 'object'
        UNION ALL
        SELECT uid, 1000000 + number, 'assistant', content, NULL FROM said
    )
SELECT uid >> 32 AS job, uid & 4294967295 AS "index", position, role, content, attempt FROM conversation WHERE content IS NOT NULL;
