"""Runs tests beside a real Ray cluster of two nodes, in a network namespace: Ray listens on all interfaces and leaves loopback.

As a program, in the namespace: starts the cluster and runs pytest with the arguments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from bench.servers import installed

ROOT: Final = Path(__file__).parents[2]
#: The variable with the cluster's address, for the tests inside.
ADDRESS: Final = "HEADWAY_TEST_RAY"
#: About a minute on an idle machine; the others of these tests are bounded one by one.
PATIENCE_S: Final = 580.0
#: The second node can be told by its own resource.
SECOND: Final = {"second": 1000}
_ENTER: Final = 'ip link set lo up && exec "$@"'


def missing() -> str:
    """Why Ray cannot be started; "" if it can."""
    if find_spec("ray") is None:
        return f"ray has no package for this Python ({sys.version.split()[0]})"
    return "" if installed.namespaces() else "no network namespaces here: Ray must not reach the network"


def command(*program: str) -> list[str]:
    """A program in a new namespace, where all its processes end with it."""
    return [*installed.NAMESPACE, "bash", "-c", _ENTER, "bash", *program]


def run_inside(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest beside a cluster."""
    # Sockets are in that folder, and their names have a limit.
    with tempfile.TemporaryDirectory(prefix="hw-ray-", dir="/tmp") as folder:
        environ = {
            **os.environ,
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(ROOT),
        }
        environ["HOME"] = folder  # Ray writes a token there.
        for name in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
            environ.pop(name, None)
        return subprocess.run(
            command(sys.executable, "-m", "tests.on_ray.room", *arguments),
            cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip


def start_cluster() -> Any:
    """Two nodes of two CPUs."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    cluster.second = cluster.add_node(num_cpus=2, resources=SECOND)  # type: ignore[attr-defined]
    return cluster


def main(arguments: list[str]) -> int:
    """Start the cluster, and run the tests in this process, which can kill its nodes."""
    from tests.on_ray import nodes

    nodes.cluster = start_cluster()
    os.environ[ADDRESS] = nodes.cluster.address
    return int(pytest.main(["-p", "no:cacheprovider", "-n", "0", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
