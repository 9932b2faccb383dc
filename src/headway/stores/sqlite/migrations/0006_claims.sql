-- What jobs that run now want of a lane, so that they share its limits by weight. One that is not renewed is nobody's.
CREATE TABLE claims (
    lane INTEGER NOT NULL,
    job INTEGER NOT NULL,
    claim TEXT NOT NULL,             -- JSON
    seen_utc REAL NOT NULL,
    PRIMARY KEY (lane, job)
) WITHOUT ROWID;
