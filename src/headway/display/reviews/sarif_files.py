"""The files of a SARIF report: as many runs in each as a code host takes.

The first file has the name that was asked for; `review.sarif` is followed by `review.2.sarif`. A run that is too large by itself is halved.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.display.evals.results_json import encoded
from headway.display.reviews.sarif import MOST_RESULTS, category, sarif_runs
from headway.reviews.records import ReviewView
from headway.stores.files import Replacement

#: Runs of a file.
MOST_RUNS: Final = 20
#: Compressed bytes of a file: GitHub takes 10 MB. The rest is room for another compressor.
MOST_BYTES: Final = 9_000_000
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_HEAD: Final = encoded({"$schema": _SCHEMA, "version": "2.1.0"})[:-1] + b',"runs":[\n'
_TAIL: Final = b"\n]}\n"


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a code host takes."""

    results: int = MOST_RESULTS
    runs: int = MOST_RUNS
    compressed_bytes: int = MOST_BYTES


def write_sarif(path: Path, view: ReviewView, limits: HostLimits | None = None) -> list[Path]:
    """Write the report, and return the paths of its files."""
    paths: list[Path] = []
    for runs in sarif_files(view, limits or HostLimits()):
        target = numbered_path(path, len(paths) + 1)
        with Replacement(target) as fresh:
            fresh.file.write(_HEAD + b",\n".join(runs) + _TAIL)
            fresh.commit()
        paths.append(target)
    return paths


def numbered_path(path: Path, number: int) -> Path:
    """`review.sarif`, `review.2.sarif`, `review.3.sarif`, …"""
    return path if number == 1 else path.with_name(f"{path.stem}.{number}{path.suffix}")


def sarif_files(view: ReviewView, limits: HostLimits) -> Iterator[list[bytes]]:
    """The encoded runs of each file."""
    runs: list[bytes] = []
    size = number = 0
    for run in sarif_runs(view, limits.results):
        for part in _fitting(run, limits.compressed_bytes):
            number += 1
            part["automationDetails"] = {"id": f"{category(number)}/"}
            data = encoded(part)
            more = len(gzip.compress(data, 6))
            if runs and (len(runs) == limits.runs or size + more > limits.compressed_bytes):
                yield runs
                runs, size = [], 0
            runs.append(data)
            size += more
    yield runs


def _fitting(run: dict[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """The run, halved as often as it takes. A single result is never cut."""
    results = run["results"]
    if len(results) < 2 or len(gzip.compress(encoded(run), 6)) <= most:
        yield run
        return
    middle = len(results) // 2
    yield from _fitting({**run, "results": results[:middle]}, most)
    rest = {**run, "results": results[middle:]}
    rest["invocations"] = [_without_notes(one) for one in run["invocations"]]
    yield from _fitting(rest, most)


def _without_notes(invocation: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in invocation.items() if name != "toolExecutionNotifications"}
