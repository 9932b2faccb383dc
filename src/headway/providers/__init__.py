"""Providers: what they say, and what it means. `understand` turns an answer into facts; profiles are the data behind it.

Only `http` talks to the network; the dialects beside it say how each API is asked.
"""

from __future__ import annotations

from headway.providers.hints import understand
from headway.providers.profile import Gauge, Profile, Session
from headway.providers.profiles import GENERIC, PROFILES, profile_for
from headway.providers.seen import Facts, Seen

__all__ = ["GENERIC", "PROFILES", "Facts", "Gauge", "Profile", "Seen", "Session", "profile_for", "understand"]
