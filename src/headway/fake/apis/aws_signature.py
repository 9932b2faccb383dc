"""Checks AWS signatures (SigV4): the signature is computed again from the request.

Written from AWS's description for servers, and on purpose without any code of the client that it judges.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from headway.fake.apis.error_dialects import SignedRequest

SERVICE = "bedrock"
#: How far the time of a signature may be off.
FRESH_S = 300.0
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request, ?"
    r"SignedHeaders=(?P<names>[\w;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


def key_in(headers: Mapping[str, str]) -> str:
    """The access key that a signature names."""
    match = _SIGNED.fullmatch(headers.get("Authorization", ""))
    return match["key"] if match else ""


def signature_fault(request: SignedRequest, body: bytes, secret: str, wall: float) -> str:
    """What is wrong with a signature; "" for a valid one."""
    match = _SIGNED.fullmatch(request.headers.get("Authorization", ""))
    stamp = request.headers.get("X-Amz-Date", "")
    if match is None or not stamp:
        return "The request has no signature, or one of another version."
    names = match["names"].split(";")
    required = {"host", *(name.lower() for name in request.headers if name.lower().startswith("x-amz-"))}
    if not required <= set(names) or names != sorted(names):
        return "Signed headers must be sorted, and among them 'host' and every 'x-amz-' header."
    if match["service"] != SERVICE or match["day"] != stamp[:8]:
        return f"Credential should be scoped to the service '{SERVICE}' and to the day of X-Amz-Date."
    if abs(_instant(stamp) - wall) > FRESH_S:
        return f"Signature expired: {stamp} is not within 5 minutes of now."
    if not hmac.compare_digest(_signature(request, body, secret, match, names, stamp), match["signature"]):
        return "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method."
    return ""


def _instant(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _signature(
    request: SignedRequest, body: bytes, secret: str, match: re.Match[str], names: list[str], stamp: str
) -> str:
    path, _, query = request.raw_path.partition("?")
    lines = [request.method, quote(path, safe="/-_.~"), "&".join(sorted(query.split("&"))) if query else ""]
    lines += [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names]
    lines += ["", ";".join(names), hashlib.sha256(body).hexdigest()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    scope = [match["day"], match["region"], match["service"], "aws4_request"]
    key = b"AWS4" + secret.encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, "/".join(scope), digest))
    return hmac.digest(key, text.encode(), "sha256").hex()
