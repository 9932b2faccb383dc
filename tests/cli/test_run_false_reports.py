"""`headway run` against a provider that answers well but reports false limits and usage: the answers count."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.conftest import Headway

ROWS = 20
PROMPT = "Tell me something about the weather, and about the sea. " * 20
LIMIT_OF_ONE = {
    "x-ratelimit-limit-tokens": "1",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "60s",
    "anthropic-ratelimit-tokens-limit": "1",
    "anthropic-ratelimit-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-limit": "1",
    "anthropic-ratelimit-output-tokens-limit": "1",
}


class Liar(BaseHTTPRequestHandler):
    """Answers in the dialect of the path, with the false reports of its server."""

    protocol_version = "HTTP/1.1"
    server: LyingServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        chat = self.path.endswith("/chat/completions")
        answer: dict[str, object] = {"id": "1", "model": "m"}
        if chat:
            answer["choices"] = [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]
        else:
            answer |= {"type": "message", "content": [{"type": "text", "text": "yes"}]}
        body = json.dumps(answer | {"usage": self.server.usage[chat]}).encode()
        self.send_response(200)
        for name, value in {"content-type": "application/json", **self.server.said}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.answered += 1

    def log_message(self, *_: object) -> None:
        return


class LyingServer(ThreadingHTTPServer):
    """The false report, and how often it is made."""

    answered = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Liar)
        self.said: dict[str, str] = {}
        #: In Anthropic's form, and in OpenAI's.
        self.usage: list[dict[str, object]] = [
            {"input_tokens": 280, "output_tokens": 60},
            {"prompt_tokens": 280, "completion_tokens": 60},
        ]


@pytest.fixture
def liar() -> Iterator[LyingServer]:
    server = LyingServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def configure(folder: Path, kind: str, liar: LyingServer, more: str = "", rows: int = ROWS) -> None:
    (folder / "headway.toml").write_text(
        f'[providers.alpha]\nkind = "{kind}"\nbase_url = "http://127.0.0.1:{liar.server_port}"\nmodel = "m"\n'
        f"stream = false\n{more}\n"
    )
    lines = [
        json.dumps({"id": f"r{row}", "prompt": f"{row}: {PROMPT}", "max_tokens": 400}) for row in range(rows)
    ]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("limits", ["", "[providers.alpha.limits]\nmax_concurrency = 2"])
def test_a_limit_of_one_token_fails_no_unit_and_stops_nothing(
    kind: str,
    limits: str,
    liar: LyingServer,
    headway: Headway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, kind, liar, limits)
    liar.said = LIMIT_OF_ONE
    done = headway("run", "in.jsonl", "--progress", "none", "--max-duration", "50s")
    assert done.code == 0, done.err
    assert "too_large" not in done.err
    assert liar.answered == ROWS
    for row in range(ROWS, ROWS + 3):  # The next run, with what was learned, works as well.
        with (tmp_path / "more.jsonl").open("a") as more:
            more.write(json.dumps({"id": f"r{row}", "prompt": PROMPT, "max_tokens": 400}) + "\n")
    done = headway("run", "more.jsonl", "--progress", "none", "--max-duration", "50s")
    assert (done.code, liar.answered) == (0, ROWS + 3), done.err


PRICES = "[providers.alpha.prices]\ninput = 1\noutput = 10\n[providers.alpha.limits]\nmax_concurrency = 1"
#: What a row may cost: a token for every byte of its prompt, and 400 tokens of an answer.
MOST_USD = ((len(PROMPT) + 100) * 1 + 400 * 10) / 1e6


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("lie", [10**12, -5])
def test_impossible_usage_uses_no_budget_and_is_reported_once(
    kind: str,
    lie: int,
    liar: LyingServer,
    headway: Headway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, kind, liar, PRICES)
    liar.usage = [
        {"input_tokens": lie, "output_tokens": 60},
        {"prompt_tokens": 280, "completion_tokens": lie},
    ]
    done = headway("run", "in.jsonl", "--progress", "plain", "--max-cost", str(2 * ROWS * MOST_USD))
    assert done.code == 0, done.err
    assert done.err.count("which is impossible") == 1
    assert "alpha/m: usage: the provider reports" in done.err
    job = json.loads(headway("status", "--json").out)
    assert job["cost_usd"] in (0.0, None), "nothing is known for certain"
    assert job["unsure"]["attempts"] == ROWS
    assert 0.0 < job["unsure"]["most_usd"] <= ROWS * MOST_USD
    rows = [json.loads(line) for line in (tmp_path / "in.results.jsonl").read_text().splitlines()]
    assert {row["headway"]["usage"] for row in rows} == {None}
    lanes = json.loads(headway("lanes", "--json").out)
    assert "1000000000000" not in json.dumps(lanes)


def test_more_cached_input_than_input_does_not_raise_the_budget(
    liar: LyingServer, headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(
        tmp_path, "openai", liar, PRICES.replace("output = 10", "output = 10\ncached_input = 0.1"), rows=1
    )
    liar.usage[1]["prompt_tokens_details"] = {"cached_tokens": 10**9}
    assert headway("run", "in.jsonl", "--progress", "none").code == 0
    job = json.loads(headway("status", "--json").out)
    assert job["cost_usd"] == pytest.approx((280 * 0.1 + 60 * 10) / 1e6), "no more than the input is cached"
