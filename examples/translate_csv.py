"""Translate a column of a table: `python examples/translate_csv.py texts.csv translated.csv`

Interrupt it, or kill it, and start it again: no row that has its translation is paid for a second time.

Without a key:
    headway fake --port 8900 &
    export OPENAI_BASE_URL=http://127.0.0.1:8900/v1 OPENAI_API_KEY=any
"""

import asyncio
import csv
import os
import sys
from pathlib import Path

import aiohttp

import headway

BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
KEY = os.environ.get("OPENAI_API_KEY", "any")
MODEL = os.environ.get("MODEL", "gpt-4.1-mini")
LIMITS = headway.Limits(rpm=float(os.environ.get("RPM", "500")))


async def translate(source: Path, target: Path, language: str = "French") -> int:
    with source.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:

        async def call(row: dict[str, str]) -> str:
            prompt = f"Translate into {language}, and say nothing else: {row['text']}"
            return await ask(session, prompt)

        texts = await headway.amap(
            call,
            rows,
            limits=LIMITS,
            retry=headway.Retry(on=(aiohttp.ClientError,)),
            db=target.with_suffix(".db"),
            key=lambda row: row["id"],
        )
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*rows[0], "translation"])
        writer.writeheader()
        writer.writerows({**row, "translation": text} for row, text in zip(rows, texts, strict=True))
    return len(rows)


async def ask(session: aiohttp.ClientSession, prompt: str) -> str:
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
    async with session.post(f"{BASE_URL}/chat/completions", json=body) as answer:
        if (
            answer.status == 429
        ):  # The whole lane waits for as long as the provider says, and tries this row again.
            raise headway.RateLimited(float(answer.headers.get("retry-after", 1)), "429")
        answer.raise_for_status()
        told = await answer.json()
    used = told["usage"]
    headway.usage(input_tokens=used["prompt_tokens"], output_tokens=used["completion_tokens"])
    text: str = told["choices"][0]["message"]["content"]
    return text


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/translate_csv.py FROM.csv TO.csv  (columns: id, text)")
    count = asyncio.run(translate(Path(sys.argv[1]), Path(sys.argv[2])))
    print(f"{count} rows in {sys.argv[2]}")
