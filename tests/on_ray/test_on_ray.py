"""Everything that starts Ray: one namespace, one cluster of two nodes, all tests beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.on_ray import room

from headway.config import checks
from headway.errors import ConfigError
from headway.executors.on_ray import cluster
from headway.executors.on_ray.left_out import left_out
from headway.executors.on_ray.resources import Resources


@pytest.mark.timeout(600)
def test_units_on_a_real_cluster() -> None:
    if reason := room.missing():
        if os.environ.get("CI") and "package" not in reason:
            pytest.fail(reason)
        pytest.skip(reason)
    done = room.run_inside("tests/on_ray/inside", "tests/contract/test_executors.py", "-q", "--durations=8")
    assert done.returncode == 0, f"{done.stdout[-12_000:]}\n{done.stderr[-4_000:]}"
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]


def test_headway_does_not_import_ray() -> None:
    text = "import sys, headway, headway.cli, headway.wiring.builders; headway.map; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", text], check=True, timeout=60)


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as raised:
        cluster.require_package()
    assert "ray" in raised.value.message
    assert "[ray]'" in str(raised.value.hint)


def test_how_many_units_fit_into_what_is_free() -> None:
    unit = Resources(num_cpus=0.5, memory=400_000_000, custom={"disk": 2})
    assert unit.fitting({"CPU": 4, "memory": 1e9, "disk": 100}) == 2
    assert unit.fitting({"CPU": 4, "memory": 1e9}) == 0
    assert Resources(num_cpus=0).fitting({}) is None
    assert str(unit) == "num_cpus 0.5, memory 400 MB, disk 2"


def test_resources_are_amounts() -> None:
    made = checks.resources({"num_cpus": 2, "memory": "400MB", "gpu_a": 1})
    assert (made.num_cpus, made.memory, made.custom) == (2.0, 400_000_000, {"gpu_a": 1.0})
    for wrong in ("2", {"num_cpus": -1}, {"memory": "much"}, {"num_cpus": True}, {"num_cpus": 0}):
        with pytest.raises(ValueError, match=r"expected|must take"):
            checks.resources(wrong)


def test_links_bring_no_other_files_along(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "data" / "row").write_text("x")
    (root / ".env").write_text("KEY=x")
    links: dict[str, str | Path] = {
        "row": "data/row",
        "notes": ".env",
        "out [1]": tmp_path,
        "around": ".",
        "passwd": "/etc/passwd",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    patterns = left_out(str(root), ("large/",))
    assert {one for one in patterns if one.startswith("/")} == {
        "/notes", "/out\\ \\[1\\]", "/around", "/passwd"
    }  # fmt: skip
    assert {".env", "large/"} <= set(patterns)
