"""Observers that show a run (live view, text lines, JSON lines, progress file, log file), and the texts of reports.

A display that fails never disturbs the run.
"""
