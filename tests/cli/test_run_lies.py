"""`headway run` against a provider that answers well and says what cannot be: the answers count, the lies do not."""

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
    """Answers in the dialect of the path; what it says besides is the server's."""

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
    """What is said, and how often."""

    answered = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Liar)
        self.said: dict[str, str] = {}
        #: In Anthropic's words, and in OpenAI's.
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
    for row in range(ROWS, ROWS + 3):  # What was learned is kept, and the next run goes as well.
        with (tmp_path / "more.jsonl").open("a") as more:
            more.write(json.dumps({"id": f"r{row}", "prompt": PROMPT, "max_tokens": 400}) + "\n")
    done = headway("run", "more.jsonl", "--progress", "none", "--max-duration", "50s")
    assert (done.code, liar.answered) == (0, ROWS + 3), done.err
