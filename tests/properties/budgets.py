"""How hard Hypothesis tries: the same examples each time, a minute in all; HEADWAY_PROPERTY_EXAMPLES asks for more.

`HEADWAY_PROPERTY_EXAMPLES=20000 pytest tests/properties --timeout=0` is a long run. Only a long run shrinks what it
finds: that takes minutes, and a test has two.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

WANTED = int(os.environ.get("HEADWAY_PROPERTY_EXAMPLES", "0"))


def thorough(examples: int, *, steps: int = 50) -> settings:
    """For a property that is to hold."""
    phases = (Phase.generate, Phase.shrink) if WANTED else (Phase.generate,)
    return _settings(max(examples, WANTED), steps, phases)


def hunt(examples: int, *, steps: int = 50) -> settings:
    """For a property that is to fail: the first counterexample will do, however long it is."""
    return _settings(examples, steps, (Phase.generate,))


def _settings(examples: int, steps: int, phases: tuple[Phase, ...]) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        deadline=None,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
