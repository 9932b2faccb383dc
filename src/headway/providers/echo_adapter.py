"""The provider `echo`: answers with the prompt."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.core.model import Outcome, Usage
from headway.providers.adapter import Admitted, Answer, Request
from headway.providers.program_answer import output_body


class EchoAdapter:
    """Sends nothing, and costs nothing."""

    async def open(self) -> None:
        """Does nothing."""

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """The prompt."""
        row: Any = msgspec.json.decode(request.body)
        return Answer(Outcome(usage=Usage(cost_usd=0.0)), 200, body=output_body(row.get("prompt")))

    async def close(self) -> None:
        """Does nothing."""
