"""Two processes on one account whose cap on requests in flight is neither configured nor reported: they find it together."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from tests.crash.stage import Stage

from headway.fake.process import fake_process

CAP, UNITS, LATENCY_S = 12, 400, 0.2


def test_two_runs_find_a_cap_in_flight_together(stage: Stage) -> None:
    stage.units = UNITS
    stage.write_input()
    second = stage.root / "second.jsonl"
    rows = (stage.root / "in.jsonl").read_text().splitlines()
    second.write_text("".join(f"{row}\n" for row in reversed(rows)))
    flags = ("--max-concurrency", str(CAP), "--headers", "none", "--latency", f"{LATENCY_S * 1000:.0f}ms")
    with fake_process(*flags) as fake:
        stage.fake = fake
        stage.configure("")
        with ThreadPoolExecutor(2) as threads:
            runs = [threads.submit(stage.run, "run", name, "--json") for name in ("in.jsonl", "second.jsonl")]
            done = [run.result() for run in runs]
        total = fake.stats()["total"]
    assert [one.returncode for one in done] == [0, 0], [one.stderr + one.stdout for one in done]
    assert total["admitted"] == 2 * UNITS
    refused = sum(total["refused"].values())
    assert refused == sum(json.loads(one.stdout)["refused"] for one in done)
    assert refused < 0.2 * 2 * UNITS, "loose: a loaded machine reads claims late"
    took_s = total["last_admission_s"] - total["first_admission_s"]
    bound_s = 2 * UNITS * LATENCY_S / CAP
    assert took_s < 2.5 * bound_s, "loose: the machine may be busy"
