"""How many attempts a lane has in flight: the adaptive window, and what sizes it."""
