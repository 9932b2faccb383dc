"""Converts records to rows of the tables, and back. Nothing here runs a statement.

The key of a unit is one number: the number of its job in the upper half, its index in the lower half. So the units of a job are
a range of keys.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.core.reasons import EndReason
from headway.stores.older_reasons import end_reason
from headway.stores.records import (
    COUNTED,
    Attempt,
    AttemptView,
    Family,
    Job,
    PendingUnit,
    StoredLane,
    TranscriptRow,
    WorkerRecord,
)

#: The number of bits that the index has in a key.
SHIFT: Final = 32
LOWER: Final = (1 << SHIFT) - 1

#: The columns of `jobs` in the order of the statements. The counters of ended units follow them.
_JOB: Final = tuple(name for name in Job.__struct_fields__ if name != "counts")
#: Rows of older versions have a code and a message instead of a reason.
_decode_unfinished: Final = msgspec.json.Decoder(dict[str, EndReason | tuple[str, str]]).decode
_decode_models: Final = msgspec.json.Decoder(dict[str, tuple[str, str, str]]).decode


#: The units in the answer to `next_of_route`.
pending_units: Final = msgspec.json.Decoder(list[PendingUnit]).decode
#: A record's fields in order.
values_of: Final = msgspec.structs.astuple


def uid(job: int, index: int) -> int:
    """The key of a unit."""
    return (job << SHIFT) + index


def span(job: int) -> tuple[int, int]:
    """The first and the last key that a unit of the job can have."""
    return job << SHIFT, (job << SHIFT) + LOWER


def job_of(row: tuple[Any, ...]) -> Job:
    """A job from its row."""
    values = dict(zip(_JOB, row, strict=False))
    values["counts"] = dict(zip(map(str, COUNTED), row[len(_JOB) :], strict=True))
    values["models"] = _decode_models(values["models"])
    values["unfinished"] = {
        route: end_reason(*reason) if isinstance(reason, tuple) else reason
        for route, reason in _decode_unfinished(values["unfinished"]).items()
    }
    values["settings"] = msgspec.json.decode(values["settings"])
    values["form"] = msgspec.json.decode(values["form"])
    return Job(**values)


def family_row(family: Family) -> tuple[Any, ...]:
    """The parameters of the statement `add_family`. The flags are one number: 1 for `firm`, 2 for `open_input`."""
    flags = family.firm + 2 * family.open_input
    return family.route, family.number, family.shape, flags, family.rows, json_of(family.words)


def family_of(row: tuple[Any, ...]) -> Family:
    """A family from its row."""
    route, number, shape, flags, rows, words = row
    decoded = tuple(msgspec.json.decode(words))
    return Family(route, number, shape, bool(flags & 1), rows, decoded, bool(flags & 2))


def lane_of(row: tuple[Any, ...]) -> StoredLane:
    """A lane from its row."""
    number, key, name, record, view, updated_utc = row
    return StoredLane(number, key, name, _bytes(record), _bytes(view), updated_utc)


def attempt_of(row: tuple[Any, ...]) -> AttemptView:
    """An attempt from its row."""
    *values, text, again_utc = row
    rate_limit = None if text is None else msgspec.json.decode(text)
    return AttemptView(*(*values, rate_limit, again_utc))


def attempt_row(base: int, worker: int | None, attempt: Attempt) -> tuple[Any, ...]:
    """The parameters of the statement `add_attempt`. `base` is the key of the job's first unit."""
    # Field by field: `astuple` and unpacking take three times as long.
    own = attempt.worker.id if isinstance(attempt.worker, WorkerRecord) else attempt.worker
    _, charged_tokens, charged_input, charged_output = attempt.charged
    rate_limit = None if attempt.rate_limit is None else attempt.rate_limit.decode()
    return (
        base + attempt.index, attempt.number, own or worker, attempt.lane, attempt.outcome, attempt.kind, attempt.message,
        attempt.status_code, attempt.request_id, attempt.started_utc, attempt.finished_utc, attempt.input_tokens,
        attempt.output_tokens, attempt.cached_tokens, attempt.cost_usd, charged_tokens, charged_input, charged_output, rate_limit, attempt.again_utc,
    )  # fmt: skip


def line_row(base: int, row: TranscriptRow) -> tuple[Any, ...]:
    """The parameters of the statement `add_line`."""
    return base + row.index, row.number, row.seq, row.at_utc, row.line, row.messages.decode()


def json_of(value: Any) -> str:
    """JSON text for a column or a list of parameters."""
    return msgspec.json.encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
