"""A coding agent for the soak: speaks Claude Code's stream-json, has sessions, calls a tool, and meets a subscription's limit.

The task is in the prompt ("task 17"), or in the session that is resumed. Every `STRIKE_EVERY`-th run closes the account for a moment:
it and all runs until then are refused with the second of the reset. A run may be killed at any time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

#: A run in so many meets the limit first.
STRIKE_EVERY = int(os.environ["SOAK_STRIKE_EVERY"])


def event(**fields: object) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def append(name: str, line: str) -> int:
    """Append a line to a file; returns how many bytes it has then."""
    descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def session_of(argv: list[str], prompt: str) -> tuple[str, str]:
    """The session's id and its task; ends the program if the session cannot be used."""
    resumes = "--resume" in argv
    name = argv[argv.index("--resume" if resumes else "--session-id") + 1]
    path = os.path.join("sessions", name)
    if resumes:
        if not os.path.exists(path):
            sys.exit(f"No conversation found with session ID: {name}")
        append("resumed", "x")
        with open(path, encoding="utf-8") as file:
            return name, file.read()
    if os.path.exists(path):
        sys.exit(f"Error: Session ID {name} is already in use.")
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(prompt)
    os.rename(file.name, path)
    return name, prompt


def reset_of_account() -> int:
    """When the account opens again; 0 if it is open."""
    try:
        with open("closed-until", encoding="utf-8") as file:
            until = int(file.read() or 0)
    except FileNotFoundError:
        until = 0
    if append("runs", "x") % STRIKE_EVERY == 0:
        until = int(time.time()) + 2
        with open("closed-until.new", "w", encoding="utf-8") as file:
            file.write(str(until))
        os.rename("closed-until.new", "closed-until")
        append("strikes", "x")
    return until if until > time.time() else 0


def refuse(session: str, reset: int) -> None:
    """As Claude Code does under a subscription."""
    append("refused", "x")
    event(
        type="rate_limit_event",
        session_id=session,
        rate_limit_info={"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour"},
    )
    text = "You've hit your limit"
    event(type="result", subtype="success", is_error=True, api_error_status=429, result=text, session_id=session)  # fmt: skip
    sys.exit(1)


def work(session: str, task: str) -> None:
    """Call a tool, then answer."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "sleep"}}
    event(type="assistant", session_id=session, message={"content": [call]})
    # A tool that the agent leaves running: it must end with the agent.
    subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(0.05 + hash(session) % 10 / 100.0)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "429 rate limit exceeded, says a test"}
    event(type="user", session_id=session, message={"content": [result]})
    answer = f"did {task}"
    event(type="assistant", session_id=session, message={"content": [{"type": "text", "text": answer}]})
    usage = {"input_tokens": 20, "output_tokens": 5}
    event(type="result", subtype="success", is_error=False, num_turns=2, result=answer, session_id=session,
          total_cost_usd=0.01, usage=usage)  # fmt: skip


def main() -> None:
    """One run."""
    session, task = session_of(sys.argv, sys.stdin.read())
    event(type="system", subtype="init", session_id=session)
    reset = reset_of_account()
    if reset:
        refuse(session, reset)
    work(session, task)


if __name__ == "__main__":
    main()
