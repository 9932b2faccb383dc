"""Ways to watch a run: lines for people, JSON for programs, the progress file. Observers all; none can disturb it."""
