"""The least that a durable step costs: an `asyncio` loop, a function that does nothing, and one synced commit of SQLite for each step.

python bare_steps.py FILE.sqlite STEPS → steps per second. It has no retries, no graph and no resume.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time


async def step(number: int) -> int:
    """Do nothing."""
    await asyncio.sleep(0)
    return number


async def main(path: str, steps: int) -> None:
    """Run the steps, one after the other."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = wal")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE steps (number INTEGER PRIMARY KEY, answer TEXT NOT NULL)")
    began = time.perf_counter()
    for number in range(steps):
        answer = json.dumps(await step(number))
        database.execute("INSERT INTO steps VALUES (?, ?)", (number, answer))
    print(steps / (time.perf_counter() - began))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
