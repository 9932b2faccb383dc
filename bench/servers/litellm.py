"""LiteLLM's proxy: a fixed window of a clock minute for each model; headers with `remaining` and `limit`, and no reset.

It would ask the network for prices and updates, so it runs in a namespace that has only loopback. Its clients enter the same
namespace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.servers import installed
from bench.servers.running import Server, process, wait_until_it_answers

#: The namespace has no other listener.
PORT: Final = 4000
#: It refuses to start without one.
KEY: Final = "sk-only-for-tests-0123456789abcdef"
WINDOW_S: Final = 60.0
FORKS_WITHIN_S: Final = 10.0

_ENVIRON: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "CRITICAL",
    "DISABLE_ADMIN_UI": "True",
    "NO_COLOR": "1",
}


@contextmanager
def running(folder: Path, rpm: dict[str, int]) -> Iterator[Server]:
    """The proxy with these models, each with its limit."""
    config = {
        "model_list": [
            {
                "model_name": model,
                "litellm_params": {
                    "model": f"openai/{model}",
                    "api_key": "none",
                    "mock_response": "hello",
                    "rpm": limit,
                },
            }
            for model, limit in rpm.items()
        ],
        "router_settings": {
            "optional_pre_call_checks": ["enforce_model_rate_limits"],
            "num_retries": 0,
        },
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "general_settings": {"master_key": KEY},
    }
    (folder / "litellm.yaml").write_bytes(msgspec.json.encode(config))  # JSON is YAML.
    (folder / "home").mkdir()
    proxy = f"exec {installed.VENV}/bin/litellm --config litellm.yaml --host 127.0.0.1 --port {PORT}"
    command = [*installed.NAMESPACE, "bash", "-c", f"ip link set lo up && {proxy}"]
    with process(command, folder, {**_ENVIRON, "HOME": str(folder / "home")}) as pid:
        server = Server(f"http://127.0.0.1:{PORT}", folder, entrance(pid))
        wait_until_it_answers(server, "/health/liveliness", pid)
        yield server


def entrance(pid: int) -> tuple[str, ...]:
    """The command that runs a client inside the namespace of `timeout unshare …`."""
    user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    inner = _child(_child(pid))
    return ("nsenter", *user, "--net", "--target", str(inner), "--")


def _child(pid: int) -> int:
    """The only child of a process, as soon as it has one."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until = time.monotonic() + FORKS_WITHIN_S
    while not (ids := children.read_text().split()):
        if time.monotonic() > until:
            raise RuntimeError(f"process {pid} has started no child")
        time.sleep(0.01)
    return int(ids[0])
