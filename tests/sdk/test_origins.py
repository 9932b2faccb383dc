"""Keys under `headway.httpx_client()`: they are not sent after a redirect to another origin, nor over plain http to another machine."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import httpx2
import openai
import pytest
from tests.providers.wire import Call, completion, http, serving

import headway
from headway.errors import ConfigError, UnitError, UsageError
from headway.sdk.client_settings import ClientSettings, library_of

SECRET = "sk-follow-0123456789abcdef"
HEADERS = {
    "Authorization": f"Bearer {SECRET}",
    "x-api-key": SECRET,
    "api-key": SECRET,
    "x-goog-api-key": SECRET,
    "X-Amz-Security-Token": SECRET,
    "Cookie": f"session={SECRET}",
    "anthropic-version": "2023-06-01",
}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
LIBRARIES = pytest.mark.parametrize("library", ["httpx2", "httpx"])


async def post(
    sync: bool, library: Any, url: str, client_options: dict[str, Any] | None = None, **more: Any
) -> Any:
    """Send one request with our client, which has cookies of its own."""
    settings: dict[str, Any] = {"cookies": {"session": SECRET}, "library": library, **(client_options or {})}

    def in_a_thread() -> Any:
        with headway.httpx_client(sync=True, **settings) as client:
            return client.post(url, json=BODY, **more)

    if sync:
        return await asyncio.to_thread(in_a_thread)
    async with headway.httpx_client(**settings) as client:
        return await client.post(url, json=BODY, **more)


def redirect(to: str, status: int = 307) -> bytes:
    return http(b"", status, location=to)


def seen(call: Call) -> str:
    return f"{call.line}\n{call.headers}\n{call.body!r}"


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("status", [302, 307, 308])
async def test_no_key_follows_a_redirect_to_another_origin(sync: bool, library: Any, status: int) -> None:
    async with serving(http(completion())) as other:
        target = f"{other.url}/v1/chat/completions?key={SECRET}&sig=theirs"
        async with serving(redirect(target, status)) as home:
            url = f"{home.url}/v1/chat/completions?key={SECRET}"
            answer = await post(sync, library, url, headers=HEADERS)
    assert answer.status_code == 200
    assert SECRET in seen(home.calls[0])
    assert SECRET not in seen(other.calls[0])
    assert other.calls[0].path == "/v1/chat/completions?sig=theirs"
    assert other.calls[0].headers["anthropic-version"] == "2023-06-01"


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
async def test_keys_follow_a_redirect_within_an_origin(sync: bool, library: Any) -> None:
    async def script(call: Call) -> None:
        moved = call.path.startswith("/old")
        await call.write(redirect(f"/v1/chat/completions?key={SECRET}") if moved else http(completion()))

    async with serving(script) as home:
        answer = await post(sync, library, f"{home.url}/old", headers=HEADERS)
    assert answer.status_code == 200
    call = home.calls[1]
    assert [call.headers[name] for name in ("authorization", "x-api-key")] == [f"Bearer {SECRET}", SECRET]
    assert call.path.endswith(f"?key={SECRET}")


async def test_a_key_is_not_restored_by_a_second_redirect() -> None:
    async with (
        serving(http(completion())) as third,
        serving(redirect(f"{third.url}/v1/chat/completions")) as second,
        serving(redirect(f"{second.url}/v1/chat/completions")) as first,
    ):
        await post(False, "httpx2", f"{first.url}/v1/chat/completions", headers=HEADERS)
    assert SECRET not in seen(second.calls[0]) + seen(third.calls[0])


async def test_a_redirected_sdk_does_not_send_its_key_elsewhere() -> None:
    async with (
        serving(http(completion("there"))) as other,
        serving(redirect(f"{other.url}/v1/chat/completions")) as home,
        openai.AsyncOpenAI(
            api_key=SECRET, base_url=f"{home.url}/v1", http_client=headway.httpx_client(), max_retries=0
        ) as client,
    ):
        answer = await client.chat.completions.create(**BODY)  # type: ignore[call-overload]
    assert answer.choices[0].message.content == "there"
    assert SECRET not in seen(other.calls[0])


async def test_a_transport_in_another_client_does_the_same() -> None:
    async with (
        serving(http(completion())) as other,
        serving(redirect(f"{other.url}/v1/chat/completions")) as home,
        httpx2.AsyncClient(transport=headway.httpx_transport(), follow_redirects=True) as client,
    ):
        await client.post(f"{home.url}/v1/chat/completions", json=BODY, headers=HEADERS)
    assert SECRET not in seen(other.calls[0])


#: A key with characters that URLs escape.
ODD_SECRET = "Zq8vT3mLw0+Xk9Rb2/Nc7Yp4Hd6Jf1Gs5A="
NESTED = f"http://127.0.0.1/v1?key={quote(ODD_SECRET, safe='')}"


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "parameter",
    [
        f"next={quote(NESTED, safe='')}",
        f"next={quote(quote(NESTED, safe=''), safe='')}",
        f"q=Bearer%20{quote(ODD_SECRET)}",
        quote(ODD_SECRET, safe=""),
    ],
    ids=["in an address", "quoted twice", "in a text", "as a name"],
)
async def test_no_parameter_that_holds_the_key_follows_a_redirect(
    sync: bool, library: Any, parameter: str
) -> None:
    async with (
        serving(http(completion())) as other,
        serving(redirect(f"{other.url}/login?{parameter}&sig=theirs")) as home,
    ):
        await post(sync, library, f"{home.url}/v1/x", headers={"x-api-key": ODD_SECRET})
    assert other.calls[0].path == "/login?sig=theirs"


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
async def test_no_header_that_holds_the_key_follows_a_redirect(sync: bool, library: Any) -> None:
    innocent = {
        "x-custom": SECRET,
        "x-session": f"sess-{SECRET}",
        "x-trace": quote(ODD_SECRET),
        "x-run": "seven",
    }
    async with serving(http(completion())) as other, serving(redirect(f"{other.url}/there")) as home:
        url = f"{home.url}/v1/x?key={quote(ODD_SECRET, safe='')}"
        await post(sync, library, url, headers={**HEADERS, **innocent})
    headers = other.calls[0].headers
    assert headers["x-run"] == "seven"
    assert {"x-custom", "x-session", "x-trace"}.isdisjoint(headers)


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("path", [SECRET, f"a/{quote(SECRET)}/b", f"a-{SECRET}", "%73" + SECRET[1:]])
async def test_a_redirect_with_the_key_in_its_path_is_refused(sync: bool, library: Any, path: str) -> None:
    async with serving(http(completion())) as other, serving(redirect(f"{other.url}/{path}")) as home:
        with pytest.raises(UnitError) as caught:
            await post(sync, library, f"{home.url}/v1/x", headers=HEADERS)
    assert other.calls == []
    assert f"redirect to {other.url} has the key of the request in its address" in caught.value.message
    assert SECRET not in str(caught.value)


async def test_a_key_in_the_redirect_itself_is_kept() -> None:
    """As in a signed URL."""
    path = "/file?token=theirs-0123456789abcdef&key=a%2fb+c"
    async with serving(http(completion())) as other, serving(redirect(f"{other.url}{path}")) as home:
        await post(False, "httpx2", f"{home.url}/v1/x?key={SECRET}", headers=HEADERS)
    assert other.calls[0].path == path


async def test_short_keys_change_no_headers_and_no_other_parameters() -> None:
    """Local servers accept any word as a key."""
    async with serving(http(completion())) as other, serving(redirect(f"{other.url}/any?a=any1")) as home:
        await post(False, "httpx2", f"{home.url}/v1/x", headers={"x-api-key": "any", "x-run": "any"})
    assert (other.calls[0].path, other.calls[0].headers["x-run"]) == ("/any?a=any1", "any")


# -- plain http ---------------------------------------------------------------------------------------------------

#: Reserved for documentation (RFC 5737): nothing is ever there, and nothing must be sent.
ELSEWHERE = "http://192.0.2.7:8000/v1/chat/completions"


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "api-key", "x-goog-api-key"])
async def test_a_key_over_plain_http_to_another_machine_is_refused(
    sync: bool, library: Any, name: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await post(sync, library, ELSEWHERE, headers={name: HEADERS[name]})
    text = f"{caught.value.message} {caught.value.hint}"
    assert "a key would be sent to http://192.0.2.7:8000 without encryption" in text
    assert "insecure_http=True" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    "host", ["10.0.0.5", "192.168.1.2", "gpu-box", "localhost.example.com", "127.0.0.1.nip.io"]
)
async def test_private_addresses_are_other_machines(host: str) -> None:
    with pytest.raises(ConfigError):
        await post(False, "httpx2", f"http://{host}/v1/chat/completions", headers={"x-api-key": SECRET})


async def test_a_key_in_the_query_counts() -> None:
    with pytest.raises(ConfigError) as caught:
        await post(False, "httpx2", f"{ELSEWHERE}?key={SECRET}")
    assert SECRET not in str(caught.value)


class Answered(httpx2.AsyncBaseTransport):
    """Nothing leaves this machine."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=completion())


@pytest.mark.parametrize(
    ("url", "headers", "settings"),
    [
        (ELSEWHERE, HEADERS, {"insecure_http": True}),
        (ELSEWHERE, {}, {}),
        (ELSEWHERE, {"Authorization": "Bearer "}, {}),
        (ELSEWHERE, {"Idempotency-Key": "1", "x-other": "a"}, {}),
        (ELSEWHERE.replace("http:", "https:"), HEADERS, {}),
        ("http://localhost:8000/v1/chat/completions", HEADERS, {}),
        ("http://api.localhost/v1/chat/completions", HEADERS, {}),
        ("http://127.3.2.1/v1/chat/completions", HEADERS, {}),
        ("http://[::1]:8000/v1/chat/completions", HEADERS, {}),
    ],
)
async def test_allowed_requests(url: str, headers: dict[str, str], settings: dict[str, Any]) -> None:
    transport = headway.httpx_transport(inner=Answered(), **settings)
    async with httpx2.AsyncClient(transport=transport) as client:
        assert (await client.post(url, json=BODY, headers=headers)).status_code == 200


async def test_a_redirect_to_plain_http_is_followed_without_the_key() -> None:
    class Redirecting(Answered):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.scheme == "https":
                return httpx2.Response(307, headers={"location": ELSEWHERE})
            assert SECRET not in str(request.headers.raw)
            return await super().handle_async_request(request)

    transport = headway.httpx_transport(inner=Redirecting())
    async with httpx2.AsyncClient(transport=transport, follow_redirects=True) as client:
        answer = await client.post(ELSEWHERE.replace("http:", "https:"), json=BODY, headers=HEADERS)
    assert answer.status_code == 200


async def test_an_sdk_raises_the_error() -> None:
    client = openai.AsyncOpenAI(
        api_key=SECRET, base_url="http://192.0.2.7/v1", http_client=headway.httpx_client(), max_retries=0
    )
    async with client:
        with pytest.raises(ConfigError, match="without encryption"):
            await client.chat.completions.create(**BODY)  # type: ignore[call-overload]


def test_insecure_http_must_be_a_bool() -> None:
    with pytest.raises(UsageError, match="insecure_http"):
        headway.httpx_client(insecure_http="yes")  # type: ignore[call-overload]


# -- proxies ------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.usefixtures("no_proxies")
async def test_this_machine_is_reached_without_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, sync: bool, library: Any, variable: str
) -> None:
    async with serving(http(completion())) as proxy, serving(http(completion())) as home:
        monkeypatch.setenv(variable, proxy.url)
        for url in (home.url, home.url.replace("127.0.0.1", "localhost")):
            await post(sync, library, f"{url}/v1/chat/completions", headers=HEADERS)
        await post(sync, library, "http://nowhere.invalid/v1/x")
    assert len(home.calls) == 2
    assert [call.path for call in proxy.calls] == ["http://nowhere.invalid/v1/x"]


#: Nothing is ever there, and nothing must be sent.
PROXY = "http://user:pass@192.0.2.9:3128"


@LIBRARIES
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("how", ["proxy", "mounts", "environment"])
@pytest.mark.usefixtures("no_proxies")
async def test_a_proxy_on_another_machine_gets_no_key_over_plain_http(
    monkeypatch: pytest.MonkeyPatch, sync: bool, library: Any, how: str
) -> None:
    module = library_of(library)
    transport = module.HTTPTransport if sync else module.AsyncHTTPTransport
    ways: dict[str, dict[str, Any]] = {
        "proxy": {"proxy": PROXY},
        "mounts": {"mounts": {"http://": transport(proxy=PROXY)}},
        "environment": {},
    }
    if how == "environment":
        monkeypatch.setenv("HTTP_PROXY", PROXY)
    with pytest.raises(ConfigError) as caught:
        await post(sync, library, "http://127.9.9.9/v1/x", ways[how], headers=HEADERS)
    assert "a key would be sent to the proxy http://192.0.2.9:3128 without encryption" in caught.value.message
    assert "pass" not in str(caught.value)


@pytest.mark.usefixtures("no_proxies")
async def test_a_proxy_of_the_caller_is_used_on_this_machine() -> None:
    async with serving(http(completion())) as proxy:
        url = "http://127.0.0.1:1/v1/chat/completions"
        await post(False, "httpx2", url, {"proxy": proxy.url}, headers=HEADERS)
    assert [call.path for call in proxy.calls] == [url]


@pytest.mark.parametrize(
    ("url", "headers", "insecure", "is_refused"),
    [
        ("http://localhost/v1/x", HEADERS, False, True),
        ("http://localhost/v1/x", HEADERS, True, False),
        ("http://localhost/v1/x", {}, False, False),
        ("https://api.example.com/v1/x", HEADERS, False, False),
    ],
)
def test_which_keys_a_proxy_on_another_machine_may_get(
    url: str, headers: dict[str, str], insecure: bool, is_refused: bool
) -> None:
    request = httpx2.Request("POST", url, headers=headers)
    settings = ClientSettings(insecure_http=insecure)
    if is_refused:
        with pytest.raises(ConfigError, match="to the proxy"):
            settings.guard(request, PROXY)
    else:
        settings.guard(request, PROXY)
