"""`--baseline`: the findings of an earlier review, by their fingerprints. Only what is new is reported then.

A baseline is a report as JSON, a SARIF file of Headway, or an earlier job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import structs

from headway.errors import InputError
from headway.reviews.records import FileReview, ReviewView

#: Where SARIF files have our fingerprints.
SARIF_KEY: Final = "headwayFinding/v1"


class KnownFindings(msgspec.Struct, frozen=True):
    """The fingerprints of an earlier review, whatever mark the findings have."""

    fingerprints: frozenset[str]


def known_of_view(view: ReviewView) -> KnownFindings:
    """The findings of an earlier job."""
    return KnownFindings(
        frozenset(finding.fingerprint for review in view.files() for finding in review.findings)
    )


def known_of_report(data: bytes, name: str) -> KnownFindings:
    """The findings of a report. `name` is for errors. Raises InputError."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise InputError(
            f"--baseline {name} is not JSON", hint="name a .json or .sarif report of a review"
        ) from None
    reader = _of_sarif if isinstance(value, dict) and "runs" in value else _of_json
    return KnownFindings(frozenset(reader(value, name)))


def only_new(view: ReviewView, known: KnownFindings) -> ReviewView:
    """The view without the findings that are known."""

    def files() -> Iterator[FileReview]:
        for review in view.files():
            new = tuple(one for one in review.findings if one.fingerprint not in known.fingerprints)
            yield structs.replace(review, findings=new)

    return structs.replace(view, files=files)


def _of_json(value: Any, name: str) -> Iterator[str]:
    findings = value.get("findings") if isinstance(value, dict) else None
    if not isinstance(findings, list):
        raise _foreign(name)
    for finding in findings:
        if not isinstance(finding, dict) or not isinstance(finding.get("fingerprint"), str):
            raise _foreign(name)
        yield finding["fingerprint"]


def _of_sarif(value: dict[str, Any], name: str) -> Iterator[str]:
    try:
        for run in value["runs"]:
            for result in run.get("results") or ():
                yield result["partialFingerprints"][SARIF_KEY]
    except (KeyError, TypeError, AttributeError):
        raise _foreign(name) from None


def _foreign(name: str) -> InputError:
    return InputError(
        f"--baseline {name} is no report of a review by Headway", hint="write one with --out FILE.json"
    )
