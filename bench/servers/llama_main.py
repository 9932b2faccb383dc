"""Runs llama.cpp's server: MODEL PORT SLOTS. It runs in the servers' venv, where Headway is not installed."""

from __future__ import annotations

import signal
import sys

#: Tokens of a request and its answer, in one slot.
CONTEXT = 512


def main(model: str, port: int, slots: int) -> None:
    """Serve until the process is ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * CONTEXT
    # One thread computes, so that the server leaves a core to its clients.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
