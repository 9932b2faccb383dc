"""`headway init`: the file loads, explains every setting and contains no API key."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import Done, Headway
from tests.crash.stage import Stage

from headway.cli import main
from headway.config import key_of, load
from headway.config.kinds import KINDS
from headway.config.kinds.bedrock import AWS_VARIABLES
from headway.config.known_vendors import PROFILES as VENDOR_PROFILES
from headway.config.known_vendors import REGION, Vendor
from headway.config.routing import Router
from headway.config.starter import ADDRESS_VARIABLES, HOSTS, DetectedAccount, accounts, starter
from headway.config.toml_schema import TABLES
from headway.providers.limits.profiles import PROFILES, profile_for

SECRET = "sk-init-0c9d8e7f6a5b4c3d"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and an environment without keys."""
    names = [host.variable for host in HOSTS] + [*ADDRESS_VARIABLES.values(), *AWS_VARIABLES]
    names += ["GOOGLE_API_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"]
    for name in (*names, "HEADWAY_DB", "HEADWAY_CONFIG", "HEADWAY_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(capfd: pytest.CaptureFixture[str], *args: str) -> Done:
    capfd.readouterr()
    code = main(["init", *args])
    return Done(code, *capfd.readouterr())


def switched_on(text: str) -> str:
    """The file with every commented setting switched on."""
    return re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)


def test_each_key_becomes_a_provider_and_no_key_is_written_or_printed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for host in HOSTS:
        monkeypatch.setenv(host.variable, f"{SECRET}-{host.name}")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    done = init(capfd)
    assert done.code == 0, done.err
    text = (here / "headway.toml").read_text(encoding="utf-8")
    config = load(None, here, os.environ)
    assert list(config.providers) == [host.name for host in HOSTS]
    assert config.run.provider == "openai", "with several, one of them is the default"
    for host in HOSTS:
        provider = config.providers[host.name]
        address = host.base_url.replace(REGION, "eu-west-1") or "https://r.openai.azure.com"
        assert (provider.kind, provider.base_url) == (host.kind, address)
        assert provider.api_key_env == host.variable
        assert host.variable in done.out
    assert SECRET not in text + done.out + done.err
    assert "next: headway doctor" in done.out


def test_the_addresses_are_those_of_the_profiles() -> None:
    addresses = {host.name: host.base_url.replace(REGION, "us-east-1") for host in HOSTS if host.base_url}
    assert {name: profile_for(address).name for name, address in addresses.items()} == {
        name: name for name in addresses
    }
    assert set(VENDOR_PROFILES) <= set(PROFILES)


def test_what_an_account_lacks_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0123456789")
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    done = init(capfd)
    assert "AZURE_OPENAI_API_KEY is set, but not AZURE_OPENAI_ENDPOINT" in done.out
    assert "AWS_ACCESS_KEY_ID is set, but not AWS_REGION" in done.out
    [provider] = load(None, here, os.environ).providers.values()
    assert (provider.name, provider.api_key_env) == ("gemini", "GOOGLE_API_KEY")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert init(capfd, "--force").code == 0
    providers = load(None, here, os.environ).providers
    assert list(providers) == ["azure", "gemini", "bedrock"]
    assert providers["bedrock"].region == "us-west-2"
    assert key_of(providers["bedrock"], os.environ, {}) == f"AKIA0123456789:{SECRET}"
    assert SECRET not in (here / "headway.toml").read_text()
    assert "AKIA" not in (here / "headway.toml").read_text()


def test_a_key_from_an_env_file(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / ".env").write_text(f"GROQ_API_KEY={SECRET}\nOPENAI_API_KEY=\n")
    facts = json.loads(init(capfd, "--json").out)
    assert facts["path"] == str(here / "headway.toml")
    [found] = facts["found"]
    assert (found["provider"], found["variable"], found["where"]) == ("groq", "GROQ_API_KEY", ".env")
    assert facts["next"][0] == "headway doctor"
    config = load(None, here, {})
    assert list(config.providers) == ["groq"]
    assert SECRET not in json.dumps(facts) + (here / "headway.toml").read_text()


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_the_file_names_a_model_that_rows_without_one_use(here: Path, host: Vendor) -> None:
    environ = {
        host.variable: "set",
        "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com",
        "AWS_REGION": "eu-west-1",
    }
    (here / "headway.toml").write_text(starter(accounts(environ, {})), encoding="utf-8")
    config = load(None, here, {})
    if host.name in ("azure", "bedrock"):  # A deployment of the account, or a model of the region.
        assert config.providers[host.name].model is None
        return
    target = Router(config).route(None)
    assert (target.provider, target.model) == (host.name, host.model)


def test_a_missing_model_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com")
    assert "note: set model in [providers.azure]" in init(capfd).out


def test_without_a_key_the_file_names_a_local_server(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = init(capfd)
    assert done.code == 0
    assert "no key was found" in done.out
    assert "next: headway fake --port 8900" in done.out
    [provider] = load(None, here, {}).providers.values()
    assert provider.base_url == "http://127.0.0.1:8900/v1"
    assert f"export {provider.api_key_env}=" in done.out
    assert provider.model, "rows need name none"


def test_the_next_steps_work(
    stage: Stage, headway: Headway, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.input.unlink()
    assert headway("init", "--force").code == 0
    path = here / "headway.toml"
    path.write_text(path.read_text().replace("127.0.0.1:8900", f"127.0.0.1:{stage.fake.port}"))
    monkeypatch.setenv("LOCAL_KEY", "anything")
    (here / "one.jsonl").write_text('{"prompt": "What is a headway?"}\n')
    assert headway("doctor").code == 0
    assert headway("run", "one.jsonl", "-q").code == 0


@pytest.mark.parametrize("names", [(), ("openai",), ("anthropic", "groq"), ("groq",)])
def test_every_key_is_explained_and_every_setting_can_be_switched_on(
    here: Path, names: tuple[str, ...]
) -> None:
    found = accounts({host.variable: "set" for host in HOSTS if host.name in names}, {})
    text = starter(found)
    whole = tomllib.loads(switched_on(text))
    [first, *_] = whole["providers"].values()
    tables = {"": whole, "providers.NAME": first, "run": whole["run"]}
    tables |= {f"providers.NAME.{name}": first[name] for name in ("limits", "retry", "prices")}
    for place, keys in TABLES.items():
        if place in tables:
            # These belong to single kinds, and are in the tables of those kinds.
            own = {key for kind in KINDS.values() if not kind.is_server for key in kind.keys}
            assert keys.keys() - {"like", "api_version", "region", *own} <= tables[place].keys(), place
    [model] = first["models"].values()
    assert list(model["prices"]) == ["like"], "it stands alone"
    path = here / "headway.toml"
    path.write_text(switched_on(text).replace('pool = "all"', ""), encoding="utf-8")
    on = load(None, here, {})
    path.write_text(text, encoding="utf-8")
    off = load(None, here, {})
    assert list(on.providers) == list(off.providers)
    for at, line in enumerate(lines := text.splitlines()):
        if line.lstrip("#").startswith("["):
            assert lines[at - 1].startswith("# "), f"{line} does not say what it is for"


def test_defaults_that_are_shown_are_the_defaults(here: Path) -> None:
    text = switched_on(starter(accounts({"OPENAI_API_KEY": "set"}, {})))
    (here / "headway.toml").write_text(text.replace('pool = "all"', ""), encoding="utf-8")
    shown = load(None, here, {})
    (here / "headway.toml").write_text('[providers.openai]\nkind = "openai"\n[run]\nprovider = "openai"')
    bare = load(None, here, {})
    assert shown.run == bare.run
    assert shown.db == bare.db
    assert shown.providers["openai"].retry == bare.providers["openai"].retry
    limits, none = shown.providers["openai"].limits, bare.providers["openai"].limits
    assert (limits.min_gap_s, limits.burst_s) == (none.min_gap_s, none.burst_s)


def test_an_address_in_the_environment_is_kept(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A key that is sent to a gateway without a file goes to the same gateway with one."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/openai/v1/")
    before = load(None, here, os.environ).providers["openai"].base_url
    assert init(capfd).code == 0
    assert (
        load(None, here, os.environ).providers["openai"].base_url
        == before
        == "https://gateway.example/openai/v1"
    )


def test_an_address_cannot_write_into_the_file() -> None:
    odd = DetectedAccount("openai", "OpenAI", "openai", "OPENAI_API_KEY", "environment", 'https://h/a"b')
    assert tomllib.loads(starter([odd]))["providers"]["openai"]["base_url"] == 'https://h/a"b'


@pytest.mark.parametrize("link", [False, True])
def test_an_existing_file_stays_without_force(
    here: Path, capfd: pytest.CaptureFixture[str], link: bool
) -> None:
    path = here / "headway.toml"
    if link:
        path.symlink_to(here / "nowhere.toml")
    else:
        path.write_text("# mine\n")
    refused = init(capfd)
    assert refused.code == 2
    assert "--force" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert not (here / "nowhere.toml").exists()
    assert link or path.read_text() == "# mine\n"
    assert init(capfd, "--force").code == 0
    assert "[providers.local]" in path.read_text()
    assert sorted(one.name for one in here.iterdir()) == ["headway.toml"]


def test_a_config_in_a_parent_directory_is_mentioned(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "headway.toml").write_text("")
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    monkeypatch.setenv("HEADWAY_CONFIG", "other.toml")
    done = init(capfd)
    assert done.code == 0
    assert f"note: {here / 'headway.toml'} is no longer used in this directory" in done.out
    assert "HEADWAY_CONFIG" in done.out
