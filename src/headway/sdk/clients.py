"""`headway.httpx_client` and `headway.httpx_transport`: lanes under any SDK that takes an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, overload

from headway.config.call_settings import Duration, Limits, Retry
from headway.sdk.async_transport import AsyncTransport
from headway.sdk.client_settings import ClientSettings, library_of
from headway.sdk.lane_registry import LaneUser
from headway.sdk.request_info import LaneOf
from headway.sdk.sync_transport import SyncTransport

if TYPE_CHECKING:
    import httpx
    import httpx2

#: As the SDKs set it. The time that a request waits for its lane does not count.
TIMEOUT_S: Final = 600.0
CONNECT_S: Final = 5.0
#: Idle connections are closed before load balancers do it.
KEEPALIVE_S: Final = 15.0

#: Reached without the proxies of the environment, as if NO_PROXY named it: a proxy may be another machine.
THIS_MACHINE: Final = ("all://localhost", "all://*.localhost", "all://127.0.0.1", "all://[::1]")

Library = Literal["httpx2", "httpx"]


class Pacing(TypedDict, total=False):
    """The keyword arguments that clients and transports share.

    limits: of every lane, or by a lane's model, host or `host/model`. None: they are learned from headers and refusals.
    retry: how often, and with what waits; default five attempts and fifty refusals a request.
    lane: a function of the request that returns the name of its lane. Default: one for each API, host, key and model.
    max_hold: a refusal that asks for a longer wait than this is returned to the caller. None: every wait is waited out.
    insecure_http: whether a key may be sent to another machine over plain http. Default: that is an error.
    db: the file of Headway's records. Jobs and other clients that use the same lanes through it share their limits with this client.

    All clients of a process that use a lane share it. Settings that differ from those of the lane are an error; a client
    that leaves them out takes the lane's.
    """

    limits: Limits | Mapping[str, Limits] | None
    retry: Retry | None
    lane: LaneOf | None
    max_hold: Duration | None
    insecure_http: bool
    db: str | PathLike[str] | None


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

    `inner` is the transport that does the sending. The default ignores the proxies of the environment, like every
    transport that is passed to a client; `headway.httpx_client` uses them.
    """
    chosen = library_of(library)
    checked, user = ClientSettings(**pacing), LaneUser()
    if sync:
        inner = chosen.HTTPTransport(limits=_connections(chosen)) if inner is None else inner
        return SyncTransport(chosen, inner, checked, user)
    inner = chosen.AsyncHTTPTransport(limits=_connections(chosen)) if inner is None else inner
    return AsyncTransport(chosen, inner, checked, user)


class ClientOptions(Pacing, total=False):
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
    *,
    sync: Literal[False] = False,
    library: Literal["httpx2"] | None = None,
    **settings: Unpack[ClientOptions],
) -> httpx2.AsyncClient: ...
@overload
def httpx_client(
    *, sync: Literal[True], library: Literal["httpx2"] | None = None, **settings: Unpack[ClientOptions]
) -> httpx2.Client: ...
@overload
def httpx_client(
    *, sync: Literal[False] = False, library: Literal["httpx"], **settings: Unpack[ClientOptions]
) -> httpx.AsyncClient: ...
@overload
def httpx_client(
    *, sync: Literal[True], library: Literal["httpx"], **settings: Unpack[ClientOptions]
) -> httpx.Client: ...
def httpx_client(*, sync: bool = False, library: Library | None = None, **settings: Any) -> Any:
    """An HTTP client whose requests obey lanes, wait instead of failing, and are retried within one budget.

    Give it to an SDK, and switch the SDK's own retries off:

    >>> import headway, openai
    >>> http_client = headway.httpx_client(limits=headway.Limits(rpm=500, tpm=200_000))
    >>> client = openai.AsyncOpenAI(api_key="…", http_client=http_client, max_retries=0)

    With `sync=True` it is a synchronous client (`openai.OpenAI`). It is httpx2's if that is installed, as current SDKs
    require, otherwise httpx's; `library` chooses. One client may serve several SDKs and keys: there is one lane for each
    API, host, key and model, and all clients of the process share it.
    """
    chosen = library_of(library)
    pacing = {name: settings.pop(name) for name in Pacing.__annotations__ if name in settings}
    checked, user = ClientSettings(**pacing), LaneUser()
    settings.setdefault("timeout", chosen.Timeout(TIMEOUT_S, connect=CONNECT_S))
    settings.setdefault("follow_redirects", True)
    if settings.get("proxy") is None and not settings.get("mounts"):
        settings["mounts"] = dict.fromkeys(THIS_MACHINE)
    kind = chosen.Client if sync else chosen.AsyncClient
    client = kind(limits=_connections(chosen), **settings)
    transport = SyncTransport if sync else AsyncTransport
    _wrap(client, lambda inner: transport(chosen, inner, checked, user))
    return client


def _wrap(client: Any, wrapped: Any) -> None:
    """Wrap every transport that the client has chosen, including those for proxies.

    A client that is given a transport ignores the proxies of the environment, so its own transports are wrapped.
    """
    client._transport = wrapped(client._transport)
    client._mounts = {
        pattern: None if inner is None else wrapped(inner) for pattern, inner in client._mounts.items()
    }


def _connections(library: Any) -> Any:
    """No limit of connections: the lanes decide how much is in flight."""
    return library.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_S)
