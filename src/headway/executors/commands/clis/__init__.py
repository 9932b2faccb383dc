"""The agent CLIs: how each is started, and how its events are read. Everything here is pure."""
