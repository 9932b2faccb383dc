"""Classify texts, with answers that fit a schema: `python examples/classify.py < reviews.txt`

One review per line. If an answer does not fit the schema, the review is sent once more. A review whose second answer does
not fit either is printed with its error.

Without a key:
    headway fake --port 8900 --config examples/fake.yaml &
    export OPENAI_BASE_URL=http://127.0.0.1:8900/v1 OPENAI_API_KEY=any
"""

import json
import os
import sys
from collections import Counter
from typing import Literal
from urllib.request import Request, urlopen

import msgspec

import headway

BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
KEY = os.environ.get("OPENAI_API_KEY", "any")
MODEL = os.environ.get("MODEL", "gpt-4.1-mini")


class Review(msgspec.Struct, forbid_unknown_fields=True):
    """What to find out about each text."""

    mood: Literal["good", "bad", "mixed"]
    about: str


SCHEMA = {"name": "review", "strict": True, "schema": msgspec.json.schema(Review)}


def classify(text: str) -> Review:
    """A plain function: Headway calls it in threads, as many as the provider allows."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"Classify this review: {text}"}],
        "response_format": {"type": "json_schema", "json_schema": SCHEMA},
    }
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = Request(f"{BASE_URL}/chat/completions", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=60) as response:  # After a 429 the lane waits, and the text is sent again.
        completion = json.load(response)
    headway.usage(output_tokens=completion["usage"]["completion_tokens"])
    return msgspec.json.decode(completion["choices"][0]["message"]["content"], type=Review)


def main() -> int:
    texts = [line.strip() for line in sys.stdin if line.strip()]
    retry = headway.Retry(max_attempts=2, base="100ms", on=(msgspec.DecodeError,))
    moods: Counter[str] = Counter()
    failed = 0
    for done in headway.stream(classify, texts, ordered=True, retry=retry):
        if done.ok:
            review = done.get()
            moods[review.mood] += 1
            print(f"{review.mood:5}  {review.about:12}  {done.item}")
        else:
            failed += 1
            print(f"{done.code:5}  {'':12}  {done.item}  ({done.error})")
    print(", ".join(f"{count} {mood}" for mood, count in moods.most_common()) or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
