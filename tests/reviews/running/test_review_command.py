"""`headway review` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from threading import Timer

from tests.reviews.running.conftest import ANSWERS, AXES, FILES, Tree, Trees, finding, report

from headway.config.routing import Target
from headway.reviews.findings.review_prompt import ReviewQuestion
from headway.reviews.running.review_requests import QuestionRequests
from headway.testing import fake_provider


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


def test_reviews_of_files_that_are_gone_or_fail_are_removed(make_tree: Trees) -> None:
    tree = make_tree(answers=[{"contains": "xyzzy", "turns": ["no JSON"]}, {"turns": [report()]}])
    axis = ("--axis", "tests")
    tree.review(*axis)
    folder = tree.root / ".headway/reviews"
    tree.write(".headway/reviews/src/mine.review.md", "# `src/mine`\n\nNotes.\n")
    tree.write(".headway/reviews/src/other.py.review.md", (folder / "src/one.py.review.md").read_text())
    (tree.root / "src/deep/two.py").unlink()
    (tree.root / "src/deep").rmdir()
    tree.write("src/add.py", "xyzzy = 1\n")
    tree.write("tests/a.py", "assert True\n")
    other = tree.headway("review", "tests", "--model", "alpha/m", *axis)
    assert other.code == 0, other.err
    stay = {"src/mine.review.md", "src/one.py.review.md", "src/other.py.review.md", "tests/a.py.review.md"}
    assert set(tree.reviews()) == {*stay, "src/add.py.review.md"}, (
        "a review of another part sees what is gone"
    )
    assert not (folder / "src/deep").exists()
    assert tree.review(*axis).code == 1
    assert set(tree.reviews()) == stay, "the review of an earlier text is not left where the file failed"


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
    assert tree.review("--axis", "correctness", "--out", "b.json", "--db", "another.db").code == 0


def test_reports_in_the_tree_are_not_reviewed(tree: Tree) -> None:
    reports = ("src/a.md", "src/b.json", "src/c.sarif", "src/d.html")
    outs = [arg for path in reports for arg in ("--out", path)]
    assert tree.review("--axis", "correctness", "--out-dir", "src/reviews", *outs).code == 0
    chosen = json.loads(tree.headway("review", "src", "--dry-run", "--json").out)
    written = {f"src/reviews/{path}.review.md" for path in FILES}
    assert chosen["left_out"] == dict.fromkeys({*reports, *written}, "a report of a review")
    assert [file["path"] for file in chosen["files"]] == sorted(FILES)


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


def git(tree: Tree, *args: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *args], cwd=tree.root, check=True, capture_output=True)


def test_only_changes_are_reviewed(tree: Tree) -> None:
    git(tree, "init", "-q")
    git(tree, "add", "src")
    git(tree, "commit", "-qm", "first")
    done = tree.review("--axis", "correctness", "--changed", "--out", "none.sarif", "--out", "none.md")
    assert (done.code, "no file that is reviewed has changed" in done.err) == (0, True), done.err
    [run] = json.loads((tree.root / "none.sarif").read_text())["runs"]
    assert (run["results"], run["invocations"][0]["executionSuccessful"]) == ([], True), (
        "code hosts want a file"
    )
    assert "No findings" in (tree.root / "none.md").read_text()
    tree.write("mine.md", "mine")
    assert tree.review("--changed", "--out", "mine.md").code == 2
    tree.write("src/.env", "KEY=1")
    assert "1 left out: --dry-run says why" in tree.review("--changed").err
    (tree.root / "src/.env").unlink()
    tree.write("src/one.py", "one = 11\n")
    done = tree.review("--axis", "correctness", "--changed", "HEAD")
    assert done.code == 0, done.err
    assert tree.sent() == 1
    job = json.loads(tree.headway("jobs", "--json").out)[0]["job"]
    assert "+one = 11" in tree.headway("show", job, "src/one.py:correctness").out
    assert "src/one.py" in done.out.split("The change:")[1], "what has changed"
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "second")
    kept = subprocess.run(["git", "ls-files", ".headway"], cwd=tree.root, check=True, capture_output=True)
    assert kept.stdout == b"", "the records have the texts of all files"


def test_what_is_staged_is_reviewed_as_it_is_staged(tree: Tree) -> None:
    git(tree, "init", "-q")
    tree.write("src/one.py", "one = 'staged'\n")
    git(tree, "add", "src/one.py")
    tree.write("src/one.py", "one = 'later'\n")
    done = tree.review("--axis", "correctness", "--staged", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["completed"] == 1
    shown = tree.headway("show", json.loads(done.out)["job"], "src/one.py:correctness").out
    assert "staged" in shown
    assert "later" not in shown
    assert "The change: 1 file is staged" in tree.review("--axis", "correctness", "--staged").out
    assert "changed while" not in done.err


def test_a_baseline_leaves_known_findings_out(tree: Tree) -> None:
    done = tree.review("--axis", "correctness", "--json", "--out", "old.json")
    assert json.loads(done.out)["findings"]["high"] == 2
    job = json.loads(done.out)["job"]
    for known in ("old.json", job):
        done = tree.review("--axis", "correctness", "--json", "--baseline", known, "--fail-on", "high")
        assert done.code == 0, done.err
        assert json.loads(done.out)["findings"]["high"] == 0
    done = tree.review("--baseline", "nothing")
    assert (done.code, "no review of that name" in done.err) == (2, True)
    done = tree.review("--baseline", "src/one.py")
    assert done.err.startswith("headway: --baseline src/one.py is not JSON"), done.err


def test_a_file_that_changes_while_it_is_reviewed_is_named(make_tree: Trees) -> None:
    tree = make_tree(latency="300ms")
    changing = Timer(0.15, lambda: tree.write("src/one.py", "one = 'new'\n"))
    changing.start()
    done = tree.review("--axis", "correctness", "--json")
    changing.join()
    assert done.code == 0, done.err
    assert json.loads(done.out)["changed_meanwhile"] == ["src/one.py"]
    assert "changed while the review ran: src/one.py" in done.err
    again = tree.review("--axis", "correctness", "--json")
    assert ("src/one.py" in again.err, json.loads(again.out)["changed_meanwhile"]) == (False, [])
    assert tree.statuses()["src/one.py"] == "DONE"


def test_a_rubric_of_your_own_and_instructions_of_the_settings(make_tree: Trees) -> None:
    tree = make_tree('[[review.instructions]]\npath = "src/deep/**"\ntext = "These are examples."')
    tree.write("rubric.md", "Find bad words.")
    done = tree.review("--prompt", "@rubric.md", "--json")
    assert done.code == 0, done.err
    shown = tree.headway("show", json.loads(done.out)["job"], "src/deep/two.py:review").out
    assert "Find bad words." in shown
    assert "These are examples." in shown
    other = tree.headway("show", json.loads(done.out)["job"], "src/one.py:review").out
    assert "These are examples." not in other


def test_a_report_of_a_review_is_a_page_with_its_files(tree: Tree) -> None:
    tree.review("--axis", "correctness", "-q")
    done = tree.headway("report", "--out", "page.html")
    assert done.code == 0, done.err
    assert "src/deep/two.py" in (tree.root / "page.html").read_text()


def test_a_correction_costs_no_attempt(make_tree: Trees) -> None:
    tree = make_tree("[run]\nmax_attempts = 1")
    assert tree.review("--axis", "correctness").code == 0
    assert set(tree.statuses().values()) == {"DONE"}


def test_a_program_can_review(tree: Tree) -> None:
    found = json.dumps({"findings": [finding("return a - b", line=5)]})
    tree.write("says.sh", f"cat >asked.txt; cat <<'END'\n{found}\nEND\n")
    with (tree.root / "headway.toml").open("a") as settings:
        settings.write('[providers.own]\nkind = "command"\ncommand = ["sh", "says.sh"]\n')
    done = tree.headway("review", "src/add.py", "--model", "own/x", "--axis", "correctness", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["findings"]["high"] == 1
    assert "return a - b" in (tree.root / "asked.txt").read_text()


def test_an_interrupted_review_is_resumed_by_its_name(make_tree: Trees) -> None:
    tree = make_tree(rpm=6, burst="60s")
    done = tree.review("--max-duration", "1s", "--out", "a.md")
    assert done.code == 3, done.err
    assert "skipped" in done.out
    (tree.root / "a.md").unlink()
    with fake_provider(latency="2ms", answers=list(ANSWERS)) as other:
        text = (tree.root / "headway.toml").read_text()
        tree.write("headway.toml", text.replace(tree.provider.openai_url, other.openai_url))
        job = json.loads(tree.headway("jobs", "--json").out)[0]["job"]
        resumed = tree.headway("resume", job)
        assert resumed.code == 0, resumed.err
    assert set(tree.statuses().values()) == {"DONE"}
    assert (tree.root / "a.md").exists(), "its reports are written"


def test_a_review_in_the_background(tree: Tree) -> None:
    command = [sys.executable, "-m", "headway", "review", "src", "--model", "alpha/m", "--detach", "--json"]
    started = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=True)
    job = json.loads(started.stdout)["job"]
    give_up_at = time.monotonic() + 30.0
    while json.loads(tree.headway("status", job, "--json").out)["state"] != "complete":
        assert time.monotonic() < give_up_at, "it does not end"
        time.sleep(0.05)
    assert tree.review().code == 0
    assert set(tree.statuses().values()) == {"DONE"}


def test_agents_that_review_change_nothing() -> None:
    target = Target("claude", "claude", "sonnet")
    question = ReviewQuestion(system="SYSTEM", prompt="File: a.py", schema={"type": "object"})
    row = json.loads(QuestionRequests(target).row("a.py:tests", question).body)
    assert row["agent"] == {"permission_mode": "plan"}
    assert row["prompt"].startswith("File: a.py")
    assert "SYSTEM" in row["prompt"]


def test_a_file_without_a_finding_that_counts_needs_no_verification(make_tree: Trees) -> None:
    tree = make_tree(answers=[{"turns": [report(finding("not in any file"))]}])
    done = tree.review("--axis", "correctness", "--verify", "alpha/judge")
    assert done.code == 0, done.err
    assert "3 completed, 0 errored, 0 skipped" in done.out
    assert tree.sent() == 2 * len(FILES), "each was corrected, and none verified"


def test_a_folder_may_be_named_like_a_review(tree: Tree) -> None:
    inside = (f"src/one.py.review.md/{name}" for name in ("two.py", f"{'long' * 59}.review.md/three.py"))
    for path in inside:
        tree.write(path, "odd = 1\n")
    done = tree.review("--axis", "tests")
    assert (done.code, "5 completed, 0 errored, 0 skipped" in done.out) == (0, True), done.err
    assert len(tree.reviews()) == 5


def test_a_link_in_the_folder_of_reviews_is_not_followed(tree: Tree) -> None:
    (tree.root / "outside").mkdir()
    (tree.root / "reviews").mkdir()
    (tree.root / "reviews/src").symlink_to("../outside")
    done = tree.review("--axis", "tests", "--out-dir", "reviews")
    assert (done.code, "reviews/src cannot be written: is a symbolic link" in done.err) == (1, True), done.err
    assert not list((tree.root / "outside").rglob("*.md"))
    (tree.root / "linked").symlink_to("outside")
    assert tree.review("--axis", "tests", "--out-dir", "linked").code == 0
    assert len(list((tree.root / "outside").rglob("*.md"))) == len(FILES)


def test_odd_names_are_reviewed_and_reach_no_terminal(tree: Tree) -> None:
    odd = ("src/two\nlines.py", "src/red\x1b[31m.py", "src/a:tests.py", f"src/{'long' * 60}.py", "src/ü 1.py")
    for path in odd:
        tree.write(path, "odd = 1\n")
    done = tree.review("--axis", "tests", "--out", "all.json")
    assert done.code == 0, done.err
    assert "8 completed, 0 errored, 0 skipped; 0 left out" in done.out
    assert "\x1b[31m" not in done.out + done.err
    assert set(odd) <= set(tree.statuses())
    assert len(tree.reviews()) == 8
    assert "\x1b[31m" not in tree.headway("review", "src", "--dry-run").out
    sent = tree.sent()
    assert tree.review("--axis", "tests").code == 0
    assert tree.sent() == sent
