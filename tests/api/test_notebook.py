"""`headway.map`, `amap` and the progress bar in a real Jupyter kernel, with the real OpenAI SDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from jupyter_client.manager import KernelManager

import headway
from headway.errors import UsageError
from headway.fake.process import FakeProcess, fake_process

PATIENCE_S = 60.0

CLIENT = """
import headway, openai
client = openai.AsyncOpenAI(base_url="{url}/v1", api_key="k", max_retries=0)
async def ask(x):
    answer = await client.chat.completions.create(
        model="echo", messages=[{{"role": "user", "content": f"say {{x}}"}}])
    return answer.choices[0].message.content
"""


class Cell(NamedTuple):
    """A cell that has run: its text on stdout, its displays by id in the order of their messages, and its error."""

    text: str
    displays: list[dict[str, Any]]
    error: str


class Notebook:
    """A kernel, used as a notebook uses it."""

    def __init__(self, manager: KernelManager) -> None:
        self._manager = manager
        self._client = manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)

    def run(self, code: str) -> Cell:
        text, error, displays = "", "", []

        def hear(message: dict[str, Any]) -> None:
            nonlocal text, error
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                text += content["text"]
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
            elif kind in ("display_data", "update_display_data"):
                displays.append({"kind": kind, **content})

        self._client.execute_interactive(code, output_hook=hear, timeout=PATIENCE_S)
        return Cell(text, displays, error)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeProcess]:
    with fake_process("--latency", "20ms", "--rpm", "6000") as process:
        yield process


@pytest.fixture
def notebook(fake: FakeProcess) -> Iterator[Notebook]:
    manager = KernelManager(kernel_name="python3")
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    opened = Notebook(manager)
    try:
        assert opened.run(CLIENT.format(url=fake.url)).error == ""
        yield opened
    finally:
        opened.close()


def test_map_works_in_a_notebook(notebook: Notebook) -> None:
    cell = notebook.run("print(headway.map(ask, range(3), progress=False))")
    assert (cell.error, cell.text.strip()) == ("", "['echo: say 0', 'echo: say 1', 'echo: say 2']")


def test_a_client_of_the_notebooks_loop_is_explained_at_once_and_amap_works(notebook: Notebook) -> None:
    assert notebook.run("print(await ask(1))").text.strip() == "echo: say 1"
    cell = notebook.run("headway.map(ask, range(500), progress=False)")
    assert cell.error.startswith("UsageError: your function uses a client that belongs to another event loop")
    assert "await headway.amap(…)" in cell.error
    cell = notebook.run("print(len(await headway.amap(ask, range(40), progress=False)))")
    assert (cell.error, cell.text.strip()) == ("", "40")


def test_the_bar_is_one_display_that_is_updated(notebook: Notebook) -> None:
    cell = notebook.run("_ = await headway.amap(ask, range(100), progress=True)")
    assert (cell.error, cell.text) == ("", ""), "nothing is printed"
    first, *later = cell.displays
    assert first["kind"] == "display_data"
    assert later, "it moves"
    assert {one["kind"] for one in later} == {"update_display_data"}
    assert {one["transient"]["display_id"] for one in cell.displays} == {first["transient"]["display_id"]}
    assert "<progress max='100' value='100'>" in later[-1]["data"]["text/html"]
    assert later[-1]["data"]["text/plain"].startswith("100/100")


def test_any_error_of_another_loop_is_explained_before_the_job_has_failed_on_it() -> None:
    lock = asyncio.Lock()

    async def bind() -> None:
        async with lock:
            waiting = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0)
        await waiting

    asyncio.run(bind())
    calls = 0

    async def ask(number: int) -> int:
        nonlocal calls
        calls += 1
        async with lock:
            return number

    with pytest.raises(UsageError, match=r"await headway\.amap"):
        headway.map(ask, range(5_000), limits=headway.Limits(max_concurrency=4), progress=False)
    assert calls <= 20, "it was not tried again and again"


def test_an_error_after_a_success_is_an_ordinary_failure() -> None:
    async def ask(number: int) -> int:
        if number:
            raise RuntimeError("Task got Future attached to a different loop")
        return number

    results = headway.map(
        ask, [0, 1], limits=headway.Limits(max_concurrency=1), on_error="return", progress=False
    )
    assert results[0] == 0
    assert isinstance(results[1], RuntimeError)
