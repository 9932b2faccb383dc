"""The units of a job, out of the store: which are next, and what each of them sends."""
