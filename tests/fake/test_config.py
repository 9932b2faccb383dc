"""The configuration from YAML and from flags; errors are one line that names the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import ConfigError, HeadwayError, UsageError
from headway.fake.config_file import load, read
from headway.fake.fake_config import FAULTS, STRUCTS
from headway.fake.flags import config_from_flags, parse_fault
from headway.fake.quantities import Spread

ROOT = Path(__file__).parents[2]

WHOLE = """
seed: 7
strict: true
accounts:
  alpha: {key: sk-a, rpm: 600, burst: 10s, latency: {min: 100ms, max: 0.3}}
  beta: {key: [sk-b, sk-c], itpm: 1000, headers: anthropic, limits: [{at: 30, itpm: 100}]}
faults: [{kind: 500, chance: 0.1}, {kind: overloaded, between: [10, 20]}]
tools: [{contains: weather, name: get_weather, arguments: {city: Oslo}}]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fake.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_kinds_of_settings_are_read(tmp_path: Path) -> None:
    config = load(write(tmp_path, WHOLE))
    assert (config.seed, config.strict) == (7, True)
    assert config.accounts["alpha"].burst == 10.0
    assert config.accounts["alpha"].latency == Spread(0.1, 0.3)
    assert config.accounts["beta"].keys("beta") == ("sk-b", "sk-c")
    assert [fault.name for fault in config.faults] == ["500", "529"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accounts: {a: {rmp: 5}}", "accounts.a: Object contains unknown field `rmp`; did you mean 'rpm'?"),
        ("acounts: {}", "Object contains unknown field `acounts`; did you mean 'accounts'?"),
        ("accounts: {a: {headers: opnai}}", "did you mean 'openai'?"),
        ("accounts: {a: {burst: soon}}", "accounts.a.burst: 'soon' is not a duration"),
        ("accounts: {a: {burst: 0}}", "a burst must be longer than 0"),
        ("accounts: {a: {rpm: 0}}", "accounts.a.rpm"),
        ("accounts: {a: {latency: {min: 1}}}", "accounts.a.latency: expected a number, {min, max}"),
        ("faults: [{kind: hnag}]", "faults[0]: unknown fault 'hnag'; did you mean 'hang'?"),
        ("faults: [{kind: hang, between: [5, 1]}]", "'between' must end after it begins"),
        ("accounts: {a: {key: x}, b: {key: x}}", "the accounts 'a' and 'b' have the same key"),
        ("strict: true", "strict needs accounts"),
        ("[1, 2]", "expected a mapping"),
        ("seed: 1\nseed: 2", "fake.yaml:2: not YAML: duplicate key 'seed'"),
        ("answers: [{turns: []}]", "answers[0].turns: Expected `array` of length >= 1"),
        ("answers: [{turn: [a]}]", "answers[0]: Object contains unknown field `turn`; did you mean 'turns'?"),
        ("a: [", "not YAML"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "nowhere.yaml")


def test_flags_override_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "accounts: {default: {rpm: 5, tpm: 7}}\nfaults: [{kind: hang}]")
    config = config_from_flags(
        path, {"rpm": 600.0, "latency": "100ms-300ms"}, faults=("5xx=0.05",), keys=("B=sk-b",), seed=3
    )
    default = config.accounts["default"]
    assert (default.rpm, default.tpm, default.latency) == (600, 7, Spread(0.1, 0.3))
    assert config.accounts["B"].keys("B") == ("sk-b",)
    assert config.accounts["B"].rpm == 600
    assert [fault.name for fault in config.faults] == ["5xx", "hang"]
    assert config.seed == 3


def test_faults_are_parsed_from_flags() -> None:
    assert parse_fault("hang").chance == 1.0
    assert parse_fault("5xx=0.05").chance == 0.05
    assert parse_fault("reset-body/10").every == 10
    assert parse_fault("503@30s").at == 30.0
    assert parse_fault("529=0.5@30s-1m").between == (30.0, 60.0)
    assert parse_fault("subscription+20s@5s").resets == 20.0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"faults": ("hnag=1",)}, "--fault hnag=1: unknown fault 'hnag'; did you mean 'hang'?"),
        ({"faults": ("hang=2",)}, "--fault hang=2: Expected `float` <= 1.0"),
        ({"faults": ("hang=often",)}, "KIND=CHANCE"),
        ({"keys": ("ALPHA",)}, "--key ALPHA: expected NAME=KEY"),
        ({"strict": True}, "--strict: every key would be refused"),
        ({"account": {"burst": "soon"}}, "--burst: 'soon' is not a duration"),
        ({"account": {"per_token": "x"}}, "--per-token: 'x' is not a duration"),
    ],
)
def test_a_wrong_flag_is_one_line(flags: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        config_from_flags(None, flags.pop("account", {}), **flags)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_every_key_and_every_fault_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "fake.md").read_text(encoding="utf-8")
    for kind in STRUCTS:
        for name in kind.__struct_fields__:
            assert f"`{name}`" in page, name
    for name in FAULTS:
        assert f"`{name}`" in page, name


def test_the_documented_example_is_valid() -> None:
    page = (ROOT / "docs" / "reference" / "fake.md").read_text(encoding="utf-8")
    import yaml

    assert read(yaml.safe_load(page.split("```yaml")[1].split("```")[0])).accounts
    assert issubclass(ConfigError, HeadwayError)
