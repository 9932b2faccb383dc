"""Secrets by their values: which there are, and how they are blotted out."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from headway.config import Config, ProviderConfig, keys_of
from headway.core.model import Kind, Outcome
from headway.providers.base import RateLimit
from headway.providers.secrecy import OPEN, Scrubber, secrets_of

MISTRAL = "b7Qd9Lk2Xw5Zr8Tn3Vp6Ys1Hf4Jg0Mc"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE+KEY"


def test_which_variables_are_secret() -> None:
    long = "x" * 16
    named = {"A_KEY", "TOKEN", "my_secret", "DB_PASSWORD", "MixedKey"}
    others = {"KEYS", "TOKEN_FILE", "SECRETARY", "PASSWORD_HINT", "PATH"}
    assert secrets_of({name: f"{name}-{long}" for name in named | others}, ["given"]) == [
        "given",
        *(f"{name}-{long}" for name in named | others if name in named),
    ]
    assert secrets_of({"A_KEY": "x" * 15, "B_KEY": f" {long}\n"}) == [long]


def test_every_configured_key_is_secret() -> None:
    config = Config(
        path=None,
        root=None,  # type: ignore[arg-type]
        db="",
        providers={
            "a": ProviderConfig("a", "openai", "https://a", "ALPHA"),
            "b": ProviderConfig("b", "bedrock", "https://b", "AWS_BEARER_TOKEN_BEDROCK"),
        },
    )
    environ = {"ALPHA": "alpha-key", "AWS_ACCESS_KEY_ID": "AKIAXXXXXXXX", "UNRELATED": "no"}
    dotenv = {"ALPHA": "other-alpha", "AWS_SECRET_ACCESS_KEY": AWS}
    assert set(keys_of(config, environ, dotenv)) == {"alpha-key", "other-alpha", "AKIAXXXXXXXX", AWS}


@pytest.mark.parametrize(
    "secret", [MISTRAL, AWS, 'p"a\\s/s word\n2', "pässwort-sechzehn", "1234567890123456"]
)
def test_a_secret_is_blotted_out_however_it_is_written(secret: str) -> None:
    scrub = Scrubber([secret])
    said = {
        "plain": f"it is {secret}!",
        "url": f"https://host/?k={quote(secret, safe='')}",
        "repr": repr({"k": secret}),
        "json": json.dumps({"k": secret}),
        "slashed": json.dumps({"k": secret}).replace("/", "\\/"),
        "unicode": json.dumps({"k": secret}, ensure_ascii=False),
        "number": 12345678901234567890,
    }
    for name, text in said.items():
        if isinstance(text, str):
            assert "***" in scrub.text(text), name
            assert secret not in scrub.text(text)
    for ascii_only in (True, False):
        body = scrub.body(json.dumps(said, ensure_ascii=ascii_only).encode())
        kept = json.loads(body)  # It is still JSON.
        assert kept.keys() == said.keys()
        assert secret not in str(kept)
        assert all(("***" in text) or ("9" * 16 in text) for text in kept.values() if isinstance(text, str))


def test_what_has_no_secret_is_the_same_object() -> None:
    body = b'{"a": "b"}' * 1000
    assert Scrubber([MISTRAL, AWS]).body(body) is body
    outcome = Outcome(Kind.INVALID, message="nothing")
    assert Scrubber([MISTRAL]).outcome(outcome) is outcome
    assert OPEN.body(body) is body


@pytest.mark.parametrize("left", [16, 20, len(MISTRAL) - 1])
def test_parts_of_a_secret_that_a_cut_left_are_blotted_out_of_messages(left: int) -> None:
    scrub = Scrubber([MISTRAL])
    assert scrub.message(f"the key is {MISTRAL[:left]}…") == "the key is ***…"
    assert scrub.message(f"said: {MISTRAL[-left:]} and") == "said: *** and"
    assert scrub.message(MISTRAL[:left] + " " + MISTRAL[-left:]) == "*** ***"


def test_a_secret_in_an_outcome_and_in_a_limit() -> None:
    scrub = Scrubber([MISTRAL])
    outcome = scrub.outcome(Outcome(Kind.INVALID, message=f"no {MISTRAL}"))
    assert (outcome.kind, outcome.message) == (Kind.INVALID, "no ***")
    limit = scrub.rate_limit(RateLimit("result", 3.0, f"slow, {MISTRAL}", 1.0))
    assert limit == RateLimit("result", 3.0, "slow, ***", 1.0)
    assert scrub.rate_limit(None) is None


def test_a_value_that_is_part_of_another_leaves_nothing_of_it() -> None:
    assert Scrubber([MISTRAL, MISTRAL + "-more"]).text(f"<{MISTRAL}-more>") == "<***>"
