-- Values that a kind of job keeps beside its units, in numbered lists: the rows of a data set, approvals.
CREATE TABLE job_values (
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    n INTEGER NOT NULL,              -- its place in the list, from 0
    value BLOB NOT NULL,
    PRIMARY KEY (job, name, n)
) WITHOUT ROWID;
