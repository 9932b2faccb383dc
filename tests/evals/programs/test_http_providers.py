"""`http(s)://…`: plain HTTP with templates, and responses that are read by a path or by JavaScript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evals.programs.running_code import SECRET, error, needs_node, value
from tests.evals.programs.running_providers import opened, provider_of
from tests.providers.wire import Wire, http, serving

from headway.core.model import Kind, Usage
from headway.errors import ConfigError, UsageError

SAID = {"choices": [{"message": {"content": "hi"}}], "usage": {"in": 3}}


async def asked(wire: Wire, folder: Path, config: dict[str, Any], prompt: Any = "p", **values: Any) -> Any:
    async with opened(f"{wire.url}/ask", folder, config) as provider:
        return value(await provider.ask(prompt, vars=values))


async def test_a_body_of_templates_becomes_json_whatever_the_prompt_holds(tmp_path: Path) -> None:
    body = {"q": "{{ prompt }}", "n": "{{ n }}", "list": ["{{ who }}"], "messages": "{{ chat }}", "t": 0.5}
    async with serving(http(SAID)) as wire:
        prompt, chat = 'say "hi"\n{"', '[{"role": "user"}]'
        assert await asked(wire, tmp_path, {"body": body}, prompt, n=3, who="Zoë", chat=chat) == SAID
    [call] = wire.calls
    assert call.line == "POST /ask HTTP/1.1"
    assert call.headers["content-type"] == "application/json"
    assert call.said == {"q": prompt, "n": "3", "list": ["Zoë"], "messages": [{"role": "user"}], "t": 0.5}


async def test_a_body_that_is_json_text_is_filled_part_by_part(tmp_path: Path) -> None:
    config = {"headers": {"Content-Type": "application/json"}, "body": '{"q": "{{prompt}}"}'}
    async with serving(http(SAID)) as wire:
        await asked(wire, tmp_path, config, 'a "quote"')
    assert wire.calls[0].said == {"q": 'a "quote"'}


async def test_a_body_that_is_text_is_sent_as_a_form(tmp_path: Path) -> None:
    async with serving(http(SAID)) as wire:
        await asked(wire, tmp_path, {"body": "q={{prompt | urlencode}}"}, "a b")
    assert wire.calls[0].body == b"q=a%20b"
    assert wire.calls[0].headers["content-type"] == "application/x-www-form-urlencoded"


async def test_method_headers_and_query_are_templates(tmp_path: Path) -> None:
    config = {"method": "GET", "headers": {"X-Who": "{{who}}"}, "queryParams": {"q": "{{prompt}}", "a": "1"}}
    async with serving(http(SAID)) as wire:
        await asked(wire, tmp_path, config, "a&b", who="me")
    [call] = wire.calls
    assert call.line == "GET /ask?q=a%26b&a=1 HTTP/1.1"
    assert call.headers["x-who"] == "me"
    assert call.body == b""


async def test_a_key_of_the_environment_is_sent_and_comes_back_in_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVICE", SECRET)
    config = {"auth": {"type": "bearer", "token": "{{env.MY_SERVICE}}"}, "body": {"q": "{{prompt}}"}}

    async def answer(call: Any) -> None:
        await call.write(http({"you": call.headers["authorization"]}))

    async with serving(answer) as wire:
        assert await asked(wire, tmp_path, config) == {"you": "Bearer ***"}
    assert wire.calls[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("json.choices[0].message.content", "hi"),
        ("json['choices'][0]?.message?.content", "hi"),
        ("json.choices.length", 1),
        ("json", SAID),
        ("text", json.dumps(SAID)),
    ],
)
async def test_a_path_reads_the_response_without_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with serving(http(SAID)) as wire:
        assert await asked(wire, tmp_path, {"transformResponse": path}) == expected


async def test_a_path_that_is_not_in_the_response_is_an_error(tmp_path: Path) -> None:
    async with (
        serving(http(SAID)) as wire,
        opened(wire.url, tmp_path, {"transformResponse": "json.text"}) as one,
    ):
        assert "the response has no json.text" in error(await one.ask("x"))


async def test_a_response_that_is_no_json_is_its_text(tmp_path: Path) -> None:
    async with serving(http("Grüße".encode(), 200, content_type="text/plain")) as wire:
        assert await asked(wire, tmp_path, {}) == "Grüße"


@needs_node
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("json.choices.map((one) => one.message.content).join()", "hi"),
        ("(json, text, context) => context.response.status + text.length", 200 + len(json.dumps(SAID))),
        ("const a = json.usage.in;\nreturn a * 2;", 6),
    ],
)
async def test_javascript_reads_the_response(tmp_path: Path, source: str, expected: Any) -> None:
    async with serving(http(SAID)) as wire:
        assert await asked(wire, tmp_path, {"transformResponse": source}) == expected


@needs_node
async def test_javascript_may_report_usage_or_an_error(tmp_path: Path) -> None:
    source = "({ output: 'o', tokenUsage: { prompt: json.usage.in, completion: 1 }, cost: 0.25 })"
    async with serving(http(SAID)) as wire, opened(wire.url, tmp_path, {"transformResponse": source}) as one:
        answer = await one.ask("x")
        assert value(answer) == "o"
        assert answer.outcome.usage == Usage(3.0, 1.0, 0.0, 0.25)
    async with (
        serving(http(SAID)) as wire,
        opened(wire.url, tmp_path, {"transformResponse": "({ error: 'no quota here' })"}) as one,
    ):
        assert "no quota here" in (await one.ask("x")).outcome.message


@needs_node
async def test_javascript_that_fails_is_an_error_of_the_cell(tmp_path: Path) -> None:
    async with (
        serving(http(SAID)) as wire,
        opened(wire.url, tmp_path, {"transformResponse": "json.a.b()"}) as one,
    ):
        assert "TypeError" in error(await one.ask("x"))


@needs_node
async def test_a_file_reads_the_response(tmp_path: Path) -> None:
    (tmp_path / "read.cjs").write_text("module.exports = { pick: (json) => json.usage.in }")
    async with serving(http(SAID)) as wire:
        assert await asked(wire, tmp_path, {"transformResponse": "file://read.cjs:pick"}) == 3


@needs_node
async def test_javascript_makes_the_request(tmp_path: Path) -> None:
    config = {"transformRequest": "({ q: prompt.toUpperCase(), who: vars.who })", "body": {"a": 1}}
    async with serving(http(SAID)) as wire:
        await asked(wire, tmp_path, config, "p", who="me")
    assert wire.calls[0].said == {"a": 1, "q": "P", "who": "me"}


async def test_a_refusal_is_no_output_and_its_limit_is_read(tmp_path: Path) -> None:
    async with (
        serving(http({"error": "slow down"}, 429, retry_after="7")) as wire,
        opened(wire.url, tmp_path) as one,
    ):
        answer = await one.ask("x")
    assert answer.outcome.kind is Kind.RATE
    assert answer.outcome.hint is not None
    assert answer.outcome.hint.retry_after_s == 7.0
    assert answer.rate_limit is not None


async def test_limits_in_the_headers_of_a_success_are_read(tmp_path: Path) -> None:
    said = http(SAID, 200, x_ratelimit_limit_requests="60", x_ratelimit_remaining_requests="59")
    async with serving(said) as wire, opened(wire.url, tmp_path) as one:
        answer = await one.ask("x")
    assert value(answer) == SAID
    assert answer.outcome.hint is not None


async def test_a_server_error_is_retried_and_a_bad_request_is_not(tmp_path: Path) -> None:
    async with serving(http({}, 500)) as wire, opened(wire.url, tmp_path) as one:
        assert (await one.ask("x")).outcome.kind in (Kind.TRANSIENT, Kind.OVERLOAD)
    async with (
        serving(http({"error": {"message": "no field q"}}, 400)) as wire,
        opened(wire.url, tmp_path) as one,
    ):
        answer = await one.ask("x")
    assert answer.outcome.kind is Kind.INVALID
    assert "no field q" in answer.outcome.message


async def test_a_timeout_of_the_file_ends_a_request(tmp_path: Path) -> None:
    async def never(call: Any) -> None:
        await call.reader.read()

    async with serving(never) as wire, opened(wire.url, tmp_path, {"timeoutMs": 300}) as one:
        assert "0.3 s" in error(await one.ask("x"), Kind.TIMEOUT)


async def test_a_host_may_come_from_the_environment_but_not_from_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(http(SAID)) as wire:
        monkeypatch.setenv("SERVICE_URL", wire.url)
        async with opened("http", tmp_path, {"url": "{{env.SERVICE_URL}}/{{page}}"}) as one:
            assert value(await one.ask("x", vars={"page": "a b"})) == SAID
        async with opened(f"http://127.0.0.1{{{{ port }}}}:{wire.url.rpartition(':')[2]}", tmp_path) as one:
            assert "its host depends on the variables" in error(await one.ask("x", vars={"port": "0"}))
    assert [call.path for call in wire.calls] == ["/a%20b"]


async def test_a_line_break_in_a_header_is_refused(tmp_path: Path) -> None:
    async with (
        serving(http(SAID)) as wire,
        opened(wire.url, tmp_path, {"headers": {"x-a": "{{prompt}}"}}) as one,
    ):
        assert "cannot be sent" in error(await one.ask("a\r\nx-b: c"))
    assert wire.calls == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"request": "POST / HTTP/1.1"}, "config.request of an HTTP provider is not supported"),
        ({"validateStatus": "status < 500"}, "config.validateStatus"),
        ({"haeders": {}}, "an HTTP provider has no config.haeders"),
        ({"auth": {"type": "oauth"}}, "only type bearer"),
        ({"headers": []}, "config.headers of an HTTP provider must be an object"),
        ({"timeoutMs": "x"}, "config.timeoutMs must be a number"),
    ],
)
def test_what_cannot_be_honoured_is_an_error(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        provider_of("http://127.0.0.1:1/a", tmp_path, config)
    assert said in raised.value.message


async def test_an_address_without_a_host_is_an_error_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        async with opened("http", tmp_path, {"url": "{{env.NO_SUCH_VARIABLE}}/x"}):
            pytest.fail("it was built")
