-- Whose run a job is: the number of the worker that began it last. Every commit of a run is checked against it, so that a process that
-- lost the job to another one records nothing more, even where locks do not work. NULL: it was not run since this was added.
ALTER TABLE jobs ADD COLUMN worker INTEGER;
