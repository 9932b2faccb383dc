"""Secrets by their values: which there are, and how they are blotted out."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from tests.providers.growth import LINEAR, growth
from yarl import URL

from headway.config import Config, ProviderConfig, keys_of
from headway.core.model import Kind, Outcome
from headway.providers.adapter import RateLimit
from headway.providers.scrubber import NO_SECRETS, Scrubber, secrets_in_environment

MISTRAL = "b7Qd9Lk2Xw5Zr8Tn3Vp6Ys1Hf4Jg0Mc"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE+KEY"


def test_which_variables_are_secret() -> None:
    long = "x" * 16
    named = {"A_KEY", "TOKEN", "my_secret", "DB_PASSWORD", "MixedKey"}
    others = {"KEYS", "TOKEN_FILE", "SECRETARY", "PASSWORD_HINT", "PATH"}
    assert secrets_in_environment({name: f"{name}-{long}" for name in named | others}, ["given"]) == [
        "given",
        *(f"{name}-{long}" for name in named | others if name in named),
    ]
    assert secrets_in_environment({"A_KEY": "x" * 15, "B_KEY": f" {long}\n"}) == [long]


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


@pytest.mark.parametrize(
    "secret", [AWS, "wJalr+XUtnFEMI/K7MDENG/bPx=RfiCYEX", 'it\'s <all> & a "secret"', "a/b+c=d&e f/g:h"]
)
@pytest.mark.parametrize(
    "write",
    [
        quote,
        lambda secret: re.sub("%..", lambda code: code[0].lower(), quote(secret, safe="")),
        lambda secret: quote(secret, safe="").replace("%2B", "+"),
        quote_plus,
        html.escape,
        lambda secret: "".join(f"&#{ord(each)};" if not each.isalnum() else each for each in secret),
        lambda secret: "".join(f"&#x{ord(each):X};" if not each.isalnum() else each for each in secret),
        shlex.quote,
        lambda secret: str(URL("http://host/").with_query(key=secret)),
        lambda secret: json.dumps(f"sh -c {shlex.quote(secret)}"),
    ],
)
def test_a_secret_is_blotted_out_however_its_punctuation_is_written(
    secret: str, write: Callable[[str], str]
) -> None:
    written = f"401 at http://host/?a=b&key={write(secret)}&c=d"
    text = Scrubber([secret]).text(written)
    assert "***" in text
    for part in re.findall("[A-Za-z0-9]{3,}", secret):
        assert part not in text
    assert Scrubber([secret]).body(written.encode()).decode() == text
    assert text.startswith("401 at http://host/?")


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4==\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "write",
    [
        lambda pem: pem,
        lambda pem: pem.replace("\n", "\n    "),
        lambda pem: pem.replace("\n", "\r\n"),
        lambda pem: pem.replace("\n", "\n> "),
        lambda pem: pem.replace("\n", ""),
        lambda pem: pem.splitlines()[1],
        lambda pem: pem.splitlines()[2],
        json.dumps,
        lambda pem: json.dumps(pem.replace("\n", "\r\n")),
    ],
)
def test_a_secret_of_several_lines_is_blotted_out_line_by_line(write: Callable[[str], str]) -> None:
    text = Scrubber([PEM]).text(f"it is {write(PEM)}!")
    assert "***" in text
    assert not re.search("MIIEvQIB|BKcwggSj|9Us8cKj", text)
    assert Scrubber([PEM]).text("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


def test_a_text_without_a_secret_is_the_same_object() -> None:
    body = b'{"a": "b"}' * 1000
    assert Scrubber([MISTRAL, AWS]).body(body) is body
    outcome = Outcome(Kind.INVALID, message="nothing")
    assert Scrubber([MISTRAL]).outcome(outcome) is outcome
    assert NO_SECRETS.body(body) is body


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


def escaped(secret: str, every: int = 1, first: int = 0, before: str = "\\", upper: bool = False) -> str:
    """A secret with some of its characters as JSON escapes. `before` are the backslashes of each: JSON in JSON has more."""
    digits = "04X" if upper else "04x"
    return "".join(
        f"{before}u{ord(letter):{digits}}" if place >= first and (place - first) % every == 0 else letter
        for place, letter in enumerate(secret)
    )


ESCAPED = {
    "the first letter": escaped(MISTRAL, every=100),
    "a letter in the middle": escaped(MISTRAL, every=100, first=14),
    "the last letter": escaped(MISTRAL, every=100, first=len(MISTRAL) - 1),
    "every second letter": escaped(MISTRAL, every=2),
    "all": escaped(MISTRAL),
    "all in capitals": escaped(MISTRAL, upper=True),
    "JSON in JSON": escaped(MISTRAL, every=3, before="\\\\"),
    "JSON in JSON in JSON": escaped(MISTRAL, every=3, before="\\" * 4),
    "countless backslashes": escaped(MISTRAL, every=3, before="\\" * 41),
}


@pytest.mark.parametrize("written", ESCAPED)
def test_a_secret_in_json_escapes_is_blotted_out(written: str) -> None:
    scrub = Scrubber([AWS, MISTRAL])
    body = f'{{"a": "<{ESCAPED[written]}>", "b": "{ESCAPED[written]}"}}'
    kept = scrub.body(body.encode())
    assert json.loads(kept) == {"a": "<***>", "b": "***"}
    assert scrub.text(body) == kept.decode()
    assert scrub.finds(body.encode())
    message = scrub.message(body)
    assert "***" in message
    assert not any(MISTRAL[at : at + 6] in message for at in range(len(MISTRAL) - 6))


def test_a_secret_with_some_of_its_slashes_escaped_is_blotted_out() -> None:
    scrub = Scrubber([AWS])
    for text in (AWS.replace("/", "\\/", 1), AWS.replace("/", "\\u002f", 1), AWS.replace("/", "\\\\/")):
        assert text != AWS
        assert scrub.body(f'["{text}"]'.encode()) == b'["***"]'
        assert scrub.text(text) == "***"
        assert scrub.message(f"it is {text}.") == "it is ***."


def test_a_secret_that_is_not_ascii_may_be_escaped_in_part() -> None:
    secret = "pässwort-sechzehn"
    body = f'["{escaped(secret, every=2)}", "{escaped(secret, every=100, first=1)}"]'
    assert json.loads(Scrubber([secret]).body(body.encode())) == ["***", "***"]


@pytest.mark.parametrize("left", [16, 20, len(MISTRAL) - 1])
def test_parts_of_an_escaped_secret_are_blotted_out_of_messages(left: int) -> None:
    scrub = Scrubber([MISTRAL])
    assert scrub.message(f"the key is {escaped(MISTRAL[:left], every=3)}…") == "the key is ***…"
    assert scrub.message(f"said: {escaped(MISTRAL[-left:], every=3)} and") == "said: *** and"


def test_a_message_without_secrets_keeps_its_escapes() -> None:
    text = r"C:\users\u0041 and \u0042\/"
    assert Scrubber([MISTRAL]).message(text) == text
    assert Scrubber([MISTRAL, AWS]).body(text.encode()) == text.encode()


@pytest.mark.parametrize("before", ["\\", "\\\\"])
def test_an_escaped_secret_that_a_cut_left_at_the_end_is_not_kept(before: str) -> None:
    scrub = Scrubber([MISTRAL])
    for written in (escaped(MISTRAL, before=before), escaped(MISTRAL, every=2, before=before)):
        for left in range(1, len(written)):
            body = f"{written}{'x' * 40}{written[:left]}".encode()
            assert scrub.beginning(body, len(body) - 1) == b"***" + b"x" * 40


@pytest.mark.parametrize(
    "piece",
    ["\\", "\\u0062", "\\u00", "\\/", "b\\u0037", escaped(MISTRAL[:-1])],
    ids=["backslashes", "one letter", "broken", "slashes", "beginnings", "nearly all"],
)
def test_escapes_are_searched_in_linear_time(piece: str) -> None:
    scrub = Scrubber([MISTRAL, AWS])
    assert growth(lambda size: scrub.body((piece * size).encode()), 20_000 // len(piece)) < LINEAR


@pytest.mark.parametrize(
    ("printed", "recorded"),
    [
        ("bad key sk-abc1…", "bad key ***…"),
        ("bad key sk-abc12...: check it", "bad key ***...: check it"),
        ("bad key sk-abc12...wxyz", "bad key ***"),
        ("bad key sk-abc12*****wxyz, sk-abc12**z", "bad key ***, ***"),
        ("sk-abc1234•••• is revoked", "*** is revoked"),
        ("sk-abc… is too little to tell", "sk-abc… is too little to tell"),
        ("sk-abc1 without a mask", "sk-abc1 without a mask"),
        ("sk-abd1… is another key", "sk-abd1… is another key"),
    ],
)
def test_a_masked_key_is_removed_with_what_is_visible_of_it(printed: str, recorded: str) -> None:
    scrub = Scrubber(["sk-abc1234567890-wxyz"])
    assert scrub.text(printed) == scrub.message(printed) == recorded
