-- Files that go with requests, each stored once, by its content. A request has a mark with the digest where the file belongs.
CREATE TABLE attachments (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,     -- BLAKE2b, 32 bytes
    type TEXT NOT NULL,              -- image/png, application/pdf …
    width INTEGER NOT NULL,          -- 0 for a PDF
    height INTEGER NOT NULL,
    pages INTEGER NOT NULL,          -- 0 for an image
    size INTEGER NOT NULL,
    data BLOB NOT NULL
);

-- Which jobs use a file. A file that no job uses is removed together with its last job.
CREATE TABLE attachment_uses (
    job INTEGER NOT NULL,
    attachment INTEGER NOT NULL,
    PRIMARY KEY (job, attachment)
) WITHOUT ROWID;
CREATE INDEX attachment_uses_by_attachment ON attachment_uses (attachment);
