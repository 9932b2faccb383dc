"""Ways to watch a run: lines for people, JSON for programs, the progress file, the log file. Observers all; none can disturb it."""
