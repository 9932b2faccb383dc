"""`exec:` of an eval file: a program that gets the prompt, its options and the context as its last arguments, and the prompt on standard input.

What it prints on standard output is the output. Every exit code but 0 is a failure, and so are words on standard error without an output.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headway.config.settings import ScriptConfig
from headway.core.model import Kind, Outcome
from headway.executors.commands.agent_task import AgentTask
from headway.executors.commands.command_adapter import CommandAdapter
from headway.executors.work_result import WorkResult, last_words
from headway.providers.adapter import Request
from headway.providers.program_answer import failed, output_body
from headway.providers.scrubber import NO_SECRETS, Scrubber

#: Colours and other terminal sequences.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_encode: Final = msgspec.json.encode


class ScriptAdapter(CommandAdapter):
    """Runs the script once for every unit. Templates in its options are filled already."""

    def __init__(
        self,
        settings: ScriptConfig,
        options: dict[str, Any],
        withheld: frozenset[str] = frozenset(),
        scrub: Scrubber = NO_SECRETS,
        max_answer_bytes: int = 0,
    ) -> None:
        super().__init__(settings, None, "", settings.directory, withheld, scrub, max_answer_bytes)
        self._directory = settings.directory
        self._options = _encode({"config": {"basePath": settings.directory, **options}}).decode()

    async def _one(self, request: Request, timeout_s: float) -> WorkResult:
        row = msgspec.json.decode(request.body)
        prompt = str(row.get("prompt", ""))
        context = _encode(row.get("context", {})).decode()
        arguments = (prompt, self._options, context)
        if any("\0" in text for text in arguments):
            text = "the prompt has a null character, which no argument of a program can have"
            return WorkResult("error", outcome=Outcome(Kind.INVALID, message=text))
        task = AgentTask(prompt, directory=self._directory, args=arguments)
        return _read(await self._command(task, request, timeout_s))


def _read(result: WorkResult) -> WorkResult:
    """The output without colours, or what a program without an output wrote on standard error."""
    if result.end != "value":
        return result
    text = _ESCAPES.sub("", msgspec.json.decode(result.value)["content"][0]["text"]).strip()
    said = last_words(result.stderr)
    if not text and said:
        return msgspec.structs.replace(result, end="error", value=b"", outcome=failed(said))
    return msgspec.structs.replace(result, value=output_body(text))
