-- How a job went over time, so that it can be watched from another terminal, and after a crash. Samples are at most a second apart at
-- first. When there are too many, every second one is removed and new ones are twice as far apart (`step`, in seconds). `tick` is the
-- second of the epoch at which a sample counts.
CREATE TABLE run_samples (
    job INTEGER NOT NULL,
    tick INTEGER NOT NULL,
    step INTEGER NOT NULL,
    at_utc REAL NOT NULL,
    ended INTEGER NOT NULL,          -- units that have ended, over all runs
    cost_usd REAL NOT NULL,          -- the known cost, over all runs
    PRIMARY KEY (job, tick)
) WITHOUT ROWID;

CREATE TABLE lane_samples (
    job INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    tick INTEGER NOT NULL,
    starts INTEGER NOT NULL,         -- attempts, over all runs of the job; and so for tokens and refusals
    tokens REAL NOT NULL,            -- as the meters of the lane were charged
    input_tokens REAL NOT NULL,
    output_tokens REAL NOT NULL,
    refused INTEGER NOT NULL,
    in_flight INTEGER NOT NULL,
    window INTEGER,                  -- NULL: no limit is known
    queued INTEGER NOT NULL,         -- units in memory that could start
    remaining INTEGER NOT NULL,      -- all units that are neither in flight nor ended
    request_limit REAL,              -- for a minute: the lowest limit in force; NULL: none is known
    token_limit REAL,
    input_limit REAL,
    output_limit REAL,
    level REAL,                      -- what is left of the limit that has least left, from 0 to 1
    PRIMARY KEY (job, lane, tick)
) WITHOUT ROWID;

-- How long the next unit of a lane waited, and for what: the codes of `core/reasons.WaitCode`. `for_limit` is the limit that set the pace.
CREATE TABLE lane_waits (
    job INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    reason TEXT NOT NULL,
    for_limit TEXT NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (job, lane, reason, for_limit)
) WITHOUT ROWID;

-- When the unit of an attempt that failed could be tried again; NULL: at once, or not at all.
ALTER TABLE attempts ADD COLUMN again_utc REAL;
-- When a unit was added to a job that ran; NULL: together with its job.
ALTER TABLE units ADD COLUMN created_utc REAL;
