"""Several models in one job (`--model a --model b`): every row is a unit for each model, with the id `ID@MODEL`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headway.batch.rows import BadRow, Row
from headway.config.routing import Router
from headway.errors import UsageError
from headway.stores.records import Job

Numbered = Iterator[tuple[int, Row | BadRow]]


def models_of(job: Job) -> tuple[str, ...]:
    """The models that the job compares, as they were named; none if it has only one."""
    return tuple(job.form.get("models", ()))


def split_id(custom_id: str, models: Iterable[str]) -> tuple[str, str]:
    """The id of the row, and the model; "" if the id names none of these models."""
    for model in models:
        if custom_id.endswith(f"@{model}"):
            return custom_id[: -len(model) - 1], model
    return custom_id, ""


def must_differ(models: Sequence[str], router: Router) -> None:
    """Raise if two of the names mean the same model of the same provider."""
    targets: dict[tuple[str, str], str] = {}
    for model in models:
        target = router.route(model)
        other = targets.setdefault((target.provider, target.model), model)
        if other != model:
            raise UsageError(
                f"--model {other} and --model {model} are the same model", hint="leave one of them out"
            )


def each_model(streams: Sequence[Numbered], models: Sequence[str]) -> Numbered:
    """The rows of one input, read once for each model. A row that is bad for one model is bad for all."""
    for group in zip(*streams, strict=True):
        line = group[0][0]
        rows = [_row(line, row, model) for (_, row), model in zip(group, models, strict=True)]
        bad = next((row for row in rows if isinstance(row, BadRow)), None)
        if bad is not None:
            yield line, bad
        else:
            yield from ((line, row) for row in rows)


def _row(line: int, row: Row | BadRow, model: str) -> Row | BadRow:
    if isinstance(row, BadRow):
        return row
    if row.raw_model != model:
        return BadRow(
            line,
            '"model" is set in this row: with several --model, every row goes to each of them',
            row.store_as,
        )
    return msgspec.structs.replace(row, custom_id=f"{row.custom_id}@{model}", variant=model)
