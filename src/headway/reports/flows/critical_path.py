"""The critical path of a run: the chain of steps whose end was the end of the run. PURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec


class PathStep(msgspec.Struct, frozen=True):
    """A step of the path. `waited_s` is the time from the end of the step before it (or the start of the run) to its own start: it
    waited for a place, a lane or a worker. Pauses between runs of the job do not count.
    """

    step: str
    started_utc: float
    ended_utc: float
    waited_s: float
    #: Pauses between its start and its end.
    paused_s: float = 0.0

    @property
    def took_s(self) -> float:
        """How long it ran."""
        return max(0.0, self.ended_utc - self.started_utc - self.paused_s)


def _no_pause(start: float, end: float) -> float:
    return 0.0


def critical_path(
    after: Mapping[str, Sequence[str]],
    times: Mapping[str, tuple[float, float]],
    began_utc: float,
    paused: Callable[[float, float], float] = _no_pause,
) -> tuple[PathStep, ...]:
    """From the step that ended last back to the first: before each step comes the one of those it waited for that ended last. Steps
    without times (skipped) are passed through to those before them. `paused`: the pauses between two instants.
    """
    if not times:
        return ()
    step: str | None = max(times, key=lambda one: times[one][1])
    steps: list[str] = []
    while step is not None:
        steps.append(step)
        before = _timed_before(step, after, times)
        step = max(before, key=lambda one: times[one][1], default=None)
    path = []
    earlier = began_utc
    for name in reversed(steps):
        started, ended = times[name]
        waited = max(0.0, started - earlier - paused(earlier, started))
        path.append(PathStep(name, started, ended, waited, paused(started, ended)))
        earlier = ended
    return tuple(path)


def _timed_before(
    step: str, after: Mapping[str, Sequence[str]], times: Mapping[str, tuple[float, float]]
) -> set[str]:
    """The steps with times that a step waited for."""
    timed: set[str] = set()
    seen: set[str] = set()
    open_ones = list(after.get(step, ()))
    while open_ones:
        one = open_ones.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in times:
            timed.add(one)
        else:
            open_ones += after.get(one, ())
    return timed
