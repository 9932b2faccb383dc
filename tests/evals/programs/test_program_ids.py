"""Which ids are providers of an eval file, their lanes, and the providers that run an eval's code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evals.programs.running_code import value
from tests.evals.programs.running_providers import opened, provider_of

from headway.config import KINDS, Config, host_of, identity_of, kind_of
from headway.config.kinds import EVAL_KINDS
from headway.core.model import LaneLimits, Usage
from headway.evals.programs.code_providers import with_code
from headway.evals.programs.code_requests import assertion_request, code_target
from headway.evals.programs.program_providers import program_provider
from headway.evals.spec import AssertionSpec, Code, EvalProvider, EvalSpec, PromptSpec, TestSpec
from headway.wiring.builders import builder_of


@pytest.mark.parametrize("provider_id", ["openai:gpt-4o", "anthropic:messages:x", "mine", "echoes"])
def test_other_ids_are_none_of_them(tmp_path: Path, provider_id: str) -> None:
    assert program_provider(provider_id, {}, tmp_path) is None


def test_two_providers_with_other_settings_have_two_names(tmp_path: Path) -> None:
    names = {provider_of("http://127.0.0.1:1/a", tmp_path, config).name for config in ({}, {"method": "GET"})}
    assert len(names) == 2
    assert "eval:http://127.0.0.1:1/a" in names


def test_addresses_of_one_host_share_a_lane_and_programs_have_their_own(tmp_path: Path) -> None:
    one, two = (provider_of(f"http://127.0.0.1:1/{path}", tmp_path) for path in "ab")
    assert host_of(one) == host_of(two) == "127.0.0.1:1"
    assert identity_of(one) != identity_of(two)
    scripts = [provider_of(f"exec: {name}", tmp_path) for name in ("a", "b")]
    assert len({host_of(each) for each in scripts}) == 2


def test_programs_run_a_few_at_once(tmp_path: Path) -> None:
    script = provider_of("exec: a", tmp_path, {"workers": 3})
    assert kind_of(script).lane_limits(script, LaneLimits()).max_concurrency == 3
    echo = provider_of("echo", tmp_path)
    assert kind_of(echo).lane_limits(echo, LaneLimits()).max_concurrency == LaneLimits().max_concurrency


def test_no_table_of_headway_toml_can_have_these_kinds() -> None:
    assert not EVAL_KINDS.keys() & KINDS.keys()


async def test_echo_answers_with_the_prompt_and_costs_nothing(tmp_path: Path) -> None:
    async with opened("echo", tmp_path) as provider:
        answer = await provider.ask("héllo")
    assert value(answer) == "héllo"
    assert answer.outcome.usage == Usage(cost_usd=0.0)


# -- code -------------------------------------------------------------------------------------------------------------


def spec_with(folder: Path, *asserts: AssertionSpec, transform: Code | None = None) -> EvalSpec:
    provider = EvalProvider(id="echo", provider="eval:echo", model="echo", transform=transform)
    return EvalSpec(
        path=folder / "eval.yaml",
        prompts=(PromptSpec(raw="p", label="p"),),
        providers=(provider,),
        tests=(TestSpec(asserts=asserts),),
    )


def test_an_eval_brings_the_providers_that_its_code_needs(tmp_path: Path) -> None:
    config = Config(None, tmp_path, "")
    assert with_code(config, spec_with(tmp_path)) is config
    inner = AssertionSpec(type="python", code=Code("python", source="1"))
    spec = spec_with(tmp_path, AssertionSpec(type="assert-set", children=(inner,)))
    assert list(with_code(config, spec).providers) == ["code:python"]
    spec = spec_with(tmp_path, inner, transform=Code("javascript", source="1"))
    providers = with_code(config, spec).providers
    assert list(providers) == ["code:javascript", "code:python"]
    for code in (Code("python"), Code("javascript")):
        target = code_target(code)
        provider = providers[target.provider]
        assert provider.model == target.model
        assert kind_of(provider).lane_limits(provider, LaneLimits()).max_concurrency
    assert builder_of(providers["code:python"]).verify(config, providers["code:python"])


def test_a_changed_file_makes_another_request(tmp_path: Path) -> None:
    file = tmp_path / "g.py"
    bodies = set()
    for text in ("a = 1\n", "a = 22\n"):
        file.write_text(text)
        bodies.add(assertion_request(Code("python", file=file), "o", {"vars": {}}))
    assert len(bodies) == 2
    assert json.loads(bodies.pop())["file"] == str(file)
