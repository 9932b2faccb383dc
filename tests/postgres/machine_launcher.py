"""Starts `headway ARGS` with a clock that is wrong by `HEADWAY_TEST_SKEW_S` seconds, or on all addresses of the machine (the fake provider)."""

from __future__ import annotations

import os
import sys
import time

skew_s, really = float(os.environ.get("HEADWAY_TEST_SKEW_S", "0")), time.time
time.time = lambda: really() + skew_s

from headway.entry import main  # noqa: E402 - everything sees the wrong clock.
from headway.fake import server  # noqa: E402

server.HOST = os.environ.get("HEADWAY_TEST_HOST", server.HOST)
sys.exit(main())
