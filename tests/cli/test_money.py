"""Costs, caps of jobs and lanes, savings, and the summary of a run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import KEY, Stage

from headway.config import price_list
from headway.core.model import Price, Usage

#: A price from the list must be set for the fake: models on this machine have no price by default.
LIKE = '[providers.alpha.prices]\nlike = "openai/gpt-4o"'
DEAR = "[providers.alpha.prices]\ninput = 1000\noutput = 1000"
OTHER_KEY = "sk-the-other-account"


def two_providers(stage: Stage, alpha: str = "", beta: str = "", more: str = "") -> None:
    """Even units go to alpha, odd ones to beta; both cost a thousandth of a dollar a token."""
    (stage.root / "headway.toml").write_text(
        "".join(
            f'[providers.{name}]\nkind = "openai"\nbase_url = "{stage.fake.url}/v1"\napi_key_env = "{name.upper()}_KEY"\n'
            f"{table}\n[providers.{name}.prices]\ninput = 1000\noutput = 1000\n"
            f"[providers.{name}.limits]\nmax_concurrency = 2\n"
            for name, table in (("alpha", alpha), ("beta", beta))
        )
        + more
    )
    stage.write_input(
        [
            stage.row(index, model=f"{'beta' if index % 2 else 'alpha'}/x", max_tokens=8)
            for index in range(stage.units)
        ]
    )


@pytest.fixture
def other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BETA_KEY", OTHER_KEY)


def status(headway: Headway) -> Any:
    return json.loads(headway("status", "--json").out)


# -- prices ------------------------------------------------------------------------------------------------------------


def test_costs_come_from_the_price_list_if_the_file_has_no_prices(stage: Stage, headway: Headway) -> None:
    stage.configure(more=LIKE)
    assert headway("run", "in.jsonl", "-q").code == 0
    [price] = price_list.look_up([price_list.PriceQuery("", "openai", "gpt-x", "openai/gpt-4o")])
    assert price is not None
    for row in stage.rows():
        usage = row["headway"]["usage"]
        cost = price.cost(Usage(usage["input_tokens"], usage["output_tokens"], usage["cached_input_tokens"]))
        assert row["headway"]["cost_usd"] == pytest.approx(cost)
        assert cost > 0.0
    kept = json.loads((stage.root / ".headway" / "prices.json").read_text())
    assert list(kept["prices"].values()) == [json.loads(json.dumps(_plain(price)))]
    report = status(headway)
    assert report["cost_usd"] == pytest.approx(sum(row["headway"]["cost_usd"] for row in stage.rows()))
    assert report["lanes"]["alpha/gpt-x"]["cost_usd"] == pytest.approx(report["cost_usd"])
    assert report["unpriced_attempts"] == 0


def _plain(price: Price) -> dict[str, Any]:
    return {
        "input": price.input,
        "output": price.output,
        "cached_input": price.cached_input,
        "cache_write": price.cache_write,
        "above": list(price.above),
    }


def test_without_a_price_a_cost_is_null_and_a_free_one_is_0(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    assert {row["headway"]["cost_usd"] for row in stage.rows()} == {None}
    assert status(headway)["cost_usd"] is None
    stage.configure(more="[providers.alpha.prices]\ninput = 0\noutput = 0")
    assert headway("run", "in.jsonl", "--fresh", "--force", "-q").code == 0
    assert {row["headway"]["cost_usd"] for row in stage.rows()} == {0.0}
    assert status(headway)["cost_usd"] == 0.0


def test_a_model_without_a_price_is_named_in_one_line(stage: Stage, headway: Headway) -> None:
    stage.configure(more='[providers.alpha.prices]\nlike = "openai/no-such-model"')
    for _ in range(2):  # The first call asks; later ones use the kept answer.
        done = headway("run", "in.jsonl", "--fresh", "--force")
        assert done.code == 0
        [line] = [line for line in done.err.splitlines() if "no price is known" in line]
        assert "'alpha/gpt-x': the cost is not counted" in line
        assert '[providers.alpha.models."gpt-x".prices]' in line


@pytest.mark.parametrize(
    ("flag", "table", "said"),
    [
        (("--max-cost", "5"), "", "--max-cost"),
        ((), "max_cost = 5", "max_cost in [providers.alpha]"),
        (
            (),
            '[providers.alpha.models."gpt-x"]\nmax_cost = 5',
            'max_cost in [providers.alpha.models."gpt-x"]',
        ),
    ],
)
@pytest.mark.parametrize("more", ["", '[providers.alpha.prices]\nlike = "openai/no-such-model"'])
def test_a_cap_without_a_price_is_an_error_before_anything_is_sent(
    stage: Stage, headway: Headway, flag: tuple[str, ...], table: str, said: str, more: str
) -> None:
    stage.configure(provider=table, more=more)
    refused = headway("run", "in.jsonl", *flag)
    assert refused.code == 2
    [line] = refused.err.splitlines()
    assert f"{said}: the price of alpha/gpt-x is not known" in line
    assert 'set input and output in [providers.alpha.models."gpt-x".prices]' in line
    assert [stage.sent(index) for index in range(stage.units)] == [0] * stage.units
    assert json.loads(headway("jobs", "--json").out) == [], "no job is left behind"


def test_a_cap_is_kept_with_prices_from_the_list(stage: Stage, headway: Headway) -> None:
    stage.configure(more=LIKE)
    assert headway("run", "in.jsonl", "--max-cost", "0.0000001", "-q").code == 3
    assert [stage.sent(index) for index in range(stage.units)] == [0] * stage.units
    assert headway("resume", "--max-cost", "9", "-q").code == 0


def test_a_run_without_a_cap_does_not_load_the_list(stage: Stage) -> None:
    """Loading the list takes a third of a second, and the first request would wait for it."""
    stage.configure(more=LIKE)
    script = (
        "import sys; from headway.cli import main; code = main(['run', 'in.jsonl', '-q']); "
        "print(code, [name for name in ('genai_prices', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=stage.root,
        env=stage.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0 []\n"
    assert all(row["headway"]["cost_usd"] > 0.0 for row in stage.rows())


# -- lanes' budgets ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("other_key")
def test_a_lane_without_budget_stops_and_the_others_continue(stage: Stage, headway: Headway) -> None:
    two_providers(stage, alpha="max_cost = 0.06")
    done = headway("run", "in.jsonl")
    assert done.code == 3
    assert "stopped: a lane's budget is used up" in done.err
    assert "alpha/x stopped: budget: alpha has cost $0.0" in done.err
    assert " of its max_cost of $0.06;" in done.err
    rows = stage.rows()
    assert [row["headway"]["status"] for row in rows[1::2]] == ["succeeded"] * 5
    left = [row for row in rows[0::2] if row["response"] is None]
    assert left
    assert {row["error"]["code"] for row in left} == {"budget"}
    report = status(headway)
    assert 0.0 < report["lanes"]["alpha/x"]["cost_usd"] <= 0.06
    assert report["pending"] == len(left)
    assert list(report["stopped"]) == ["alpha/x"]
    step = done.err.splitlines()[-1].strip()
    assert step.startswith("to resume, raise max_cost in [providers.alpha], then: headway resume in-")
    assert step in headway("status").out, "a later status says the same"

    assert headway(*shlex.split(step.partition("then: headway ")[2]), "-q").code == 3, "nothing was raised"
    two_providers(stage, alpha="max_cost = 3")
    assert headway(*shlex.split(step.partition("then: headway ")[2]), "-q").code == 0
    assert [stage.sent(index) for index in range(stage.units)] == [1] * stage.units


@pytest.mark.usefixtures("other_key")
def test_a_model_has_its_own_budget(stage: Stage, headway: Headway) -> None:
    two_providers(stage, more='[providers.alpha.models."x"]\nmax_cost = 0.000001\n')
    done = headway("run", "in.jsonl")
    assert done.code == 3
    assert 'raise max_cost in [providers.alpha.models."x"], then: headway resume' in done.err
    assert status(headway)["succeeded"] == 5


def test_a_lanes_budget_counts_earlier_runs_under_another_key(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.configure(provider="max_cost = 0.05", more=DEAR, limits="max_concurrency = 1")
    stage.write_input([stage.row(index, max_tokens=4) for index in range(stage.units)])
    assert headway("run", "in.jsonl", "-q").code == 3
    before = status(headway)["cost_usd"]
    assert 0.0 < before <= 0.05
    monkeypatch.setenv("ALPHA_KEY", f"{KEY}-of-another-account")
    assert headway("resume", "-q").code == 3
    assert status(headway)["cost_usd"] == before


def test_a_pool_has_one_budget(stage: Stage, headway: Headway) -> None:
    stage.configure(provider='pool = "all"\n[providers.alpha.models."gpt-x"]\nmax_cost = 1', more=DEAR)
    refused = headway("run", "in.jsonl")
    assert refused.code == 2
    assert "providers.alpha.models: a pool is one lane" in refused.err


# -- what is saved ---------------------------------------------------------------------------------------------------------


def test_a_resumed_run_says_what_it_saves(stage: Stage, headway: Headway) -> None:
    stage.configure(more=DEAR)
    stage.write_input([stage.row(index, max_tokens=4) for index in range(stage.units)])
    assert headway("run", "in.jsonl", "--max-cost", "0.055", "-q").code == 3
    before = status(headway)
    done, cost = before["succeeded"], before["cost_usd"]
    assert 0 < done < 10
    tokens = before["input_tokens"] + before["output_tokens"]
    again = headway("resume", "--max-cost", "9", "--json")
    assert (
        f"10 units, {done} already done (${cost:.4f} and {tokens} tokens saved), {10 - done} to go"
        in again.err
    )
    report = json.loads(again.out)
    assert report["saved"] == {"units": done, "cost_usd": pytest.approx(cost), "tokens": tokens}
    rerun = headway("run", "in.jsonl")
    assert "is already complete: nothing was sent" in rerun.err
    assert "10 already done ($" in rerun.err
    assert json.loads(headway("run", "in.jsonl", "--json").out)["saved"]["units"] == 10


def test_the_cost_of_failed_attempts_is_reported(stage: Stage, headway: Headway) -> None:
    """A stream that breaks off after its first event has reported its input tokens."""
    plan = stage.root / "plan.yaml"
    plan.write_text("accounts:\n  default: {latency: 10ms, faults: [{kind: stream-error, every: 3}]}\n")
    from headway.fake.process import fake_process

    with fake_process("--config", str(plan)) as fake:
        (stage.root / "headway.toml").write_text(
            f'[providers.alpha]\nkind = "anthropic"\nbase_url = "{fake.url}"\napi_key_env = "ALPHA_KEY"\nmodel = "claude-x"\n'
            "stream = true\n[providers.alpha.prices]\ninput = 1000\noutput = 1000\n"
            "[providers.alpha.retry]\nbase = '10ms'\ncap = '20ms'\n[providers.alpha.limits]\nmax_concurrency = 2\n"
        )
        stage.write_input([{"id": f"u{n}", "prompt": f"say {n}", "max_tokens": 9} for n in range(10)])
        done = headway("run", "in.jsonl", "--json")
    report = json.loads(done.out)
    assert (done.code, report["succeeded"]) == (0, 10)
    repeated = report["repeated"]
    assert repeated["attempts"] > 0
    assert 0.0 < repeated["cost_usd"] < report["cost_usd"]
    rows = sum(row["headway"]["cost_usd"] for row in stage.rows())
    assert rows == pytest.approx(report["cost_usd"]), "what failed is in its unit's cost, too"
    said = headway("status").out
    assert f"for {repeated['attempts']} attempt" in said
    assert f"that failed or {'was' if repeated['attempts'] == 1 else 'were'} repeated" in said


# -- the end of a run --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("other_key")
def test_the_summary_has_the_cost_and_the_limit_of_each_lane(stage: Stage, headway: Headway) -> None:
    two_providers(stage)
    toml = stage.root / "headway.toml"
    toml.write_text(toml.read_text().replace("max_concurrency = 2", 'rpm = 300\nburst = "200ms"', 1))
    done = headway("run", "in.jsonl", "--log-file", "run.log", "--log-format", "json")
    assert done.code == 0
    lines = [line.strip() for line in done.err.splitlines()]
    [alpha] = [line for line in lines if line.startswith("alpha/x: 5 succeeded, $0.")]
    [beta] = [line for line in lines if line.startswith("beta/x: 5 succeeded, $0.")]
    assert "limited by 300 requests per minute (" in alpha
    assert "limited by 2 in flight (" in beta
    finished = json.loads((stage.root / "run.log").read_text().splitlines()[-1])
    assert finished["limits"]["beta/x"]["limits"][0]["name"] == "concurrency"
    assert finished["next"] is None
    spent = json.loads(headway("lanes", "--json").out)
    assert [lane["spent"]["cost_usd"] > 0.0 for lane in spent] == [True, True]
    assert "cost of all jobs: $0." in headway("lanes").out
    assert "alpha/x: 5 succeeded; $0." in headway("status").out


def test_the_last_line_is_the_exact_command_that_resumes(stage: Stage, headway: Headway) -> None:
    """It has the flags without which it would find another job or another cap."""
    stage.configure(more=DEAR)
    stage.write_input([stage.row(index, max_tokens=4) for index in range(stage.units)])
    (stage.root / "headway.toml").rename(stage.root / "other name.toml")
    first = headway(
        "run", "in.jsonl", "--config", "other name.toml", "--db", "there/jobs.db", "--max-cost", "0.03"
    )
    assert first.code == 3
    command = first.err.splitlines()[-1].partition("to resume: headway ")[2]
    words = shlex.split(command)
    assert words[:1] + words[2:6] == ["resume", "--config", "other name.toml", "--db", "there/jobs.db"]
    assert words[6] == "--max-cost"
    done = headway(*words)
    assert done.code == 0, f"the proposed cap will do: {command}\n{done.err}"


def test_a_cap_in_the_file_needs_no_flag(stage: Stage, headway: Headway) -> None:
    stage.configure(more=f"{DEAR}\n[run]\nmax_cost = 900\nmax_attempts = 1")
    (stage.root / "headway.toml").write_text(
        (stage.root / "headway.toml").read_text().replace("api_key_env", "stream = false\napi_key_env")
    )
    done = headway("run", "in.jsonl", "--max-duration", "1ms", "--json")
    report = json.loads(done.out)
    assert done.code == 3
    assert report["next"] == f"headway resume {report['job']}"
    done = headway("run", "in.jsonl", "--max-duration", "1ms", "--max-cost", "17", "--json")
    assert json.loads(done.out)["next"] == f"headway resume {report['job']} --max-cost 17"


def test_resume_keeps_the_cap_of_the_earlier_run_unless_a_flag_changes_it(
    stage: Stage, headway: Headway
) -> None:
    stage.configure(more=DEAR)
    assert headway("run", "in.jsonl", "-q", "--max-cost", "0.1").code == 3
    spent = status(headway)["cost_usd"]
    assert headway("resume", "-q").code == 3, "the cap is the job's"
    again = headway("run", "in.jsonl")
    assert again.code == 3, "the same file is the same job, and has its cap"
    assert "the job's cap of $0.1 still applies" in again.err
    assert status(headway)["cost_usd"] == pytest.approx(spent)
    assert headway("run", "in.jsonl", "-q", "--max-cost", "0").code == 0, "0 is no cap"


def test_a_cap_of_0_is_none_and_help_says_so(stage: Stage, headway: Headway) -> None:
    stage.configure(more=f"{DEAR}\n[run]\nmax_cost = 0.0001")
    assert headway("run", "in.jsonl", "-q").code == 3, "the file's holds"
    assert headway("run", "in.jsonl", "-q", "--max-cost", "0").code == 0
    for command in ("run", "resume", "retry"):
        assert "0 removes the cap" in " ".join(headway(command, "--help").out.split())


def test_the_suggested_cap_is_enough_for_a_more_expensive_rest(stage: Stage, headway: Headway) -> None:
    """Earlier units were cheap; the rest is estimated by its own size."""
    stage.configure("max_concurrency = 2", more=DEAR)
    long = "a long story. " * 200
    stage.write_input(
        [
            stage.row(index, max_tokens=4, **({"prompt": long} if index > 5 else {}))
            for index in range(stage.units)
        ]
    )
    first = headway("run", "in.jsonl", "--max-cost", "0.03", "--json")
    assert first.code == 3
    done = headway(*shlex.split(json.loads(first.out)["next"])[1:])
    assert done.code == 0, done.err


def test_a_cap_is_suggested_before_anything_was_answered(stage: Stage, headway: Headway) -> None:
    stage.configure(more=DEAR)
    first = headway("run", "in.jsonl", "--max-cost", "0.0001", "--json")
    assert (first.code, json.loads(first.out)["succeeded"]) == (3, 0)
    done = headway(*shlex.split(json.loads(first.out)["next"])[1:])
    assert done.code == 0, done.err


# -- without max_tokens ------------------------------------------------------------------------------------------------


def unlimited(stage: Stage, prices: str = "input = 2\noutput = 10") -> None:
    stage.units = 40
    stage.configure("max_concurrency = 16", more=f"[providers.alpha.prices]\n{prices}")
    stage.write_input()


def test_answers_without_max_tokens_do_not_use_up_a_sufficient_cap(stage: Stage, headway: Headway) -> None:
    """Reserving 4,096 tokens for each request is $0.041: with a cap of $0.03 nothing would ever be sent."""
    unlimited(stage)
    done = headway("run", "in.jsonl", "--max-cost", "0.03")
    assert done.code == 0, done.err
    assert status(headway)["succeeded"] == 40
    [line] = [line for line in done.err.splitlines() if "cost: " in line]
    assert (
        "each request without max_tokens reserves 1,024 output tokens ($0.0103) until 8 answers have been seen"
        in line
    )
    assert "--max-tokens N" in line


def test_a_job_reserves_what_answers_of_a_similar_job_took(stage: Stage, headway: Headway) -> None:
    unlimited(stage)
    assert headway("run", "in.jsonl", "-q").code == 0
    stage.write_input([stage.row(index) for index in range(100, 140)])
    done = headway("run", "in.jsonl", "--max-cost", "0.003", "--force")
    assert done.code == 0, done.err
    assert re.search(
        r"each request without max_tokens reserves 4 output tokens \(\$0\.0\d+\), based on 40 answers to similar prompts",
        done.err,
    )


def test_after_a_cap_below_one_request_a_higher_one_continues_the_same_job_and_file(
    stage: Stage, headway: Headway
) -> None:
    unlimited(stage)
    assert headway("run", "in.jsonl", "--max-cost", "0.00001").code == 3
    higher = headway("run", "in.jsonl", "--max-cost", "5")
    assert higher.code == 0, higher.err
    assert [job["succeeded"] for job in json.loads(headway("jobs", "--json").out)] == [40]
    assert [path.name for path in stage.root.glob("*results*")] == ["in.results.jsonl"]


def test_after_a_cap_below_one_request_max_tokens_makes_a_job_with_the_same_file(
    stage: Stage, headway: Headway
) -> None:
    unlimited(stage)
    assert "--max-cost 0.00001 does not" in headway("run", "in.jsonl", "--max-cost", "0.00001").err
    done = headway("run", "in.jsonl", "--max-cost", "0.004", "--max-tokens", "5")
    assert done.code == 0, done.err
    assert [path.name for path in stage.root.glob("*results*")] == ["in.results.jsonl"]
    other = headway("run", "in.jsonl", "--max-tokens", "4")
    assert "in.results.jsonl has the results of job" in other.err
    assert len(list(stage.root.glob("*results*"))) == 2


def test_a_cap_below_one_request_says_what_is_reserved_and_how_to_reduce_it(
    stage: Stage, headway: Headway
) -> None:
    unlimited(stage)
    done = headway("run", "in.jsonl", "--max-cost", "0.004", "--progress", "none")
    assert done.code == 3
    head, *below = done.err.splitlines()
    assert head.startswith(
        "stopped: nothing was sent: --max-cost 0.004 does not cover one request, which may cost $0.0103: raise it, or set --max-tokens N; 0 of 40"
    )
    assert "used up" not in done.err
    assert "0 in flight" not in done.err
    assert "  1,024 output tokens are reserved for an answer (max_tokens is not set)" in below
    quiet = headway("resume", "-q")
    assert quiet.code == 3
    told, step = quiet.err.splitlines()
    assert told.startswith(
        "headway: stopped: nothing was sent: --max-cost 0.004 does not cover one request, which may cost $0.0103"
    )
    assert "to resume: headway resume " in step
    report = json.loads(headway("resume", "--json", "-q").out)
    assert report["budget"] == {"max_cost_usd": 0.004, "spent_usd": 0.0}
    reserve = report["limits"]["alpha/gpt-x"]["reserve"]
    assert (reserve["output_tokens"], reserve["max_tokens_set"]) == (1024, False)


def test_the_suggested_cap_is_an_estimate_if_other_answers_are_known(stage: Stage, headway: Headway) -> None:
    """Answers to another prompt took 4 tokens; the sum of the reserves for 40 answers of 1,024 tokens is $0.41."""
    unlimited(stage)
    assert headway("run", "in.jsonl", "-q").code == 0
    other = [stage.row(index, system="Be brief.") for index in range(100, 140)]
    stage.write_input(other)
    first = headway("run", "in.jsonl", "--max-cost", "0.004", "--force", "--json")
    assert first.code == 3, first.err
    command = shlex.split(json.loads(first.out)["next"])
    cap = float(command[command.index("--max-cost") + 1])
    assert 0.0103 < cap < 0.03
    done = headway(*command[1:])
    assert done.code == 0, done.err


def test_a_run_that_was_limited_by_its_reserve_says_so(stage: Stage, headway: Headway) -> None:
    """The cap allows one request at a time, and sixteen could be in flight."""
    stage.configure("max_concurrency = 16", more=DEAR)
    stage.write_input([stage.row(index, max_tokens=400) for index in range(stage.units)])
    done = headway("run", "in.jsonl", "--max-cost", "0.5", "--json")
    assert done.code == 0, done.err
    reserve = json.loads(done.out)["limits"]["alpha/gpt-x"]["reserve"]
    assert reserve["held_it_back"]
    shown = headway("run", "in.jsonl", "--max-cost", "0.5", "--fresh", "--force", "--progress", "none").err
    assert "limited by the budget, which allows 1 in flight: up to $0.4" in shown
    assert "for 400 output tokens (max_tokens)" in shown
    assert "no limit was reached" not in shown
