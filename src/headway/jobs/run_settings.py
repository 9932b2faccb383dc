"""Names of settings that a job keeps of its last run, and that its kind reads."""

from __future__ import annotations

from typing import Final

#: The nodes that run at a time (`--concurrency`).
CONCURRENCY: Final = "nodes_at_a_time"
#: The node that the run goes up to (`--until`); "": all.
UNTIL: Final = "until"
#: The address of each model: kind, address and model, by PROVIDER/MODEL.
ADDRESSES: Final = "addresses"
