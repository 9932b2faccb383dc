"""How a program's run ended, as a result: its value, or the kind of its failure."""

from __future__ import annotations

import errno
import time
from typing import Any, Final

import msgspec

from headway.config.settings import CommandConfig
from headway.core.model import SUCCESS, Kind, Outcome
from headway.executors.commands.any_program import value_of
from headway.executors.commands.clis.cli_contract import AgentCli, EventReader
from headway.executors.commands.program import ProgramEnd
from headway.executors.commands.usage_errors import SOON_S, usage_error
from headway.executors.limit_evidence import rate_limit_of
from headway.executors.work_result import Death, WorkResult, crashed, timed_out, with_evidence
from headway.providers.error_messages import short_message
from headway.providers.exhaustion import exhaustion_text
from headway.providers.limits.hints import Facts, RawResponse, understand
from headway.providers.limits.limit_detection import LIMIT_KINDS, local_zone
from headway.providers.limits.limit_text import limit_in_statement
from headway.providers.limits.profiles import GENERIC, PROFILES

#: sysexits.h: "temporary failure, try again later". Some agents use it for a rate limit.
EX_TEMPFAIL: Final = 75
LONGEST_REFUSAL: Final = 2048
#: Codes of errors that come without a text.
_CODES: Final = {
    "error_max_turns": "error_max_turns: it reached its maximum of turns (max_turns)",
    "error_max_budget_usd": "error_max_budget_usd: it reached its maximum cost (max_unit_cost)",
}
_encode: Final = msgspec.json.encode


def not_started(program: str, directory: str, error: OSError) -> WorkResult:
    """The program is missing or cannot be run: no unit of this lane can. A machine that has nothing left is another case, and so are
    the arguments and the directory of one unit.
    """
    if error.errno == errno.E2BIG:
        text = f"{program} cannot be started: its arguments are too long"
        return WorkResult("error", outcome=Outcome(Kind.INVALID, message=text))
    if error.filename == directory:
        text = f"it cannot work in {directory}: {(error.strerror or str(error)).lower()}"
        return WorkResult("error", outcome=Outcome(Kind.INVALID, message=text))
    exhausted = exhaustion_text(error, connected=True)
    if error.errno == errno.EAGAIN:
        exhausted = "no further process may be started: raise the limit with 'ulimit -u', or lower workers"
    if exhausted:
        return WorkResult("error", outcome=Outcome(Kind.TRANSIENT, message=exhausted, exhausted=True))
    text = f"{program} cannot be started: {(error.strerror or str(error)).lower()}"
    return WorkResult("error", outcome=Outcome(Kind.AUTH, message=text, not_started=True))


def lost(text: str, *, not_started: bool) -> WorkResult:
    """The machine that ran the program is gone, or there is none to run it."""
    if not_started:
        return WorkResult("error", outcome=Outcome(Kind.AUTH, message=text, not_started=True))
    death = Death(None, text)
    return WorkResult("crash", outcome=crashed(death, 0.0, 0, b""), death=death)


def of_command(end: ProgramEnd, settings: CommandConfig, timeout_s: float, max_answer: int) -> WorkResult:
    """The result of any program: exit code 0 is a success."""
    if end.late or end.code != 0:
        return _failed(end, settings, timeout_s)
    if end.too_long:
        return _with_evidence(end, Outcome(Kind.INVALID, message=_too_long(max_answer)))
    try:
        value = value_of(end.stdout, settings.output)
    except ValueError as error:
        return _with_evidence(end, Outcome(Kind.INVALID, message=str(error)))
    body = _encode(text_body(value) if settings.output == "text" else value)
    return _with_evidence(end, SUCCESS, body)


def _too_long(max_answer: int) -> str:
    return f"its answer has more than {max_answer:,} bytes, the ceiling of an answer (max_answer_bytes)"


def too_long(result: WorkResult, max_answer: int) -> WorkResult:
    """The result of a program whose answer is above the ceiling: it was paid for, and is not tried again."""
    outcome = Outcome(Kind.INVALID, result.outcome.usage, message=_too_long(max_answer))
    return msgspec.structs.replace(result, end="error", value=b"", outcome=outcome, stdout=b"")


def of_agent(
    cli: AgentCli, reader: EventReader, end: ProgramEnd, settings: CommandConfig, timeout_s: float
) -> WorkResult:
    """The result of an agent CLI: its last event decides, then its exit code."""
    if end.late and not reader.is_over:  # Of one that was only slow to exit, the last event decides.
        return _with_reader(_failed(end, settings, timeout_s), reader)
    failed = end.code != 0 and not (reader.is_over and reader.text is not None and not end.stderr.strip())
    text = cli.refusal(end.stderr) if failed else ""
    if failed and reader.text is None and not text.strip():
        text = _only_refusal(end.stdout)
    facts = _facts(cli.name, end, text)
    if facts.kind in (None, Kind.TRANSIENT) and (complaint := _refused_arguments(reader, end, settings)):
        outcome = Outcome(Kind.INVALID, message=complaint)
        return _with_reader(_with_evidence(end, outcome, death=Death(end.code)), reader)
    if facts.kind is not None:
        outcome = Outcome(facts.kind, reader.usage, facts.hint, facts.message or _code_text(facts.code))
        in_output = not end.stderr.strip() or _facts(cli.name, end, "").kind is not None
        source = "stdout" if in_output else "stderr"
        return _with_reader(_with_evidence(end, outcome, source=source), reader)
    if reader.text is None or (end.code != 0 and not reader.is_over):
        return _with_reader(_failed(end, settings, timeout_s), reader)
    outcome = Outcome(usage=reader.usage, hint=facts.hint if facts.hint.windows else None)
    body = {**text_body(reader.text), "session_id": reader.session_id, "num_turns": reader.turns}
    return _with_reader(_with_evidence(end, outcome, _encode(body)), reader)


def _code_text(code: str) -> str:
    """What a code means, for an error without a text."""
    return _CODES.get(code) or (
        f"it ended with '{code}'" if code else "it ended with an error and named no reason"
    )


def _refused_arguments(reader: EventReader, end: ProgramEnd, settings: CommandConfig) -> str:
    """What is wrong with the command line, if the CLI ended at once because of it: no event, and words of usage on standard error."""
    if end.code <= 0 or end.code in settings.exit_codes or reader.began or end.took_s > SOON_S:
        return ""
    complaint = usage_error(end.stderr)
    if not complaint:
        return ""
    return short_message(
        f"{settings.command[0]} refuses its arguments (see args and permission_mode): {complaint}"
    )


def _facts(name: str, end: ProgramEnd, text: str) -> Facts:
    """What the CLI's error events and the text of its failure mean. An answer is never searched for words."""
    response = RawResponse(body=end.stdout, text=text, origin="cli")
    return understand(response, PROFILES.get(name, GENERIC), now_utc=time.time(), zone=local_zone())


def _only_refusal(stdout: bytes) -> str:
    """What a failed CLI printed, if that is a refusal and nothing else: some builds print it as plain text."""
    text = stdout[:LONGEST_REFUSAL].decode("utf-8", errors="replace").strip()
    return text if limit_in_statement(text, time.time(), local_zone()) is not None else ""


def text_body(text: str) -> dict[str, Any]:
    """A text as the body of an answer."""
    return {"content": [{"type": "text", "text": text}]}


def _failed(end: ProgramEnd, settings: CommandConfig, timeout_s: float) -> WorkResult:
    """A run that ended at its deadline, by a signal, or with an exit code."""
    if end.late:
        return _with_evidence(end, timed_out(timeout_s, 0, end.stderr))
    death = Death(end.code)
    if end.code < 0:
        return _with_evidence(end, crashed(death, end.took_s, 0, end.stderr), death=death)
    codes = {EX_TEMPFAIL: Kind.HOLD, **{code: Kind(kind) for code, kind in settings.exit_codes.items()}}
    text = "it ended without an answer" if end.code == 0 else f"it exited with code {end.code}"
    outcome = Outcome(codes.get(end.code, Kind.TRANSIENT), message=with_evidence(text, None, 0, end.stderr))
    return _with_evidence(end, outcome, death=death, source="exit code")


def _with_evidence(
    end: ProgramEnd, outcome: Outcome, value: bytes = b"", death: Death | None = None, source: str = ""
) -> WorkResult:
    """The result; `source` is where a limit was found, if the outcome is one."""
    kinds = {Kind.TIMEOUT: "timeout", Kind.CRASH: "crash", None: "value"}
    return WorkResult(
        kinds.get(outcome.kind, "error"),  # type: ignore[arg-type]
        value,
        outcome,
        death=death,
        rate_limit=rate_limit_of(source, outcome) if source and outcome.kind in LIMIT_KINDS else None,
        stdout=end.stdout,
        stderr=end.stderr,
        began_utc=end.began_utc,
        took_s=end.took_s,
        pid=end.pid,
        exit_code=end.code,
    )


def _with_reader(result: WorkResult, reader: EventReader) -> WorkResult:
    """With what the events say; standard output is in the transcript, and is left out."""
    outcome = result.outcome
    used = reader.usage
    if used is None and reader.so_far is not None:  # A run that was killed was paid for, too.
        used = msgspec.structs.replace(reader.so_far, partial=True)
    if outcome.usage is None and used is not None:
        outcome = msgspec.structs.replace(outcome, usage=used)
    return msgspec.structs.replace(
        result,
        outcome=outcome,
        session_id=reader.session_id,
        turns=reader.turns,
        files=reader.files,
        stdout=b"",
    )
