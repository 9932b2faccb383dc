"""What `headway doctor` says of programs and agent CLIs: the program, its version, its login, its directory.

A version is asked for with `--version`, for two seconds at most. Nothing else is run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from headway.cli.doctor_checks import Check, ok, problem
from headway.config import Config, ProviderConfig
from headway.config.kinds.programs import AGENT_NAMES, command_of, login_variables
from headway.errors import ConfigError
from headway.executors.commands.program_environment import ProgramEnvironment
from headway.safe_text import one_line
from headway.wiring.agent_work import is_program
from headway.wiring.builders import builder_of

VERSION_S: Final = 2.0
LONGEST_VERSION: Final = 60


def program_checks(config: Config, *, ask_version: bool) -> Iterator[Check]:
    """The checks of every program. `ask_version`: start agent CLIs for their versions."""
    for provider in config.providers.values():
        if is_program(provider) and command_of(provider).executor == "ray":
            yield ok(f"{provider.name} program", builder_of(provider).verify(config, provider))
        elif is_program(provider):
            yield _program(config, provider, ask_version=ask_version)
            if provider.kind in AGENT_NAMES and not provider.api_key_env:
                yield _login(config, provider)
            yield _directory(config, provider)


def _program(config: Config, provider: ProviderConfig, *, ask_version: bool) -> Check:
    name, command = f"{provider.name} program", command_of(provider).command
    try:
        builder_of(provider).verify(config, provider)
    except ConfigError as error:
        return problem(name, error)
    path = command[0] if os.sep in command[0] else shutil.which(command[0]) or command[0]
    if provider.kind not in AGENT_NAMES or not ask_version:
        return ok(name, path)
    version = version_of((*command, "--version"), _environment(config, provider))
    return ok(name, f"{path}, version {version}" if version else f"{path}; it does not tell its version")


def _login(config: Config, provider: ProviderConfig) -> Check:
    """Which variables the CLI takes its login from. Only their names are shown."""
    name, seen = f"{provider.name} login", _environment(config, provider)
    folders, keys = login_variables(provider)
    present = [one for one in keys if seen.get(one)]
    kept = [one for one in keys if os.environ.get(one) and one not in present]
    unseen = (
        f"; it does not see {' and '.join(kept)}, which is for another provider or not in env" if kept else ""
    )
    address = [one for one in present if one.endswith("_BASE_URL")]
    logins = [one for one in present if one not in address]
    more = f"; {' and '.join(address)} is set" if address else ""
    if logins:
        return ok(name, f"{' and '.join(logins)} {'is' if len(logins) == 1 else 'are'} set{more}{unseen}")
    folder = next((one for one in folders if seen.get(one)), "")
    return ok(name, f"its own login{f' ({folder} is set)' if folder else ''}{more}{unseen}")


def _directory(config: Config, provider: ProviderConfig) -> Check:
    name, directory = f"{provider.name} directory", command_of(provider).directory
    path = os.path.normpath(os.path.join(str(config.root), os.path.expanduser(directory)))
    if os.path.isdir(path):
        return ok(name, path)
    why = "is not a directory" if os.path.exists(path) else "does not exist"
    return Check(
        name,
        "problem",
        f"{path} {why}",
        f"create it, or name another one: directory = … in [providers.{provider.name}]",
    )


def _environment(config: Config, provider: ProviderConfig) -> Mapping[str, str]:
    """The variables that the program gets in a run."""
    others = {other.api_key_env for other in config.providers.values() if other.name != provider.name}
    return ProgramEnvironment(command_of(provider).env, others - {"", provider.api_key_env}, None).plain()


def version_of(argv: tuple[str, ...], environ: Mapping[str, str], within_s: float = VERSION_S) -> str:
    """The first line that a program prints; "" if there is none in time. Its process group is ended."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError:
        return ""
    with process:
        try:
            printed, _ = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return ""
    text = printed.decode("utf-8", errors="replace").strip()
    if process.returncode != 0 or not text:
        return ""
    return one_line(text.splitlines()[0])[:LONGEST_VERSION]
