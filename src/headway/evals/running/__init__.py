"""Runs an eval as a job: its units and their edges, late requests, answers taken over, and the results that follow from the records."""
