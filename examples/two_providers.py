"""One list over two accounts, each at its own limit: `python examples/two_providers.py 300`

Every account is a lane with its own limits. The work is divided in proportion to these limits, so that both accounts finish
at about the same time. A 429 or a failure of one account delays nothing at the other.

Without a key:
    headway fake --port 8900 --config examples/fake.yaml &
    export LARGE_URL=http://127.0.0.1:8900/v1 LARGE_KEY=sk-large SMALL_URL=http://127.0.0.1:8900/v1 SMALL_KEY=sk-small
"""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import aiohttp

import headway

MODEL = os.environ.get("MODEL", "gpt-4.1-mini")
LIMITS = {"large": headway.Limits(rpm=3000, burst="1s"), "small": headway.Limits(rpm=600, burst="1s")}


class Question(NamedTuple):
    lane: str
    text: str


def divide(texts: list[str]) -> Iterator[Question]:
    """Gives each text to the lane that would finish it first."""
    busy_until = dict.fromkeys(LIMITS, 0.0)
    for text in texts:
        lane = min(LIMITS, key=lambda name: busy_until[name] + 1 / (LIMITS[name].rpm or 1))
        busy_until[lane] += 1 / (LIMITS[lane].rpm or 1)
        yield Question(lane, text)


async def answer_all(texts: list[str]) -> Counter[str]:
    answered: Counter[str] = Counter()
    async with aiohttp.ClientSession() as session:

        async def call(question: Question) -> str:
            return await ask(session, question)

        retry = headway.Retry(on=(aiohttp.ClientError,))
        questions = list(divide(texts))
        async for done in headway.stream(
            call, questions, lane=lambda question: question.lane, limits=LIMITS, retry=retry
        ):
            done.get()  # Raises the error if the call failed.
            answered[done.lane] += 1
    return answered


async def ask(session: aiohttp.ClientSession, question: Question) -> str:
    url, key = os.environ[f"{question.lane.upper()}_URL"], os.environ[f"{question.lane.upper()}_KEY"]
    body = {"model": MODEL, "messages": [{"role": "user", "content": question.text}]}
    headers = {"Authorization": f"Bearer {key}"}
    async with session.post(f"{url}/chat/completions", json=body, headers=headers) as response:
        response.raise_for_status()  # After a 429 its lane waits, and the question is sent again.
        completion = await response.json()
    text: str = completion["choices"][0]["message"]["content"]
    return text


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "300"
    missing = [f"{lane.upper()}_{suffix}" for lane in LIMITS for suffix in ("URL", "KEY")]
    missing = [name for name in missing if name not in os.environ]
    if not wanted.isdecimal() or missing:
        sys.exit(f"set {', '.join(missing)}" if missing else "usage: python examples/two_providers.py COUNT")
    count = int(wanted)
    began = time.monotonic()
    answered = asyncio.run(answer_all([f"What is {number} in words?" for number in range(count)]))
    took = time.monotonic() - began
    for lane, number in sorted(answered.items()):
        print(f"{lane}: {number} answers, {number / took * 60:,.0f} per minute")
