"""Azure, Gemini, Bedrock, and vendors that speak OpenAI's API: paths, keys, headers, errors."""

from __future__ import annotations

import json
import time
from typing import Any, get_args

import pytest
from multidict import CIMultiDict
from tests.fake.virtual_server import CHAT, Answer, ManualClock, ask, chat, serving

from headway.fake.apis.aws_signature import signature_fault
from headway.fake.apis.compatible_vendors import VENDORS
from headway.fake.fake_config import SECRET, Vendor
from headway.fake.server import FakeServer
from headway.providers.dialects.sigv4 import Credentials, signature_headers

GEMINI = "/v1beta/models/gemini-x:generateContent"
CONVERSE = "/model/claude-x%3A0/converse"
CONTENT = {
    "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
    "generationConfig": {"maxOutputTokens": 9},
}
TURN = {"messages": [{"role": "user", "content": [{"text": "hello"}]}], "inferenceConfig": {"maxTokens": 100}}


async def gemini(server: FakeServer, body: object = CONTENT, path: str = GEMINI) -> Answer:
    return await ask(server, path, body, key="", headers={"x-goog-api-key": "any"})


async def converse(server: FakeServer, body: object = TURN, **signature: Any) -> Answer:
    data = json.dumps(body).encode()
    host = f"127.0.0.1:{server.port}"
    credentials = Credentials(signature.get("access", "AKIAANY"), signature.get("secret", SECRET))
    signed = signature_headers(
        credentials, "us-east-1", signature.get("service", "bedrock"), host, signature.get("signed_path", CONVERSE), signature.get("signed_body", data),
        time.time() + signature.get("late", 0.0),
    )  # fmt: skip
    return await ask(server, signature.get("path", CONVERSE), data, key="", headers=signed)


def test_every_vendor_has_errors() -> None:
    assert {"auto", *VENDORS} == set(get_args(Vendor))


async def test_gemini_answers_and_streams() -> None:
    async with serving() as server:
        plain = await gemini(server)
        streamed = await gemini(server, path="/v1beta/models/gemini-x:streamGenerateContent?alt=sse")
        assert plain.json["candidates"][0]["content"]["parts"] == [{"text": "echo: hello"}]
        assert plain.json["usageMetadata"] == {
            "promptTokenCount": 2, "candidatesTokenCount": 3, "totalTokenCount": 5,
        }  # fmt: skip
        assert plain.json["responseId"]
        last = streamed.events[-1][1]
        assert (last["candidates"][0]["finishReason"], last["usageMetadata"]["candidatesTokenCount"]) == (
            "STOP",
            3,
        )
        assert server.stats()["total"]["ok"] == 2


async def test_gemini_ignores_a_key_in_the_url() -> None:
    async with serving() as server:
        refused = await ask(server, f"{GEMINI}?key=any", CONTENT, key="any")
        assert (refused.status, refused.json["error"]["status"]) == (403, "PERMISSION_DENIED")


async def test_gemini_names_quotas_in_the_body_and_not_in_headers() -> None:
    async with serving(default={"rpm": 1, "rpd": 5}) as server:
        ok = await gemini(server)
        refused = await gemini(server)
        assert not [name for name in ok.headers if "limit" in name]
        assert refused.status == 429
        quota, retry = refused.json["error"]["details"]
        assert quota["violations"][0]["quotaId"] == "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
        assert quota["violations"][0]["quotaValue"] == "1"
        assert retry["retryDelay"] == "60s"
        assert "retry-after" not in refused.headers


@pytest.mark.parametrize("body", [{}, {"contents": []}, {"contents": [{"parts": []}]}, b"{", {"contents": 1}])
async def test_gemini_refuses_invalid_requests(body: object) -> None:
    async with serving() as server:
        answer = await gemini(server, body)
        assert (answer.status, answer.json["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_bedrock_answers_signed_requests() -> None:
    async with serving() as server:
        answer = await converse(server)
        assert answer.status == 200, answer.body
        assert answer.json["output"]["message"]["content"] == [{"text": "echo: hello"}]
        assert answer.json["usage"]["totalTokens"] == 5
        assert answer.headers["x-amzn-requestid"]


@pytest.mark.parametrize(
    "signature",
    [
        {"secret": "another"},
        {"signed_body": b"{}"},
        {"signed_path": "/model/claude-x%3A1/converse"},
        {"path": "/model/claude-x:0/converse"},
        {"late": -600.0},
        {"service": "s3"},
    ],
    ids=["secret", "body", "path", "a path that was encoded differently", "time", "service"],
)
async def test_bedrock_refuses_wrong_signatures(signature: dict[str, Any]) -> None:
    async with serving() as server:
        answer = await converse(server, **signature)
        assert answer.status == 403
        assert answer.headers["x-amzn-errortype"].startswith("InvalidSignatureException")
        assert server.stats()["total"]["admitted"] == 0


async def test_bedrock_refuses_missing_and_unknown_keys() -> None:
    async with serving(accounts={"a": {"key": "AKIAKNOWN"}}, strict=True) as server:
        unknown = await converse(server)
        without_key = await ask(server, CONVERSE, TURN, key="")
        token = await ask(server, CONVERSE, TURN, key="AKIAKNOWN")
        assert unknown.headers["x-amzn-errortype"].startswith("UnrecognizedClientException")
        assert without_key.headers["x-amzn-errortype"].startswith("MissingAuthenticationTokenException")
        assert token.status == 200, "a Bedrock API key needs no signature"


def test_every_aws_header_must_be_signed() -> None:
    class Sent:
        method = "POST"
        raw_path = "/x"
        headers = CIMultiDict(
            signature_headers(Credentials("A", SECRET), "us-east-1", "bedrock", "h", "/x", b"", 1e9), Host="h"
        )

    assert signature_fault(Sent(), b"", SECRET, 1e9) == ""
    Sent.headers["X-Amz-Other"] = "1"
    assert "must be sorted" in signature_fault(Sent(), b"", SECRET, 1e9)


async def test_bedrock_refunds_unused_output() -> None:
    """Two requests of 102 tokens do not fit into 150 at once, but the first needs only 5 of them."""
    async with serving(ManualClock(), default={"tpm": 150}) as server:
        assert [(await converse(server)).status for _ in range(10)] == [200] * 10
        refused = await converse(server)
        assert refused.status == 429
        assert refused.json["message"] == "Too many tokens, please wait before trying again."


@pytest.mark.parametrize(
    "path",
    [
        "/openai/v1/chat/completions",
        "/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21",
    ],
)
async def test_azure_has_two_paths(path: str) -> None:
    async with serving(default={"rpm": 1, "tpm": 6000}) as server:
        body = chat()
        if "deployments" in path:
            del body["model"]
        answer = await ask(server, path, body, key="", headers={"api-key": "any"})
        refused = await ask(server, path, body, key="", headers={"api-key": "any"})
        without_key = await ask(server, path, body, key="")
        assert answer.status == 200, answer.body
        assert answer.headers["x-ratelimit-limit-tokens"] == "6000"
        assert answer.headers["x-ratelimit-reset-requests"] == "60"
        assert answer.headers["apim-request-id"]
        assert (refused.status, refused.headers["retry-after-ms"]) == (429, "60000")
        assert "exceeded the call rate limit" in refused.json["error"]["message"]
        assert without_key.status == 401


@pytest.mark.parametrize(
    ("vendor", "limits", "headers", "refused"),
    [
        ("groq", {"rpd": 1, "tpm": 600}, {"x-ratelimit-limit-requests": "1", "x-ratelimit-limit-tokens": "600"}, {"retry-after": "86400"}),
        ("mistral", {"rpm": 1}, {"x-ratelimit-limit-req-minute": "1", "x-ratelimit-remaining-req-minute": "0"}, {}),
        ("together", {"rpm": 60, "burst": 1}, {"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0"}, {"x-ratelimit-reset": "1"}),
        ("openrouter", {"rpm": 1}, {}, {"x-ratelimit-limit": "1", "x-ratelimit-reset": "1800000060000"}),
        ("cohere", {"rpm": 1}, {"x-trial-endpoint-call-limit": "1"}, {}),
        ("xai", {"rpm": 1}, {"x-ratelimit-limit-requests": "1"}, {"retry-after": "60"}),
        ("fireworks", {"itpm": 2}, {"x-ratelimit-limit-tokens-prompt": "2"}, {}),
    ],
)  # fmt: skip
async def test_each_vendor_has_its_own_headers(
    vendor: str, limits: dict[str, Any], headers: dict[str, str], refused: dict[str, str]
) -> None:
    async with serving(default={**limits, "dialect": vendor}) as server:
        first, second = await ask(server, CHAT, chat()), await ask(server, CHAT, chat())
        assert (first.status, second.status) == (200, 429)
        assert headers.items() <= first.headers.items()
        assert refused.items() <= second.headers.items()
        if not refused:
            assert "retry-after" not in second.headers


@pytest.mark.parametrize(
    ("vendor", "status"), [("deepseek", 429), ("ollama", 503), ("llamacpp", 503), ("groq", 503)]
)
async def test_too_many_at_once(vendor: str, status: int) -> None:
    async with serving(default={"max_concurrency": 1, "dialect": vendor}) as server:
        entry, _ = server.service.entry_of({"Authorization": "Bearer any"})  # type: ignore[arg-type]
        assert entry is not None
        await entry.account.slots.enter()
        assert (await ask(server, CHAT, chat())).status == status


async def test_used_tokens_are_charged() -> None:
    """Mistral charges no max_tokens: of 100 tokens per minute 5 are used, not 1002."""
    async with serving(ManualClock(), default={"tpm": 100, "dialect": "mistral"}) as server:
        answers = [await ask(server, CHAT, chat(max_tokens=1000)) for _ in range(2)]
        assert [answer.headers["x-ratelimit-remaining-tokens-minute"] for answer in answers] == ["98", "93"]


async def test_a_prompt_beyond_the_context() -> None:
    async with serving(default={"context": 1}) as server:
        answer = await ask(server, CHAT, chat())
        assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")
        assert server.stats()["total"]["refused"] == {"context": 1}


# -- structured output ------------------------------------------------------------------------------------------------

ANSWERS = [{"contains": "#json", "turns": [{"n": 1}, {"n": 2}]}]


def _tools(**choice: Any) -> dict[str, Any]:
    spec = {"name": "give", "inputSchema": {"json": {"type": "object"}}}
    return {"tools": [{"toolSpec": spec}], "toolChoice": choice}


@pytest.mark.parametrize("choice", [{"any": {}}, {"tool": {"name": "give"}}])
async def test_bedrock_answers_with_a_forced_tool(choice: dict[str, Any]) -> None:
    async with serving(answers=ANSWERS) as server:
        request = {
            "messages": [{"role": "user", "content": [{"text": "#json"}]}],
            "toolConfig": _tools(**choice),
        }
        first = (await converse(server, request)).json
        [block] = first["output"]["message"]["content"]
        assert (block["toolUse"]["name"], block["toolUse"]["input"]) == ("give", {"n": 1})
        assert first["stopReason"] == "tool_use"
        more = [
            {"role": "assistant", "content": [{"text": "1"}]},
            {"role": "user", "content": [{"text": "again"}]},
        ]
        then = (await converse(server, {**request, "messages": [*request["messages"], *more]})).json
        assert then["output"]["message"]["content"][0]["toolUse"]["input"] == {"n": 2}, "a turn later"
        free = (await converse(server, {**TURN, "toolConfig": _tools(auto={})})).json
        assert free["output"]["message"]["content"] == [{"text": "echo: hello"}]


@pytest.mark.parametrize(
    "config",
    [
        _tools(tool={"name": "another"}),
        {"tools": [{"toolSpec": {"name": "give", "inputSchema": {"json": {"type": "array"}}}}]},
    ],
)
async def test_bedrock_refuses_invalid_tools(config: dict[str, Any]) -> None:
    async with serving() as server:
        answer = await converse(server, {**TURN, "toolConfig": config})
        assert (answer.status, "toolConfig" in answer.json["message"]) == (400, True)


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}, 200),
        ({"responseJsonSchema": {"type": "object"}}, 400),
        ({"responseMimeType": "application/json", "responseJsonSchema": {}, "responseSchema": {}}, 400),
    ],
)
async def test_gemini_needs_a_json_type_and_one_schema(config: dict[str, Any], status: int) -> None:
    async with serving(answers=ANSWERS) as server:
        contents = [{"role": "user", "parts": [{"text": "#json"}]}]
        answer = await gemini(server, {"contents": contents, "generationConfig": config})
        assert answer.status == status
        if status == 200:
            more = [
                {"role": "model", "parts": [{"text": "1"}]},
                {"role": "user", "parts": [{"text": "again"}]},
            ]
            then = await gemini(server, {"contents": [*contents, *more], "generationConfig": config})
            assert json.loads(then.json["candidates"][0]["content"]["parts"][0]["text"]) == {"n": 2}
