"""`headway ask` to its first token, beside a bare aiohttp script; and the memory of `headway.frame`.

Both commands are new processes, in turns, against the same fake provider that streams at once. What a frame takes beside the
frame and its answers is measured as peak memory of a process: 100,000 rows against 10,000.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

import headway
from headway.fake.process import FakeProcess, fake_process

TURNS: Final = 15
FIRST_TOKEN_BAR_S: Final = 0.150
SMALL: Final = 10_000
LARGE: Final = 100_000
#: Peak memory of the large frame beyond that of the small one, besides the frame and its answers themselves.
MEMORY_BAR: Final = 1.25
KEY: Final = "sk-bench-asking"

#: What a careful programmer would write without Headway: no record, no limit, no retry.
BARE: Final = """
import asyncio, json, os, sys
import aiohttp

async def main(url):
    body = {"model": "gpt-x", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"Authorization": "Bearer " + os.environ["BENCH_KEY"]}
    async with aiohttp.ClientSession() as session:
        async with session.post(url + "/v1/chat/completions", json=body, headers=headers) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    piece = choices and choices[0]["delta"].get("content")
                    if piece:
                        sys.stdout.write(piece)
                        sys.stdout.flush()

asyncio.run(main(sys.argv[1]))
"""


class FirstTokens(msgspec.Struct, frozen=True):
    """Seconds from the start of a process to its first byte of text, turn by turn."""

    bare_s: list[float]
    ask_s: list[float]

    @property
    def over_s(self) -> float:
        """How much later the first token of `headway ask` comes."""
        return median(self.ask_s) - median(self.bare_s)


@contextmanager
def _place(fake: FakeProcess) -> Iterator[Path]:
    """A working directory with a configuration."""
    with TemporaryDirectory() as folder:
        Path(folder, "headway.toml").write_text(
            f'[providers.alpha]\nkind = "openai"\nbase_url = "{fake.url}/v1"\napi_key_env = "BENCH_KEY"\n'
            'model = "gpt-x"\n[providers.alpha.limits]\nmax_concurrency = 256\n',
            encoding="utf-8",
        )
        yield Path(folder)


def _environ() -> dict[str, str]:
    return {**os.environ, "BENCH_KEY": KEY}


def _first_byte_s(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=_environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.read(1)
        took = time.perf_counter() - began
        process.stdout.read()
    if not first or process.returncode:
        raise RuntimeError(f"{command[1:3]} gave no text, exit code {process.returncode}")
    return took


def first_tokens(turns: int = TURNS) -> FirstTokens:
    """Both in turns. Bytecode is compiled first, as an installer does."""
    compileall.compile_dir(Path(headway.__file__).parent, quiet=2)
    with (
        fake_process("--ttft", "0ms", "--per-token", "1ms", "--output-tokens", "20") as fake,
        _place(fake) as folder,
    ):
        script = folder / "bare.py"
        script.write_text(BARE, encoding="utf-8")
        bare = [sys.executable, str(script), fake.url]
        ask = [sys.executable, "-m", "headway", "ask", "Hi", "--stream"]
        for command in (bare, ask):
            _first_byte_s(command, folder)  # Not measured: the disk's cache, and the database.
        seconds = [(_first_byte_s(bare, folder), _first_byte_s(ask, folder)) for _ in range(turns)]
    return FirstTokens([bare_s for bare_s, _ in seconds], [ask_s for _, ask_s in seconds])


#: In a process of its own: the frame, its answers, and the peak of both and of all else.
FRAME: Final = """
import os, resource, sys
import pandas, headway

rows = int(sys.argv[1])
texts = [f"row {number}" for number in range(rows)]
made = headway.frame(pandas.DataFrame({"text": texts}), prompt="say {{text}}", progress=False)
assert made["_error"].isna().all()
assert all(said.startswith(f"echo: say {text}") for said, text in zip(made["answer"], texts))
kept = int(made.memory_usage(deep=True).sum()) + sum(map(sys.getsizeof, texts))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, kept)
"""


class FrameMemory(msgspec.Struct, frozen=True):
    """One frame: its rows, the peak of its process, the frame with its answers, and the seconds that it took."""

    rows: int
    peak_bytes: int
    kept_bytes: int
    took_s: float

    @property
    def beside_bytes(self) -> int:
        """The peak without the frame and its answers."""
        return self.peak_bytes - self.kept_bytes


def frame_memory(small: int = SMALL, large: int = LARGE) -> tuple[FrameMemory, FrameMemory]:
    """A small frame and a large one."""
    with fake_process("--output-tokens", "8") as fake, _place(fake) as folder:
        return _frame(small, folder), _frame(large, folder)


def _frame(rows: int, folder: Path) -> FrameMemory:
    began = time.monotonic()
    command = [sys.executable, "-c", FRAME, str(rows)]
    done = subprocess.run(command, cwd=folder, env=_environ(), check=True, capture_output=True, text=True, timeout=3600)  # fmt: skip
    peak, kept = map(int, done.stdout.split())
    return FrameMemory(rows, peak, kept, time.monotonic() - began)


def section(missed: list[str]) -> Iterator[str]:
    """The section of the results."""
    print("ask: first token …", flush=True)
    first = first_tokens()
    yield "## `headway ask` to its first token, and `headway.frame` in memory"
    yield ""
    yield f"New processes in turns, {TURNS} each, medians, against a provider that streams at once. Recorded like any job, beside a bare aiohttp script."
    yield ""
    yield "| bare script | `headway ask` | later by | bar |"
    yield "|---|---|---|---|"
    yield (
        f"| {1000 * median(first.bare_s):.0f} ms | {1000 * median(first.ask_s):.0f} ms | {1000 * first.over_s:.0f} ms "
        f"| ≤ {1000 * FIRST_TOKEN_BAR_S:.0f} ms |"
    )
    if first.over_s > FIRST_TOKEN_BAR_S:
        missed.append(
            f"headway ask: {1000 * first.over_s:.0f} ms to the first token, the bar is {1000 * FIRST_TOKEN_BAR_S:.0f}"
        )
    print("ask: frames …", flush=True)
    small, large = frame_memory()
    ratio = large.beside_bytes / small.beside_bytes
    yield ""
    yield "Peak memory of a process that asks about every row of a pandas frame, without the frame and its answers:"
    yield ""
    yield "| rows | peak MB | frame and answers MB | the rest MB | against the small one | bar | s |"
    yield "|---|---|---|---|---|---|---|"
    for one, growth in ((small, 1.0), (large, ratio)):
        yield (
            f"| {one.rows:,} | {one.peak_bytes / 1e6:.0f} | {one.kept_bytes / 1e6:.1f} | {one.beside_bytes / 1e6:.0f} "
            f"| {growth:.2f} | ≤ {MEMORY_BAR} | {one.took_s:.0f} |"
        )
    if ratio > MEMORY_BAR:
        missed.append(
            f"headway.frame: {ratio:.2f} × the memory with ten times the rows, the bar is {MEMORY_BAR}"
        )
    yield ""
