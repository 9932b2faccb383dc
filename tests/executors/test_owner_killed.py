"""After SIGKILL of their owner all workers and their children are gone within two seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.executors.conftest import HERE, gone_within


@pytest.mark.parametrize("guarded", [True, False])
def test_workers_and_their_children_end_with_their_owner(tmp_path: Path, guarded: bool) -> None:
    owner = subprocess.Popen(
        [sys.executable, str(HERE / "owner.py"), str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
    )
    assert owner.stdout is not None
    workers = [int(pid) for pid in owner.stdout.readline().split()]
    guardian = workers.pop()
    children = {
        how: [int(pid) for pid in (tmp_path / how).read_text().split()] for how in ("hold", "stop", "return")
    }
    *strays, bare = [int(pid) for pid in (tmp_path / "strays").read_text().split()]
    children["strays"] = strays  # They have left their group.
    assert len(workers) == 4
    if (
        not guarded
    ):  # Without a guardian the workers still end, and the children of those whose threads can run.
        os.kill(guardian, signal.SIGKILL)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert all(gone_within(pid, 2.0) for pid in workers)
    if guarded:
        assert all(gone_within(pid, 2.0) for pids in children.values() for pid in pids)
        assert gone_within(guardian, 2.0)
    else:
        for pid in (pid for pids in children.values() for pid in pids):
            _end(pid)
    _end(bare)  # Without group, parent and environment it cannot be found.


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
