"""`headway fake`: a provider on loopback, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import verbose_option
from headway.display.terminal import echo, echo_json
from headway.errors import ConfigError, UsageError
from headway.runtime.signals import stop_signals

if TYPE_CHECKING:
    from headway.fake.fake_config import FakeConfig
    from headway.fake.server import FakeServer


@click.command(
    "fake",
    short_help="A provider on loopback to try clients out against.",
    epilog="Example: headway fake --port 8900 --rpm 600 --tpm 100000 --burst 10s --latency 200ms --fault 5xx=0.05",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8900, show_default=True, help="0 is any free one."
)
@click.option("--rpm", type=float, metavar="N", help="Requests per minute.")
@click.option("--rpd", type=float, metavar="N", help="Requests per day.")
@click.option("--tpm", type=float, metavar="N", help="Tokens per minute, input and max_tokens together.")
@click.option("--itpm", type=float, metavar="N", help="Input tokens per minute.")
@click.option("--otpm", type=float, metavar="N", help="Output tokens per minute, as they are produced.")
@click.option("--max-concurrency", type=int, metavar="N", help="Requests at once.")
@click.option("--burst", metavar="TIME", help="How deep each bucket is (60s).")
@click.option("--headers", metavar="STYLE", help="auto, openai, anthropic, minute or none.")
@click.option(
    "--dialect", metavar="VENDOR", help="Whose words and headers: groq, mistral, azure, vllm … (by the path)."
)
@click.option("--context", type=int, metavar="N", help="The longest prompt, in tokens.")
@click.option("--latency", metavar="TIME", help="How long an answer takes; 100ms-300ms is a range.")
@click.option("--ttft", metavar="TIME", help="How long until a stream begins.")
@click.option("--per-token", metavar="TIME", help="How long each output token takes.")
@click.option("--output-tokens", metavar="N", help="How long answers are; 100-300 is a range.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[=CHANCE|/N|@TIME|@FROM-TO]",
    help="What goes wrong, and when (repeatable).",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE.yaml", help="Accounts, faults, tools."
)
@click.option("--key", "keys", multiple=True, metavar="NAME=KEY", help="An account of its own (repeatable).")
@click.option("--strict", is_flag=True, help="Refuse keys that no account has.")
@click.option("--seed", type=int, help="Of chance; the same seed, the same delays and faults.")
@click.option("--port-file", type=click.Path(path_type=Path), metavar="FILE", help="Write the port here.")
@click.option("--for", "for_", metavar="TIME", help="End by itself after this long.")
@click.option("--json", "as_json", is_flag=True, help="The start and the summary as one line of JSON each.")
@click.option("-q", "--quiet", is_flag=True, help="No summary, and no start line either unless --json.")
@verbose_option
def command(
    port: int,
    faults: tuple[str, ...],
    config: Path | None,
    keys: tuple[str, ...],
    strict: bool,
    seed: int | None,
    port_file: Path | None,
    for_: str | None,
    as_json: bool,
    quiet: bool,
    **account: Any,
) -> None:
    """Answer as OpenAI and Anthropic do, on 127.0.0.1: chat completions, responses, embeddings and messages, plain
    and streamed; as Azure OpenAI, Gemini and Bedrock; with real limits, real headers and, if you like, real trouble. The answers echo the requests.

    GET /stats tells what was admitted, refused, answered, repeated and lost. Flags about limits, delays and answers
    are for the account `default`, which takes every key that has no account of its own.
    """
    from headway.fake.flags import config_from_flags

    said = {name: value for name, value in account.items() if value is not None}
    settings = config_from_flags(config, said, faults=faults, keys=keys, strict=strict, seed=seed)
    seconds = _duration(for_)
    say = _Voice(as_json, quiet)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, port, port_file, seconds, say))


def _duration(said: str | None) -> float | None:
    from headway.fake.quantities import seconds

    try:
        return None if said is None else float(seconds(said))
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _Voice:
    """What is said at the start and at the end, for people or for programs."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet

    def started(self, server: FakeServer) -> None:
        if self._as_json:
            self._line({"url": server.url, "port": server.port, "pid": os.getpid()})
        elif not self._quiet:
            echo(f"listening on {server.url} (Ctrl-C stops it)")
        sys.stdout.flush()

    def ended(self, server: FakeServer) -> None:
        if self._quiet:
            return
        stats = server.stats()
        if self._as_json:
            self._line(stats)
        else:
            echo(_summary(stats["total"]))

    def _line(self, facts: dict[str, Any]) -> None:
        echo_json(facts)


async def _serve(
    config: FakeConfig, port: int, port_file: Path | None, for_s: float | None, say: _Voice
) -> None:
    from headway.fake.server import FakeServer

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    async with FakeServer(config, port=port) as server:
        if port_file is not None:
            _write_port(port_file, server.port)
        say.started(server)
        try:
            async with asyncio.timeout(for_s):
                await stop.wait()
        except TimeoutError:
            pass
        say.ended(server)


def _write_port(path: Path, port: int) -> None:
    """Whoever waits for the file finds it whole."""
    from headway.stores.files import Replacement

    try:
        with Replacement(path) as fresh:
            fresh.file.write(f"{port}\n".encode())
            fresh.commit(durable=False)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def _summary(total: dict[str, Any]) -> str:
    refused = sum(total["refused"].values())
    parts = [f"{total['received']} received", f"{total['admitted']} admitted", f"{total['ok']} answered"]
    parts.append(f"{refused} refused" + _by_name(total["refused"]))
    parts.append(f"{total['failed']} failed" + _by_name(total["faulted"]))
    parts += [f"{total[name]} {name}" for name in ("cancelled", "repeats", "lost")]
    return ", ".join(parts) + f"; at most {total['peak_in_flight']} at once"


def _by_name(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {count}' for name, count in counts.items())})" if counts else ""
