"""The content of `FLOW.results.json`: `{job, status, state, nodes}`, as a stream. A list of a million elements is read and written in pages.

It is indented like any JSON that people read, but for values in lists: each element has one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headway.flows.lazy_list import PAGE, LazyList, encode_value
from headway.flows.running.recorded_run import rebuilt_run
from headway.flows.running.steps.flow_run import FlowRun
from headway.stores.records import Job
from headway.stores.store import Store


def results_json(store: Store, job: Job) -> Iterator[bytes]:
    """The results of a job as they are now, in pieces."""
    run = rebuilt_run(store, job)
    yield b'{\n  "job": ' + _json(job.name) + b',\n  "status": ' + _json(run.status) + b',\n  "state": {'
    yield from _state(run)
    yield b'},\n  "nodes": {'
    mark = b"\n"
    for path, report in run.nodes().items():
        yield mark + b"    " + _json(path) + b": " + _indented(msgspec.to_builtins(report), 4)
        mark = b",\n"
    yield b"\n  }\n}\n"


def _state(run: FlowRun) -> Iterator[bytes]:
    mark = b"\n"
    for field in run.fields():
        yield mark + b"    " + _json(field) + b": "
        value = run.value(field)
        if isinstance(value, LazyList):
            yield from _elements(value)
        else:
            yield _indented(value, 4)
        mark = b",\n"
    if mark == b",\n":
        yield b"\n  "


def _elements(values: LazyList) -> Iterator[bytes]:
    page: list[bytes] = []
    mark = b"["
    for value in values:
        page.append(mark + b"\n      " + encode_value(value))
        mark = b","
        if len(page) == PAGE:
            yield b"".join(page)
            page = []
    page.append(b"\n    ]" if mark == b"," else b"[]")
    yield b"".join(page)


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _indented(value: Any, by: int) -> bytes:
    """JSON has no line breaks inside texts, so each line can be moved."""
    return msgspec.json.format(encode_value(value)).replace(b"\n", b"\n" + b" " * by)
