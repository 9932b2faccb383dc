-- What a job's attempts came to, by route, so that lanes and their budgets can be told what they have cost: `unpriced` have
-- usage and no price, `repeated` were paid for and gave no answer, `unsure` may have cost up to `unsure_usd`, which nobody
-- told. `lane` is the one that the route went through last.

CREATE TABLE uses (
    route INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    repeated INTEGER NOT NULL,
    repeated_usd REAL NOT NULL,
    repeated_tokens INTEGER NOT NULL,
    unsure INTEGER NOT NULL,
    unsure_usd REAL NOT NULL,
    lane INTEGER
);
CREATE INDEX uses_by_job ON uses (job);

ALTER TABLE jobs ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN repeated_usd REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN repeated_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN unsure INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN unsure_usd REAL NOT NULL DEFAULT 0;
