"""The units of a lane that are in memory: which waits, which starts next, and when more are fetched."""
