"""Typed reports about jobs, units and lanes, for the commands, the displays and a dashboard.

Reports read the store and the files beside it. They change nothing, print nothing and contain no sentences.
"""
