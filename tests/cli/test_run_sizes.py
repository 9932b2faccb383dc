"""`headway run` against a provider that sends far too much: memory and records stay small, and the error says why."""

from __future__ import annotations

import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

MB = 1_000_000
#: The server sends 400 MB; a run that sends nothing takes about 70.
MOST_MEMORY = 330 * MB
#: The peak of this process alone: what `wait4` reports of a child includes the process that forked it.
CHILD = """
import sys
from headway.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("PEAK", int(peak.split()[1]) * 1024, "EXIT", code)
"""
TOO_LONG = "the answer is longer than 64 MB: raise max_answer_bytes of this provider to take it"
START = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"'


class Hostile(BaseHTTPRequestHandler):
    """The model in the request selects the response."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.close_connection = True
        try:
            for name in ("bomb", "error", "endless", "parts"):
                if f'"{name}"'.encode() in body:
                    getattr(self, name)()
        except ConnectionError:
            pass

    def bomb(self) -> None:
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        packed = [packer.compress(START), *(packer.compress(b"a" * MB) for _ in range(400))]
        packed += [packer.compress(b'"}}]}'), packer.flush()]
        self.begin(200, "application/json", "Content-Encoding: gzip")
        self.wfile.write(b"".join(packed))

    def error(self) -> None:
        self.begin(400, "application/json")
        self.go_on(b"e" * MB)

    def endless(self) -> None:
        self.begin(200, "text/event-stream")
        self.go_on(b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"a" * 10_000) * 100)

    def parts(self) -> None:
        """Tool calls of fifteen bytes each, with different numbers."""
        self.begin(200, "text/event-stream")
        for first in range(0, 4_000_000, 100_000):
            calls = ",".join(f'{{"index":{n}}}' for n in range(first, first + 100_000))
            said = f'data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}\n\n'
            self.wfile.write(said.encode())

    def begin(self, status: int, kind: str, *more: str) -> None:
        head = [f"HTTP/1.1 {status} Said", f"Content-Type: {kind}", "Connection: close", *more, "", ""]
        self.wfile.write("\r\n".join(head).encode())

    def go_on(self, piece: bytes) -> None:
        for _ in range(400):
            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def hostile() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize(
    ("model", "stream", "words"),
    [
        ("bomb", "false", TOO_LONG),
        ("endless", "true", TOO_LONG),
        ("error", "false", "eeee"),
        ("parts", "true", "the answer has more than 4,096 tool calls, which no model sends: check base_url"),
    ],
    ids=["bomb", "endless", "error", "parts"],
)
def test_memory_and_records_stay_small(
    model: str, stream: str, words: str, hostile: str, tmp_path: Path
) -> None:
    (tmp_path / "headway.toml").write_text(
        f'[providers.alpha]\nkind = "openai"\nbase_url = "{hostile}"\nmodel = "{model}"\nstream = {stream}\n'
    )
    (tmp_path / "in.jsonl").write_text('{"id": "a", "prompt": "Hi"}\n')
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, "run", "in.jsonl", "--progress", "none"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    figures = dict(zip(*[iter(ran.stdout.split()[-4:])] * 2, strict=True))
    assert figures["EXIT"] == "1", ran
    assert int(figures["PEAK"]) < MOST_MEMORY
    assert "1 unit ended with 'invalid'" in ran.stderr
    assert words in ran.stderr
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 2 * MB
