-- What attempts left behind besides their outcome: output, memory, files, the turns of a conversation. Most have nothing; `note`
-- is JSON.

CREATE TABLE notes (
    uid INTEGER NOT NULL,
    number INTEGER NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (uid, number)
) WITHOUT ROWID;
