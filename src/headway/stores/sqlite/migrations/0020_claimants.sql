-- What jobs and clients that run now want of a lane, so that they share its limits by weight. A claimant is one run of a job, or one
-- client; its claims count while it is seen. A claim is written when it changes, and gets the next number: who has looked before reads only
-- what is new.
DROP TABLE claims;
CREATE TABLE claimants (
    id INTEGER PRIMARY KEY,          -- the worker of a run; the number of a client
    job INTEGER NOT NULL,            -- of a client: its number again
    seen_utc REAL NOT NULL
);
CREATE TABLE claims (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    claimant INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    claim TEXT NOT NULL,             -- JSON
    UNIQUE (claimant, lane)
);
