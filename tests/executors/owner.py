"""A program with a pool, for tests that kill it: prints the processes of its workers, then waits."""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from pathlib import Path

import msgspec

from headway.executors.entry_point import EntryPoint
from headway.executors.process_pool import ProcessPool


async def main(folder: Path) -> None:
    pool = ProcessPool(EntryPoint("unit_functions:serve", pickle.dumps(())), 4)
    units = [
        asyncio.create_task(
            pool.run(msgspec.json.encode({"do": "children", "file": str(folder / how), "how": how}), 60.0)
        )
        for how in ("hold", "stop", "return")
    ]
    strays = msgspec.json.encode({"do": "strays", "file": str(folder / "strays"), "how": "hold"})
    units.append(asyncio.create_task(pool.run(strays, 60.0)))
    await asyncio.to_thread(_wait_for, folder)
    sys.stdout.write(" ".join(map(str, [*pool.pids, pool.guardian])) + "\n")
    sys.stdout.flush()
    await asyncio.sleep(60)


def _wait_for(folder: Path) -> None:
    while not all(_pids(folder / how) for how in ("hold", "stop", "return", "strays")):
        time.sleep(0.01)


def _pids(path: Path) -> list[str]:
    found = path.read_text().split() if path.exists() else []
    return found if len(found) == 3 else []


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
