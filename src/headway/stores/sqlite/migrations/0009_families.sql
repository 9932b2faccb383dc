-- Units that ask the same thing with other contents: what is learned of answers is learned by family. `shape` is a hash of
-- parameters, system prompt and schema, `words` a JSON list of hashes of what the texts share.
CREATE TABLE families (
    route INTEGER NOT NULL,
    number INTEGER NOT NULL,         -- within the route, from 1 on
    shape INTEGER NOT NULL,
    firm INTEGER NOT NULL,           -- whether the shape alone tells it
    "rows" INTEGER NOT NULL,
    words TEXT NOT NULL,
    PRIMARY KEY (route, number)
) WITHOUT ROWID;

ALTER TABLE units ADD COLUMN family INTEGER NOT NULL DEFAULT 0;
