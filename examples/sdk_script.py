"""A typical script with OpenAI's SDK and `asyncio.gather`, made safe by one line: `python examples/sdk_script.py 200`

The line is `http_client=headway.httpx_client()`. Every request goes through its lane: it waits instead of getting a 429, and
is retried after a failure. `PLAIN=1` runs the script without that line, to show the difference.

It needs `pip install openai`. Without a key:
    headway fake --port 8900 --rpm 1200 --burst 1s --latency 100ms &
    export OPENAI_BASE_URL=http://127.0.0.1:8900/v1 OPENAI_API_KEY=any
"""

import asyncio
import os
import sys

import openai

import headway

MODEL = os.environ.get("MODEL", "gpt-4.1-mini")


def new_client() -> openai.AsyncOpenAI:
    if os.environ.get("PLAIN"):
        return openai.AsyncOpenAI(max_retries=0)
    return openai.AsyncOpenAI(http_client=headway.httpx_client(), max_retries=0)


async def ask(client: openai.AsyncOpenAI, question: str) -> str:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}]
    )
    return answer.choices[0].message.content or ""


async def main(count: int) -> int:
    questions = [f"What is {number} in words?" for number in range(count)]
    async with new_client() as client:
        answers = await asyncio.gather(*(ask(client, each) for each in questions), return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    print(f"{count - len(failed)} answers, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "200"
    if not wanted.isdecimal():
        sys.exit("usage: python examples/sdk_script.py COUNT")
    try:
        sys.exit(asyncio.run(main(int(wanted))))
    except openai.OpenAIError as error:  # For example, no key.
        sys.exit(str(error))
