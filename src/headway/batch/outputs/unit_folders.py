"""A folder for each unit of an agent or a program: `DIR/UNIT/` with its answer, its diff, its transcript and collected files.

answer.txt or answer.json   written last: a folder that has it is complete
diff.patch                  what the unit changed in its worktree, for `git apply`
transcript.jsonl            one message a line: texts, tool calls and their results, of all attempts
files/                      the files of `--collect`
remarks.txt                 what could not be kept, and why

Units of other providers in the same job have files as in `answer_folder`. The rules of that file hold here, too.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from headway.batch.answer_text import plain_text
from headway.batch.file_types import UNIT_JSON, UNIT_TEXT, UNIT_TRANSCRIPT
from headway.batch.outputs.answer_folder import AnswerFolder, has_content
from headway.config import KINDS
from headway.core.unit_states import GOOD
from headway.executors.worktrees.safe_names import safe_name
from headway.executors.worktrees.unit_directory import diff_of
from headway.stores.records import Job, UnitResult
from headway.stores.row_conversion import uid
from headway.stores.store import Store


def is_for_programs(store: Store, job: Job) -> bool:
    """Whether units of the job are run by agents or programs."""
    return any(_is_program(route.kind) for route in store.routes(job.id))


def _is_program(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].builder == "command"


class UnitFolders(AnswerFolder):
    """The folders of one job. `collected` has the files of `--collect`, in a folder for each unit."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        job: Job,
        path: Path,
        *,
        force: bool = False,
        collected: Path | None = None,
    ) -> None:
        super().__init__(open_store, job, path, force=force)
        self._collected = collected
        self._programs: frozenset[str] | None = None

    def file_of(self, unit: UnitResult) -> Path:
        """The file with the answer of a unit."""
        if not self._is_of_program(unit):
            return super().file_of(unit)
        folder = self.path / safe_name(unit.custom_id)
        if unit.body is None:  # It has no answer yet. One of the files may be there, of another job.
            return folder / (UNIT_JSON if (folder / UNIT_JSON).exists() else UNIT_TEXT)
        return folder / (UNIT_TEXT if plain_text(unit.body) is not None else UNIT_JSON)

    def _is_of_program(self, unit: UnitResult) -> bool:
        if self._programs is None:
            with self._reading() as store:
                routes = store.routes(self._job.id)
            self._programs = frozenset(route.provider for route in routes if _is_program(route.kind))
        return unit.provider in self._programs

    def write(self, unit: UnitResult) -> bool:
        """Write the folder of a unit that has an answer and no folder yet; returns whether it did."""
        if not self._is_of_program(unit):
            return super().write(unit)
        if unit.status not in GOOD or has_content(self.file_of(unit)):
            return False
        folder = self.file_of(unit).parent
        self._must_be_inside(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with self._reading() as store:
            notes = store.notes_of(self._job.id, unit.index)
            details: dict[str, Any] = notes[max(notes)] if notes else {}
            transcript = b"".join(_transcript(store, self._job, unit, details))
        for name, data in (
            ("diff.patch", diff_of(details)),
            (UNIT_TRANSCRIPT, transcript),
            ("remarks.txt", "".join(f"{remark}\n" for remark in details.get("remarks", ())).encode()),
        ):
            if data:
                self.write_file(folder / name, data)
        self._write_files(unit, folder / "files")
        return super().write(unit)

    def _write_files(self, unit: UnitResult, folder: Path) -> None:
        source = None if self._collected is None else self._collected / safe_name(unit.custom_id)
        if source is None or not source.is_dir():
            return
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        for place, _, _ in os.walk(folder):  # Headway's own folders are for their owner only.
            os.chmod(place, stat.S_IMODE(self.path.stat().st_mode))

    def _reading(self) -> AbstractContextManager[Store]:
        return self._open_store() if self._store is None else nullcontext(self._store)


def _transcript(store: Store, job: Job, unit: UnitResult, details: dict[str, Any]) -> Iterator[bytes]:
    """The prompt, and the messages of all attempts, one a line; of a program without messages, its answer."""
    row = msgspec.json.decode(store.request(job.id, unit.index)[1])
    prompt = row.get("prompt") if isinstance(row, dict) else row
    yield _line({"attempt": 1, "role": "user", "content": prompt})
    lines = store.transcript(uid(job.id, unit.index), 0)
    for line in lines:
        for message in line.messages:
            yield _line({"attempt": line.attempt, "at_utc": line.at_utc, **message})
    if any(line.messages for line in lines):
        return
    messages = details.get("messages")
    if not messages:
        text = plain_text(unit.body or b"")
        messages = [
            {"role": "assistant", "content": msgspec.Raw(unit.body or b"null") if text is None else text}
        ]
    for message in messages:
        yield _line({"attempt": unit.attempts, **message})


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"
