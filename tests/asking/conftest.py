"""A fake provider and a working directory whose headway.toml names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.api.asking.provider_calls import close_shared
from headway.testing import FakeProvider, fake_provider

KEY = "sk-asking-7d1f0c55a9"
#: "#fits" fits a review at once, "#repaired" at the second time, "#never" never.
ANSWERS = (
    {"contains": "#fits", "turns": [{"mood": "good", "score": 3}]},
    {"contains": "#repaired", "turns": [{"mood": "good"}, {"mood": "better", "score": 1}]},
    {"contains": "#never", "turns": ["sorry"]},
    {"contains": "Rate this review", "turns": [{"sentiment": "negative", "score": 0.9}]},
)
#: Accounts by key, for faults.
ACCOUNTS: dict[str, dict[str, object]] = {
    "flaky": {"key": "sk-flaky-7d1f0c55a9", "latency": "1ms", "faults": [{"kind": "500", "every": 2}]},
    "revoked": {"key": "sk-revoked-7d1f0c55a9", "faults": [{"kind": "401"}]},
    "slow": {"key": "sk-slow-7d1f0c55a9", "latency": "60s"},
}


@pytest.fixture(scope="session")
def fake() -> Iterator[FakeProvider]:
    with fake_provider(latency="1ms", answers=ANSWERS, accounts=ACCOUNTS) as provider:
        yield provider


def configure(fake: FakeProvider, more: str = "") -> None:
    """Write headway.toml into the working directory."""
    Path("headway.toml").write_text(
        f'[providers.alpha]\nkind = "openai"\nbase_url = "{fake.openai_url}"\napi_key_env = "ALPHA_KEY"\n'
        'model = "gpt-x"\n[providers.alpha.limits]\nmax_concurrency = 32\n'
        f'[providers.alpha.retry]\nbase = "1ms"\n{more}\n'
    )


@pytest.fixture
def provider(fake: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """The provider, its counts at zero."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALPHA_KEY", KEY)
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    configure(fake)
    fake.reset()
    yield fake
    close_shared()
