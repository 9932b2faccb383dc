"""What changes a job or a lane while it runs: for the commands and for the dashboard, with the same texts.

Nothing here prints. A request goes through the store; the process that runs the job notices it within 250 ms.
"""
