"""Bedrock's dialect: signatures that AWS's own library computes as well, usage in all its words, credentials."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore.auth
import msgspec
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AwsCredentials
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.wire import Call, asked, http
from yarl import URL

from headway.batch.rows import Endpoint
from headway.config import ProviderConfig, key_of, lane_key
from headway.config.kinds.bedrock import AWS_CHAIN
from headway.core.model import Kind, Usage
from headway.errors import ConfigError
from headway.providers.adapter import Request
from headway.providers.dialects.bedrock import BedrockDialect, signer
from headway.providers.dialects.sigv4 import Credentials, signature_headers

CONVERSE = "/model/eu.claude-x%3A0/converse"
ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
USAGE = {
    "inputTokens": 10,
    "outputTokens": 7,
    "totalTokens": 17,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 5,
}
BODY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
}
PROVIDER = ProviderConfig("b", "bedrock", "https://h", "AWS_BEARER_TOKEN_BEDROCK", region="eu-central-1")


def theirs(url: str, body: bytes, token: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The same request signed by botocore, at the same instant."""
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None))
    request = AWSRequest("POST", url, data=body, headers={"Content-Type": "application/json"})
    who = AwsCredentials(ACCESS, SECRET, token or None)
    botocore.auth.SigV4Auth(who, "bedrock", "eu-central-1").add_auth(request)
    return dict(request.headers)


@pytest.mark.parametrize("token", ["", "session/token+with=signs"])
@pytest.mark.parametrize(
    "path",
    [
        "/model/amazon.nova-lite-v1%3A0/converse",
        "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Fx.y_z~1/invoke",
        "/model/plain/converse",
    ],
)
@pytest.mark.parametrize("host", ["bedrock-runtime.eu-central-1.amazonaws.com", "127.0.0.1:8900"])
def test_our_signature_is_the_one_of_aws(
    path: str, token: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = '{"messages":[{"role":"user","content":[{"text":"żółw"}]}]}'.encode()
    ours = signature_headers(
        Credentials(ACCESS, SECRET, token), "eu-central-1", "bedrock", host, path, body, NOW.timestamp()
    )
    expected = theirs(f"https://{host}{path}", body, token, monkeypatch)
    assert ours["Authorization"] == expected["Authorization"]
    assert ours["X-Amz-Date"] == expected["X-Amz-Date"]
    assert ours.get("X-Amz-Security-Token") == expected.get("X-Amz-Security-Token")


@given(
    st.text(st.characters(min_codepoint=32, exclude_characters="/?#", exclude_categories=["Cs"]), min_size=1)
)
def test_any_model_reaches_the_socket_as_it_was_signed(model: str) -> None:
    path = Endpoint("/model/{model}/converse", lambda *_: None, "", lambda _: 0).path_for(model)
    url = BedrockDialect().url("https://h", path)
    assert url.raw_path == path


async def test_a_request_is_signed_as_it_is_sent() -> None:
    seen: list[Call] = []

    async def script(call: Call) -> None:
        seen.append(call)
        await call.write(http(BODY, x_amzn_requestid="aws-1"))

    sent = Request(CONVERSE, b'{"messages":[]}')
    got = await asked(script, sent, kind="bedrock", key=f"{ACCESS}:{SECRET}:tok", region="eu-central-1")
    assert (got.outcome.kind, got.request_id) == (None, "aws-1")
    assert got.outcome.usage == Usage(115.0, 7.0, 100.0, cache_write_tokens=5.0)
    [call] = seen
    assert call.path == CONVERSE
    assert call.headers["x-amz-security-token"] == "tok"
    stamp = datetime.strptime(call.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    again = signature_headers(
        Credentials(ACCESS, SECRET, "tok"), "eu-central-1", "bedrock", call.headers["host"], call.path, call.body,
        stamp.timestamp(),
    )  # fmt: skip
    assert call.headers["authorization"] == again["Authorization"]


async def test_a_bedrock_key_is_a_bearer_token() -> None:
    seen: list[Call] = []

    async def script(call: Call) -> None:
        seen.append(call)
        await call.write(http(BODY))

    await asked(
        script, Request(CONVERSE, b"{}"), kind="bedrock", key="bedrock-api-key-Zm9v", region="us-east-1"
    )
    assert seen[0].headers["authorization"] == "Bearer bedrock-api-key-Zm9v"
    assert "x-amz-date" not in seen[0].headers


async def test_a_secret_that_comes_back_is_blotted_out() -> None:
    said = http({"message": f"I got {SECRET}"}, 400, x_amzn_errortype="ValidationException")
    got = await asked(
        said, Request(CONVERSE, b"{}"), kind="bedrock", key=f"{ACCESS}:{SECRET}", region="us-east-1"
    )
    assert got.outcome.kind is Kind.INVALID
    assert SECRET not in got.outcome.message + got.body.decode()


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (
            {"usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 2}},
            Usage(5.0, 4.0, 2.0),
        ),
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, Usage(3.0, 4.0)),
        ({"generation": "x", "prompt_token_count": 3, "generation_token_count": 4}, Usage(3.0, 4.0)),
        ({"outputs": [{"text": "x"}]}, None),
        ({"usage": {"serviceTier": "standard"}}, None),
        ({"usage": {"inputTokens": 10}}, Usage(10.0, partial=True)),
        ({"usage": {"output_tokens": 10}}, Usage(0.0, 10.0, partial=True)),
        ({"usage": {"inputTokens": 0, "outputTokens": 0}}, Usage()),
        ({"generation": "x", "prompt_token_count": 3}, Usage(3.0, partial=True)),
        ({"generation": "x", "generation_token_count": 3}, Usage(0.0, 3.0, partial=True)),
        (
            {"usage": {"input_tokens": 3, "output_tokens": 4, "cache_creation_input_tokens": 2}},
            Usage(5.0, 4.0, cache_write_tokens=2.0),
        ),
    ],
)
def test_the_usage_of_a_models_own_format(body: dict[str, Any], usage: Usage | None) -> None:
    shape = BedrockDialect().endpoint("/model/x/invoke").shape
    assert msgspec.json.decode(json.dumps(body).encode(), type=shape).counted() == usage


def test_where_credentials_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    static = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S"}
    assert key_of(PROVIDER, {"AWS_BEARER_TOKEN_BEDROCK": "T", **static}, {}) == "T"
    assert key_of(PROVIDER, static | {"AWS_SESSION_TOKEN": "X"}, {}) == "A:S:X"
    assert key_of(PROVIDER, {"AWS_ACCESS_KEY_ID": "half"}, static) == "A:S", "never from two places"
    assert key_of(PROVIDER, {"AWS_PROFILE": "work"}, {}) == f"{AWS_CHAIN}work"
    monkeypatch.setattr("headway.config.kinds.bedrock.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="neither AWS_BEARER_TOKEN_BEDROCK nor AWS_ACCESS_KEY_ID") as caught:
        key_of(PROVIDER, {}, {})
    assert "[bedrock]" in (caught.value.hint or "")
    with pytest.raises(ConfigError, match="a character that is not allowed in a key"):
        key_of(PROVIDER, static | {"AWS_SESSION_TOKEN": "a b"}, {})


def test_a_session_that_is_renewed_is_the_same_lane() -> None:
    lanes = {lane_key(PROVIDER, "m", f"A:S{token}", b"salt") for token in ("", ":one", ":two")}
    assert len(lanes) == 1
    assert lane_key(PROVIDER, "m", "A:other", b"salt") not in lanes


def test_a_profile_of_awss_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    sign, _ = signer(f"{AWS_CHAIN}work", "us-east-1")
    assert sign is not None
    assert f"Credential={ACCESS}/" in sign(URL("https://h/model/x/converse"), b"{}")["Authorization"]
    with pytest.raises(ConfigError, match="home"):
        signer(f"{AWS_CHAIN}home", "us-east-1")
    with pytest.raises(ConfigError, match="neither in the environment nor in"):
        signer(f"{AWS_CHAIN}default", "us-east-1")


def test_both_as_messages() -> None:
    asked_ = {"system": [{"text": "s"}], "messages": [{"role": "user", "content": [{"text": "q"}]}]}
    told = BedrockDialect().endpoint(CONVERSE).conversation(asked_, BODY)
    assert [m["role"] for m in told] == ["system", "user", "assistant"]
    assert BedrockDialect().endpoint("/model/x/invoke").conversation(asked_, {}) == asked_["messages"]
