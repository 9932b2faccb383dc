"""Translate a column of a table: `python examples/translate_csv.py texts.csv translated.csv`

Interrupt or kill it, and start it again: no row that already has its translation is paid for a second time.

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


def read(source: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The columns and the rows. Exits with one line if the file is not usable."""
    try:
        with source.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns, rows = list(reader.fieldnames or ()), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        sys.exit(f"{source} cannot be read: {error}")
    for name in ("id", "text"):
        if name not in columns:
            sys.exit(f"{source} has no column '{name}'")
    for number, row in enumerate(rows, 1):
        if not row["id"] or row["text"] is None or None in row:
            sys.exit(f"{source}, row {number}: needs an id and a text, and at most {len(columns)} fields")
    return columns, rows


async def translate(source: Path, target: Path, language: str = "French") -> int:
    columns, rows = read(source)
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
        writer = csv.DictWriter(file, [*columns, "translation"])
        writer.writeheader()
        writer.writerows({**row, "translation": text} for row, text in zip(rows, texts, strict=True))
    return len(rows)


async def ask(session: aiohttp.ClientSession, prompt: str) -> str:
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
    async with session.post(f"{BASE_URL}/chat/completions", json=body) as response:
        response.raise_for_status()  # After a 429 the lane waits as long as the response says, then retries this row.
        completion = await response.json()
    usage = completion["usage"]
    headway.usage(input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"])
    text: str = completion["choices"][0]["message"]["content"]
    return text


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/translate_csv.py FROM.csv TO.csv  (columns: id, text)")
    try:
        count = asyncio.run(translate(Path(sys.argv[1]), Path(sys.argv[2])))
    except headway.HeadwayError as error:
        sys.exit(str(error))
    except headway.CallsFailed as failed:
        sys.exit(
            f"{failed.message}; the first: {failed.exceptions[0]}. Run it again: finished rows are kept."
        )
    print(f"{count} rows in {sys.argv[2]}")
