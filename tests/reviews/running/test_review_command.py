"""`headway review` as a user types it."""

from __future__ import annotations

import json

from tests.reviews.running.conftest import AXES, FILES, Tree, Trees


def test_every_file_is_reviewed_on_every_axis(tree: Tree) -> None:
    done = tree.review()
    assert done.code == 0, done.err
    assert "3 completed, 0 errored, 0 skipped" in done.out
    assert tree.statuses() == dict.fromkeys(FILES, "DONE")
    assert tree.progress()["files"]["src/add.py"]["axes"] == dict.fromkeys(AXES, "DONE")
    reviews = tree.reviews()
    assert list(reviews) == [f"{path}.review.md" for path in sorted(FILES)]
    assert "return a - b" in reviews["src/add.py.review.md"]


def test_a_quote_that_is_not_in_the_file_is_sent_back_once(tree: Tree) -> None:
    tree.review()
    assert tree.sent() == 3 * len(AXES) + len(AXES), "one more for each axis of two.py"
    assert "return 2" in tree.reviews()["src/deep/two.py.review.md"]


def test_the_same_command_again_sends_nothing(tree: Tree) -> None:
    tree.review()
    sent, before = tree.sent(), tree.reviews()
    (tree.root / ".headway/reviews/src/one.py.review.md").unlink()
    assert tree.review().code == 0
    assert tree.sent() == sent
    assert tree.reviews() == before


def test_a_changed_file_is_asked_about_alone(tree: Tree) -> None:
    tree.review()
    sent = tree.sent()
    tree.write("src/one.py", "one = 11\n")
    done = tree.review()
    assert done.code == 0, done.err
    assert tree.sent() == sent + len(AXES)
    assert tree.statuses() == {"src/add.py": "CACHED", "src/deep/two.py": "CACHED", "src/one.py": "DONE"}
    assert "return 2" in tree.reviews()["src/deep/two.py.review.md"], "its first answer was corrected"


def test_a_changed_rubric_asks_again_on_its_axis_alone(tree: Tree) -> None:
    tree.review("--axis", "correctness", "--axis", "style=Look for long lines.")
    sent = tree.sent()
    tree.review("--axis", "correctness", "--axis", "style=Look for short lines.")
    assert tree.sent() == sent + 4, "three files, one of which is asked twice"


def test_no_cache_asks_everything_again(tree: Tree) -> None:
    tree.review("--axis", "correctness")
    sent = tree.sent()
    tree.review("--axis", "correctness", "--no-cache")
    assert tree.sent() == 2 * sent
    assert set(tree.statuses().values()) == {"DONE"}


def test_files_that_are_named_are_reviewed_again(tree: Tree) -> None:
    tree.review("--axis", "correctness")
    sent = tree.sent()
    done = tree.review("--axis", "correctness", "--file", "one.py")
    assert done.code == 0, done.err
    assert tree.sent() == sent + 1
    done = tree.review("--axis", "correctness", "--file", "three.py")
    assert (done.code, "no file of this review matches" in done.err) == (2, True)


def test_a_file_with_an_axis_without_answer_is_not_done(make_tree: Trees) -> None:
    answers = [{"contains": "Security.", "turns": ["no JSON"]}, {"turns": [{"findings": []}]}]
    tree = make_tree(answers=answers)
    assert tree.review().code == 1
    for file in tree.progress()["files"].values():
        assert (file["status"], file["axes"]["security"], file["axes"]["tests"]) == ("ERROR", "ERROR", "DONE")
        assert "cannot be read" in file["error"]
    assert not tree.reviews()
    sent = tree.sent()
    done = tree.review()
    assert "0 completed, 3 errored, 0 skipped" in done.out
    assert tree.sent() == sent + 2 * len(FILES), "only what has no answer runs again, and is corrected once"


def test_refusals_of_some_axes_never_make_a_file_done(make_tree: Trees) -> None:
    tree = make_tree("[run]\nmax_attempts = 2", faults=["429/4"])
    done = tree.review()
    for path, file in tree.progress()["files"].items():
        is_whole = set(file["axes"].values()) == {"DONE"}
        assert (file["status"] == "DONE") == is_whole, path
    assert done.code == 0, done.err


def test_a_second_model_refutes_findings(make_tree: Trees) -> None:
    verdict = {"verdicts": [{"number": 1, "refuted": True, "reason": "It is meant."}]}
    answers = [
        {"contains": "Finding 1:", "turns": [verdict]},
        {"contains": "return a - b", "turns": [{"findings": []}]},
        {"contains": "return 2", "turns": [{"findings": []}]},
        {"contains": "one = 1", "turns": [{"findings": [{"rule": "a-rule", "severity": "low", "confidence": 1, "start_line": 1,
            "end_line": 1, "quote": "one = 1", "message": "No.", "suggestion": ""}]}]},
    ]  # fmt: skip
    tree = make_tree(answers=answers)
    done = tree.review("--axis", "correctness", "--verify", "alpha/judge", "--json")
    assert done.code == 0, done.err
    assert tree.sent() == 4, "one file has a finding"
    assert json.loads(done.out)["findings"]["low"] == 0
    assert tree.progress()["files"]["src/one.py"]["axes"] == {"correctness": "DONE", "verify": "DONE"}
    tree.write("src/deep/two.py", "def two():\n    return 2.0\n")
    tree.review("--axis", "correctness", "--verify", "alpha/judge")
    assert tree.sent() == 5
    assert tree.statuses()["src/one.py"] == "CACHED"


def test_so_many_files_at_a_time(make_tree: Trees) -> None:
    tree = make_tree(latency="50ms")
    for number in range(4):
        tree.write(f"src/more{number}.py", f"more = {number}\n")
    assert tree.review("--concurrency", "1").code == 0
    assert tree.provider.stats()["total"]["peak_in_flight"] <= len(AXES)
    done = tree.review("--concurrency", "none")
    assert (done.code, "expected a number of files" in done.err) == (2, True)


def test_a_finding_that_is_grave_enough_is_exit_code_5(tree: Tree) -> None:
    assert tree.review("--axis", "correctness", "--fail-on", "high").code == 5
    assert tree.review("--axis", "correctness", "--fail-on", "critical").code == 0


def test_reports_of_all_files(tree: Tree) -> None:
    done = tree.review(
        "--axis", "correctness", "--out", "a.md", "--out", "b.json", "--out", "c.sarif", "--out", "d.html"
    )
    assert done.code == 0, done.err
    assert json.loads((tree.root / "b.json").read_text())
    assert json.loads((tree.root / "c.sarif").read_text())["version"] == "2.1.0"
    assert {path.name for path in tree.root.glob("?.*")} == {"a.md", "b.json", "c.sarif", "d.html"}
    tree.write("e.md", "mine")
    done = tree.review("--axis", "correctness", "--out", "e.md", "--fresh")
    assert (done.code, "is no report of a review" in done.err) == (2, True)


def test_other_commands_know_reviews(tree: Tree) -> None:
    tree.review("--axis", "correctness")
    job = json.loads(tree.headway("jobs", "--json").out)[0]["job"]
    assert "review" in tree.headway("status", job).out
    shown = tree.headway("show", job, "src/add.py:correctness")
    assert "return a - b" in shown.out
    exported = tree.headway("export", job, "--out", "files.jsonl")
    assert exported.code == 0, exported.err
    rows = [json.loads(line) for line in (tree.root / "files.jsonl").read_text().splitlines()]
    assert [row["path"] for row in rows] == sorted(FILES)
    assert tree.headway("resume", job).code == 0


def test_wrong_flags_say_what_to_do(tree: Tree) -> None:
    for args, what in (
        (["--axis", "stile"], "there is no such rubric"),
        (["--axis", "correctness", "--axis", "correctness"], "given twice"),
        (["--prompt", "x", "--axis", "correctness"], "two sets of rubrics"),
        (["--exclude", "**"], "there is no file to review"),
        (["--axis", "verify=x"], "an axis is named"),
    ):
        done = tree.review(*args)
        assert (done.code, what in done.err) == (2, True), done.err
    assert tree.sent() == 0
