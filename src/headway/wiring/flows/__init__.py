"""Flows joined to the store and the settings: their jobs, their forecasts, and what a changed flow keeps."""
