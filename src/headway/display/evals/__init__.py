"""Evals on the terminal and in files: a table, JSON, CSV, JUnit XML, Markdown, and the text of a comparison."""
