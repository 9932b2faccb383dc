-- Which process runs a job, by the clock of the server. `holder` is the number of the lease, and of an advisory lock that its process holds as
-- long as it lives. `server` is when the server was started that the process has seen last.
CREATE TABLE leases (
    job text COLLATE "C" PRIMARY KEY,
    holder bigint NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    place text COLLATE "C" NOT NULL, -- which lock of its machine the process holds, too; '': that is not known
    server timestamptz NOT NULL,
    lasts interval NOT NULL,
    until timestamptz NOT NULL,
    progress bytea                   -- what `progress.json` has on the machine of the process
) WITH (fillfactor = 50);

-- Whether the process of a lease may still run its job. A process that dies loses its lock at once. One that is stopped, or whose machine has
-- vanished, keeps it until its time is over. A server that was restarted has no locks: it waits as long for the process to come back.
CREATE FUNCTION is_live(lease leases) RETURNS boolean LANGUAGE sql AS $$
    SELECT CASE WHEN lease.server = pg_postmaster_start_time()
        THEN lease.until > clock_timestamp() AND EXISTS (
            SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (classid::bigint << 32) + objid::bigint = lease.holder
        )
        ELSE greatest(lease.until, pg_postmaster_start_time() + lease.lasts) > clock_timestamp() END
$$;

-- Jobs that were handed to engines (`headway submit`): see migration 19 of SQLite.
CREATE TABLE submissions (
    job bigint PRIMARY KEY,
    wanted bigint NOT NULL,
    submitted_utc double precision NOT NULL,
    claimed_until double precision NOT NULL DEFAULT 0
);

CREATE FUNCTION decide_submission() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE submissions SET wanted = 0, claimed_until = 0 WHERE job = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER decide_submission AFTER UPDATE OF state ON jobs FOR EACH ROW EXECUTE FUNCTION decide_submission();

-- Engines that wait for jobs (`headway serve`) wait for these: a job was handed over, or a process has ended its run.
CREATE FUNCTION tell_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_TABLE_SCHEMA || '_work', '0');
    RETURN NULL;
END
$$;
CREATE TRIGGER tell_work AFTER INSERT OR UPDATE ON submissions FOR EACH ROW WHEN (NEW.wanted <> 0) EXECUTE FUNCTION tell_work();
CREATE TRIGGER tell_end AFTER DELETE ON leases FOR EACH ROW EXECUTE FUNCTION tell_work();
