"""An adapter around the adapter of a program: it gives each unit its directory, and keeps what the unit left there.

With worktrees, a unit works in its own (`unit_worktrees`). When its attempt has ended, the changes go into the attempt's record, and a
worktree without changes is removed. The worktree of a failed attempt stays for the next one; `close` removes those without changes.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from headway.core.model import Kind, Outcome
from headway.executors.attempt_details import blotted_json, plain_value
from headway.executors.worktrees.collected_files import collect_files
from headway.executors.worktrees.git_command import GitError
from headway.executors.worktrees.unit_worktrees import UnitWorktrees, WorktreeRecord
from headway.providers.adapter import Adapter, Admitted, Answer, Request
from headway.providers.scrubber import NO_SECRETS, Scrubber

T = TypeVar("T")
#: The directory of a row, as an absolute path. Raises UsageError.
DirectoryOf = Callable[[dict[str, Any]], str]


#: Refusals of the whole account: what has not started yet would only be refused, too.
_REFUSALS: Final = frozenset({Kind.RATE, Kind.HOLD, Kind.QUOTA})


class DirectorySettings(msgspec.Struct, frozen=True):
    """How units of a provider get their directories. `unit_of` names a unit by its index; `files` is the folder for collected files."""

    directory_of: DirectoryOf
    unit_of: Callable[[int], str]
    worktrees: UnitWorktrees | None = None
    collect: tuple[str, ...] = ()
    files: Callable[[str], Path] = Path


class _Workplace(msgspec.Struct, frozen=True):
    """Where a unit works."""

    unit: str
    directory: str
    record: WorktreeRecord | None = None


class UnitDirectoryAdapter:
    """Gives each unit its directory."""

    def __init__(self, inner: Adapter, settings: DirectorySettings, scrub: Scrubber = NO_SECRETS) -> None:
        self._inner, self._settings, self._scrub = inner, settings, scrub
        #: Worktrees of attempts that have not succeeded, by their unit.
        self._left: dict[str, WorktreeRecord] = {}
        #: Work in threads. A cancelled attempt does not stop it: git ends what it began.
        self._threads: set[asyncio.Future[Any]] = set()
        #: Refusals so far, the latest one, and when it came.
        self._refusals = 0
        self._refused = Answer()
        self._refused_at = 0.0

    def __getattr__(self, name: str) -> Any:
        """What the adapter of the program says of itself: that it has sessions, and takes a log."""
        return getattr(self._inner, name)

    @property
    def memory(self) -> Any:
        """What its programs take of the memory. Protocols look for it in the class."""
        return self._inner.memory  # type: ignore[attr-defined]

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        """Remove the worktrees of failed units that have no changes."""
        await self._inner.close()
        if self._threads:
            await asyncio.wait(self._threads)
        for record in list(self._left.values()):
            await asyncio.to_thread(self._remove_if_clean, record)

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send with the unit's directory in its row."""
        row = msgspec.json.decode(request.body)
        index = int(request.session.rpartition(" ")[2])
        refusals = self._refusals
        try:
            place = await self._in_thread(lambda: self._open(request.session, index, row))
        except (GitError, OSError, ValueError) as error:
            text = f"its working directory could not be made: {error}"
            return Answer(Outcome(Kind.TRANSIENT, message=text, sent=False))
        if refusals != self._refusals:
            return self._refusal()
        if place is None:
            return await self._inner.send(request, timeout_s, admitted)  # It says what is wrong with the row.
        agent = row.get("agent", {})
        body = msgspec.json.encode({**row, "agent": {**agent, "directory": place.directory}})
        answer = await self._inner.send(msgspec.structs.replace(request, body=body), timeout_s, admitted)
        if answer.outcome.kind in _REFUSALS:
            self._refusals += 1
            self._refused, self._refused_at = answer, time.monotonic()
        left = await self._in_thread(lambda: self._leave(place, succeeded=answer.outcome.kind is None))
        return msgspec.structs.replace(answer, note=_with_fields(answer.note, left))

    async def _in_thread(self, act: Callable[[], T]) -> T:
        thread = asyncio.ensure_future(asyncio.to_thread(act))
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        return await asyncio.shield(thread)

    def _refusal(self) -> Answer:
        """The refusal that another unit met while this one got its directory: its program is not started."""
        outcome, limit = self._refused.outcome, self._refused.rate_limit
        hint = outcome.hint
        if hint is not None and hint.retry_after_s is not None:
            left_s = max(0.0, hint.retry_after_s - (time.monotonic() - self._refused_at))
            hint = msgspec.structs.replace(hint, retry_after_s=left_s)
        outcome = msgspec.structs.replace(outcome, hint=hint, usage=None, sent=False)
        return Answer(outcome, rate_limit=limit)

    def _open(self, owner: str, index: int, row: dict[str, Any]) -> _Workplace | None:
        """The place of a unit; None if its row is wrong."""
        settings, agent = self._settings, row.get("agent", {})
        if not isinstance(agent, dict) or not isinstance(agent.get("directory", ""), str):
            return None
        directory = settings.directory_of(row)
        if not os.path.isdir(directory):
            return None
        unit = settings.unit_of(index)
        if settings.worktrees is None:
            return _Workplace(unit, directory)
        record, place = settings.worktrees.open(owner, unit, directory)
        self._left[owner] = record
        return _Workplace(unit, place, record)

    def _leave(self, place: _Workplace, *, succeeded: bool) -> dict[str, Any]:
        """What the unit left behind, as fields of its record. A worktree without changes is removed after a success."""
        fields: dict[str, Any] = {"directory": place.directory}
        remarks: list[str] = []
        if self._settings.collect and succeeded:
            try:
                collected = collect_files(
                    place.directory, self._settings.collect, self._settings.files(place.unit)
                )
                fields["files"] = collected.files
                remarks += collected.remarks
            except OSError as error:
                remarks.append(f"its files could not be collected: {error}")
        if place.record is not None:
            try:
                fields |= self._changes(place.record, remove_clean=succeeded)
            except (GitError, OSError) as error:
                remarks.append(f"the changes in the worktree could not be read: {error}")
        if extra := fields.pop("remark", ""):
            remarks.append(extra)
        diff: dict[str, Any] = {name: fields.pop(name) for name in ("diff", "diff_base64") if name in fields}
        return {**self._without_secrets({**fields, "remarks": remarks}), **diff}

    def _without_secrets(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Names of files and subjects of commits may be anything: secrets, or bytes that are no text."""
        plain = plain_value(fields)
        cleaned: dict[str, Any] = msgspec.json.decode(
            blotted_json(plain, msgspec.json.encode(plain), self._scrub)
        )
        return cleaned

    def _changes(self, record: WorktreeRecord, *, remove_clean: bool) -> dict[str, Any]:
        worktrees = self._settings.worktrees
        assert worktrees is not None
        changes = worktrees.changes(record)
        clean = changes.is_clean(record.start_commit)
        if clean and remove_clean:
            worktrees.remove(record)
        if remove_clean:
            self._left.pop(record.owner, None)
        return {
            "branch": "" if clean and remove_clean else record.branch,
            "start_commit": record.start_commit,
            "commits": changes.commits,
            "git_status": changes.status,
            "remark": changes.remark,
            **diff_fields(self._scrub.body(changes.diff)),
        }

    def _remove_if_clean(self, record: WorktreeRecord) -> None:
        worktrees = self._settings.worktrees
        assert worktrees is not None
        try:
            if worktrees.changes(record).is_clean(record.start_commit):
                worktrees.remove(record)
        except (GitError, OSError):
            return  # It is listed by `headway worktrees`, which can remove it.


def diff_fields(diff: bytes) -> dict[str, str]:
    """A diff as fields of a record: as text, or in base64 if files in it are not UTF-8."""
    try:
        return {"diff": diff.decode()}
    except UnicodeDecodeError:
        return {"diff_base64": base64.b64encode(diff).decode()}


def diff_of(details: dict[str, Any]) -> bytes:
    """The diff of a recorded attempt; b"" if it has none."""
    if coded := details.get("diff_base64"):
        return base64.b64decode(coded)
    return str(details.get("diff") or "").encode()


def _with_fields(note: bytes, fields: dict[str, Any]) -> bytes:
    """The details of an attempt with more fields; empty ones are left out."""
    details = msgspec.json.decode(note) if note else {}
    files = [*details.get("files", ()), *fields.pop("files", ())]
    more = {name: value for name, value in fields.items() if value}
    return msgspec.json.encode({**details, **({"files": files} if files else {}), **more})
