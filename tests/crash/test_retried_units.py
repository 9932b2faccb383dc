"""SIGKILL around every statement of `headway retry JOB UNIT`: the unit has its answer, before and after.

Half of the units have the same requests as the other half, so the unit that runs again has lent its answer to another one.
"""

from __future__ import annotations

import pytest
from tests.crash.sampling import SIDES, share
from tests.crash.stage import Stage, contents, echoes
from tests.crash.test_cache import RUN, pairs
from tests.crash.test_commit_points import RETRYING, kill

__all__ = ["pairs"]


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_unit_is_reopened(pairs: Stage, side: str) -> None:
    stage, asked = pairs, pairs.units
    assert stage.run(*RUN).returncode == 0
    good, name = stage.statuses(), str(stage.job()["name"])
    points = [kill(statement, side) for statement in RETRYING]
    for point in share(points, side):
        stage.ends_by_kill("retry", name, "u0", faults=point)
        assert stage.statuses() == good, "a retry that did not begin changes nothing"
    before = stage.sent(0)
    done = stage.run("retry", name, "u0", "--progress", "json")
    assert done.returncode == 0, done.stderr
    assert stage.sent(0) == before + 1
    right = [row["content"] for row in echoes(asked)]
    assert [row["content"] for row in contents(stage.rows())] == right + right
    assert stage.query("PRAGMA integrity_check") == [("ok",)]
    assert (stage.job()["state"], set(stage.statuses().values())) == ("complete", {"succeeded", "cached"})
