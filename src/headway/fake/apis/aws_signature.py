"""Whether a request is signed as AWS wants it: the signature is computed again from what came in.

Written from AWS's description for the receiving end, on purpose without a line of the code that it judges.
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
#: How far a signature's time may be off.
FRESH_S = 300.0
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request, ?"
    r"SignedHeaders=(?P<names>[\w;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


def key_in(headers: Mapping[str, str]) -> str:
    """The access key that a request says it is signed with."""
    found = _SIGNED.fullmatch(headers.get("Authorization", ""))
    return found["key"] if found else ""


def fault_in(request: SignedRequest, body: bytes, secret: str, wall: float) -> str:
    """What is wrong with a signature; nothing where it is right."""
    found = _SIGNED.fullmatch(request.headers.get("Authorization", ""))
    stamp = request.headers.get("X-Amz-Date", "")
    if found is None or not stamp:
        return "The request has no signature, or one of another version."
    names = found["names"].split(";")
    must = {"host", *(name.lower() for name in request.headers if name.lower().startswith("x-amz-"))}
    if not must <= set(names) or names != sorted(names):
        return "Signed headers must be sorted, and among them 'host' and every 'x-amz-' header."
    if found["service"] != SERVICE or found["day"] != stamp[:8]:
        return f"Credential should be scoped to the service '{SERVICE}' and to the day of X-Amz-Date."
    if abs(_instant(stamp) - wall) > FRESH_S:
        return f"Signature expired: {stamp} is not within 5 minutes of now."
    if not hmac.compare_digest(_signature(request, body, secret, found, names, stamp), found["signature"]):
        return "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method."
    return ""


def _instant(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _signature(
    request: SignedRequest, body: bytes, secret: str, found: re.Match[str], names: list[str], stamp: str
) -> str:
    path, _, query = request.raw_path.partition("?")
    lines = [request.method, quote(path, safe="/-_.~"), "&".join(sorted(query.split("&"))) if query else ""]
    lines += [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names]
    lines += ["", ";".join(names), hashlib.sha256(body).hexdigest()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    scope = [found["day"], found["region"], found["service"], "aws4_request"]
    key = b"AWS4" + secret.encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, "/".join(scope), digest))
    return hmac.digest(key, text.encode(), "sha256").hex()
