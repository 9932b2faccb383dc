"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine may take a second to load the tables that the first text is drawn from: that says nothing of a strategy.
settings.register_profile("house", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("house")
