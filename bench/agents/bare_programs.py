"""The loop that a user would write: programs by `asyncio.create_subprocess_exec`, so many at once, with nothing recorded.

`python bare_programs.py PROGRAMS AT_ONCE plain|pipes` prints its seconds. `pipes`: the program gets a prompt, and its output is kept.
"""

from __future__ import annotations

import asyncio
import sys
import time

PROMPT = b"hello"
PROGRAM = "/bin/true"


async def run_one(*, pipes: bool) -> None:
    """Run the program once."""
    if not pipes:
        process = await asyncio.create_subprocess_exec(PROGRAM)
        code = await process.wait()
    else:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await process.communicate(PROMPT)
        code = process.returncode or 0
    if code != 0:
        raise RuntimeError(f"{PROGRAM}: exit code {code}")


async def run_all(programs: int, at_once: int, *, pipes: bool) -> float:
    """Run so many programs; returns the seconds."""
    left = iter(range(programs))

    async def work() -> None:
        for _ in left:
            await run_one(pipes=pipes)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return time.perf_counter() - began


if __name__ == "__main__":
    print(asyncio.run(run_all(int(sys.argv[1]), int(sys.argv[2]), pipes=sys.argv[3] == "pipes")))
