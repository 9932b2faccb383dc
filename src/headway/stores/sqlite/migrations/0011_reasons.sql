-- What jobs.unfinished holds for a route is an object from here on: a reason's code and fields (`core/reasons`), and no longer
-- [code, message]. Rows of earlier versions are read as they are. An earlier version cannot read the new ones, and refuses the database
-- by its number.
UPDATE jobs SET unfinished = unfinished WHERE 0;
