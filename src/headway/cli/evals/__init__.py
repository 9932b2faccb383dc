"""The commands for evals."""
