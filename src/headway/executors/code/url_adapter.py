"""Plain HTTP as a provider: a request from the templates of an eval file, and its response read by a path or by JavaScript.

Limits are read from the headers as for other servers, and a refusal (429, 503, …) is never an output.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from yarl import URL

from headway.config.settings import UrlConfig
from headway.core.model import Hint, Kind, Outcome
from headway.errors import ConfigError, UsageError
from headway.executors.code.code_adapter import CodeAdapter
from headway.executors.code.code_call import CodeCall, CodeRole, encode_call
from headway.providers.adapter import Admitted, Answer, Request
from headway.providers.dialects.answer_errors import AnswerTooLong
from headway.providers.dialects.openai import OtherEndpoint
from headway.providers.error_messages import short_message
from headway.providers.http.connections import HttpResponse, header_lines
from headway.providers.http.error_text import NETWORK_ERRORS
from headway.providers.http.http_adapter import HttpAdapter
from headway.providers.http.http_settings import HttpSettings, request_headers
from headway.providers.http.url_request import (
    FillWith,
    UrlRequest,
    at_path,
    decoded_body,
    is_path,
    url_request,
)
from headway.providers.program_answer import answer_of, output_body

_decode: Final = msgspec.json.Decoder().decode


class PlainHttp:
    """HTTP without an API of its own."""

    kind = "url"
    root = ""
    request_id = "x-request-id"

    def headers(self, key: str) -> Iterator[tuple[str, str]]:
        """None: the eval file has them all."""
        return iter(())

    def address(self, base_url: str) -> str:
        """The origin."""
        return str(URL(base_url).origin())

    def url(self, root: str, path: str) -> URL:
        """The address itself."""
        return URL(root)

    stream_url = url

    def endpoint(self, path: str) -> OtherEndpoint:
        """Any answer."""
        return OtherEndpoint("answer")

    def named_in(self, body: bytes) -> str:
        """No body has an id."""
        return ""


class CodeFailed(Exception):
    """JavaScript of a request or a response failed."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class UrlAdapter(HttpAdapter):
    """Sends a request for each prompt. `fill` fills templates, `env` are their variables `env.NAME`, and `code` runs JavaScript."""

    def __init__(
        self,
        settings: UrlConfig,
        http: HttpSettings,
        fill: FillWith,
        env: Mapping[str, str],
        code: CodeAdapter | None = None,
    ) -> None:
        super().__init__(PlainHttp(), http)
        self._url, self._fill, self._env, self._code = settings, fill, env, code
        self._origin = URL(self._root)

    async def close(self) -> None:
        """Close every connection, and end the workers."""
        await super().close()
        if self._code is not None:
            await self._code.close()

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send the request once, and read its output."""
        began_at = time.monotonic()
        timeout_s = min(timeout_s, self._url.timeout_s) if self._url.timeout_s else timeout_s
        try:
            made = await self._made(_decode(request.body), timeout_s)
            head = self._head(made)
        except (UsageError, ConfigError, CodeFailed) as error:
            return Answer(self._failure_of(error, sent=False))
        response: HttpResponse | None = None
        timeout = self._timeouts.begin(timeout_s)
        try:
            assert self._pool is not None
            response = await self._pool.post(head, made.body, admitted)
            received = await response.read(self._most)
        except AnswerTooLong as long:
            return self._too_long(response, long)
        except (*NETWORK_ERRORS, asyncio.CancelledError) as fault:
            timeout.check_cancelled(fault)
            return self._incomplete(fault, response, timeout)
        finally:
            timeout.end()
        if response.refused:
            return self._refusal(response, received)
        return await self._read(response, received, began_at, timeout_s)

    # -- the request ------------------------------------------------------------------------------------------------

    async def _made(self, row: Any, timeout_s: float) -> UrlRequest:
        prompt, context = row.get("prompt"), row.get("context", {})
        values = {"env": dict(self._env), **context.get("vars", {})}
        if self._url.request:
            given = {"prompt": prompt, "vars": context.get("vars", {}), "context": context}
            prompt = await self._run("request", given, timeout_s)
        made = url_request(self._url, prompt, values, self._fill)
        if made.url.origin() != self._origin:
            raise UsageError(
                f"{self._url.url}: its host depends on the variables of a test; write one provider for each host"
            )
        return made

    def _head(self, made: UrlRequest) -> bytes:
        headers = request_headers((), made.headers)
        if not made.body:
            headers.pop("Content-Type", None)
        if not any(name.lower() == "accept" for name in made.headers):
            headers["Accept"] = "*/*"
        line = f"{made.method} {made.url.raw_path_qs} HTTP/1.1\r\nHost: {made.url.host_port_subcomponent}\r\n"
        return line.encode() + header_lines(headers)

    # -- the response -----------------------------------------------------------------------------------------------

    async def _read(self, response: HttpResponse, body: bytes, began_at: float, timeout_s: float) -> Answer:
        value, text = decoded_body(body)
        hint, request_id = self._hint(response), self._request_id(response)
        facts = {
            "status": response.status,
            "headers": {name.lower(): one for name, one in response.headers.items()},
        }
        about = {"data": text, "cached": False, "latencyMs": (time.monotonic() - began_at) * 1000, **facts}
        try:
            answer = await self._output(value, text, {"response": about}, timeout_s)
        except (UsageError, CodeFailed) as error:
            failure = msgspec.structs.replace(self._failure_of(error), hint=hint or Hint())
            return Answer(failure, response.status, request_id)
        outcome = self._scrub.outcome(
            msgspec.structs.replace(answer.outcome, hint=answer.outcome.hint or hint)
        )
        return Answer(outcome, response.status, request_id, self._scrub.body(answer.body))

    async def _output(self, value: Any, text: str, context: dict[str, Any], timeout_s: float) -> Answer:
        source = self._url.response
        if not source and not self._url.response_file:
            return Answer(body=output_body(text if value is None else value))
        if source and is_path(source):
            return Answer(body=output_body(at_path(source, value, text)))
        given = {"json": value, "text": text, "context": context}
        output = await self._run("response", given, timeout_s)
        if isinstance(output, dict) and ("output" in output or output.get("error")):
            read = answer_of(output)
            return Answer(read.outcome, body=read.body)
        return Answer(body=output_body(output))

    async def _run(self, role: CodeRole, given: dict[str, Any], timeout_s: float) -> Any:
        assert self._code is not None
        settings = self._url
        if role == "request":
            call = CodeCall(role, given, source=settings.request)
        else:
            call = CodeCall(
                role, given, settings.response_file, settings.response_function, settings.response
            )
        answer = await self._code.send(Request("code", encode_call(call)), timeout_s, _UNREPORTED)
        if answer.outcome.kind is not None:
            raise CodeFailed(answer.outcome)
        return _decode(answer.body)["output"]

    def _failure_of(self, error: Exception, *, sent: bool = True) -> Outcome:
        if isinstance(error, CodeFailed):
            # A crash of JavaScript says nothing about the server.
            return Outcome(Kind.INVALID, message=short_message(str(error)), worked=True)
        return self._scrub.outcome(Outcome(Kind.INVALID, message=short_message(str(error)), sent=sent))


class _UnreportedCall:
    """JavaScript reports nothing while it runs."""

    def __call__(self, hint: Hint | None, usage: Any, /) -> None:
        """Does nothing."""

    def delayed(self) -> None:
        """Does nothing."""

    def written(self) -> None:
        """Does nothing."""


_UNREPORTED: Final = _UnreportedCall()
