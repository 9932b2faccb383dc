"""Answers are compared with the file as they arrive. One with findings that the file does not have is sent back once, in the same conversation.

After that the answer counts: what is still not in the file is marked when results are read. Only an answer that cannot be read at all fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headway.batch.answer_text import answer_of, cut_short, decoded, filter_of, refusal_of, text_of
from headway.engine.run_spec import RouteAnswerCheck
from headway.providers.adapter import Answer, Complaint, Request
from headway.providers.dialects.structured_output import follow_up, schema_dialect
from headway.providers.error_messages import short_message
from headway.reviews.findings.checking import read_answer
from headway.reviews.findings.review_prompt import source_of_prompt
from headway.reviews.findings.source_text import SourceText
from headway.reviews.findings.verification import verdict_problem
from headway.reviews.running.review_requests import turns_in
from headway.reviews.running.unit_names import VERIFY
from headway.stores.records import StoredRoute

#: How the conversation of a program goes on: it has one prompt.
_AGAIN: Final = "\n\nYour answer was:\n{answer}\n\n{correction}"

_VERDICT_AGAIN: Final = "Your answer cannot be read: {problem}. Reply again with the JSON object alone."


def route_check(routes: Sequence[StoredRoute]) -> RouteAnswerCheck:
    """Checks answers by the number of their route, whose label is the axis."""
    by_number = {route.id: route for route in routes}

    def check(number: int, request: Request, answer: Answer) -> Answer:
        complaint = _complaint(by_number[number], request, answer)
        return answer if complaint is None else msgspec.structs.replace(answer, complaint=complaint)

    return check


def _complaint(route: StoredRoute, request: Request, answer: Answer) -> Complaint | None:
    if why := _unusable(answer.body):
        return Complaint(short_message(why))
    text = answer_of(answer.body)
    problem, correction = _problem(route.label, request, text)
    if not correction:
        return None
    if request.repairs:
        return Complaint(short_message(f"the answer cannot be read: {problem}")) if problem else None
    again = _again(route, request, text, correction)
    return Complaint(
        short_message(problem or "findings are not in the file"),
        again,
        len(text) + len(correction),
        is_free=True,
    )


def _problem(axis: str, request: Request, text: str) -> tuple[str, str]:
    """Why an answer cannot be read ("": it can), and the question to send back ("": nothing is wrong)."""
    if axis == VERIFY:
        problem = verdict_problem(text)
        return problem, problem and _VERDICT_AGAIN.format(problem=problem)
    turns = turns_in(request.body)
    source = source_of_prompt(turns[0][1])
    read = read_answer(text, source, axis)
    if read.unreadable and request.repairs and _was_readable(turns, source, axis):
        return "", ""  # The first answer counts.
    return read.unreadable, read.correction


def _was_readable(turns: list[tuple[str, str]], source: SourceText, axis: str) -> bool:
    """Whether the first answer of a conversation can be read."""
    first = next((text for role, text in turns if role != "user"), "")
    return bool(first) and not read_answer(first, source, axis).unreadable


def _again(route: StoredRoute, request: Request, text: str, correction: str) -> Request:
    """The same conversation with the answer and the question about it."""
    dialect = schema_dialect(route.kind, request.path)
    if dialect is not None:
        longer = follow_up(dialect, request.body, text, correction)
    else:
        row = msgspec.json.decode(request.body)
        row["prompt"] += _AGAIN.format(answer=text, correction=correction)
        longer = msgspec.json.encode(row)
    return msgspec.structs.replace(request, body=longer, repairs=request.repairs + 1)


def _unusable(body: bytes) -> str:
    """Why a response is no answer, although its status is a success; "" if it is one. A correction would not help."""
    response = decoded(body)
    refusal, word = refusal_of(response), filter_of(response)
    if refusal is not None:
        return f"the model refused: {refusal}"
    if word is not None:
        return f"the provider filtered the answer: {word}"
    if cut_short(response):
        return "the answer was cut short: raise --max-tokens"
    return "" if text_of(response) is not None or not response.get("choices") else "the answer has no text"
