"""A program that prints what Claude Code prints, without a model: for recordings of the live view.

It works for a few seconds: a turn is a tool call and its result. What it does depends only on its prompt.
"""

from __future__ import annotations

import json
import random
import sys
import time

TOOLS = {
    "Read": lambda n: {"file_path": f"src/orders/module_{n}.py"},
    "Grep": lambda n: {"pattern": f"total_{n}", "path": "src"},
    "Edit": lambda n: {"file_path": f"src/orders/module_{n}.py", "old_string": "a", "new_string": "b"},
    "Bash": lambda n: {"command": f"pytest -q tests/test_orders_{n}.py"},
}
#: When the windows of the subscription begin anew, from now.
RESETS_S = {"five_hour": 3 * 3600, "seven_day": 4 * 86_400}


def say(**event: object) -> None:
    """Print an event as a line."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def windows(used: float) -> dict[str, object]:
    """What the account has used of its windows."""
    now = int(time.time())
    shares = {"five_hour": used, "seven_day": 0.3 + used / 10}
    each = {
        name: {"status": "allowed", "utilization": shares[name], "resetsAt": now + s}
        for name, s in RESETS_S.items()
    }
    return {"status": "allowed", "rateLimitType": "five_hour", **each["five_hour"], "unifiedWindows": each}


def main() -> None:
    """Work, as the prompt decides."""
    prompt = sys.stdin.read()
    chance = random.Random(prompt)
    number = int("".join(filter(str.isdigit, prompt)) or 1)
    say(type="system", subtype="init", session_id=f"session-{number}")
    say(type="rate_limit_event", rate_limit_info=windows(min(0.9, 0.41 + number / 100)))
    turns, context, cost = chance.randint(5, 14), chance.randint(9_000, 16_000), 0.0
    for turn in range(1, turns + 1):
        tool = chance.choice(list(TOOLS))
        said = {
            "type": "tool_use",
            "id": f"t{turn}",
            "name": tool,
            "input": TOOLS[tool](chance.randint(1, 9)),
        }
        usage = {
            "input_tokens": 900,
            "cache_read_input_tokens": context,
            "output_tokens": chance.randint(80, 700),
        }
        say(type="assistant", message={"id": f"m{turn}", "content": [said], "usage": usage})
        time.sleep(chance.uniform(0.3, 1.1))
        found = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "3 passed\n"}
        say(type="user", message={"content": [found]})
        context += chance.randint(300, 2_500)
        cost += context * 4e-7 + usage["output_tokens"] * 15e-6
    used = {"input_tokens": 900 * turns, "cache_read_input_tokens": context, "output_tokens": 350 * turns}
    say(
        type="result", subtype="success", is_error=False, num_turns=turns, result="The test passes.",
        session_id=f"session-{number}", total_cost_usd=cost, usage=used,
    )  # fmt: skip


if __name__ == "__main__":
    main()
