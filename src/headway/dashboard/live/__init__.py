"""What changes while someone looks: one poller for each job that is watched, shared by all who watch it."""
