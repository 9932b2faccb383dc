"""llama.cpp's own server with a tiny random model: it has a few slots, queues everything else, and never refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.servers import installed, llama_main, tiny_model
from bench.servers.running import Server, free_port, process, wait_until_it_answers

SLOTS: Final = 4


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """The server with a model that is made here, on a free port of loopback."""
    model = folder / "tiny.gguf"
    tiny_model.write(model)
    port = free_port()
    python = str(installed.VENV / "bin" / "python")
    server = Server(f"http://127.0.0.1:{port}", folder)
    with process([python, "-P", llama_main.__file__, str(model), str(port), str(SLOTS)], folder) as pid:
        wait_until_it_answers(server, "/health", pid)
        yield server
