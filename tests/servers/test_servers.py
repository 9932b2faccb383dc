"""Blind jobs against real servers. Times have wide bounds that only a broken lane misses; lost units are exact.

`make bench SECTION=servers` has the figures and their bars. A missing server skips its test; in CI, where HEADWAY_REQUIRE_SERVERS is
set, it fails it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.servers import installed, litellm, llama_cpp, nginx, section, tiny_model
from bench.servers.jobs import Result
from bench.servers.running import Server

UNITS = 300
#: The job of the test fits into one window.
LITELLM_RPM = 600
LITELLM_MODELS = ("mine", "oracle")
#: A machine that is busy with other tests is slower, and not always for both clients.
WIDE = 6.0


def require(missing: str) -> None:
    """Skip, or fail where every server must be there, if something is missing."""
    if missing and os.environ.get("HEADWAY_REQUIRE_SERVERS"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@pytest.fixture(params=[True, False], ids=["nodelay", "delay"])
def nginx_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    require(installed.missing_nginx())
    with nginx.running(tmp_path, nodelay=request.param) as server:
        yield server


@pytest.fixture
def litellm_server(tmp_path: Path) -> Iterator[Server]:
    require(installed.missing_litellm())
    with litellm.running(tmp_path, dict.fromkeys(LITELLM_MODELS, LITELLM_RPM)) as server:
        yield server


@pytest.fixture
def llama_server(tmp_path: Path) -> Iterator[Server]:
    require(installed.missing_llama_cpp())
    with llama_cpp.running(tmp_path) as server:
        yield server


def assert_all_answered(run: Result) -> None:
    assert (run.lost, run.exit_code) == (0, 0), run.log
    assert section.OTHER_CLIENTS not in run.log


def test_nginx_limits_a_blind_job_that_finds_the_rate(nginx_server: Server) -> None:
    job = section.nginx_job(nginx_server, UNITS)
    assert_all_answered(job.headway)
    assert job.headway.makespan_s > 0.9 * (UNITS - 21) / 100.0, "faster than the limit allows"
    # On a busy machine the job may stay below the rate and meet no refusal.
    assert job.headway.refused < UNITS / 4
    assert job.ratio < WIDE


def test_litellm_reports_its_limit_and_refuses_nothing(litellm_server: Server) -> None:
    """All in one test: the proxy is slow to start, and another test might run in another process."""
    listing = [*litellm_server.prefix, "ip", "-o", "link"]
    shown = subprocess.run(listing, capture_output=True, text=True, check=True, timeout=30).stdout
    assert [line.split(": ")[1] for line in shown.splitlines()] == ["lo"], "it could reach the network"
    job = section.litellm_job(litellm_server, 100, LITELLM_RPM, LITELLM_MODELS)
    assert_all_answered(job.headway)
    assert job.headway.refused == 0
    assert f"server/{LITELLM_MODELS[0]}: limit: {LITELLM_RPM} requests per minute" in job.headway.log
    assert job.ratio < WIDE


def test_llama_cpp_queues_and_is_neither_overloaded_nor_left_idle(llama_server: Server) -> None:
    blind, unlimited = section.llama_jobs(llama_server, 150, (4, 16))
    for job in (blind, unlimited):
        assert_all_answered(job.headway)
        assert job.headway.refused == 0
        # Its processes compete with another test's for two cores: seconds, where the oracle needs less than one.
        assert job.headway.makespan_s < WIDE * job.oracle_s + 5.0


def test_a_missing_server_skips_and_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_REQUIRE_SERVERS", raising=False)
    require("")
    with pytest.raises(pytest.skip.Exception, match="apt-get install nginx"):
        require("nginx is not installed: apt-get install nginx")
    monkeypatch.setenv("HEADWAY_REQUIRE_SERVERS", "1")
    require("")
    with pytest.raises(pytest.fail.Exception, match="make servers"):
        require("LiteLLM is not installed: make servers")


def test_every_package_of_the_servers_has_an_exact_version() -> None:
    lines = (Path(__file__).parent / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_tiny_model_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tiny_model.write(tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) < 1_000_000
    assert one.startswith(b"GGUF\x03\0\0\0")
