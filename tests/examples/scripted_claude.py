"""A stand-in for Claude Code on the page "thirty agents overnight": edits the file that its task names.

Its fifth run meets the limit of the subscription. The task about a file that is named in `refuses` fails until that file is gone.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

STAGE = Path(os.environ["SCRIPTED_CLAUDE"])


def event(**fields: object) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def task_of(argv: list[str], prompt: str) -> tuple[str, str]:
    """The session, and the prompt with which it began."""
    resumes = "--resume" in argv
    session = argv[argv.index("--resume" if resumes else "--session-id") + 1]
    path = STAGE / session
    if resumes and not path.exists():
        sys.exit(f"No conversation found with session ID: {session}")
    if not resumes:
        path.write_text(prompt, encoding="utf-8")
    return session, path.read_text(encoding="utf-8")


def end(session: str, text: str, *, status: int = 200) -> None:
    """The last event."""
    failed = status != 200
    event(
        type="result", subtype="success", is_error=failed, num_turns=2, result=text, session_id=session, total_cost_usd=0.02,
        usage={"input_tokens": 900, "output_tokens": 40}, **({"api_error_status": status} if failed else {}),
    )  # fmt: skip
    sys.exit(failed)


def main() -> None:
    """One run."""
    session, prompt = task_of(sys.argv, sys.stdin.read())
    file = re.findall(r"about (\S+):", prompt)[0]
    event(type="system", subtype="init", session_id=session)
    runs = STAGE / "runs"
    with runs.open("a", encoding="utf-8") as log:
        log.write(f"{time.time()} {file}\n")
    if len(runs.read_text(encoding="utf-8").splitlines()) == 5:
        reset = int(time.time()) + 2
        (STAGE / "reset").write_text(str(reset), encoding="utf-8")
        info = {"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour"}
        event(type="rate_limit_event", rate_limit_info=info, session_id=session)
        end(session, "You've hit your limit", status=429)
    refuses = STAGE / "refuses"
    if refuses.exists() and file == refuses.read_text(encoding="utf-8"):
        end(session, "API Error: 400 the file is encrypted", status=400)
    call = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": file}}
    event(
        type="assistant",
        message={"content": [{"type": "text", "text": f"I fix {file}."}, call]},
        session_id=session,
    )
    with Path(file).open("a", encoding="utf-8") as source:
        source.write("fixed\n")
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    event(type="user", message={"content": [result]}, session_id=session)
    end(session, f"Fixed {file}.")


if __name__ == "__main__":
    main()
