"""Numbers of runs for Prometheus: what a run counts, and the same families over all jobs of a store.

families      the names, types, labels and help texts: one table
counted       totals of attempts by lane
lane_gauges   what lanes do now, as samples
labels        values of labels: safe, short, and of a bounded number
text_format   the exposition formats
run_metrics   an observer that keeps the numbers of its run
store_metrics the numbers of all jobs, from the store
open_port     the value of --metrics
http_server   serves a text at /metrics from a thread of its own
"""
