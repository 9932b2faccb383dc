"""Runs code of eval files in real workers."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.providers.wire import Admissions

from headway.config.settings import CodeConfig, CodeLanguage
from headway.core.model import Kind
from headway.evals.programs.answers import output_of
from headway.evals.programs.code_requests import PATH, assertion_request, transform_request, vars_request
from headway.evals.spec import Code
from headway.executors.code.code_adapter import CodeAdapter
from headway.providers.adapter import Answer, Request
from headway.providers.scrubber import Scrubber

SECRET: Final = "a-secret-that-has-no-known-form"
MOST: Final = 1_000_000
needs_node: Final = pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node on this machine"
)


@asynccontextmanager
async def code_workers(
    language: CodeLanguage, folder: Path, timeout_s: float = 30.0
) -> AsyncIterator[CodeAdapter]:
    """The provider that runs the code of an eval, with one worker."""
    settings = CodeConfig(
        f"code:{language}", preflight="none", language=language, directory=str(folder), timeout_s=timeout_s
    )
    adapter = CodeAdapter(settings, 1, f"code:{language}", Scrubber([SECRET]), MOST)
    try:
        yield adapter
    finally:
        await adapter.close()


async def send(adapter: CodeAdapter, body: bytes, timeout_s: float = 60.0) -> Answer:
    return await adapter.send(Request(PATH, body), timeout_s, Admissions())


class Codes:
    """Assertions and transforms in one language."""

    def __init__(self, adapter: CodeAdapter, language: CodeLanguage, folder: Path) -> None:
        self.adapter, self.language, self.folder = adapter, language, folder

    async def asserts(self, source: str, output: Any = "hello", **context: Any) -> Answer:
        code = Code(self.language, source=source)
        return await send(self.adapter, assertion_request(code, output, {"vars": {}, **context}))

    async def asserts_file(self, name: str, text: str, function: str = "", **context: Any) -> Answer:
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        code = Code(self.language, file=file, function=function)
        return await send(self.adapter, assertion_request(code, "hello", {"vars": {}, **context}))

    async def transforms(self, source: str, output: Any, **context: Any) -> Answer:
        return await send(
            self.adapter, transform_request(Code(self.language, source=source), output, context)
        )

    async def transforms_vars(self, source: str, values: dict[str, Any]) -> Answer:
        return await send(self.adapter, vars_request(Code(self.language, source=source), values, {}))

    async def works(self) -> None:
        """The next unit is not harmed."""
        assert value(await self.asserts("output == 'hello'")) is True


def value(answer: Answer) -> Any:
    assert answer.outcome.kind is None, answer.outcome
    return output_of(answer.body)


def error(answer: Answer, kind: Kind = Kind.INVALID) -> str:
    assert answer.outcome.kind is kind, answer
    assert answer.body == b""
    return answer.outcome.message


def details(answer: Answer) -> dict[str, Any]:
    return dict(json.loads(answer.note or b"{}"))
