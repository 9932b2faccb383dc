"""A CLI that prints Claude Code's events: three turns at the fake provider, and a session that is kept in a file.

Every start is a line of `starts.jsonl` in its directory. A refused turn ends it, as it ends the real one; a resumed session goes on with
the turn that was refused.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TURNS = 3


def main() -> int:
    resumes = "--resume" in sys.argv
    session = sys.argv[sys.argv.index("--resume" if resumes else "--session-id") + 1]
    kept = Path(f"session-{session}.json")
    task: dict[str, Any] = (
        json.loads(kept.read_text()) if resumes else {"prompt": sys.stdin.read(), "done": 0}
    )
    kept.write_text(json.dumps(task))
    with open("starts.jsonl", "a", encoding="utf-8") as log:
        log.write(json.dumps({"at": time.time(), "prompt": task["prompt"], "resumes": resumes}) + "\n")
    say(type="system", subtype="init", session_id=session)
    while task["done"] < TURNS:
        refused = turn(task)
        if refused is not None:
            say(type="rate_limit_event", rate_limit_info=refused)
            say(
                **result(
                    session, task["done"], "You've hit your 5-hour limit", is_error=True, api_error_status=429
                )
            )
            return 1
        task["done"] += 1
        kept.write_text(json.dumps(task))
    say(**result(session, TURNS, f"did {task['prompt']}", is_error=False, api_error_status=None))
    return 0


def turn(task: dict[str, Any]) -> dict[str, Any] | None:
    """One request; returns the window that refused it."""
    messages = [{"role": "user", "content": task["prompt"]}]
    body = json.dumps({"model": "m", "max_tokens": 50, "messages": messages}).encode()
    headers = {"x-api-key": "k", "x-headway-unit": f"{task['prompt']} turn {task['done']}"}
    request = urllib.request.Request(os.environ["AGENT_URL"] + "/v1/messages", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
            return None
    except urllib.error.HTTPError as error:
        prefix = "anthropic-ratelimit-unified-"
        name, resets = (error.headers[prefix + key] for key in ("representative-claim", "reset"))
        return {"status": "rejected", "rateLimitType": name, "resetsAt": int(resets)}


def result(session: str, turns: int, text: str, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10 * turns, "output_tokens": turns}
    return {
        "type": "result", "subtype": "success", "result": text, "session_id": session, "num_turns": turns,
        "total_cost_usd": 0.01 * turns, "usage": usage, **more,
    }  # fmt: skip


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201 - that is what it is for


if __name__ == "__main__":
    sys.exit(main())
