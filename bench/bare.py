"""The smallest program that sends a batch: aiohttp, uvloop, msgspec and some workers. It does not record, pace or retry.

It runs in its own process, so that its CPU can be compared with that of `headway run`: it reads the same rows, builds the
same bodies, and decodes the answers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop


class _Row(msgspec.Struct):
    body: dict[str, Any]
    url: str


class _Answer(msgspec.Struct):
    choices: list[Any]
    usage: dict[str, Any]


def _bodies(path: Path) -> Iterator[tuple[str, bytes]]:
    decode, encode = msgspec.json.Decoder(_Row).decode, msgspec.json.Encoder().encode
    with path.open("rb") as file:
        for line in file:
            row = decode(line)
            row.body["model"] = row.body["model"].partition("/")[2]
            yield row.url, encode(row.body)


async def _work(session: aiohttp.ClientSession, url: str, bodies: Iterator[tuple[str, bytes]]) -> int:
    done = 0
    decode = msgspec.json.Decoder(_Answer).decode
    for path, body in bodies:
        response = await session.post(url + path, data=body)
        answer = decode(await response.read())
        done += bool(answer.choices)
    return done


async def main(url: str, path: Path, workers: int) -> int:
    """Send all rows."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer bare"}
    bodies = _bodies(path)
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, headers=headers) as session:
        return sum(await asyncio.gather(*(_work(session, url, bodies) for _ in range(workers))))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
