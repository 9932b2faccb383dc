-- How a job went over time, what its lanes waited for, and two times: see migration 18 of SQLite.
CREATE TABLE run_samples (
    job bigint NOT NULL,
    tick bigint NOT NULL,
    step bigint NOT NULL,
    at_utc double precision NOT NULL,
    ended bigint NOT NULL,
    cost_usd double precision NOT NULL,
    PRIMARY KEY (job, tick)
);

CREATE TABLE lane_samples (
    job bigint NOT NULL,
    lane bigint NOT NULL,
    tick bigint NOT NULL,
    starts bigint NOT NULL,
    tokens double precision NOT NULL,
    input_tokens double precision NOT NULL,
    output_tokens double precision NOT NULL,
    refused bigint NOT NULL,
    in_flight bigint NOT NULL,
    "window" bigint,
    queued bigint NOT NULL,
    remaining bigint NOT NULL,
    request_limit double precision,
    token_limit double precision,
    input_limit double precision,
    output_limit double precision,
    level double precision,
    PRIMARY KEY (job, lane, tick)
);

CREATE TABLE lane_waits (
    job bigint NOT NULL,
    lane bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    for_limit text COLLATE "C" NOT NULL,
    seconds double precision NOT NULL,
    PRIMARY KEY (job, lane, reason, for_limit)
) WITH (fillfactor = 50);

ALTER TABLE attempts ADD COLUMN again_utc double precision;
ALTER TABLE units ADD COLUMN created_utc double precision;
