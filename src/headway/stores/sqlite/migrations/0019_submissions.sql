-- Jobs that were handed to engines (`headway submit`). `wanted`: since then nothing has been decided about the job, and the next engine
-- takes it. Every run, and every command that ends the job, decides.
CREATE TABLE submissions (
    job INTEGER PRIMARY KEY,
    wanted INTEGER NOT NULL,
    submitted_utc REAL NOT NULL,
    claimed_until REAL NOT NULL DEFAULT 0 -- until then an engine starts a process for it
);
CREATE TRIGGER decide_submission AFTER UPDATE OF state ON jobs BEGIN
    UPDATE submissions SET wanted = 0, claimed_until = 0 WHERE job = NEW.id;
END;
