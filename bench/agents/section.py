"""The section `agents` of bench/RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.agents.program_times import in_turns

PROGRAMS: Final = 2_000
AT_ONCE: Final = 4
TURNS: Final = 5
#: How many times the time of a bare loop a unit may take, with everything recorded.
BAR: Final = 1.3


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print("agents: short programs …", flush=True)
    times = in_turns(PROGRAMS, AT_ONCE, TURNS)
    yield f"## {PROGRAMS:,} runs of `/bin/true`, beside a bare `asyncio.create_subprocess_exec`"
    yield ""
    yield (
        f"{AT_ONCE} at once; each way in its own process, in turns; the median of {TURNS}. *plain*: the program is started and waited for. "
        "*pipes*: it also gets a prompt, and its output is kept, as Headway does. `headway run`: from the first start to the last end, "
        "with intent, attempt, answer and output recorded."
    )
    yield ""
    yield "| | µs per program | × plain | × pipes | bar |"
    yield "|---|---|---|---|---|"
    for way, one in times.items():
        barred = way.startswith("headway")
        bar = f"≤ {BAR:g} × plain" if barred else ""
        yield f"| {way} | {one.us:,.0f} | {one.beside_plain:.2f} | {one.beside_pipes:.2f} | {bar} |"
        if barred and one.beside_plain > BAR:
            missed.append(f"{way}: {one.beside_plain:.2f} × a bare loop, the bar is {BAR:g}")
    yield ""
