"""What a job keeps of its flow: the checked flow with its inner flows, the prompts, and what the user gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from headway.flows.spec import FlowSpec, NodeSpec
from headway.jobs.run_settings import CONCURRENCY
from headway.stores.records import Job


class FlowForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A flow as its job keeps it. `prompts` has the text of each prompt file, `datasets` the digest of each file of rows, by node path."""

    spec: FlowSpec
    prompts: dict[str, str] = {}
    datasets: dict[str, str] = {}
    inputs: dict[str, Any] = {}


#: A form as JSON values, and decoded.
_last: tuple[dict[str, Any], FlowForm] | None = None


class FlowNode(NamedTuple):
    """A node of a flow or of a flow inside it. `path` is `fetch`, or `sub/fetch` for a node of the flow of the node `sub`."""

    path: str
    flow: FlowSpec
    node: NodeSpec


def nodes_of(spec: FlowSpec, prefix: str = "") -> Iterator[FlowNode]:
    """Every node, also of inner flows, in the order of the files."""
    for node in spec.nodes.values():
        yield FlowNode(prefix + node.id, spec, node)
        if node.inner is not None:
            yield from nodes_of(node.inner, f"{prefix}{node.id}/")


def encode_form(form: FlowForm) -> dict[str, Any]:
    """As JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(form, enc_hook=str)
    return values


def form_of(job: Job) -> FlowForm:
    """The flow of a job. The last one is kept: a run asks for it several times, and ten thousand nodes take 0.3 s."""
    global _last  # noqa: PLW0603 - one flow is enough
    last, encoded = _last, job.form["flow"]
    if last is None or last[0] != encoded:
        last = _last = encoded, _decoded(encoded)
    return last[1]


def _decoded(encoded: dict[str, Any]) -> FlowForm:
    return msgspec.convert(encoded, FlowForm, dec_hook=lambda kind, value: kind(value))


def concurrency_of(job: Job) -> int | None:
    """How many nodes run at a time, by `--concurrency` of this run or the last one; None: as the file says."""
    value: int | None = job.settings.get(CONCURRENCY)
    return value
