"""A pool of workers with callbacks: `python examples/worker_pool.py README.md ARCHITECTURE.md`

One unit per file. Every step is recorded in worker_pool.db; `headway status --db worker_pool.db` shows it. Start the program
again after a crash: it continues with the files that are left.

Without a key:
    headway fake --port 8900 &
    export OPENAI_BASE_URL=http://127.0.0.1:8900/v1 OPENAI_API_KEY=any
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import headway

BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
KEY = os.environ.get("OPENAI_API_KEY", "any")
MODEL = os.environ.get("MODEL", "gpt-4.1-mini")


class Summarizer:
    """A worker is any object with `execute`. This one calls a model; yours may start an agent."""

    def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
        messages = [{"role": "user", "content": f"{prompt}\n\n{Path(payload['path']).read_text()[:2000]}"}]
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        body = json.dumps({"model": MODEL, "messages": messages}).encode()
        try:
            with urlopen(Request(f"{BASE_URL}/chat/completions", body, headers), timeout=timeout) as response:
                message = json.load(response)["choices"][0]["message"]
        except HTTPError as refused:
            if refused.code == 429:  # The pool waits, and the unit is retried.
                raise
            return headway.WorkerResult(success=False, error=f"{refused.code} {refused.reason}")
        return headway.WorkerResult(
            success=True, output=message["content"], conversation=[*messages, message]
        )


# Callbacks run in the workers' threads, here two at a time. So each line is written with its line end in one call.
def complete(unit: headway.WorkUnit, result: headway.WorkerResult) -> None:
    sys.stdout.write(f"{unit.id}: {len(result.output)} characters\n")


def failed(unit: headway.WorkUnit, result: headway.WorkerResult) -> None:
    sys.stdout.write(f"{unit.id}: failed: {result.error}\n")


def main(paths: list[str], store: str = "worker_pool.db") -> int:
    units = [headway.WorkUnit(path, {"path": path}) for path in dict.fromkeys(paths)]
    with headway.WorkerPool(
        Summarizer(),
        job_id="summaries",
        store=store,
        max_workers=2,
        on_unit_complete=complete,
        on_unit_failed=failed,
    ) as pool:
        for unit in units:
            pool.wait_for_available_slot()
            pool.submit_work_unit(unit, "Summarize this file in a sentence.")
        pool.wait_for_completion()
    return 0 if all(unit.status == "succeeded" for unit in units) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python examples/worker_pool.py FILE…")
    sys.exit(main(sys.argv[1:]))
