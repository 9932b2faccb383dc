"""What is known of jobs, units and lanes, as typed records: read by the commands, the displays and the dashboard.

Reports read the store and files beside it. They change nothing, print nothing and word nothing.
"""
