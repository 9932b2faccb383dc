"""The section `ask`: what it measures is measured, on a small scale."""

from __future__ import annotations

from bench import asking
from bench.asking import FirstTokens, FrameMemory


def test_first_tokens_of_both_are_timed() -> None:
    first = asking.first_tokens(turns=1)
    assert len(first.bare_s) == len(first.ask_s) == 1
    assert FirstTokens([0.1, 0.2, 0.3], [0.5, 0.4, 0.3]).over_s == 0.2


def test_a_frame_that_keeps_every_request_would_be_seen() -> None:
    small, large = asking.frame_memory(200, 400)
    assert (small.rows, large.rows) == (200, 400)
    assert small.peak_bytes > small.kept_bytes > 0
    assert FrameMemory(1, 100, 40, 0.0).beside_bytes == 60
