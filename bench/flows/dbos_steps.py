"""Steps of DBOS that do nothing, on SQLite: a chain, and 100 at a time. Runs in the venv of `make dbos`, without Headway.

python dbos_steps.py FILE.sqlite delete|wal STEPS → one line of JSON. Nothing is exported, and no server is contacted.
"""

import asyncio
import json
import sqlite3
import sys
import time

from dbos import DBOS, DBOSConfig

AT_ONCE = 100


@DBOS.step()
async def step(number: int) -> int:
    """Do nothing."""
    return number


@DBOS.workflow()
async def chain(steps: int) -> int:
    """One step after the other."""
    value = 0
    for _ in range(steps):
        value = await step(value)
    return value


@DBOS.workflow()
async def fan_out(steps: int) -> int:
    """A hundred steps at a time."""
    done = 0
    for first in range(0, steps, AT_ONCE):
        done += len(await asyncio.gather(*(step(n) for n in range(first, min(steps, first + AT_ONCE)))))
    return done


async def main(path: str, journal: str, steps: int) -> None:
    """Measure both workflows."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{path}",
        "log_level": "ERROR",
        "enable_otlp": False,
    }
    # The journal mode belongs to the file; DBOS leaves it, and `synchronous`, as they are.
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA journal_mode = {journal}")
    DBOS(config=config)
    DBOS.launch()
    await chain(10)
    rates = {}
    for name, workflow in (("chain", chain), ("fan_out", fan_out)):
        began = time.perf_counter()
        await workflow(steps)
        rates[name] = steps / (time.perf_counter() - began)
    with sqlite3.connect(path) as database:
        rates["recorded"] = database.execute("SELECT count(*) FROM operation_outputs").fetchone()[0]
    DBOS.destroy()
    print(json.dumps(rates))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
