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
    short_help="Serve a fake provider with limits and faults on loopback.",
    epilog="Example: headway fake --port 8900 --rpm 600 --tpm 100000 --burst 10s --latency 200ms --fault 5xx=0.05",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8900,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--rpm", type=float, metavar="N", help="Requests per minute.")
@click.option("--rpd", type=float, metavar="N", help="Requests per day.")
@click.option("--tpm", type=float, metavar="N", help="Tokens per minute: input and max_tokens together.")
@click.option("--itpm", type=float, metavar="N", help="Input tokens per minute.")
@click.option(
    "--otpm", type=float, metavar="N", help="Output tokens per minute, counted as they are produced."
)
@click.option("--max-concurrency", type=int, metavar="N", help="Requests in flight.")
@click.option("--burst", metavar="TIME", help="Depth of each bucket. Default: 60s.")
@click.option(
    "--headers", metavar="STYLE", help="Rate-limit headers: auto, openai, anthropic, minute or none."
)
@click.option(
    "--dialect",
    metavar="VENDOR",
    help="Errors and headers of this vendor: groq, mistral, azure, vllm … Default: by the path.",
)
@click.option("--context", type=int, metavar="N", help="Longest prompt, in tokens.")
@click.option("--latency", metavar="TIME", help="Time to answer; 100ms-300ms is a range.")
@click.option("--ttft", metavar="TIME", help="Time until a stream begins.")
@click.option("--per-token", metavar="TIME", help="Time per output token.")
@click.option("--output-tokens", metavar="N", help="Length of answers; 100-300 is a range.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[+RESET][=CHANCE|/N|@TIME|@FROM-TO]",
    help="A fault, and when it happens (repeatable).",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="Read accounts, faults, tools and answers from a file.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="NAME=KEY",
    help="Give this key an account of its own (repeatable).",
)
@click.option("--strict", is_flag=True, help="Reject keys that belong to no account.")
@click.option("--seed", type=int, help="Seed of delays and faults: the same seed repeats them.")
@click.option("--port-file", type=click.Path(path_type=Path), metavar="FILE", help="Write the port to FILE.")
@click.option("--for", "for_", metavar="TIME", help="Exit after this time.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the start line and the summary as JSON, one line each."
)
@click.option("-q", "--quiet", is_flag=True, help="Print no summary, and no start line except with --json.")
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
    """Serve the APIs of OpenAI (chat completions, responses, embeddings), Anthropic, Azure OpenAI, Gemini and Bedrock on
    127.0.0.1, plain and streamed, with limits, rate-limit headers and optional faults. Answers echo the requests; a request for
    JSON gets JSON that fits its schema, unless the file of --config has `answers` for it.

    GET /stats counts what was admitted, refused, answered, repeated and lost. The flags for limits, delays and answers
    set the account `default`, which is used by every key without an account of its own.
    """
    from headway.fake.flags import config_from_flags

    said = {name: value for name, value in account.items() if value is not None}
    settings = config_from_flags(config, said, faults=faults, keys=keys, strict=strict, seed=seed)
    seconds = _duration(for_)
    say = _Announcer(as_json, quiet)
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


class _Announcer:
    """Prints the start line and the summary, as text or JSON."""

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
    config: FakeConfig, port: int, port_file: Path | None, for_s: float | None, say: _Announcer
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
    """Replace the file atomically: a program that waits for it never reads half of it."""
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
