"""Virtual providers and virtual time: the real scheduler against models of real limits, in seconds instead of hours."""
