"""The limits that a lane may be given, and what each limits, for people."""

from __future__ import annotations

from typing import Final

#: Flag → what it limits, for help texts and messages.
LIMITS: Final = {
    "rpm": "requests per minute",
    "tpm": "tokens per minute",
    "input_tpm": "input tokens per minute",
    "output_tpm": "output tokens per minute",
    "max_concurrency": "requests in flight",
}
