"""Evals: prompts × providers × tests, read from promptfoo's configuration, run as one job, graded, and reported."""
