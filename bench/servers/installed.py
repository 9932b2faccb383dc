"""Finds the servers on this machine, and says what to install if one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
#: The venv of LiteLLM and llama.cpp. `make servers` makes it from tests/servers/requirements.txt.
VENV: Final = ROOT / ".cache" / "servers"
#: A new network namespace that has only loopback, without network access. All its processes end with its first one.
NAMESPACE: Final = (
    "unshare",
    *(() if os.geteuid() == 0 else ("--map-root-user",)),
    *("--net", "--pid", "--fork", "--mount-proc", "--kill-child"),
)


def missing_nginx() -> str:
    """Why nginx cannot be started; empty if it can."""
    return "" if nginx() else "nginx is not installed: apt-get install nginx"


def nginx() -> str | None:
    """The program. Debian puts it into a directory that is not in the PATH of every user."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def missing_litellm() -> str:
    """Why LiteLLM's proxy cannot be started; empty if it can."""
    if not (VENV / "bin" / "litellm").exists():
        return "LiteLLM is not installed: make servers"
    return "" if namespaces() else "no network namespaces here: LiteLLM's proxy must not reach the network"


def missing_llama_cpp() -> str:
    """Why llama.cpp's server cannot be started; empty if it can."""
    return (
        "" if list(VENV.glob("lib/*/site-packages/xllamacpp")) else "llama.cpp is not installed: make servers"
    )


@cache
def namespaces() -> bool:
    """Whether this user may make a network namespace and start its loopback."""
    if not (shutil.which("unshare") and shutil.which("nsenter") and shutil.which("ip")):
        return False
    command = [*NAMESPACE, "ip", "link", "set", "lo", "up"]
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
