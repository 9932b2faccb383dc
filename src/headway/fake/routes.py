"""Which API answers at which path."""

from __future__ import annotations

import re
from typing import Protocol
from urllib.parse import unquote

import msgspec

from headway.fake.apis.api_request import ApiRequest
from headway.fake.apis.bedrock import Converse, Invoke
from headway.fake.apis.chat import Chat
from headway.fake.apis.compatible_vendors import AZURE, VENDORS
from headway.fake.apis.embeddings import Embeddings
from headway.fake.apis.error_dialects import OPENAI, ErrorDialect
from headway.fake.apis.gemini import GenerateContent
from headway.fake.apis.messages import Messages
from headway.fake.apis.reply import ModelReply, StreamEvent
from headway.fake.apis.responses import Responses

_encode = msgspec.json.Encoder().encode


class Api(Protocol):
    """One endpoint of a vendor's API."""

    @property
    def dialect(self) -> ErrorDialect:
        """The vendor's errors."""

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """The answer as a stream of events."""


class VendorApi:
    """An OpenAI endpoint with the errors of another vendor. A `deployment` overrides the model that the body names."""

    def __init__(self, api: Api, dialect: ErrorDialect, deployment: str = "") -> None:
        self.dialect = dialect
        self._api = api
        self._deployment = deployment
        self.body = api.body
        self.events = api.events

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request. With a deployment the body needs no model."""
        if self._deployment and b'"model"' not in body and body.lstrip().startswith(b"{"):
            body = b'{"model":' + _encode(self._deployment) + b"," + body.lstrip()[1:]
        request = self._api.parse(body)
        request.model = self._deployment or request.model
        return request


MESSAGES = Messages()
#: Paths that contain the model.
_AT_MODEL = re.compile(
    r"(?:/v1(?:alpha|beta)?/models/(?P<gemini>[^/:]+):(?P<how>generateContent|streamGenerateContent)"
    r"|/model/(?P<bedrock>[^/]+)/(?P<act>converse|converse-stream|invoke)"
    r"|/openai/deployments/(?P<azure>[^/]+)(?P<below>/chat/completions|/embeddings))"
)
_ENDPOINTS: dict[str, Api] = {
    "/chat/completions": Chat(),
    "/responses": Responses(),
    "/embeddings": Embeddings(),
    "/messages": MESSAGES,
}
APIS = {prefix + path: api for path, api in _ENDPOINTS.items() for prefix in ("/v1", "")}
APIS |= {
    f"/openai{version}{path}": VendorApi(_ENDPOINTS[path], AZURE)
    for path, version in (
        ("/chat/completions", "/v1"),
        ("/embeddings", "/v1"),
        ("/responses", "/v1"),
        ("/responses", ""),
    )
}
_VENDOR_APIS = {
    (id(api), name): VendorApi(api, dialect)
    for api in APIS.values()
    if api.dialect is OPENAI
    for name, dialect in VENDORS.items()
}


def api_at(path: str) -> Api | None:
    """The API at a path."""
    api = APIS.get(path)
    if api is not None:
        return api
    match = _AT_MODEL.fullmatch(path)
    if match is None:
        return None
    if match["gemini"]:
        return GenerateContent(unquote(match["gemini"]), stream=match["how"] != "generateContent")
    if match["bedrock"]:
        model = unquote(match["bedrock"])
        if match["act"] == "invoke":
            return Invoke(model, MESSAGES)
        return Converse(model, stream=match["act"] != "converse")
    return VendorApi(_ENDPOINTS[match["below"]], AZURE, unquote(match["azure"]))


def in_dialect_of(api: Api, vendor: str) -> Api:
    """An OpenAI endpoint with the errors of another vendor; any other endpoint unchanged."""
    return _VENDOR_APIS.get((id(api), vendor), api)
