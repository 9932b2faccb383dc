"""What holds for every test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests.crash.stage import Stage
from tests.postgres_server import PostgresServer, require_binaries

# The same examples each time: a change is judged by what it does, not by what chance finds beside it. To look further:
# `pytest --hypothesis-profile=hunt --hypothesis-seed=N`.
# A busy machine may take a second to load the tables that the first text is drawn from: that says nothing of a strategy.
settings.register_profile(
    "house",
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
    derandomize=True,
    database=None,
)
settings.register_profile(
    "hunt", suppress_health_check=list(HealthCheck), deadline=None, max_examples=3000, database=None
)
settings.load_profile("house")
# Hypothesis also draws constants that it finds in the modules that are loaded. Which those are depends on the tests that ran
# before in the same process, and so would the examples.
providers._get_local_constants = lambda: providers._local_constants


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: two more than there are processors, because most tests wait for processes and for seconds that providers ask for."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.fixture(autouse=True)
def _end_what_the_process_shares() -> Iterator[None]:
    """`headway.ask` keeps a loop and its connections until the process ends. A test must not leave them to the next one."""
    yield
    if calls := sys.modules.get("headway.api.asking.provider_calls"):
        calls.close_shared()


@pytest.fixture(scope="session", autouse=True)
def _chosen_store(request: pytest.FixtureRequest) -> None:
    """HEADWAY_TEST_STORE=postgres runs the same tests over the other database: `make crash STORE=postgres`, and tests of commands."""
    if os.environ.get("HEADWAY_TEST_STORE") == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        Stage.new_address = server.address


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL for all tests of this process. It must run at the end of each test."""
    server = PostgresServer(require_binaries())
    try:
        yield server
    finally:
        server.remove()
