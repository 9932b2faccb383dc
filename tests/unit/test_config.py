"""`headway.toml` is read, or refused in one line that names the file, the key and what was expected."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config import (
    Config,
    ProviderConfig,
    RetryConfig,
    RunConfig,
    find,
    host_of,
    key_of,
    lane_key,
    load,
    parse_duration,
    toml_schema,
    with_overrides,
)
from headway.config.duration_setting import LONGEST_S
from headway.config.kinds.python import workers_of
from headway.core.model import Kind, LaneLimits, Price, RetryPolicy, Usage
from headway.errors import ConfigError, UsageError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "config.md"
SALT = b"salt of a store"
KEY = "sk-proj-0123456789abcdefghijklmnop"
KINDS = "openai, anthropic, azure, gemini, bedrock, python, command, claude, codex, gemini-cli, opencode"

ALPHA = """
[providers.alpha]
kind = "openai"
base_url = "http://127.0.0.1:8900/v1"
api_key_env = "ALPHA_KEY"
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "headway.toml"
    path.write_text(text, encoding="utf-8")
    return path


def loaded(directory: Path, text: str, **environ: str) -> Config:
    return load(written(directory, text), directory, environ)


def alpha(directory: Path, extra: str = "") -> ProviderConfig:
    return loaded(directory, ALPHA + extra).providers["alpha"]


def error_of(directory: Path, text: str, **environ: str) -> str:
    """The error for a file, without the file's name at its beginning."""
    path = written(directory, text)
    with pytest.raises(ConfigError) as caught:
        load(path, directory, environ)
    expected = str(caught.value)
    assert expected.startswith(f"{path}: ")
    return expected.removeprefix(f"{path}: ")


# What a good file gives


def test_the_example_of_the_design_is_read(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        db = ".headway/headway.db"
        [providers.alpha]
        kind = "openai"
        base_url = "http://127.0.0.1:8900/v1"
        api_key_env = "ALPHA_KEY"
        model = "gpt-x"
        stream = true
        [providers.alpha.limits]
        rpm = 3000
        tpm = 200_000
        input_tpm = 100_000
        output_tpm = 50_000
        rpd = 10_000
        tpd = 2e6
        max_concurrency = 64
        min_gap = "250ms"
        burst = "auto"
        [providers.alpha.retry]
        base = "2s"
        cap = "30s"
        jitter = 0.1
        max_throttles = 7
        hold_margin = "3s"
        default_wait = 90
        [providers.alpha.models."gpt-x".limits]
        rpm = 500
        [run]
        provider = "alpha"
        concurrency = 12
        max_attempts = 3
        timeout = "5m"
        max_duration = "8h"
        max_cost = 12.5
        max_hold = "1h"
        """,
    )
    limits = LaneLimits(3000.0, 200_000.0, 100_000.0, 50_000.0, 10_000.0, 2e6, 64, 0.25, None)
    assert config == Config(
        path=tmp_path / "headway.toml",
        root=tmp_path,
        db=str(tmp_path / ".headway/headway.db"),
        db_is_named=True,
        providers={
            "alpha": ProviderConfig(
                name="alpha",
                kind="openai",
                base_url="http://127.0.0.1:8900/v1",
                api_key_env="ALPHA_KEY",
                model="gpt-x",
                limits=limits,
                retry=RetryConfig(2.0, 30.0, 0.1, 7, 3.0, 90.0),
                models={"gpt-x": msgspec.structs.replace(limits, rpm=500.0)},
                stream=True,
            )
        },
        run=RunConfig("alpha", 12, 3, 300.0, 28_800.0, 12.5, 3600.0),
    )


def test_an_empty_file_is_valid(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    assert (config.providers, config.run) == ({}, RunConfig())
    assert config.db == str(tmp_path / ".headway" / "headway.db")


@pytest.mark.parametrize(
    ("kind", "url", "variable"),
    [
        ("openai", "https://api.openai.com", "OPENAI_API_KEY"),
        ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("gemini", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"),
    ],
)
def test_a_kind_has_a_default_address_and_variable(
    tmp_path: Path, kind: str, url: str, variable: str
) -> None:
    provider = loaded(tmp_path, f'[providers.p]\nkind = "{kind}"').providers["p"]
    assert (provider.base_url, provider.api_key_env, provider.key_optional) == (url, variable, False)
    assert (provider.model, provider.pool, provider.stream, provider.limits.known) == (
        None,
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("table", "url", "variable", "in_flight"),
    [
        ('kind = "openai"\nprofile = "groq"', "https://api.groq.com/openai/v1", "GROQ_API_KEY", None),
        ('kind = "openai"\nbase_url = "https://api.groq.com/openai/v1"', "https://api.groq.com/openai/v1", "GROQ_API_KEY", None),
        ('kind = "openai"\nbase_url = "https://gw/v1"\nprofile = "generic"', "https://gw/v1", "OPENAI_API_KEY", None),
        ('kind = "openai"\nprofile = "vllm"', "http://127.0.0.1:8000/v1", "VLLM_API_KEY", 256),
        ('kind = "openai"\nprofile = "ollama"\nlimits = {max_concurrency = 16}', "http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", 16),
        ('kind = "bedrock"\nregion = "eu-west-3"', "https://bedrock-runtime.eu-west-3.amazonaws.com", "AWS_BEARER_TOKEN_BEDROCK", None),
        ('kind = "azure"\nbase_url = "https://r.openai.azure.com/"', "https://r.openai.azure.com", "AZURE_OPENAI_API_KEY", None),
    ],
)  # fmt: skip
def test_a_profile_sets_address_and_variable(
    tmp_path: Path, table: str, url: str, variable: str, in_flight: int | None
) -> None:
    provider = loaded(tmp_path, f"[providers.p]\n{table}").providers["p"]
    assert (provider.base_url, provider.api_key_env) == (url, variable)
    assert provider.limits.max_concurrency == in_flight
    assert provider.key_optional is url.startswith("http://127")


def test_geminis_key_may_be_in_two_variables(tmp_path: Path) -> None:
    provider = loaded(tmp_path, '[providers.p]\nkind = "gemini"').providers["p"]
    assert key_of(provider, {"GOOGLE_API_KEY": "g"}, {}) == "g"
    assert key_of(provider, {"GOOGLE_API_KEY": "g"}, {"GEMINI_API_KEY": "own"}) == "own"
    with pytest.raises(ConfigError, match="GEMINI_API_KEY is not set"):
        key_of(provider, {}, {})


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "headway.toml"
    path.write_bytes(b"\xef\xbb\xbf" + ALPHA.encode().replace(b"\n", b"\r\n"))
    assert list(load(path, tmp_path, {}).providers) == ["alpha"]


@pytest.mark.parametrize(
    ("written_url", "url"),
    [
        ("http://h", "http://h"),
        ("http://h/", "http://h"),
        ("http://h/v1", "http://h/v1"),
        ("http://h/v1//", "http://h/v1"),
        ("HTTPS://h:8443/v1beta/openai/", "https://h:8443/v1beta/openai"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_is_kept_without_its_trailing_slash(tmp_path: Path, written_url: str, url: str) -> None:
    config = loaded(tmp_path, f'[providers.p]\nkind = "openai"\nbase_url = "{written_url}"')
    assert config.providers["p"].base_url == url


# Limits and retries


def test_a_model_overrides_some_limits_and_inherits_the_rest(tmp_path: Path) -> None:
    provider = alpha(
        tmp_path,
        """
        [providers.alpha.limits]
        rpm = 3000
        tpm = 200_000
        burst = "10s"
        [providers.alpha.models."gpt-y".limits]
        rpm = 0
        burst = "auto"
        [providers.alpha.models.bare]
        """,
    )
    assert provider.limits_for("gpt-y") == LaneLimits(rpm=0.0, tpm=200_000.0)
    assert provider.limits_for("bare") == provider.limits
    assert provider.limits_for("another") == provider.limits == LaneLimits(3000.0, 200_000.0, burst_s=10.0)


def test_without_limits_they_are_unknown(tmp_path: Path) -> None:
    assert not alpha(tmp_path).limits_for("gpt-x").known


def test_zero_is_a_known_limit(tmp_path: Path) -> None:
    assert alpha(tmp_path, "[providers.alpha.limits]\nrpm = 0").limits.known


def test_the_run_sets_the_attempts_of_retries(tmp_path: Path) -> None:
    provider = alpha(tmp_path, '[providers.alpha.retry]\nbase = "5s"\ncap = "2m"')
    assert provider.retry_for(9) == RetryPolicy(max_attempts=9, base_s=5.0, cap_s=120.0)
    assert alpha(tmp_path).retry_for(5) == RetryPolicy()


# What a bad file is told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dbb = 'x'", "dbb: unknown key; did you mean 'db'?"),
        ("[providers.alpha]\nkindd = 'openai'", "providers.alpha.kindd: unknown key; did you mean 'kind'?"),
        (
            f"{ALPHA}[providers.alpha.limits]\nrmp = 5",
            "providers.alpha.limits.rmp: unknown key; did you mean 'rpm'?",
        ),
        (f"{ALPHA}rpm = 5", "providers.alpha.rpm: unknown key; it belongs in [providers.NAME.limits]"),
        ("timeout = '5m'", "timeout: unknown key; it belongs in [run]"),
        (
            "[run]\ndb = 'x'",
            "run.db: unknown key; it belongs at the top, before every [table]",
        ),
        (f"{ALPHA}max_throttle = 5", "did you mean 'max_throttles' in [providers.NAME.retry]?"),
        (
            f"{ALPHA}[providers.alpha.models.'gpt.4'.limits]\nburts = 5",
            "providers.alpha.models.\"gpt.4\".limits.burts: unknown key; did you mean 'burst'?",
        ),
        (
            "[run]\nzzz = 1",
            "run.zzz: unknown key; expected one of provider, concurrency, max_attempts, timeout, max_duration,",
        ),
        (f"{ALPHA}{'x' * 99} = 1", f'providers.alpha."{"x" * 60}…": unknown key'),
    ],
)
def test_an_unknown_key_suggests_the_nearest(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in error_of(tmp_path, text)


def test_an_api_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    expected = error_of(tmp_path, f'{ALPHA}api_key = "{KEY}"')
    assert expected == (
        "providers.alpha.api_key: a key is never written into this file; name the variable that holds it: "
        "api_key_env"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rpm = '500'", "rpm: expected a number of 0 or more, not a string"),
        ("rpm = true", "rpm: expected a number of 0 or more, not true"),
        ("rpm = [1]", "rpm: expected a number of 0 or more, not a list"),
        ("rpm = {a = 1}", "rpm: expected a number of 0 or more, not a table"),
        ("rpm = 2026-01-01", "rpm: expected a number of 0 or more, not a date or time"),
        ("rpm = -1", "rpm: expected a number of 0 or more, not -1"),
        ("tpm = nan", "tpm: expected a number of 0 or more, not nan"),
        ("tpm = inf", "tpm: expected a number of 0 or more, not so large a number"),
        ("tpm = -0.5", "tpm: expected a number of 0 or more, not -0.5"),
        ("tpd = 1e13", "tpd: expected a number of 0 or more, not so large a number"),
        ("rpd = -inf", "rpd: expected a number of 0 or more, not so large a number"),
        ("max_concurrency = 1.5", "max_concurrency: expected a whole number of 0 or more, not 1.5"),
        ("max_concurrency = -3", "max_concurrency: expected a whole number of 0 or more, not -3"),
        ("min_gap = 'soon'", 'min_gap: expected a duration such as "10m", "250ms" or "1h30m" (units:'),
        ("min_gap = -1", "min_gap: expected a duration"),
        ("min_gap = nan", "min_gap: expected a duration"),
        ("min_gap = false", "min_gap: expected a duration such as"),
        ("burst = 'never'", 'burst: expected "auto" or a duration'),
        (
            "burst = 0",
            'burst: expected "auto" or a duration such as "10m", "250ms" or "1h30m", longer than 0',
        ),
    ],
)
def test_an_invalid_limit_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    table = f"{ALPHA}[providers.alpha.limits]\n{line}"
    assert error_of(tmp_path, table).startswith(f"providers.alpha.limits.{expected}")
    table = f"{ALPHA}[providers.alpha.models.m.limits]\n{line}"
    assert error_of(tmp_path, table).startswith(f"providers.alpha.models.m.limits.{expected}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("jitter = 1.5", "jitter: expected a number between 0 and 1, not 1.5"),
        ("jitter = nan", "jitter: expected a number between 0 and 1, not nan"),
        ("max_throttles = -1", "max_throttles: expected a whole number of 0 or more, not -1"),
        ("base = '2m'", "cap: 60 s is shorter than the base, 120 s"),
    ],
)
def test_an_invalid_retry_setting_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    assert (
        error_of(tmp_path, f"{ALPHA}[providers.alpha.retry]\n{line}") == f"providers.alpha.retry.{expected}"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("concurrency = -1", "concurrency: expected a whole number of 0 or more, not -1"),
        ("concurrency = 9_999_999_999", "concurrency: expected a whole number of 0 or more, not 9999999999"),
        ("max_attempts = 0", "max_attempts: expected a whole number of 1 or more, not 0"),
        ("max_attempts = true", "max_attempts: expected a whole number of 1 or more, not true"),
        ("timeout = 0", 'timeout: expected a duration such as "10m", "250ms" or "1h30m", longer than 0'),
        ("max_duration = '400d'", "max_duration: expected a duration such as"),
        ("max_cost = -1", "max_cost: expected a number of 0 or more, not -1"),
        ("max_cost = nan", "max_cost: expected a number of 0 or more, not nan"),
        ("max_hold = 'ever'", 'max_hold: expected "unlimited" or a duration'),
        ("provider = 5", "provider: expected a string, not 5"),
        ("provider = ''", "provider: expected a string, not an empty string"),
        ("provider = 'alpah'", "provider: there is no provider of that name; did you mean 'alpha'?"),
        ("provider = 'zzz'", "provider: there is no provider of that name; there are: alpha"),
    ],
)
def test_an_invalid_run_setting_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    assert error_of(tmp_path, f"{ALPHA}[run]\n{line}").startswith(f"run.{expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[providers.alpha]\n", f"providers.alpha.kind: missing; expected one of {KINDS}"),
        (
            "[providers.a]\nkind = 'azure'",
            "providers.a.base_url: missing; the endpoint of your resource: https://NAME.openai.azure.com",
        ),
        (
            "[providers.a]\nkind = 'azure'\nbase_url = 'https://r.openai.azure.com/openai/deployments/x'",
            "providers.a.base_url: expected an address that ends before the endpoint, with or without /v1",
        ),
        (
            "[providers.a]\nkind = 'bedrock'",
            'providers.a.region: missing; the one where your models are, such as "us-east-1"',
        ),
        (
            "[providers.a]\nkind = 'bedrock'\nregion = 'Frankfurt'",
            'providers.a.region: expected a region such as "us-east-1", not a string',
        ),
        (
            "[providers.a]\nkind = 'openai'\nregion = 'us-east-1'",
            'providers.a.region: only for kind = "bedrock"',
        ),
        (
            "[providers.a]\nkind = 'openai'\napi_version = '2024-10-21'",
            'providers.a.api_version: only for kind = "azure"',
        ),
        (
            "[providers.a]\nkind = 'azure'\nbase_url = 'https://r'\napi_version = 'v2'",
            'providers.a.api_version: expected a version such as "2024-10-21", not a string',
        ),
        (
            "[providers.a]\nkind = 'openai'\nprofile = 'grok'",
            "providers.a.profile: unknown; did you mean 'groq'?",
        ),
        (
            "[providers.a]\nkind = 'openai'\nprofile = 'gemini'",
            'providers.a.profile: Gemini needs kind = "gemini"',
        ),
        (
            "[providers.a]\nkind = 'command'",
            'providers.a.command: missing; the program and its arguments, such as ["agent", "{{model}}"]',
        ),
        (
            "[providers.a]\nkind = 'codex'\noutput = 'json'",
            'providers.a.output: not for kind codex; it is for kind = "command"',
        ),
        (
            "[providers.a]\nkind = 'codex'\npreflight = 'command'",
            "providers.a.preflight_command: missing; the command that checks whether the account is open",
        ),
        (
            "[providers.a]\nkind = 'claude'\nexit_codes = {75 = 'later'}",
            "providers.a.exit_codes: expected a kind of error for exit code 75: " + ", ".join(Kind),
        ),
        ("[providers.a]\nkind = 'opnai'", f"providers.a.kind: expected a kind of provider: {KINDS}"),
        (
            "[providers.a]\nkind = 3",
            f"providers.a.kind: expected a kind of provider: {KINDS}, not 3",
        ),
        (f"{ALPHA}model = ''", "providers.alpha.model: expected a string, not an empty string"),
        (f"{ALPHA}pool = 7", "providers.alpha.pool: expected a string, not 7"),
        (
            f'{ALPHA}model = "a\\nb"',
            "providers.alpha.model: expected a string without line breaks and control characters",
        ),
        (f"{ALPHA}stream = 1", "providers.alpha.stream: expected true or false, not 1"),
        (f"{ALPHA}limits = 3", "providers.alpha.limits: expected a table, not 3"),
        (f"{ALPHA}models = 'x'", "providers.alpha.models: expected a table, not a string"),
        (f"{ALPHA}models.m = 1", "providers.alpha.models.m: expected a table, not 1"),
        ("providers = []", "providers: expected a table, not a list"),
        ("providers.a = 1", "providers.a: expected a table, not 1"),
        ("run = 1", "run: expected a table, not 1"),
        (
            "[providers.'a/b']\nkind = 'openai'",
            'providers."a/b": a provider\'s name has letters, digits, dots, dashes and underscores',
        ),
        (
            f"{ALPHA}pool = 'org'\n[providers.alpha.models.m.limits]\nrpm = 1",
            "providers.alpha.models: a pool is one lane with one set of limits and one max_cost; its models have none of their own",
        ),
        ("db = 5", "db: expected a path or a postgresql:// address, not 5"),
        ("db = ''", "db: expected a path or a postgresql:// address, not an empty string"),
        ("db = 'mysql://root:secret@h/x'", "db: expected a path or a postgresql:// address"),
        ("db = '~nobody-of-this-name/x'", "there is no such home directory"),
        ("a = ", "not TOML: Invalid value"),
        ("[run]\n[run]", "not TOML: Cannot declare ('run',) twice"),
        ("a = " + "[" * 100_000, "not TOML: nested too deeply"),
    ],
)
def test_every_error_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    error = error_of(tmp_path, text)
    assert expected in error
    assert "secret" not in error
    assert "\n" not in error


@pytest.mark.parametrize(
    "value",
    [KEY, "sk-x", "my key", "ALPHA-KEY", "1KEY", "", "gsk_0123456789abcdefghij", "AIzaSy0123456789abcdef"],
)
def test_an_api_key_in_api_key_env_is_not_repeated(tmp_path: Path, value: str) -> None:
    expected = error_of(tmp_path, f'[providers.p]\nkind = "openai"\napi_key_env = "{value}"')
    assert expected.startswith(
        "providers.p.api_key_env: expected the NAME of an environment variable, such as OPENAI_API_KEY; "
    )
    assert not value or value not in expected


@pytest.mark.parametrize("name", ["ALPHA_KEY", "alpha_key", "_K", "sk_live", "OPENAI_API_KEY_2"])
def test_names_of_variables_are_accepted(tmp_path: Path, name: str) -> None:
    text = f'[providers.p]\nkind = "openai"\napi_key_env = "{name}"'
    assert loaded(tmp_path, text).providers["p"].api_key_env == name


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ftp://h", "expected an address that begins with http:// or https://"),
        ("api.openai.com", "expected an address that begins with http:// or https://"),
        ("http://", "expected an address that begins with http:// or https://"),
        ("http://h:99999", "expected an address with a host, and a port from 1 to 65535"),
        ("http://h:0", "expected an address with a host, and a port from 1 to 65535"),
        ("http://h a", "expected an address with a host, and a port from 1 to 65535"),
        ("http://[::1", "expected an address with a host, and a port from 1 to 65535"),
        ("", "expected an address that begins with http:// or https://, not an empty string"),
        ("http://user:hunter2@h", "expected an address without user and password"),
        ("http://hunter2@h/v1", "expected an address without user and password"),
        ("http://h/v1?key=hunter2", "expected an address without ? and #"),
        ("http://h/#hunter2", "expected an address without ? and #"),
        ("http://h/v1/chat/completions", "expected an address that ends before the endpoint"),
        ("http://h/v1/messages/", "expected an address that ends before the endpoint"),
    ],
)
def test_an_invalid_address_is_refused_and_not_repeated(tmp_path: Path, url: str, expected: str) -> None:
    error = error_of(tmp_path, f'[providers.p]\nkind = "openai"\nbase_url = "{url}"')
    assert error.startswith(f"providers.p.base_url: {expected}")
    assert "hunter2" not in error


def test_an_address_that_is_not_a_string_is_refused(tmp_path: Path) -> None:
    expected = error_of(tmp_path, '[providers.p]\nkind = "openai"\nbase_url = 8')
    assert expected == "providers.p.base_url: expected an address that begins with http:// or https://, not 8"


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "headway.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"not a text file — headway\.toml is written in UTF-8"):
        load(path, tmp_path, {})


def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        load(tmp_path, tmp_path, {})


# Where it comes from


def test_the_file_is_found_in_the_nearest_parent(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "headway.toml").mkdir()
    outer = written(tmp_path, "")
    assert find(inner) == outer
    assert find(inner / "b") == outer
    nearer = written(inner, "")
    assert find(inner) == nearer


def test_paths_in_a_file_that_was_found_are_relative_to_it(tmp_path: Path) -> None:
    inner = tmp_path / "a"
    inner.mkdir()
    written(tmp_path, "db = 'x/y.db'")
    config = load(None, inner, {})
    assert (config.path, config.root, config.db) == (
        tmp_path / "headway.toml",
        tmp_path,
        str(tmp_path / "x" / "y.db"),
    )


@pytest.mark.parametrize("db", ["/tmp/somewhere/x.db", "postgresql://u:p@h/db", "postgres://h/db"])
def test_an_absolute_db_is_unchanged(tmp_path: Path, db: str) -> None:
    assert loaded(tmp_path, f"db = '{db}'").db == db


def test_a_tilde_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert loaded(tmp_path, "db = '~/x.db'").db == "/home/somebody/x.db"


def test_a_flag_wins_over_the_environment_and_that_over_the_search(tmp_path: Path) -> None:
    for name in ("flag", "environment", "found"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, f"db = '{name}.db'")
    environ = {"HEADWAY_CONFIG": "../environment/headway.toml"}
    start = tmp_path / "found"
    assert load(tmp_path / "flag" / "headway.toml", start, environ).db.endswith("flag.db")
    assert load(None, start, environ).db.endswith("environment.db")
    assert load(None, start, {"HEADWAY_CONFIG": ""}).db.endswith("found.db")


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=rf"^{re.escape(str(tmp_path))}/nowhere.toml: no such file — .*headway init"
    ):
        load(Path("nowhere.toml"), tmp_path, {})
    with pytest.raises(ConfigError, match=r"^HEADWAY_CONFIG: .*/nowhere.toml: no such file — .*headway init"):
        load(None, tmp_path, {"HEADWAY_CONFIG": "nowhere.toml"})


def test_the_database_of_the_environment_wins_over_the_files(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    written(tmp_path, "db = 'file.db'")
    config = load(None, tmp_path / "inner", {"HEADWAY_DB": "mine.db"})
    assert config.db == str(tmp_path / "inner" / "mine.db")
    with pytest.raises(ConfigError, match=r"^HEADWAY_DB: expected a path or a postgresql:// address$"):
        load(None, tmp_path, {"HEADWAY_DB": "mysql://u:p@h"})


def test_without_a_file_providers_come_from_the_environment(tmp_path: Path) -> None:
    config = load(None, tmp_path, {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": ""})
    assert (config.path, config.root, config.db) == (
        None,
        tmp_path,
        str(tmp_path / ".headway" / "headway.db"),
    )
    assert config.providers == {
        "openai": ProviderConfig("openai", "openai", "https://api.openai.com", "OPENAI_API_KEY")
    }
    both = {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": "http://localhost:1/v1/",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": "http://localhost:2",
    }
    found = load(None, tmp_path, both).providers
    assert {name: provider.base_url for name, provider in found.items()} == {
        "openai": "http://localhost:1/v1",
        "anthropic": "http://localhost:2",
    }
    assert load(None, tmp_path, {}).providers == {}


def test_a_wrong_address_in_the_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^OPENAI_BASE_URL: expected an address without user and password"):
        load(None, tmp_path, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://u:p@h"})


def test_providers_of_the_environment_are_used_only_if_the_file_has_none(
    tmp_path: Path,
) -> None:
    environ = {"ANTHROPIC_API_KEY": KEY}
    assert list(loaded(tmp_path, "[run]\nprovider = 'anthropic'", **environ).providers) == ["anthropic"]
    assert list(loaded(tmp_path, ALPHA, **environ).providers) == ["alpha"]


def test_an_address_in_an_env_file_does_not_get_the_key_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://evil.example\n", encoding="utf-8")
    assert (
        load(None, tmp_path, {"OPENAI_API_KEY": KEY}).providers["openai"].base_url == "https://api.openai.com"
    )
    (tmp_path / ".env").write_text(
        "OPENAI_BASE_URL=https://its.example\nOPENAI_API_KEY=its\n", encoding="utf-8"
    )
    assert load(None, tmp_path, {}).providers["openai"].base_url == "https://its.example"


# Flags


def test_flags_win(tmp_path: Path) -> None:
    config = loaded(tmp_path, f"{ALPHA}[run]\nconcurrency = 3\nmax_attempts = 2\nmax_hold = 5")
    changed = with_overrides(
        config, db="x.db", concurrency=9, max_attempts=None, timeout="90s", max_cost=1, max_hold="unlimited"
    )
    assert changed.db == "x.db"
    assert changed.run == RunConfig(None, 9, 2, 90.0, 0.0, 1.0, None)
    assert with_overrides(config) == config
    assert with_overrides(config, provider="alpha", max_duration=60).run.max_duration_s == 60.0


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"timeout": "soon"}, "--timeout: expected a duration such as"),
        ({"max_attempts": 0}, "--max-attempts: expected a whole number of 1 or more, not 0"),
        ({"max_cost": float("nan")}, "--max-cost: expected a number of 0 or more, not nan"),
        ({"provider": "zzz"}, "--provider: there is no provider of that name; there are: alpha"),
        ({"db": "mysql://h"}, "--db: expected a path or a postgresql:// address"),
    ],
)
def test_an_invalid_flag_is_named(tmp_path: Path, flags: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_overrides(loaded(tmp_path, ALPHA), **flags)
    assert str(caught.value).startswith(expected)


def test_an_unknown_override_raises_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unknown settings: tiemout"):
        with_overrides(loaded(tmp_path, ALPHA), tiemout=5)


# Keys


def test_the_environment_wins_over_the_env_file(tmp_path: Path) -> None:
    provider = alpha(tmp_path)
    assert key_of(provider, {"ALPHA_KEY": "one"}, {"ALPHA_KEY": "two"}) == "one"
    assert key_of(provider, {"ALPHA_KEY": ""}, {"ALPHA_KEY": "two"}) == "two"


def test_a_missing_key_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        key_of(alpha(tmp_path), {}, {})
    assert str(caught.value) == (
        "provider 'alpha': the environment variable ALPHA_KEY is not set — export it or put it in .env beside "
        "headway.toml"
    )


@pytest.mark.parametrize("key", ["hunter2 ", " hunter2", "hun\nter2", "hunter2\r", "hunter2\x00", "hünter2"])
def test_a_key_with_an_invalid_character_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        key_of(alpha(tmp_path), {"ALPHA_KEY": key}, {})
    expected = str(caught.value)
    assert expected.startswith(
        "provider 'alpha': the key in ALPHA_KEY holds a space, a line break or another character"
    )
    assert key.strip() not in expected


@pytest.mark.parametrize(
    ("url", "named", "needed"),
    [
        ("http://127.0.0.1:8000", False, False),
        ("http://127.9.9.9", False, False),
        ("http://localhost:11434/v1", False, False),
        ("http://a.localhost", False, False),
        ("http://[::1]:8000", False, False),
        ("http://127.0.0.1:8000", True, True),
        ("http://10.0.0.5:8000", True, True),
        ("http://localhost.example", True, True),
        ("http://127.0.0.1.example", True, True),
    ],
)
def test_a_server_on_this_machine_needs_no_key(tmp_path: Path, url: str, named: bool, needed: bool) -> None:
    text = f'[providers.p]\nkind = "openai"\nbase_url = "{url}"\n'
    text += 'api_key_env = "OPENAI_API_KEY"' if named else ""
    provider = loaded(tmp_path, text).providers["p"]
    assert key_of(provider, {"OPENAI_API_KEY": KEY}, {}) == KEY
    if needed:
        with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
            key_of(provider, {}, {})
    else:
        assert key_of(provider, {}, {}) == ""


@pytest.mark.parametrize(
    ("url", "kind", "withheld"),
    [
        ("https://api.openai.com", "openai", False),
        ("https://eu.api.openai.com/v1", "openai", False),
        ("https://api.openai.com.evil.example", "openai", True),
        ("https://evilapi.openai.com", "openai", True),
        ("https://gateway.example/v1", "openai", True),
        ("http://10.0.0.5:8000", "openai", True),
        ("http://localhost.example", "openai", True),
        ("https://gateway.example", "anthropic", True),
        ("https://mine.openai.azure.com", "azure", False),
        ("https://mine.azure.com.evil.example", "azure", True),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "bedrock", False),
        ("https://bedrock.evil.example", "bedrock", True),
        ("https://evil.execute-api.us-east-1.amazonaws.com", "bedrock", True),
        ("https://vpce-0a1b.bedrock-runtime.eu-west-1.vpce.amazonaws.com", "bedrock", False),
        ("https://evil.eastus.cloudapp.azure.com", "azure", True),
        ("https://mine.cognitiveservices.azure.com", "azure", False),
    ],
)
def test_a_vendors_usual_key_goes_to_another_host_only_if_the_config_names_it(
    tmp_path: Path, url: str, kind: str, withheld: bool
) -> None:
    region = 'region = "eu-west-1"\n' if kind == "bedrock" else ""
    provider = loaded(tmp_path, f'[providers.p]\nkind = "{kind}"\nbase_url = "{url}"\n{region}').providers[
        "p"
    ]
    environ = {provider.api_key_env: KEY}
    if not withheld:
        assert key_of(provider, environ, {}) == KEY
        return
    with pytest.raises(ConfigError, match=f"{provider.api_key_env} is not sent to") as caught:
        key_of(provider, environ, {})
    assert f'add to [providers.p]: api_key_env = "{provider.api_key_env}"' in (caught.value.hint or "")
    text = f'[providers.p]\nkind = "{kind}"\nbase_url = "{url}"\n{region}api_key_env = "{provider.api_key_env}"\n'
    assert key_of(loaded(tmp_path, text).providers["p"], environ, {}) == KEY


def test_no_repr_holds_a_secret(tmp_path: Path) -> None:
    config = load(
        None, tmp_path, {"OPENAI_API_KEY": KEY, "HEADWAY_DB": "postgresql://me:hunt@er2@h:5/db?password=x"}
    )
    shown = repr(config)
    assert "db='postgresql://h:5/db'" in shown
    assert "openai" in shown
    for secret in (KEY, "hunt", "er2", "password"):
        assert secret not in shown
    assert config.db == "postgresql://me:hunt@er2@h:5/db?password=x"
    assert "db='/x/y'" in repr(msgspec.structs.replace(config, db="/x/y"))


# Lane keys


def test_a_lane_key_is_readable_and_holds_no_api_key(tmp_path: Path) -> None:
    lane = lane_key(alpha(tmp_path), "gpt-x", KEY, SALT)
    assert re.fullmatch(r"openai\|127\.0\.0\.1:8900\|[0-9a-f]{10}\|gpt-x", lane)
    assert lane == lane_key(alpha(tmp_path), "gpt-x", KEY, SALT)


def test_every_part_of_the_credential_distinguishes_accounts(tmp_path: Path) -> None:
    keys = (KEY, KEY + "x", KEY[:-1], "", "x" + KEY)
    lanes = {lane_key(alpha(tmp_path), "gpt-x", key, SALT) for key in keys}
    assert len(lanes) == len(keys)
    assert lane_key(alpha(tmp_path), "gpt-x", KEY, b"another") not in lanes


def test_a_pool_is_one_lane_for_all_its_models(tmp_path: Path) -> None:
    pooled = alpha(tmp_path, 'pool = "org-a"')
    lanes = {lane_key(pooled, model, KEY, SALT) for model in ("gpt-x", "gpt-y")}
    assert len(lanes) == 1
    assert lanes.pop().endswith("|org-a")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://API.openai.com:443/v1", "api.openai.com"),
        ("http://h:80", "h"),
        ("http://h:443", "h:443"),
        ("http://h.", "h"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://[::1]", "[::1]"),
    ],
)
def test_spellings_of_one_host_give_the_same_host(url: str, host: str) -> None:
    assert host_of(ProviderConfig("p", "openai", url, "K")) == host


# Durations


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("10m", 600.0),
        ("250ms", 0.25),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1d2h3m4s5ms", 93784.005),
        ("0.5s", 0.5),
        (" 7s ", 7.0),
        ("90", 90.0),
        ("0.1", 0.1),
        ("0s", 0.0),
        (90, 90.0),
        (0.25, 0.25),
        ("366d", LONGEST_S),
    ],
)
def test_durations(value: str | float, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "m",
        "10 minutes",
        "10M",
        "5m1h",
        "1h1h",
        "-5s",
        "1e3",
        "nan",
        "inf",
        "5s5",
        "1..5s",
        "٣s",
        "367d",
        "1" * 13,
        -1,
        float("nan"),
        float("inf"),
        LONGEST_S + 1,
        True,
    ],
)
def test_an_invalid_duration_is_refused(value: str | float) -> None:
    with pytest.raises(ValueError, match=r'^expected a duration such as "10m", "250ms" or "1h30m"'):
        parse_duration(value)


@given(st.integers(0, 300), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_duration_is_the_sum_of_its_parts(
    days: int, hours: int, minutes: int, seconds: int, ms: int
) -> None:
    total = days * 86_400 + hours * 3600 + minutes * 60 + seconds + ms / 1000
    assert parse_duration(f"{days}d{hours}h{minutes}m{seconds}s{ms}ms") == pytest.approx(total)


@given(st.floats(0, LONGEST_S).map(lambda seconds: round(seconds, 6)))
def test_a_number_and_its_text_with_and_without_a_unit_are_equal(seconds: float) -> None:
    text = f"{seconds:.6f}"
    assert parse_duration(text) == parse_duration(f"{text}s") == parse_duration(float(text))


@given(st.text())
def test_any_text_is_a_duration_or_is_refused(text: str) -> None:
    expected = ""
    try:
        assert 0 <= parse_duration(text) <= LONGEST_S
    except ValueError as error:
        expected = str(error)
    assert not expected or expected.startswith("expected a duration")


# The page


def documented() -> dict[str, list[str]]:
    """The keys that each section of the page has in its first table column."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif found := re.match(r"\| `(\w+)` \|", line):
            sections.setdefault(heading, []).append(found[1])
    return sections


def test_the_page_has_every_key_in_its_table() -> None:
    sections = documented()
    assert sections["On top"] == list(toml_schema.TOP)
    assert sorted(sections["`[providers.NAME]`"]) == sorted(toml_schema.PROVIDER)
    limits = sections["`[providers.NAME.limits]` and `[providers.NAME.models.MODEL.limits]`"]
    assert limits == list(toml_schema.LIMITS)
    prices = sections["`[providers.NAME.prices]` and `[providers.NAME.models.MODEL.prices]`"]
    assert prices == list(toml_schema.PRICES)
    assert sections["`[providers.NAME.retry]`"] == list(toml_schema.RETRY)
    assert sections["`[run]`"] == list(toml_schema.RUN)
    assert sections["`[review]`"] == list(toml_schema.REVIEW)
    assert sections["`[[review.instructions]]`"] == list(toml_schema.INSTRUCTION)


def test_the_pages_example_is_valid(tmp_path: Path) -> None:
    example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    config = loaded(tmp_path, example)
    assert list(config.providers) == ["alpha", "beta"]
    assert config.providers["alpha"].limits_for("gpt-y") == LaneLimits(500.0, 200_000.0, max_concurrency=64)


def test_the_defaults_on_the_page_are_those_of_the_code(tmp_path: Path) -> None:
    defaults = (
        'base = "1s"\ncap = "60s"\njitter = 0.2\nmax_throttles = 50\nhold_margin = "2s"\ndefault_wait = "60s"'
    )
    run = 'concurrency = 0\nmax_attempts = 5\ntimeout = "10m"\nmax_duration = "0s"\nmax_wait = "0s"\nmax_cost = 0\nmax_hold = "26h"\ncache = "off"'
    config = loaded(tmp_path, f"{ALPHA}[providers.alpha.retry]\n{defaults}\n[run]\n{run}")
    assert config.providers["alpha"].retry == RetryConfig()
    assert config.run == RunConfig()
    page = PAGE.read_text(encoding="utf-8")
    for line in (defaults + "\n" + run).split("\n"):
        key, _, value = line.partition(" = ")
        assert re.search(rf"\| `{key}` \|.*\| `{re.escape(value)}` \|", page), line


def test_a_models_own_prices_win_over_the_providers(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        [providers.alpha]
        kind = "openai"
        [providers.alpha.prices]
        input = 1
        output = 2
        [providers.alpha.models."gpt-y".prices]
        input = 10
        cached_input = 1
        """,
    )
    alpha = config.providers["alpha"]
    assert alpha.price_of("gpt-x") == Price(1.0, 2.0)
    assert alpha.price_of("gpt-y") == Price(10.0, 0.0, 1.0)
    assert alpha.models == {}


def test_without_configured_prices_there_are_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, '[providers.alpha]\nkind = "openai"').providers["alpha"].price_of("gpt-x") is None


def test_a_misspelt_price_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"providers\.alpha\.prices\.inputs: unknown key; did you mean 'input'"
    ):
        loaded(tmp_path, '[providers.alpha]\nkind = "openai"\n[providers.alpha.prices]\ninputs = 1')


def test_cached_input_has_its_own_price() -> None:
    usage = Usage(1_000_000.0, 500_000.0, 400_000.0)
    assert Price(2.0, 4.0, 0.5).cost(usage) == pytest.approx(0.6 * 2.0 + 0.4 * 0.5 + 0.5 * 4.0)
    assert Price(2.0, 4.0).cost(usage) == pytest.approx(2.0 + 2.0)


def test_budgets_of_a_provider_and_of_its_models(tmp_path: Path) -> None:
    alpha = loaded(
        tmp_path,
        f"""{ALPHA}max_cost = 5
        [providers.alpha.models."gpt-x"]
        max_cost = 2.5
        [providers.alpha.models."gpt-y"]
        max_cost = 0
        [providers.alpha.models."gpt-z".limits]
        rpm = 5
        """,
    ).providers["alpha"]
    assert alpha.max_cost_usd == 5.0
    assert alpha.max_costs == {"gpt-x": 2.5}
    assert list(alpha.models) == ["gpt-z"], "a budget is no limit of its own"


def test_like_names_an_entry_of_the_price_list(tmp_path: Path) -> None:
    alpha = loaded(
        tmp_path,
        f"""{ALPHA}[providers.alpha.prices]
        input = 1
        cache_write = 3
        [providers.alpha.models."ours".prices]
        like = "azure/gpt-4o"
        """,
    ).providers["alpha"]
    assert (alpha.like("ours"), alpha.price_of("ours")) == ("azure/gpt-4o", None)
    assert (alpha.like("gpt-x"), alpha.price_of("gpt-x")) == ("", Price(1.0, cache_write=3.0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[providers.alpha.prices]\nlike = 'gpt-4o'\ninput = 1", "providers.alpha.prices.like: cannot be combined"),
        ("[providers.alpha.prices]\nlike = ''", "providers.alpha.prices.like: expected a string"),
        ("max_cost = -1", "providers.alpha.max_cost: expected a number of 0 or more, not -1"),
        ("[providers.alpha.models.x]\nmax_cost = 'all'", "providers.alpha.models.x.max_cost: expected a number of 0 or more"),
        ("max_costs = 1", "providers.alpha.max_costs: unknown key; did you mean 'max_cost'?"),
    ],
)  # fmt: skip
def test_errors_about_money_are_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in error_of(tmp_path, f"{ALPHA}{text}")


# Variables of workers


PYTHON = "[providers.work]\nkind = 'python'\ntarget = 'a:b'\n"


def test_workers_get_all_variables_or_those_of_env(tmp_path: Path) -> None:
    for line, env in (("", None), ("env = []", ()), ("env = ['A_KEY', 'b']", ("A_KEY", "b"))):
        (tmp_path / "headway.toml").write_text(PYTHON + line)
        assert workers_of(load(None, tmp_path, {}).providers["work"]).env == env


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env = 'A_KEY'", "env: expected a list of names of environment variables"),
        ("env = [1]", "env: expected the name of an environment variable"),
        (f"env = ['A_KEY={KEY}']", "env: expected the NAME of an environment variable"),
        (f"env = ['{KEY}']", "env: expected the NAME of an environment variable"),
        ("isolation = 'thread'\nenv = ['A']", "env: only a process has an environment of its own"),
    ],
)
def test_an_invalid_list_of_variables_is_refused_and_not_repeated(
    tmp_path: Path, text: str, expected: str
) -> None:
    told = error_of(tmp_path, PYTHON + text)
    assert expected in told
    assert KEY not in told


def test_a_server_has_no_env(tmp_path: Path) -> None:
    assert 'it is for kind = "python"' in error_of(tmp_path, f"{ALPHA}env = ['A']")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[provider.a]\nkind = "openai"\n', "provider: unknown table; did you mean 'providers'?"),
        ('[providers.a]\nkind = "openai"\n[providers.a.limit]\nrpm = 1\n', "did you mean 'limits'?"),
        ('provider = "a"\n', "unknown key; it belongs in [run]"),
    ],
)
def test_a_misspelt_table_is_suggested(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert said in str(caught.value)
