"""The only place that picks concrete parts."""
