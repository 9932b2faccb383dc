"""Fingerprints: the identity of a finding from one run to the next.

A fingerprint is made from the rule, the path and the words of the quote. It has no line and no message, so it stays when lines are inserted above, when a
function moves within its file, when the code is indented anew, and when the model words its remark differently. Equal code in one file is told
apart by counting: the second place with the same words has another fingerprint than the first.
"""

from __future__ import annotations

import hashlib
from typing import Final

from headway.reviews.findings.source_text import squeezed

#: Hexadecimal digits: 128 bits.
LENGTH: Final = 32


def fingerprint(rule: str, path: str, quote: str, occurrence: int = 1) -> str:
    """The fingerprint of a finding. `occurrence`: 1 for the first place of the file with these words, 2 for the second."""
    parts = [rule.lower(), path, squeezed(quote)]
    if occurrence > 1:
        parts.append(str(occurrence))
    return hashlib.sha256("\0".join(parts).encode("utf-8", errors="surrogatepass")).hexdigest()[:LENGTH]
