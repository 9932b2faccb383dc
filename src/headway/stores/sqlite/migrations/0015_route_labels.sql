-- A job may have several routes with one provider and model, with different labels. A batch has routes without labels.
CREATE TABLE labelled_routes (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    provider TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    priorities TEXT NOT NULL DEFAULT '[0]',  -- JSON: those that occur, the highest first
    label TEXT NOT NULL DEFAULT '',          -- the kind of job chooses it: the node of a flow
    UNIQUE (job, provider, model, label)
);
INSERT INTO labelled_routes (id, job, provider, kind, model, priorities) SELECT id, job, provider, kind, model, priorities FROM routes;
DROP TABLE routes;
ALTER TABLE labelled_routes RENAME TO routes;
