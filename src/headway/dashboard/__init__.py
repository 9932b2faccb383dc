"""The dashboard: a web server that shows the jobs of a store, live and afterwards, and steers those that run.

It reads through `reports` and writes only what a command of the CLI writes. It can slow no run: it has its own process and its own connections.
"""
