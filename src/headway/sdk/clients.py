"""`headway.httpx_client` and `headway.httpx_transport`: lanes under any SDK that takes an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, overload

from headway.config.call_settings import Duration, Limits, Retry
from headway.sdk.async_transport import AsyncTransport, Lanes
from headway.sdk.client_settings import Terms, library_of
from headway.sdk.request_info import LaneOf
from headway.sdk.sync_transport import SyncLanes, SyncTransport

if TYPE_CHECKING:
    import httpx
    import httpx2

#: As the SDKs set it themselves. Waiting for a lane is no part of it.
TIMEOUT_S: Final = 600.0
CONNECT_S: Final = 5.0
#: Idle connections are let go before load balancers do it.
KEEPALIVE_S: Final = 15.0

Library = Literal["httpx2", "httpx"]


class Pacing(TypedDict, total=False):
    """The keyword arguments that clients and transports share.

    limits: of every lane, or by a lane's model, host or `host/model`. None: they are learned from headers and refusals.
    retry: how often, and with what waits; default five attempts and fifty refusals a request.
    lane: a function of the request that gives the name of its lane. Default: one for each API, host, key and model.
    max_hold: a refusal that asks to wait for longer than this is handed on. None: it is waited out, however long.
    insecure_http: whether a key may go to another machine over plain http. Default: that is an error.
    """

    limits: Limits | Mapping[str, Limits] | None
    retry: Retry | None
    lane: LaneOf | None
    max_hold: Duration | None
    insecure_http: bool


@overload
def httpx_transport(
    *,
    sync: Literal[False] = False,
    library: Literal["httpx2"] | None = None,
    inner: Any = None,
    **pacing: Unpack[Pacing],
) -> httpx2.AsyncBaseTransport: ...
@overload
def httpx_transport(
    *,
    sync: Literal[True],
    library: Literal["httpx2"] | None = None,
    inner: Any = None,
    **pacing: Unpack[Pacing],
) -> httpx2.BaseTransport: ...
@overload
def httpx_transport(
    *,
    sync: Literal[False] = False,
    library: Literal["httpx"],
    inner: Any = None,
    **pacing: Unpack[Pacing],
) -> httpx.AsyncBaseTransport: ...
@overload
def httpx_transport(
    *, sync: Literal[True], library: Literal["httpx"], inner: Any = None, **pacing: Unpack[Pacing]
) -> httpx.BaseTransport: ...
def httpx_transport(
    *, sync: bool = False, library: Library | None = None, inner: Any = None, **pacing: Unpack[Pacing]
) -> Any:
    """A transport for a client of your own.

    >>> import headway, httpx2
    >>> client = httpx2.AsyncClient(transport=headway.httpx_transport(limits=headway.Limits(rpm=500)))

    `inner` is the transport that does the sending. The default knows nothing of proxies in the environment, like every
    transport that a client is given; `headway.httpx_client` does.
    """
    chosen = library_of(library)
    terms = Terms(**pacing)
    if sync:
        inner = chosen.HTTPTransport(limits=_connections(chosen)) if inner is None else inner
        return SyncTransport(chosen, inner, SyncLanes(terms))
    inner = chosen.AsyncHTTPTransport(limits=_connections(chosen)) if inner is None else inner
    return AsyncTransport(chosen, inner, Lanes(terms))


class Settings(Pacing, total=False):
    """What a client takes beside `Pacing`: any argument of httpx's own clients, such as `timeout` or `proxy`."""

    timeout: Any
    headers: Any
    proxy: Any
    mounts: Any
    verify: Any
    trust_env: bool
    transport: Any
    base_url: str
    follow_redirects: bool
    event_hooks: Any
    http2: bool


@overload
def httpx_client(
    *, sync: Literal[False] = False, library: Literal["httpx2"] | None = None, **settings: Unpack[Settings]
) -> httpx2.AsyncClient: ...
@overload
def httpx_client(
    *, sync: Literal[True], library: Literal["httpx2"] | None = None, **settings: Unpack[Settings]
) -> httpx2.Client: ...
@overload
def httpx_client(
    *, sync: Literal[False] = False, library: Literal["httpx"], **settings: Unpack[Settings]
) -> httpx.AsyncClient: ...
@overload
def httpx_client(
    *, sync: Literal[True], library: Literal["httpx"], **settings: Unpack[Settings]
) -> httpx.Client: ...
def httpx_client(*, sync: bool = False, library: Library | None = None, **settings: Any) -> Any:
    """An HTTP client whose requests obey lanes, wait instead of failing, and are tried again within one budget.

    Give it to an SDK, whose own retries are then better switched off:

    >>> import headway, openai
    >>> http_client = headway.httpx_client(limits=headway.Limits(rpm=500, tpm=200_000))
    >>> client = openai.AsyncOpenAI(api_key="…", http_client=http_client, max_retries=0)

    With `sync=True` it is a synchronous one (`openai.OpenAI`). It is httpx2's where that is installed, as the present
    SDKs want it, otherwise httpx's; `library` chooses. One client may serve several SDKs and keys: lanes are told apart
    by address, key and model.
    """
    chosen = library_of(library)
    pacing = {name: settings.pop(name) for name in Pacing.__annotations__ if name in settings}
    terms = Terms(**pacing)
    settings.setdefault("timeout", chosen.Timeout(TIMEOUT_S, connect=CONNECT_S))
    settings.setdefault("follow_redirects", True)
    kind = chosen.Client if sync else chosen.AsyncClient
    client = kind(limits=_connections(chosen), **settings)
    if sync:
        lanes = SyncLanes(terms)
        _wrap(client, lambda inner: SyncTransport(chosen, inner, lanes))
    else:
        own = Lanes(terms)
        _wrap(client, lambda inner: AsyncTransport(chosen, inner, own))
    return client


def _wrap(client: Any, wrapped: Any) -> None:
    """Put ours around every transport that the client has chosen, the ones for proxies included.

    There is no other way to keep what a client makes of its environment: one that is given a transport ignores it.
    """
    client._transport = wrapped(client._transport)
    client._mounts = {
        pattern: None if inner is None else wrapped(inner) for pattern, inner in client._mounts.items()
    }


def _connections(library: Any) -> Any:
    """As many as the lanes let through: they decide how much is in flight."""
    return library.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_S)
