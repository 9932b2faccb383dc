"""SARIF: levels, fingerprints, limits of code hosts, and Microsoft's validator."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.reviews.display.conftest import Validate
from tests.reviews.display.review_views import finding, hostile_review, large_review, shop_review, view_of

from headway.display.reviews.sarif import MOST_NOTIFICATIONS, ranked
from headway.display.reviews.sarif_files import HostLimits, write_sarif
from headway.reviews.records import SEVERITIES, FileReview, ReviewView

#: The validator asks for the address of a home page, which this project does not have.
NO_HOME_PAGE = "SARIF2005"


def logs(tmp_path: Path, view: ReviewView, limits: HostLimits | None = None) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in write_sarif(tmp_path / "review.sarif", view, limits)]


def run_of(tmp_path: Path, view: ReviewView) -> dict[str, Any]:
    """The only run of the only file."""
    [log] = logs(tmp_path, view)
    [run] = log["runs"]
    assert isinstance(run, dict)
    return run


@pytest.mark.parametrize("name", ["shop", "hostile", "split", "empty"])
def test_it_is_valid(tmp_path: Path, validate: Validate, name: str) -> None:
    views = {
        "shop": shop_review(),
        "hostile": hostile_review(),
        "split": large_review(20, 5),
        "empty": view_of(lambda: iter(())),
    }
    for path in write_sarif(tmp_path / "review.sarif", views[name], HostLimits(results=30, runs=2)):
        assert [line for line in validate(path) if NO_HOME_PAGE not in line] == []


def test_the_validator_finds_what_is_wrong(tmp_path: Path, validate: Validate) -> None:
    [path] = write_sarif(tmp_path / "review.sarif", shop_review())
    log = json.loads(path.read_bytes())
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["endLine"] = 1
    path.write_text(json.dumps(log))
    assert [line for line in validate(path) if NO_HOME_PAGE not in line]


def test_levels_follow_severities(tmp_path: Path) -> None:
    found = tuple(finding(severity=severity, quote=severity) for severity in SEVERITIES)
    run = run_of(
        tmp_path, view_of(lambda: iter((FileReview(path="a.py", hash="h", status="DONE", findings=found),)))
    )
    assert [each["level"] for each in run["results"]] == ["error", "error", "warning", "note", "note"]
    assert [each["rank"] for each in run["results"]] == sorted(
        (each["rank"] for each in run["results"]), reverse=True
    )


def test_results_have_fingerprints_rules_and_relative_paths(tmp_path: Path) -> None:
    run = run_of(tmp_path, shop_review())
    rules = run["tool"]["driver"]["rules"]
    expected = {one.fingerprint: one for one in ranked(shop_review())}
    assert len(run["results"]) == len(expected) == 6
    for result in run["results"]:
        prints = result["partialFingerprints"]
        one = expected[prints["headwayFinding/v1"]]
        assert prints["primaryLocationLineHash"] == f"{one.fingerprint[:16]}:1"
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == one.rule
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": one.file, "uriBaseId": "SRCROOT"}
        assert (place["region"]["startLine"], place["region"]["endLine"]) == (one.start_line, one.end_line)


def test_odd_paths_are_encoded(tmp_path: Path) -> None:
    names = ("a b/ä#1?.py", "c:d.py", "bad\udcff.py")
    files = tuple(FileReview(path=name, hash="h", status="DONE", findings=(finding(name),)) for name in names)
    run = run_of(tmp_path, view_of(lambda: iter(files)))
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert uris == ["a%20b/%C3%A4%231%3F.py", "c%3Ad.py", "bad%FF.py"]


def test_what_is_no_result_is_a_notification(tmp_path: Path) -> None:
    [invocation] = run_of(tmp_path, shop_review())["invocations"]
    assert invocation["executionSuccessful"] is False
    texts = [each["message"]["text"] for each in invocation["toolExecutionNotifications"]]
    for part in ("refuted by a second model", "a line that the file does not have", "ignored by a comment"):
        assert sum(part in text for text in texts) == 1
    assert sum("not reviewed on all axes" in text for text in texts) == 2
    assert texts[-1].startswith("3 files were left out")


def test_more_notifications_than_fit_are_counted(tmp_path: Path) -> None:
    bad = tuple(FileReview(path=f"{n}.py", hash="h", status="ERROR") for n in range(MOST_NOTIFICATIONS + 7))
    [invocation] = run_of(tmp_path, view_of(lambda: iter(bad)))["invocations"]
    notes = invocation["toolExecutionNotifications"]
    assert len(notes) == MOST_NOTIFICATIONS + 1
    assert notes[-1]["message"]["text"].startswith("7 more notifications")


def test_past_the_limits_it_is_split_by_rank_and_nothing_is_lost(tmp_path: Path) -> None:
    view = large_review(40, 5)
    all_logs = logs(tmp_path, view, HostLimits(results=30, runs=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["review.2.sarif", "review.sarif"]
    runs = [run for log in all_logs for run in log["runs"]]
    assert [len(log["runs"]) for log in all_logs] == [4, 3]
    assert all(len(run["results"]) <= 30 for run in runs)
    ids = [run["automationDetails"]["id"] for run in runs]
    assert ids[:2] == ["headway-review/", "headway-review-2/"]
    assert len(set(ids)) == len(runs)
    results = [each for run in runs for each in run["results"]]
    severities = [SEVERITIES.index(each["properties"]["severity"]) for each in results]
    assert severities == sorted(severities)
    prints = [each["partialFingerprints"]["headwayFinding/v1"] for each in results]
    assert len(prints) == len(set(prints)) == 200
    for run in runs:
        assert {each["ruleId"] for each in run["results"]} <= {
            rule["id"] for rule in run["tool"]["driver"]["rules"]
        }


def test_no_file_is_larger_than_the_host_takes(tmp_path: Path) -> None:
    limits = HostLimits(compressed_bytes=4_000)
    paths = write_sarif(tmp_path / "review.sarif", large_review(40, 5), limits)
    assert len(paths) > 1
    assert all(len(gzip.compress(path.read_bytes())) <= 4_500 for path in paths)
    results = [
        each for path in paths for run in json.loads(path.read_bytes())["runs"] for each in run["results"]
    ]
    assert len(results) == 200


def test_links_and_placeholders_of_a_message_are_text(tmp_path: Path) -> None:
    one = finding(message="See [here](https://evil.example), {0} and items[0](x).", suggestion="")
    run = run_of(
        tmp_path, view_of(lambda: iter((FileReview(path="a.py", hash="h", status="DONE", findings=(one,)),)))
    )
    text = run["results"][0]["message"]["text"]
    assert text == "See \\[here](https://evil.example), {{0}} and items\\[0](x)."
