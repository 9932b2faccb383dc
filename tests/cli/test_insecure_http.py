"""A key is sent to another machine over plain http only if a flag or a setting allows it."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.config import load
from headway.config.api_keys import key_to_send
from headway.errors import ConfigError

KEY = "sk-plain-0123456789abcdef"


@pytest.fixture
def place(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The fake under an address that counts as another machine but is this one."""
    monkeypatch.setenv("ALPHA_KEY", KEY)
    configure(stage)
    return stage


def elsewhere(stage: Stage) -> str:
    return stage.fake.url.replace("127.0.0.1", "0.0.0.0") + "/v1"


def configure(stage: Stage, base_url: str = "", more: str = "") -> None:
    lines = ["[providers.alpha]", 'kind = "openai"', f'base_url = "{base_url or elsewhere(stage)}"']
    lines += ['api_key_env = "ALPHA_KEY"', 'model = "m"', more]
    (stage.root / "headway.toml").write_text("\n".join(lines))


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_run_is_refused_before_anything_is_sent(
    place: Stage, headway: Headway, flags: tuple[str, ...]
) -> None:
    done = headway("run", "in.jsonl", *flags)
    assert done.code == 2
    assert done.err.strip() == (
        f"headway: provider 'alpha': its key would be sent to {elsewhere(place)} without encryption — write https:// in its "
        "base_url, or allow it with --insecure-http or with insecure_http = true in [providers.alpha]"
    )
    assert KEY not in done.out + done.err
    assert not (place.root / "in.results.jsonl").exists()
    assert json.loads(headway("jobs", "--json").out or "[]") == [], "no job was made"


def test_a_flag_allows_it(place: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--insecure-http").code == 0


def test_the_file_allows_it(place: Stage, headway: Headway) -> None:
    configure(place, more="insecure_http = true")
    assert headway("run", "in.jsonl").code == 0


def test_a_job_that_was_started_before_is_refused_too(
    place: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    begun = headway("run", "in.jsonl", "--insecure-http")
    assert begun.code == 1
    assert "headway resume" in begun.err
    assert "--insecure-http" in begun.err, "the command that goes on has the flag"
    monkeypatch.setenv("ALPHA_KEY", KEY)
    again = headway("resume")
    assert again.code == 2
    assert "without encryption" in again.err
    assert headway("resume", "--insecure-http").code == 0


def test_a_plan_needs_no_permission(place: Stage, headway: Headway) -> None:
    assert headway("plan", "in.jsonl").code == 0


def test_doctor_names_it(place: Stage, headway: Headway) -> None:
    def key_check(*flags: str) -> dict[str, str]:
        checks = json.loads(headway("doctor", "--offline", "--json", *flags).out)["checks"]
        found: dict[str, str] = next(check for check in checks if check["name"] == "alpha key")
        return found

    refused = key_check()
    assert refused["state"] == "problem"
    assert "--insecure-http" in refused["next"]
    assert key_check("--insecure-http")["state"] == "ok"


@pytest.mark.parametrize(
    ("base_url", "allowed"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.8.8.8", True),
        ("http://localhost:8000", True),
        ("http://LOCALHOST.", True),
        ("http://api.localhost/v1", True),
        ("http://[::1]:8000", True),
        ("https://192.0.2.7", True),
        ("http://10.0.0.5:8000", False),
        ("http://192.168.0.7", False),
        ("http://0.0.0.0:8000", False),
        ("http://[fd00::1]", False),
        ("http://gpu-box:8000", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
    ],
)
def test_which_addresses_are_other_machines(place: Stage, base_url: str, allowed: bool) -> None:
    configure(place, base_url)
    provider = load(None, place.root, {}).providers["alpha"]
    if allowed:
        assert key_to_send(provider, {"ALPHA_KEY": KEY}, {}) == KEY
    else:
        with pytest.raises(ConfigError, match="without encryption"):
            key_to_send(provider, {"ALPHA_KEY": KEY}, {})
