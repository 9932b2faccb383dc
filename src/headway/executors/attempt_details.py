"""What an attempt leaves behind besides its outcome, for the records: the same for worker pools, Python workers and agents.

The record is JSON, written in the same transaction as its attempt (`WriteBatch.notes`), and kept for every attempt. Texts are
bounded, and keys are removed from them. An attempt that leaves nothing behind has no record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from headway.executors.json_values import non_finite_as_text
from headway.executors.work_result import WorkResult
from headway.providers.error_messages import may_have_secrets, without_secrets
from headway.providers.scrubber import NO_SECRETS, Scrubber
from headway.safe_text import escape_lone_surrogates

#: Bytes kept from the end of each stream.
STREAM: Final = 4_096
#: The longest single text in characters: a long file in a tool's result fits.
LONGEST_TEXT: Final = 256 * 1024
#: The largest record in bytes. In a longer conversation long texts are cut first, then turns in the middle.
LARGEST: Final = 4 * 1024 * 1024
#: Lengths to which texts are cut, one after the other, until the record fits.
_CUTS: Final = (LONGEST_TEXT, 32 * 1024, 4 * 1024, 512)
#: The most turns of a conversation: the first half and the last half of them; those between are left out.
MOST_TURNS: Final = 10_000
#: A larger record is made in a thread: a search for keys in 1 MB takes up to 0.1 s.
_IN_THREAD: Final = 128 * 1024


class AttemptDetails(msgspec.Struct, frozen=True):
    """The details of one attempt. Empty fields are not recorded.

    With a worktree, `worktrees.unit_directory` adds `branch`, `start_commit`, `commits`, `git_status`, `diff` and `remarks` to the
    record: a diff must not be cut, so it does not go through here.
    """

    #: The prompt as it was sent, after any template was filled in.
    prompt: str = ""
    #: For resuming the conversation.
    session_id: str = ""
    #: Why the session is not the one of the attempt before.
    session_note: str = ""
    #: Of a program: where it worked, its process, its exit code (negative: the signal that killed it), an agent's turns.
    directory: str = ""
    pid: int | None = None
    exit_code: int | None = None
    turns: int | None = None
    #: The conversation: messages, tool calls and results, in order.
    messages: list[Any] = []
    files: list[str] = []
    #: What a failed attempt returned.
    output: Any = None
    #: Peak memory of the worker's process, for a failed attempt.
    memory_mb: float | None = None
    stdout: str = ""
    stderr: str = ""
    trace: str = ""

    def encode(self, scrub: Scrubber = NO_SECRETS) -> bytes:
        """JSON for the records, without secrets; b"" if there is nothing to record. Never raises."""
        fields = {
            name: value for name in self.__struct_fields__ if not _is_empty(value := getattr(self, name))
        }
        if not fields:
            return b""
        plain = {name: plain_value(value) for name, value in fields.items()}
        encoded = _encode(plain)
        if len(encoded) > LONGEST_TEXT:
            plain = _fitted(plain)
            encoded = _encode(plain)
        return blotted_json(plain, encoded, scrub)


def blotted_json(plain: Any, encoded: bytes, scrub: Scrubber) -> bytes:
    """A JSON value without secrets, as JSON. `encoded` is the same value."""
    if scrub.finds(encoded):
        plain = _each_text(plain, lambda text, _: scrub.text(text))
        encoded = scrub.body(_encode(plain))
    if may_have_secrets(encoded.decode()):
        return _encode(_each_text(plain, _without_secrets))
    return encoded


def blotted_line(line: bytes, scrub: Scrubber) -> bytes:
    """A line of output without secrets. A line without any stays as it is, byte for byte; JSON stays JSON."""
    line = scrub.body(line)
    text = line.decode("utf-8", "surrogateescape")
    if not may_have_secrets(text):
        return line
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return without_secrets(text).encode("utf-8", "surrogateescape")
    clean = _each_text(value, _without_secrets)
    return line if clean == value else _encode(clean)


async def encode_details(details: AttemptDetails, scrub: Scrubber = NO_SECRETS) -> bytes:
    """`AttemptDetails.encode` without blocking the loop for long."""
    if _size(details.messages) + _size(details.output) + len(details.prompt) < _IN_THREAD:
        return details.encode(scrub)
    return await asyncio.to_thread(details.encode, scrub)


def details_of(result: WorkResult, scrub: Scrubber = NO_SECRETS) -> AttemptDetails:
    """The details of a unit that ran in a worker: the ends of its output, and the traceback of a failure."""
    failed = result.outcome.kind is not None
    of_program = bool(result.directory)
    return AttemptDetails(
        session_id=result.session_id,
        session_note=result.session_note,
        directory=result.directory,
        pid=result.pid if of_program else None,
        exit_code=result.exit_code if of_program else None,
        turns=result.turns or None,
        messages=result.messages,
        files=result.files,
        memory_mb=round(result.memory / 1e6, 1) if failed and result.memory else None,
        stdout=_end_of(result.stdout, scrub),
        stderr=_end_of(result.stderr, scrub),
        trace=_end_of(result.trace.encode("utf-8", "replace"), scrub),
    )


def _end_of(output: bytes, scrub: Scrubber) -> str:
    """The end of a stream. A cut may leave a part of a secret, so what is left is searched for that."""
    if not output.strip():
        return ""
    text = output[-STREAM:].decode("utf-8", errors="replace")
    return scrub.message(text) if len(output) > STREAM else text


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list) and not value)


_encode: Final = msgspec.json.encode


def _size(value: Any) -> int:
    try:
        return len(_encode(value, enc_hook=text_of))
    except BaseException:  # JSON cannot hold it.
        return 0


def plain_value(value: Any) -> Any:
    """A value as JSON types; the text of a value that JSON cannot hold (a key of another class, a list that contains itself)."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=text_of)
        try:
            if b"null" in _encode(plain):
                plain = non_finite_as_text(plain)
        except (OverflowError, UnicodeError):
            plain = _each_text(plain, _whole_characters)
            _encode(plain)
    except BaseException:  # The user's values may raise anything.
        return _whole_characters(text_of(value))
    return plain


def text_of(value: Any) -> str:
    """`repr` that never raises."""
    try:
        return repr(value)
    except BaseException:  # Its own text cannot be made.
        return f"a {type(value).__name__}"


def _whole_characters(text: str, name: str = "") -> str:
    """Without halves of surrogate pairs, which cannot be written."""
    return escape_lone_surrogates(text)


def _without_secrets(text: str, name: str) -> str:
    """A text may be a secret because of its field's name: "api_key"."""
    return without_secrets(f"{name}={text}").removeprefix(f"{name}=") if name else without_secrets(text)


def _each_text(value: Any, change: Callable[[str, str], str], name: str = "") -> Any:
    """The value with every text changed by `change(text, field name)`, field names too. Integers beyond 64 bits become texts."""
    if isinstance(value, str):
        return change(value, name)
    if isinstance(value, dict):
        return {change(key, ""): _each_text(each, change, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(each, change) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def _fitted(plain: dict[str, Any]) -> dict[str, Any]:
    """Cut to the size of a record: the middle of long texts and conversations goes first, then whole fields."""
    plain = _without_larger(_with_turns(plain, MOST_TURNS), LARGEST, ("prompt", "messages"))
    for longest in _CUTS:
        plain = _each_text(plain, partial(_cut, longest))
        if len(_encode(plain)) <= LARGEST:
            return plain
    turns = len(plain.get("messages", ()))
    while turns > 2:
        turns //= 2
        short = _with_turns(plain, turns)
        if len(_encode(short)) <= LARGEST:
            return short
    return _without_larger(plain, LARGEST // len(AttemptDetails.__struct_fields__))


def _without_larger(plain: dict[str, Any], most: int, but: tuple[str, ...] = ()) -> dict[str, Any]:
    sizes = {name: len(_encode(value)) for name, value in plain.items() if name not in but}
    left_out = {name: f"{size:,} bytes, too large to keep" for name, size in sizes.items() if size > most}
    return {**plain, **left_out}


def _cut(longest: int, text: str, name: str) -> str:
    if len(text) <= longest:
        return text
    head, tail = longest * 3 // 4, longest // 4
    return f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"


def _with_turns(plain: dict[str, Any], most: int) -> dict[str, Any]:
    """With at most `most` turns of the conversation; turns in the middle are left out."""
    messages = plain.get("messages")
    if not isinstance(messages, list) or len(messages) <= most:
        return plain
    half = most // 2
    left_out = {"role": "headway", "content": f"{len(messages) - 2 * half:,} messages left out"}
    return {**plain, "messages": [*messages[:half], left_out, *messages[-half:]]}
