"""The Python tools of a flow as a provider: functions of files in one folder, in worker processes that stay.

It is a `PythonAdapter` whose requests name the function (`tool_function.ToolFunction`): all tools of a folder share one pool.
"""

from __future__ import annotations

import pickle

import msgspec

from headway.config.settings import ToolWorkersConfig
from headway.executors import tool_worker
from headway.executors.entry_point import EntryPoint, entry_name
from headway.executors.python_adapter import PythonAdapter
from headway.executors.tool_function import tool_payload
from headway.executors.work_result import WorkResult, last_words
from headway.providers.adapter import Request
from headway.providers.error_messages import short_message
from headway.providers.scrubber import NO_SECRETS, Scrubber


class ToolAdapter(PythonAdapter):
    """Calls a tool for every unit."""

    def __init__(
        self,
        settings: ToolWorkersConfig,
        size: int,
        place: str,
        scrub: Scrubber = NO_SECRETS,
        max_answer_bytes: int = 0,
    ) -> None:
        super().__init__(settings, "", size, settings.directory, place, scrub, max_answer_bytes)
        self._directory = settings.directory

    def _entry(self) -> EntryPoint:
        return EntryPoint(
            entry_name(tool_worker.serve_tools), pickle.dumps((self._directory, self._max_value))
        )

    def _payload(self, request: Request) -> bytes:
        return tool_payload(request.path, request.body)

    async def _one(self, request: Request, timeout_s: float) -> WorkResult:
        result = await super()._one(request, timeout_s)
        said = last_words(result.stderr) if result.end == "error" else ""
        if not said:
            return result
        message = short_message(f"{result.outcome.message}; last on standard error: {said}")
        outcome = msgspec.structs.replace(result.outcome, message=message)
        return msgspec.structs.replace(result, outcome=outcome)
