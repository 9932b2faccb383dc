"""`headway demo`: runs a batch against a fake provider. No key, no account, nothing leaves this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from headway.cli import verbose_option
from headway.display.terminal import echo, heading
from headway.errors import UsageError

#: name → (requests a minute, tokens a minute, seconds of depth, whether it reports its limits, rows)
ACCOUNTS: Final = {
    "large": (6_000, 900_000, 3, True, 1_100),
    "small": (600, 60_000, 5, True, 190),
    "silent": (1_500, 200_000, 4, False, 330),
}
#: The files that a demo leaves in its directory.
FILES: Final = {
    ".env",
    ".headway",
    "accounts.yaml",
    "headway.toml",
    "questions.jsonl",
    "questions.results.jsonl",
}
_ELSEWHERE: Final = "name a new directory"
#: The first run is interrupted after this time.
INTERRUPT_S: Final = 8.0
LONGEST_S: Final = 120.0


@click.command(
    "demo", short_help="Run a batch against a fake provider; no key needed.", epilog="Example: headway demo"
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep all files in DIR, a new or empty directory.",
)
@verbose_option
def command(keep: Path | None) -> int:
    """Start a fake provider with three accounts of very different limits, run a batch across them, interrupt it
    halfway and resume it. This takes about 20 seconds. One of the accounts does not report its limits.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
            return _run_demo(Path(folder))
    _make_new(keep)
    code = _run_demo(keep)
    echo()
    echo(f"everything is in {keep}: try 'headway jobs', 'status', 'lanes' or 'show' there")
    return code


def _make_new(folder: Path) -> None:
    """Create the directory. It must be empty: a demo replaces no file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in folder.iterdir())
    except FileExistsError:
        raise UsageError(f"--keep {folder} is not a directory", hint=_ELSEWHERE) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--keep {folder} cannot be created: {reason}", hint=_ELSEWHERE) from None
    if set(names) == FILES:
        raise UsageError(
            f"--keep {folder} contains an earlier demo", hint=f"{_ELSEWHERE}, or remove it: rm -r {folder}"
        )
    if names:
        raise UsageError(f"--keep {folder} is not empty ({names[0]})", hint=_ELSEWHERE)


def _run_demo(folder: Path) -> int:
    from headway.fake.process import fake_process

    _write_accounts(folder / "accounts.yaml")
    with fake_process("--config", str(folder / "accounts.yaml")) as fake:
        _write_config(folder / "headway.toml", fake.url)
        rows = _write_rows(folder / "questions.jsonl")
        _headline(f"a fake provider with three accounts, and {rows:,} requests for them:")
        for name, (rpm, tpm, _, reports_limits, count) in ACCOUNTS.items():
            source = "reported in headers" if reports_limits else "not reported"
            echo(
                f"    {name:7} {rpm:>6,} requests and {tpm:>8,} tokens per minute, {source}: {count:>5,} requests"
            )
        _headline("headway run questions.jsonl")
        _run(folder, "run", "questions.jsonl", interrupt_after_s=INTERRUPT_S)
        _headline("interrupted; nothing is lost. headway resume")
        code = _run(folder, "resume")
        total = fake.stats()["total"]
    _headline("what the provider saw:")
    refused = sum(total["refused"].values())
    echo(
        f"    {total['ok']:,} answered, {refused:,} refused, {total['repeats']:,} sent again after they had been answered"
    )
    return code


def _headline(text: str) -> None:
    heading(f"» {text}")


def _run(folder: Path, *arguments: str, interrupt_after_s: float | None = None) -> int:
    """Run a `headway` command in the folder with its output shown; interrupt it with SIGINT, as Ctrl-C does."""
    flags = ["--progress", "plain"]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HEADWAY_")}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "headway", *arguments, *flags], cwd=folder, env=environ
    )
    try:
        if interrupt_after_s is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(interrupt_after_s)
            process.send_signal(signal.SIGINT)
        return process.wait(LONGEST_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _write_accounts(path: Path) -> None:
    lines = ["accounts:"]
    for name, (rpm, tpm, depth_s, reports_limits, _) in ACCOUNTS.items():
        headers = "openai" if reports_limits else "none"
        lines += [
            f"  {name}:",
            f"    key: demo-{name}",
            f"    rpm: {rpm}",
            f"    tpm: {tpm}",
            f"    burst: {depth_s}",
        ]
        lines += [f"    headers: {headers}", "    latency: {min: 0.2, max: 0.9}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_config(path: Path, url: str) -> None:
    """Write headway.toml, and the keys into .env: headway.toml never holds a key, not even a demo's."""
    from headway.stores.files import write_own

    lines, keys = [], []
    for name in ACCOUNTS:
        variable = f"{name.upper()}_KEY"
        lines += [f"[providers.{name}]", 'kind = "openai"', f'base_url = "{url}"', f'api_key_env = "{variable}"', 'model = "echo"', ""]  # fmt: skip
        keys.append(f"{variable}=demo-{name}")
    path.write_text("\n".join(lines), encoding="utf-8")
    write_own(path.with_name(".env"), 0, ("\n".join(keys) + "\n").encode())


def _write_rows(path: Path) -> int:
    """Write the rows of all accounts, mixed as in a real file."""
    import msgspec

    rows = []
    for name, (*_, count) in ACCOUNTS.items():
        for n in range(count):
            row = {
                "id": f"{name}-{n}",
                "model": f"{name}/echo",
                "prompt": f"Question {n} for {name}.",
                "max_tokens": 100,
            }
            rows.append((n / count, msgspec.json.encode(row)))
    path.write_bytes(b"".join(row + b"\n" for _, row in sorted(rows)))
    return len(rows)
