"""The session of an agent's attempt: chosen before the start where the CLI takes an id, on record before anything else is read, and
resumed by the next attempt.
"""

from __future__ import annotations

import os
import uuid
from typing import Final

import msgspec

from headway.executors.attempt_details import AttemptDetails
from headway.executors.commands.agent_task import AgentTask
from headway.executors.commands.clis.cli_contract import SessionTrouble
from headway.executors.commands.transcript import Transcript
from headway.providers.adapter import Request
from headway.providers.attempt_log import EarlierSession
from headway.providers.scrubber import Scrubber

#: What a resumed session is told: it has the task already.
CONTINUE: Final = "You were interrupted. Continue with the task from where you stopped."
#: Ids of sessions are made from the names of units and the numbers of their attempts.
_SESSIONS: Final = uuid.UUID("6f1e2d5c-7f0a-4b6e-9a57-1d2c3b4a5968")


class AgentSession:
    """The session of one attempt."""

    def __init__(self, request: Request, scrub: Scrubber, *, chooses: bool) -> None:
        self._request, self._scrub = request, scrub
        #: Whether Headway chooses the ids of sessions.
        self._chooses = chooses
        self.log, self.traceparent = request.log, request.traceparent
        self.transcript = Transcript(request.log, scrub)
        self._directory = ""
        #: Why it is not the session of the attempt before.
        self.note = ""
        self.pid = 0

    async def choose(self, task: AgentTask, *, resume: bool) -> AgentTask:
        """The task with the session to resume, or with a new id where Headway can choose it."""
        self._directory = task.directory
        earlier = await self._earlier(task) if resume else None
        if earlier is not None:
            told = CONTINUE if earlier.spoke else ""
            task = msgspec.structs.replace(task, session_id=earlier.session_id, resumes=True, told=told)
        elif self._chooses:
            task = msgspec.structs.replace(task, session_id=self._new_id())
        if task.session_id:
            await self.record(task.session_id)
        return task

    async def _earlier(self, task: AgentTask) -> EarlierSession | None:
        """The session that an earlier attempt left unfinished."""
        request = self._request
        if request.attempt <= 1:
            return None
        if request.log is None:  # Nothing is on record: only an id that Headway chose is known.
            known = self._chooses and request.session
            return EarlierSession(self._id_of(1), task.directory) if known else None
        earlier = await request.log.earlier_session()
        if earlier is None or earlier.succeeded:
            return None
        if earlier.directory and not _is_same(earlier.directory, task.directory):
            self._say(
                f"session {earlier.session_id} worked in {earlier.directory}: a new session starts here"
            )
            return None
        return earlier

    async def anew(self, task: AgentTask, trouble: SessionTrouble) -> AgentTask:
        """The task for a new session, because the CLI refused this one."""
        new_id = ""
        if trouble == "unknown":
            self._say(f"there is no session {task.session_id} to resume: a new session starts")
            new_id = task.session_id if self._chooses else ""
        elif trouble == "taken":
            self._say(f"the session id {task.session_id} is in use already: another session starts")
            new_id = str(uuid.uuid4())
        if new_id:
            await self.record(new_id)
        return msgspec.structs.replace(task, session_id=new_id, resumes=False, told="")

    async def record(self, session_id: str) -> None:
        """Make the session durable."""
        if self.log is None:
            return
        details = AttemptDetails(
            session_id=session_id,
            session_note=self.note,
            directory=self._directory,
            pid=self.pid or None,
        )
        await self.log.record(details.encode(self._scrub))

    def _say(self, text: str) -> None:
        self.note = f"{self.note}; {text}" if self.note else text
        self.transcript.remark(text)

    def _new_id(self) -> str:
        return self._id_of(self._request.attempt) if self._request.session else str(uuid.uuid4())

    def _id_of(self, attempt: int) -> str:
        name = self._request.session
        return str(uuid.uuid5(_SESSIONS, name if attempt <= 1 else f"{name} attempt {attempt}"))


def _is_same(directory: str, other: str) -> bool:
    return os.path.normpath(directory) == os.path.normpath(other)
