"""Checks whether hosts are reachable: connects and sends `HEAD /`, without a key, to all at once, for at most 3 s each."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S: Final = 3.0
#: The longest wait for all checks: name resolution has longer timeouts of its own, which are not waited for.
PATIENCE_S: Final = 2 * TIMEOUT_S + 0.5
#: The default port of `headway fake`.
FAKE_PORT: Final = 8900
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


class ConnectionCheck(NamedTuple):
    """The result for one address."""

    state: Literal["ok", "warning", "problem"]
    text: str
    next: str = ""


def check_all(addresses: Iterable[str]) -> dict[str, ConnectionCheck]:
    """Check each address in a thread of its own; give up after `PATIENCE_S`."""
    answers: dict[str, ConnectionCheck] = {}

    def check(address: str) -> None:
        answers[address] = check_address(address)

    threads = {address: threading.Thread(target=check, args=(address,), daemon=True) for address in addresses}
    for thread in threads.values():
        thread.start()
    give_up_at = time.monotonic() + PATIENCE_S
    for thread in threads.values():
        thread.join(max(0.0, give_up_at - time.monotonic()))
    late = ConnectionCheck("problem", "no answer in time", _check_network())
    return {address: answers.get(address, late) for address in threads}


def check_address(address: str) -> ConnectionCheck:
    """Connect, then send `HEAD /`. Any HTTP response below 500 is good."""
    url = urlsplit(address)
    host = url.netloc
    port = url.port or (443 if url.scheme == "https" else 80)
    connection = _connection(url.scheme, url.hostname or "", port)
    began = time.monotonic()
    try:
        connection.connect()
        took = time.monotonic() - began
        try:
            connection.request("HEAD", "/")
            status = connection.getresponse().status
        except TimeoutError:
            text = f"{host} accepts connections but does not answer within {TIMEOUT_S:g} s"
            return ConnectionCheck("warning", text, "try again later")
        except (OSError, HTTPException):
            return ConnectionCheck("problem", f"{host} does not speak HTTP", "check its base_url")
    except (OSError, UnicodeError) as error:
        return _unreachable(host, port, error)
    finally:
        connection.close()
    if status >= 500:
        return ConnectionCheck("warning", f"{host} answers with HTTP {status}", "try again later")
    return ConnectionCheck("ok", f"{host} answers (connected in {took * 1000:.0f} ms)")


def _connection(scheme: str, host: str, port: int) -> HTTPConnection:
    if scheme == "https":
        return HTTPSConnection(host, port, timeout=TIMEOUT_S, context=ssl.create_default_context())
    return HTTPConnection(host, port, timeout=TIMEOUT_S)


def _unreachable(host: str, port: int, error: Exception) -> ConnectionCheck:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of {host} is not trusted ({error.verify_message})"
        return ConnectionCheck("problem", text, "check its base_url, the system's clock, and SSL_CERT_FILE")
    if isinstance(error, ssl.SSLError):
        return ConnectionCheck(
            "problem", f"no TLS connection to {host}", "check whether its base_url should be http://"
        )
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return ConnectionCheck("problem", f"the name of {host} cannot be resolved", _check_network())
    if isinstance(error, ConnectionRefusedError):
        fake = f"start it, for example: headway fake --port {port}"
        step = fake if port == FAKE_PORT else "start it, or check its base_url"
        return ConnectionCheck("problem", f"nothing listens on {host}", step)
    if isinstance(error, TimeoutError):
        return ConnectionCheck("problem", f"no connection to {host} within {TIMEOUT_S:g} s", _check_network())
    why = getattr(error, "strerror", None) or str(error)
    return ConnectionCheck("problem", f"no connection to {host}: {why.lower()}", _check_network())


def _check_network() -> str:
    step = "check its base_url and the network"
    if any(os.environ.get(name) for name in _PROXIES):
        step += "; Headway connects directly, whatever HTTPS_PROXY says"
    return step
