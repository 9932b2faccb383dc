"""`--then`: one more unit when all others have ended, which gets their results.

The job grows by it, in the same transaction in which the last of the others ends, so a crash loses nothing. Its request is made then, from the
template and the results. It goes to the first provider and model of the job. Another template makes another unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

from headway.batch.answer_text import plain_text
from headway.batch.rows import BadRow, from_fields
from headway.config.routing import Router, Target
from headway.core.unit_states import GOOD
from headway.errors import StoreError, UsageError
from headway.stores.records import Job, NewUnit, StoredRoute, UnitResult
from headway.stores.store import Store
from headway.stores.write_batch import Grow

#: The beginning of the ids of such units.
PREFIX: Final = "then-"
_ID: Final = re.compile(rf"{PREFIX}[0-9a-f]{{6}}")
_NAME: Final = re.compile(r"\{\{\s*results\s*\}\}")
#: Answers may have megabytes each.
_PAGE: Final = 50
#: The most text of all results together. Of a job with more, each result is cut to its part.
MOST_BYTES: Final = 8 * 1024 * 1024


class ThenUnit(msgspec.Struct, frozen=True):
    """The template, and whether units may have failed: then the results of those that succeeded are used."""

    template: str = ""
    allow_failures: bool = False

    @property
    def id(self) -> str:
        """The id of the unit."""
        return PREFIX + blake2b(self.template.encode(), digest_size=3).hexdigest()

    def check(self) -> None:
        """Raise if the template uses no results."""
        if not _NAME.search(self.template):
            raise UsageError(
                "--then uses no results: {{results}} is replaced by the results of all units",
                hint="--then 'Summarise these changes: {{results}}'",
            )


def growth(job: Job, then: ThenUnit) -> Grow:
    """Adds the unit when all others have ended."""
    return _Growth(job, then)


class _Growth:
    def __init__(self, job: Job, then: ThenUnit) -> None:
        self._job, self._then = job, then
        #: Units below this index had ended when they were last looked at.
        self._ended = 0

    def __call__(self, store: Store, ended: Sequence[int]) -> Sequence[NewUnit]:
        job = self._job.id
        first = store.first_unended(job, self._ended)
        if first is None and self._ended:
            first = store.first_unended(job)  # A unit may have been reopened.
        if first is not None:
            self._ended = first
            return ()
        if store.index_of(job, self._then.id) is not None:
            return ()
        count = 0
        for unit in _others(store, job):
            if unit.status in GOOD:
                count += 1
            elif not self._then.allow_failures:
                return ()
        if not count:
            return ()
        # Each is cut when it is read: all of them together may be more than fits into memory.
        good = (unit for unit in _others(store, job) if unit.status in GOOD)
        cut = (_cut(_result(store, job, unit), MOST_BYTES // count) for unit in good)
        return (self._unit(store.routes(job)[0], [msgspec.json.encode(result) for result in cut]),)

    def _unit(self, route: StoredRoute, results: list[bytes]) -> NewUnit:
        lines = b",\n".join(results).decode()
        prompt = _NAME.sub(lambda _: f"[\n{lines}\n]", self._then.template)
        router = cast(Router, _OneRoute(Target(route.provider, route.kind, route.model)))
        row = from_fields(1, {"id": self._then.id, "prompt": prompt, "model": route.model}, router)
        if isinstance(row, BadRow):
            raise StoreError(f"--then: {row.message}")
        return NewUnit(row.custom_id, route.id, row.path, row.body, row.chars, int(row.max_tokens))


def _others(store: Store, job: int) -> Iterator[UnitResult]:
    """All units but those of `--then`."""
    after = -1
    while page := store.results(job, after, _PAGE):
        after = page[-1].index
        for unit in page:
            if not _ID.fullmatch(unit.custom_id):
                yield unit


def _result(store: Store, job: int, unit: UnitResult) -> dict[str, Any]:
    text = plain_text(unit.body or b"")
    result: dict[str, Any] = {
        "id": unit.custom_id,
        "status": unit.status,
        "text": msgspec.Raw(unit.body or b"null") if text is None else text,
    }
    notes = store.notes_of(job, unit.index)
    if notes:
        from headway.executors.worktrees.unit_directory import diff_of  # Only programs and agents have notes.

        if diff := diff_of(notes[max(notes)]):
            result["diff"] = diff.decode(errors="replace")
    return result


def _cut(result: dict[str, Any], most: int) -> dict[str, Any]:
    """A result with its longest texts cut, so that it has about `most` characters."""
    size = sum(len(bytes(value) if isinstance(value, msgspec.Raw) else value) for value in result.values())
    if size <= most:
        return result
    return {name: _cut_text(value, most // 2) for name, value in result.items()}


def _cut_text(value: str | msgspec.Raw, most: int) -> str:
    text = bytes(value).decode(errors="replace") if isinstance(value, msgspec.Raw) else value
    return text if len(text) <= most else f"{text[:most]}… {len(text) - most:,} characters left out"


class _OneRoute:
    """A router that knows one target."""

    takes_any_row = True

    def __init__(self, target: Target) -> None:
        self._target = target

    def route(self, model: str | None) -> Target:
        return self._target

    def check_row(self, target: Target, payload: object) -> None:
        """Its row has a prompt from the template, and no settings of its own."""


def answer_to(store: Store, job: Job, then: ThenUnit) -> str | None:
    """The text of the unit's answer; None if it has none yet."""
    index = store.index_of(job.id, then.id)
    body = None if index is None else store.answer(job.id, index)
    if body is None:
        return None
    text = plain_text(body)
    return body.decode(errors="replace") if text is None else text
