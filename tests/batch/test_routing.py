"""A model's name finds its provider, or says what would."""

from __future__ import annotations

import pytest
from tests.batch.configs import ALPHA, BARE, BETA, BOTH, config

from headway.config.near_names import edits_between, near_name
from headway.config.routing import REMEMBERED, Router, Target
from headway.errors import UsageError


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("alpha/gpt-x", Target("alpha", "openai", "gpt-x")),
        ("beta/claude-x", Target("beta", "anthropic", "claude-x")),
        ("alpha/org/gpt-x", Target("alpha", "openai", "org/gpt-x")),
        ("alpha/beta/x", Target("alpha", "openai", "beta/x")),
        ("gpt-x", Target("alpha", "openai", "gpt-x")),
        ("meta-llama/Llama-3", Target("alpha", "openai", "meta-llama/Llama-3")),
        ("alpha", Target("alpha", "openai", "alpha")),
        ("/gpt-x", Target("alpha", "openai", "/gpt-x")),
        (None, Target("alpha", "openai", "gpt-d")),
    ],
)
def test_a_name_finds_its_provider(model: str | None, target: Target) -> None:
    assert Router(BOTH).route(model) == target


def test_the_only_provider_needs_no_naming() -> None:
    router = Router(config(BETA))
    assert router.route("claude-x") == Target("beta", "anthropic", "claude-x")
    assert router.route(None) == Target("beta", "anthropic", "claude-d")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "gpt-x",
            "\"model\" 'gpt-x' names no provider, and there are several (alpha, beta) — write 'alpha/gpt-x', or "
            "set provider in [run]",
        ),
        (
            None,
            "\"model\" is missing, and there are several providers (alpha, beta) — write 'alpha/MODEL', or set provider in "
            "[run]",
        ),
        (
            "alpha/",
            "\"model\" 'alpha/' names a provider and no model of it — write PROVIDER/MODEL, such as alpha/gpt-d",
        ),
        (
            "beta",
            "\"model\" 'beta' names a provider and no model of it — write PROVIDER/MODEL, such as beta/claude-d",
        ),
        (
            "claude-d",
            "\"model\" 'claude-d' names no provider, and there are several (alpha, beta) — write 'beta/claude-d', or set "
            "provider in [run]",
        ),
        (" ", '"model" must be the name of a model'),
        ("a\nb", '"model" must be the name of a model'),
        ("x" * 99, f"\"model\" '{'x' * 80}…' names no provider"),
    ],
)
def test_an_unresolved_model_name_is_explained(model: str | None, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Router(config(ALPHA, BETA)).route(model)
    assert str(caught.value).startswith(said)


def test_a_provider_without_a_model_of_its_own_needs_one_in_the_row() -> None:
    with pytest.raises(UsageError) as caught:
        Router(config(BARE)).route(None)
    assert str(caught.value) == (
        "\"model\" is missing, and provider 'bare' has no default model — name one in the row or with --model, or set model in "
        "[providers.bare]"
    )


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("betta/gpt-x", "beta"),
        ("bet/gpt-x", "beta"),
        ("meta/llama", "beta"),
        ("gamma/x", None),
        ("meta-llama/Llama-3", None),
        ("beta/x", None),
        ("alfa", None),
        ("betta/", None),
    ],
)
def test_a_provider_that_is_probably_misspelt_is_sent_as_a_model_and_suspected(
    model: str, near: str | None
) -> None:
    router = Router(BOTH)
    warning = router.suspected_mistake(model)
    if near is None:
        assert warning is None
        return
    assert router.route(model) == Target("alpha", "openai", model)
    name, _, rest = model.partition("/")
    assert warning == (
        f"no provider '{name}': '{model}' is sent to alpha as a model; did you mean {near}/{rest}?"
    )


def test_a_provider_in_place_of_a_model_is_suspected() -> None:
    assert Router(BOTH).suspected_mistake("beta") == (
        "'beta' is sent to alpha as a model, and is a provider; did you mean beta/claude-d?"
    )
    assert Router(BOTH).suspected_mistake("gpt-d") is None


def test_an_error_about_a_flag_names_the_flag() -> None:
    with pytest.raises(UsageError, match=r"^--model bta/x names no provider.* — did you mean 'beta/x'\?$"):
        Router(config(ALPHA, BETA)).check_flag("--model", "bta/x")


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("beta", "beta", 0),
        ("betta", "beta", 1),
        ("meta", "beta", 1),
        ("abc", "cab", 2),
        ("", "ab", 2),
        ("a", "abcd", 3),
    ],
)
def test_edits_are_inserted_removed_and_replaced_characters(one: str, other: str, edits: int) -> None:
    assert edits_between(one, other) == edits_between(other, one) == edits


def test_short_names_that_share_nothing_are_not_mistakes() -> None:
    assert near_name("my", ["hf", "a"]) is None
    assert near_name("opanai", ["openai", "azure"]) == "openai"


def test_without_a_provider_the_error_says_how_to_add_one() -> None:
    with pytest.raises(UsageError, match=r"^there is no provider — 'headway init' .*; or set OPENAI_API_KEY"):
        Router(config()).route("gpt-x")


def test_a_million_names_are_not_remembered() -> None:
    router = Router(BOTH)
    for place in range(REMEMBERED + 10):
        router.route(f"m{place}")
    assert router.route.cache_info().currsize == REMEMBERED
