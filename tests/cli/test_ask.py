"""`headway ask`: one question, answered on standard output and recorded as a job of its own."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from tests.batch.attachment_files import png
from tests.cli.conftest import Headway
from tests.crash.stage import HEADWAY, KEY, PATIENCE_S, Stage

from headway.core.reasons import Wait, WaitCode
from headway.display.answer_screen import AnswerScreen
from headway.fake.process import fake_process
from headway.reports.answers import AnswerReport

SCHEMA = {
    "type": "object",
    "properties": {"mood": {"type": "string"}, "score": {"type": "number", "maximum": 1}},
    "required": ["mood", "score"],
}


def asked(stage: Stage, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The real command, with a text on standard input or none."""
    return subprocess.run(
        [sys.executable, *HEADWAY, "ask", *args],
        input=stdin or "",
        cwd=stage.root,
        env=stage.environ(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# -- the answer ---------------------------------------------------------------------------------------------------


def test_the_answer_is_on_stdout_and_all_else_on_stderr(stage: Stage) -> None:
    done = asked(stage, "Why is the sky blue?")
    assert done.returncode == 0
    assert done.stdout.startswith("echo: Why is the sky blue?")
    assert done.stdout.count("\n") == 1
    assert "tokens in," in done.stderr
    assert asked(stage, "Why?", "-q").stderr == ""


def test_it_is_recorded_like_any_job(stage: Stage, headway: Headway) -> None:
    (report,) = objects(headway("ask", "Why?", "--json").out)
    name = str(report["job"])
    shown = json.loads(headway("show", name, "0", "--json").out)
    assert shown["attempts"][0]["outcome"] == "succeeded"
    assert json.loads(headway("status", name, "--json").out)["succeeded"] == 1
    assert json.loads(headway("export", name).out)["response"]["status_code"] == 200
    (intents,) = stage.query("SELECT COUNT(*) FROM attempts WHERE input_tokens > 0")
    assert intents == (1,)
    assert not (stage.root / ".headway" / "jobs" / name).exists()


def test_a_question_is_never_the_latest_job(stage: Stage, headway: Headway) -> None:
    headway("ask", "Why?", "-q")
    none = headway("status")
    assert none.code == 2
    assert "only questions" in none.err
    headway("run", "in.jsonl", "-q")
    headway("ask", "Why?", "-q")
    assert json.loads(headway("status", "--json").out)["job"].startswith("in-")


def test_jobs_counts_questions_in_one_line_and_lists_them_with_all(headway: Headway) -> None:
    for question in ("What?", "Why?"):
        assert headway("ask", question).code == 0
    assert headway("jobs").out == "2 questions of 'headway ask' (--all lists them)\n"
    assert headway("run", "in.jsonl", "-q").code == 0
    *table, last = headway("jobs").out.splitlines()
    assert last == "and 2 questions of 'headway ask' (--all lists them)"
    assert len(table) == 2
    everything = headway("jobs", "--all").out
    assert len(everything.splitlines()) == 4
    assert "questions" not in everything
    assert len(json.loads(headway("jobs", "--json").out)) == 3


def test_a_question_cannot_be_resumed(headway: Headway) -> None:
    (report,) = objects(headway("ask", "Why?", "--json").out)
    done = headway("resume", str(report["job"]))
    assert done.code == 2
    assert "ask it again" in done.err


def test_json_has_text_usage_cost_and_latency(stage: Stage, headway: Headway) -> None:
    stage.configure(more="[providers.alpha.prices]\ninput = 1\noutput = 2\n")
    done = headway("ask", "Why?", "--json", "--max-tokens", "50")
    (report,) = objects(done.out)
    assert done.err == ""
    assert report["model"] == "alpha/gpt-x"
    assert str(report["text"]).startswith("echo: Why?")
    usage = report["usage"]
    assert isinstance(usage, dict)
    assert report["cost_usd"] == pytest.approx((usage["input_tokens"] + 2 * usage["output_tokens"]) / 1e6)
    assert isinstance(report["latency_s"], float)
    assert report["error"] is None


def test_raw_is_the_response_as_it_came(headway: Headway) -> None:
    body = json.loads(headway("ask", "Why?", "--raw", "-q").out)
    assert body["choices"][0]["message"]["content"].startswith("echo: Why?")
    assert headway("ask", "Why?", "--raw", "--json").code == 2


def test_an_answer_cut_off_at_max_tokens_says_so(headway: Headway) -> None:
    done = headway("ask", "Why is the sky blue?", "--max-tokens", "3")
    assert done.code == 0
    assert "cut off at max_tokens: raise --max-tokens" in done.err
    (report,) = objects(headway("ask", "Why is it?", "--max-tokens", "3", "--json").out)
    assert report["cut_off"] is True


@pytest.mark.parametrize("flags", [("--cache-all",), ("--cache", "--temperature", "0")])
def test_a_cached_answer_is_not_asked_for_again(headway: Headway, flags: tuple[str, ...]) -> None:
    first = headway("ask", "Why?", *flags, "-q")
    again = headway("ask", "Why?", *flags)
    assert again.out == first.out
    assert "from the cache" in again.err


# -- what is asked --------------------------------------------------------------------------------------------------


def test_standard_input_is_one_text(stage: Stage) -> None:
    done = asked(stage, "Summarise", stdin="line one\nline two\n")
    assert done.stdout.startswith("echo: Summarise\n\nline one\nline two")
    assert asked(stage, stdin="only this").stdout.startswith("echo: only this")


def test_files_are_added_with_their_names(stage: Stage, headway: Headway) -> None:
    (stage.root / "a.md").write_text("Alpha\n")
    (stage.root / "b.md").write_text("Beta\n")
    done = headway("ask", "Compare", "-f", "a.md", "-f", "b.md", "-q")
    assert '<file name="a.md">\nAlpha\n</file>\n\n<file name="b.md">\nBeta\n</file>' in done.out


def test_a_prompt_can_be_read_from_a_file(stage: Stage, headway: Headway) -> None:
    (stage.root / "p.txt").write_text("From a file\n")
    assert headway("ask", "@p.txt", "-q").out.startswith("echo: From a file")


def test_the_system_prompt_is_sent(headway: Headway) -> None:
    (report,) = objects(headway("ask", "Why?", "--system", "Be brief.", "--json").out)
    request = json.loads(headway("show", str(report["job"]), "0", "--json").out)["request"]["body"]
    assert request["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "there is no question"),
        (("Why?", "-f", "none.md"), "-f none.md: no such file"),
        (("Why?", "-f", "."), "-f .:"),
        (("Why?", "--schema", "none.json"), "--schema none.json: no such file"),
        (("Why?", "-m", ""), "model"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_recorded(
    stage: Stage, headway: Headway, args: tuple[str, ...], message: str
) -> None:
    done = headway("ask", *args)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not stage.db.exists() or stage.query("SELECT COUNT(*) FROM jobs") == [(0,)]


def test_a_question_that_is_never_sent_is_not_recorded(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headway.wiring.question_run.plan_of", interrupted)
    assert headway("ask", "Why?").code == 130
    assert stage.query("SELECT COUNT(*) FROM jobs") == [(0,)]
    assert not list((stage.root / ".headway" / "jobs").iterdir())


def test_a_refused_key_says_what_to_check(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    done = headway("ask", "Why?")
    assert done.code == 1
    assert done.out == ""
    [line] = done.err.splitlines()
    assert line.startswith("headway: alpha/gpt-x stopped: auth: ")
    assert "check the key in ALPHA_KEY" in line
    (report,) = objects(headway("ask", "Why?", "--json").out)
    assert report["text"] is None
    assert report["error"] is not None


class _UsedUp(BaseHTTPRequestHandler):
    """A provider whose limit is reached for three days."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"error": {"message": "usage limit reached"}}'
        self.send_response(429)
        self.send_header("Retry-After", str(3 * 86_400))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_long_hold_says_until_when_and_what_to_do(stage: Stage, headway: Headway) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _UsedUp) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        toml = stage.root / "headway.toml"
        toml.write_text(toml.read_text().replace(stage.fake.url, f"http://127.0.0.1:{server.server_port}"))
        done = headway("ask", "Why?", "-q")
        server.shutdown()
        thread.join()
    assert done.code == 4
    then = time.strftime("%Y-%m-%d", time.localtime(time.time() + 3 * 86_400))
    assert re.fullmatch(
        rf"headway: alpha/gpt-x stopped: hold: usage limit reached — held until {then} \d\d:\d\d; "
        r"ask again then, or ignore the hold: headway lanes --reopen alpha/gpt-x\n",
        done.err,
    )


def test_an_answer_that_a_stopped_lane_cut_short_is_marked() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = AnswerScreen(["alpha/m"], out, err, lambda *_: None, live=True, quiet=False, silent=False)  # type: ignore[arg-type]
    screen.started(0, 1)("Once upon")
    screen.requeued(0, "no credit is left", None)
    note = "[headway: the answer above is not complete: no credit is left]\n"
    assert out.getvalue() == f"Once upon\n{note}"
    assert err.getvalue() == note


# -- schemas ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def schema(stage: Stage) -> None:
    (stage.root / "mood.json").write_text(json.dumps(SCHEMA))


@pytest.mark.usefixtures("schema")
def test_an_answer_that_does_not_fit_is_asked_for_again(headway: Headway) -> None:
    done = headway("ask", "#repaired", "--schema", "mood.json")
    assert done.code == 0
    assert json.loads(done.out) == {"mood": "better", "score": 1, "tags": []}
    assert "does not fit the schema" in done.err
    assert "trying again" in done.err
    never = headway("ask", "#never", "--schema", "mood.json")
    assert never.code == 1
    assert never.out == ""
    assert "the answer is not JSON: 'sorry'" in never.err


# -- streams ----------------------------------------------------------------------------------------------------------


def test_text_is_printed_as_it_arrives(stage: Stage) -> None:
    with fake_process("--per-token", "100ms", "--output-tokens", "60") as fake:
        stage.fake = fake
        stage.configure()
        with stage.process("ask", "Why is the sky blue?", "--stream") as process:
            assert process.stdout is not None
            begun = process.stdout.read(5)
            assert process.poll() is None  # The whole answer takes six seconds.
            process.send_signal(signal.SIGINT)
            rest, err = process.communicate(timeout=PATIENCE_S)
    assert begun == "echo:"
    assert rest.endswith("\n")
    assert process.returncode == 130
    assert "interrupted" in err
    assert "headway resume" not in err, "a question is asked anew"
    assert "Traceback" not in err
    assert stage.query("SELECT state FROM jobs") == [("interrupted",)]


def test_a_broken_stream_starts_anew_and_says_so(stage: Stage) -> None:
    with fake_process("--fault", "stream-error@0s", "--output-tokens", "40", "--per-token", "1ms") as fake:
        stage.fake = fake
        stage.configure(more='[providers.alpha.retry]\nbase = "10ms"\n')
        done = asked(stage, "Why is the sky blue?", "--stream")
    assert done.returncode == 0
    half, whole = done.stdout.split("\n[headway: the answer above is not complete: ")
    assert half.startswith("echo: Why")
    why, _, whole = whole.partition("]\n")
    assert "starts anew" in why
    assert whole.startswith("echo: Why is the sky blue?")
    assert len(whole) > len(half)
    assert "starts anew" in done.stderr


def test_in_a_pipe_only_whole_answers_are_printed(stage: Stage) -> None:
    with fake_process("--fault", "stream-error@0s", "--output-tokens", "40", "--per-token", "1ms") as fake:
        stage.fake = fake
        stage.configure(more='[providers.alpha.retry]\nbase = "10ms"\n')
        done = asked(stage, "Why is the sky blue?")
    assert done.stdout.count("echo:") == 1
    assert "trying again" in done.stderr


def test_other_apis_stream_too(stage: Stage) -> None:
    with fake_process("--output-tokens", "8", "--per-token", "1ms") as fake:
        (stage.root / "headway.toml").write_text(
            "\n".join(
                f'[providers.{name}]\nkind = "{kind}"\nbase_url = "{fake.url}{path}"\napi_key_env = "ALPHA_KEY"\n{more}'
                for name, kind, path, more in (
                    ("o", "openai", "/v1", ""),
                    ("a", "anthropic", "/v1", ""),
                    ("g", "gemini", "", ""),
                    ("z", "azure", "", ""),
                    ("b", "bedrock", "", 'region = "us-east-1"\n'),
                )
            )
        )
        models = ["o/x", "a/x", "g/x", "z/x", "b/x"]
        done = asked(stage, "Hi", "--json", *(word for model in models for word in ("-m", model)))
    reports = objects(done.stdout)
    assert [report["model"] for report in reports] == models
    for report in reports:
        assert str(report["text"]).startswith("echo: Hi"), report
        assert report["first_text_s"] is not None, report


def test_several_models_answer_under_headings(stage: Stage) -> None:
    done = asked(stage, "Hi", "-m", "gpt-a", "-m", "gpt-b")
    first, second = done.stdout.split("\n\n")
    assert first.startswith("── alpha/gpt-a ──\necho: Hi")
    assert second.startswith("── alpha/gpt-b ──\necho: Hi")


def test_one_of_several_models_may_fail(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.configure(
        more='[providers.beta]\nkind = "openai"\nbase_url = "http://127.0.0.1:9"\napi_key_env = "ALPHA_KEY"\n'
        "[run]\nprovider = 'alpha'\nmax_attempts = 1\n"
    )
    done = asked(stage, "Hi", "-m", "beta/x", "-m", "gpt-b")
    assert done.returncode == 1
    assert "── alpha/gpt-b ──\necho: Hi" in done.stdout
    assert "headway: beta/x" in done.stderr


# -- a terminal ---------------------------------------------------------------------------------------------------------


def test_escapes_in_an_answer_never_reach_a_terminal(stage: Stage) -> None:
    """On a pseudo-terminal, where the answer is printed as it arrives."""
    master, slave = pty.openpty()
    env = stage.environ()
    with subprocess.Popen(
        [sys.executable, *HEADWAY, "ask", "a \x1b]0;title\x07 b"],
        stdin=slave, stdout=slave, stderr=subprocess.PIPE, cwd=stage.root, env=env,
    ) as process:  # fmt: skip
        os.close(slave)
        _, err = process.communicate(timeout=PATIENCE_S)
    printed = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        printed += piece
    os.close(master)
    assert process.returncode == 0, err
    assert b"echo: a \\x1b]0;title\\x07 b" in printed
    assert b"\x1b" not in printed


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def report(model: str, text: str | None) -> AnswerReport:
    return AnswerReport(model, text, None, None, None, None, None, 1, False, False, "ask-1")


@pytest.fixture
def screen() -> tuple[AnswerScreen, Terminal, Callable[[int], None]]:
    """A live screen of two models, its standard output, and what ends an answer."""
    out, texts = Terminal(), {0: "one two", 1: "uno dos"}

    def read(index: int, first_text_s: float | None) -> AnswerReport:
        return report("ab"[index], texts[index])

    made = AnswerScreen(["a", "b"], out, Terminal(), read, live=True, quiet=False, silent=False)
    return made, out, lambda index: made.ended([index])


def test_the_first_model_with_text_is_streamed_and_the_others_follow(
    screen: tuple[AnswerScreen, Terminal, Callable[[int], None]],
) -> None:
    made, out, end = screen
    first, second = made.started(0, 1), made.started(1, 1)
    second("uno ")
    first("one ")
    second("dos")
    assert out.getvalue() == "── b ──\nuno dos"
    end(1)
    assert out.getvalue() == "── b ──\nuno dos\n\n── a ──\none "
    first("two")
    end(0)
    assert out.getvalue() == "── b ──\nuno dos\n\n── a ──\none two\n"


def test_text_of_an_attempt_that_was_given_up_is_not_printed(
    screen: tuple[AnswerScreen, Terminal, Callable[[int], None]],
) -> None:
    made, out, end = screen
    old = made.started(0, 1)
    old("on")
    made.requeued(0, "the stream ended", 0.0)
    new = made.started(0, 2)
    old("e")
    new("one two")
    end(0)
    assert out.getvalue() == "── a ──\non\none two\n"


def test_a_wait_for_a_rate_limit_is_named_once(
    screen: tuple[AnswerScreen, Terminal, Callable[[int], None]],
) -> None:
    made, _, _ = screen
    until = 100.0
    lane = SimpleNamespace(key="k", remaining=1, in_flight=0, wait=Wait(WaitCode.RETRY_AFTER, until))

    def view(now: float) -> Any:
        return SimpleNamespace(
            snapshot=SimpleNamespace(lanes=[lane], at=now), names={"k": "alpha/gpt-x"}, utc_offset_s=0.0
        )

    said = made._err
    assert isinstance(said, Terminal)
    for now in (95.0, 95.5, 96.0, 99.5):
        made.moved(view(now))
    assert said.getvalue().count("\n") == 1
    assert said.getvalue().startswith("alpha/gpt-x waits until ")
    lane.wait = None
    made.moved(view(100.0))
    lane.wait = Wait(WaitCode.RETRY_AFTER, 200.0)
    made.moved(view(101.0))
    assert said.getvalue().count("waits until") == 2


def test_a_rate_limit_is_waited_for_and_said(stage: Stage) -> None:
    with fake_process("--rpm", "60", "--burst", "1s", "--headers", "none") as fake:
        stage.fake = fake
        stage.configure()
        asked(stage, "One", "-q")
        done = asked(stage, "Two", "-m", "gpt-x", "-m", "gpt-y", "-m", "gpt-z")
    assert done.returncode == 0
    assert done.stdout.count("echo: Two") == 3
    assert "rate" in done.stderr.lower()


def test_a_reader_that_leaves_ends_the_question(stage: Stage) -> None:
    """As `headway ask … | head -c 5` does."""
    with fake_process("--per-token", "100ms", "--output-tokens", "300") as fake:
        stage.fake = fake
        stage.configure()
        with stage.process("ask", "Why is the sky blue?", "--stream") as process:
            assert process.stdout is not None
            assert process.stdout.read(5) == "echo:"
            process.stdout.close()
            assert process.stderr is not None
            err = process.stderr.read()
            process.wait(timeout=PATIENCE_S)
    assert "Traceback" not in err
    assert stage.query("SELECT COUNT(*) FROM attempts") == [(1,)]


def test_a_key_in_an_answer_is_not_printed(stage: Stage) -> None:
    done = asked(stage, f"a {KEY} b", "--stream")
    assert KEY not in done.stdout
    assert "a *** b" in done.stdout


def test_images_and_documents_go_with_the_question(stage: Stage) -> None:
    (stage.root / "photo").write_bytes(png())
    (stage.root / "note.txt").write_text("a note")
    done = asked(stage, "What is this?", "-f", "photo", "-f", "note.txt")
    assert done.returncode == 0, done.stderr
    assert "a note" in done.stdout
    assert "[image" in done.stdout, "the fake says what it was sent"
    (stage.root / "broken.png").write_bytes(b"\x89PNG and no more")
    done = asked(stage, "What is this?", "-f", "broken.png")
    assert (done.returncode, done.stdout) == (2, "")
    assert "broken.png" in done.stderr


@pytest.mark.parametrize("flags", [(), ("--stream",), ("-m", "gpt-x", "-m", "gpt-y")])
def test_output_that_cannot_be_written_is_an_error_that_names_the_record(
    stage: Stage, flags: tuple[str, ...]
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, *HEADWAY, "ask", "hi", *flags],
            cwd=stage.root, env=stage.environ(), stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
            text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "the output cannot be written: no space left on device" in done.stderr
    assert "headway show ask-" in done.stderr


@pytest.mark.parametrize("command", [("ask", "hi"), ("run", "in.jsonl", "--out", "-")])
def test_a_closed_standard_output_is_no_traceback(stage: Stage, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, *HEADWAY, *command],
        cwd=stage.root, env=stage.environ(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 1
    assert "cannot be written" in done.stderr


def test_a_provider_that_is_probably_misspelt_is_warned_about(stage: Stage, headway: Headway) -> None:
    warned = (
        "warning: no provider 'alhpa': 'alhpa/gpt-x' is sent to alpha as a model; did you mean alpha/gpt-x?"
    )
    assert warned in headway("ask", "hi", "-m", "alhpa/gpt-x").err
    assert warned not in headway("ask", "hi", "-m", "alpha/gpt-x").err
    assert headway("ask", "hi", "-m", "alhpa/gpt-x", "-q").err == ""
