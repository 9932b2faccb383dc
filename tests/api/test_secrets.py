"""What Python calls return, raise, print and hand on: secrets of the environment are not on record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_run_secrets import places_of

import headway
from headway.cli import main

SECRET = "b7Qd9Lk2Xw5Zr8Tn3Vp6Ys1Hf4Jg0Mc"
FAST = headway.Retry(max_attempts=2, base="1ms", cap="2ms")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", SECRET)
    monkeypatch.chdir(tmp_path)


def leak(how: str) -> Any:
    secret = os.environ.get("MISTRAL_API_KEY", "none")
    if how == "raise":
        raise ValueError(f"bad key {secret}")
    if how == "limit":
        raise headway.RateLimited(retry_after=0.01, reason=f"too fast for {secret}")
    return {"bytes": secret.encode(), "text": {"key": secret}}.get(how, {"env": dict(os.environ), "ok": how})


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_no_value_error_or_print_of_a_map_has_a_secret_on_record(
    tmp_path: Path, isolation: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    hows = ["env", "bytes", "text", "raise", "limit"]
    choices: dict[str, Any] = {
        "db": ".headway/headway.db",
        "key": str,
        "isolation": isolation,
        "progress": False,
    }
    retry = headway.Retry(max_attempts=2, max_throttles=1, base="1ms", cap="2ms")
    first: list[Any] = headway.map(leak, hows, on_error="return", retry=retry, **choices)
    assert first[0]["env"]["MISTRAL_API_KEY"] == "***"  # As it is kept.
    assert first[1] == b"***"
    assert first[2] == {"key": "***"}
    assert headway.map(leak, hows[:3], **choices) == first[:3]
    assert places_of(SECRET, tmp_path) == []
    capfd.readouterr()
    name = f"{leak.__module__}.leak"
    for index in range(len(hows)):
        assert main(["show", name, str(index)]) == 0
    assert main(["lanes"]) == 0
    out = capfd.readouterr().out
    assert SECRET not in out
    assert "bad key ***" in out


def test_a_map_without_records_gives_what_the_function_gave() -> None:
    assert headway.map(leak, ["text"], progress=False) == [{"key": SECRET}]


def test_no_result_conversation_or_error_of_a_pool_has_a_secret_on_record(tmp_path: Path) -> None:
    class Talker:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            if prompt == "raise":
                raise ValueError(f"bad key {SECRET}")
            return headway.WorkerResult(
                prompt != "fail",
                output={"key": SECRET, "raw": SECRET.encode()},
                error=f"no {SECRET}" if prompt == "fail" else "",
                rendered_prompt=f"use {SECRET}",
                conversation=[{"role": "tool", "content": f"env: {SECRET}"}],
            )

    heard: dict[str, Any] = {}
    for _ in range(2):  # The second run has the first one's results.
        with headway.WorkerPool(
            Talker(),
            job_id="talk",
            store=tmp_path / "h.db",
            on_unit_complete=lambda unit, result: heard.setdefault(unit, []).append(result.output),
        ) as pool:
            for unit in ("good", "fail", "raise"):
                assert pool.wait_for_available_slot(20)
                assert pool.submit_work_unit(unit, unit)
            assert pool.wait_for_completion(timeout=30)
    assert places_of(SECRET, tmp_path) == []
    assert [output["key"] for output in heard["good"]] == ["***", "***"]


def test_a_pool_returns_the_same_result_object_if_it_has_no_secret(tmp_path: Path) -> None:
    made = headway.WorkerResult(True, output=("a", "tuple"))

    class Plain:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return made

    heard: list[Any] = []
    with headway.WorkerPool(
        Plain(), store=tmp_path / "h.db", on_unit_complete=lambda _, result: heard.append(result)
    ) as pool:
        pool.submit_work_unit("u", "p")
        assert pool.wait_for_completion(timeout=20)
    assert heard[0] is made


def test_inputs_are_kept_as_they_were_given(tmp_path: Path) -> None:
    """Inputs cannot be changed: a resumed run would send something else."""
    given: list[str] = []

    class Listener:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            given.append(prompt)
            return headway.WorkerResult(True)

    with headway.WorkerPool(Listener(), store=tmp_path / "h.db") as pool:
        pool.submit_work_unit("u", f"log in with {SECRET}")
        assert pool.wait_for_completion(timeout=20)
    assert given == [f"log in with {SECRET}"]


def environment(_: str) -> dict[str, str]:
    return dict(os.environ)


def test_env_says_what_a_worker_process_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("PYTHON_REGISTRY_TOKEN", SECRET)
    monkeypatch.setenv("LC_SECRET", SECRET)
    seen = headway.map(environment, ["x"], isolation="process", workers=1, env=["WANTED"], progress=False)[0]
    assert seen["WANTED"] == "yes"
    assert "PATH" in seen
    assert not {"MISTRAL_API_KEY", "PYTHON_REGISTRY_TOKEN", "LC_SECRET"} & seen.keys()


@pytest.mark.parametrize("env", ["PATH", ["A=b"], [1], {"A": "b"}, 3, [SECRET + "-"]])
def test_a_bad_env_is_refused(env: Any) -> None:
    with pytest.raises(headway.HeadwayError, match="env is not a list of names") as error:
        headway.map(environment, ["x"], isolation="process", env=env)
    assert SECRET not in str(error.value)


def test_env_is_for_processes() -> None:
    with pytest.raises(headway.HeadwayError, match="env is for worker processes"):
        headway.map(environment, ["x"], env=["A"])
