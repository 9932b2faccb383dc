"""A configured limit that is too high is named once in the run, and afterwards by `lanes` and by `doctor`."""

from __future__ import annotations

import json
import re

from tests.crash.stage import Stage

from headway.fake.process import fake_process

CONFIGURED, REAL = 7_200, 2_400
SENTENCE = re.compile(rf"configured {CONFIGURED:,} requests per minute, refused above about ([\d,]+)")


def test_the_run_and_lanes_and_doctor_name_a_limit_that_is_too_high(stage: Stage) -> None:
    stage.units = 260
    stage.write_input()
    # DeepSeek's 429s do not say which limit was reached.
    flags = ("--rpm", str(REAL), "--burst", "1s", "--latency", "50ms", "--dialect", "deepseek")
    with fake_process(*flags) as fake:
        stage.fake = fake
        stage.configure(f"rpm = {CONFIGURED}")
        done = stage.run("run", "in.jsonl")
    assert done.returncode == 0, done.stderr
    [about] = SENTENCE.findall(done.stderr)
    assert 0.6 * REAL < float(about.replace(",", "")) < 1.5 * REAL
    assert SENTENCE.findall(stage.run("lanes").stdout) == [about]

    checks = {check["name"]: check for check in _doctor(stage)}
    warning = checks["alpha/gpt-x limits"]
    assert warning["state"] == "warning"
    assert SENTENCE.findall(warning["text"]) == [about]
    assert "rpm" in warning["next"]
    assert "[providers.alpha.limits]" in warning["next"]

    stage.configure(f"rpm = {REAL}")
    assert "alpha/gpt-x limits" not in {check["name"] for check in _doctor(stage)}, "it was changed since"


def _doctor(stage: Stage) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(stage.run("doctor", "--offline", "--json").stdout)["checks"]
    return found
