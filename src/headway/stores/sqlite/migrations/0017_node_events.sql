-- What happened to the nodes of a flow and to its state. Attempts of units have records of their own.
CREATE TABLE node_events (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at_utc REAL NOT NULL,
    type TEXT NOT NULL,              -- run.started, run.finished, node.ready, node.started, …, state.write
    node TEXT NOT NULL,              -- '': of the whole run
    unit TEXT NOT NULL,              -- '': of the whole node
    data TEXT NOT NULL               -- JSON object
);
CREATE INDEX node_events_by_job ON node_events (job);
