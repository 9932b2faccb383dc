"""For your own tests: virtual time, scripted callables, a fake provider on loopback.

    with headway.testing.virtual_time() as clock:      # hours pass in milliseconds
        headway.map(call, items)
    with headway.testing.fake_provider(rpm=60) as provider:   # real HTTP, real limits, no key
        ...  # point your client at provider.url

Everything here is public and documented in docs/how-to/testing.md.
"""

from headway.testing.provider import FakeProvider, fake_provider
from headway.testing.script import Call, Scripted, after, scripted
from headway.testing.virtual import Clock, VirtualLoop, virtual_time

__all__ = [
    "Call",
    "Clock",
    "FakeProvider",
    "Scripted",
    "VirtualLoop",
    "after",
    "fake_provider",
    "scripted",
    "virtual_time",
]
