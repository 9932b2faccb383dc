"""A scenario file is read, or refused with one line that names the place."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headway.errors import UsageError
from headway.sim import scenario as scenarios
from headway.sim.scenario import load
from headway.sim.workload import draw

ROOT = Path(__file__).parents[2]

GOOD = """
lanes:
  one: {work: {units: 3}, provider: {rpm: 60}}
"""


def written(tmp_path: Path, text: str, name: str = "s.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_loads_and_has_a_description(path: Path) -> None:
    scenario = load(path)
    assert scenario.about
    assert draw(scenario, 1).units


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lanes: {one: {work: {units: 3}, provider: {rmp: 60}}}", "did you mean 'rpm'?"),
        (
            "lanes: {one: {work: {units: 3}, provider: {rpm: fast}}}",
            "lanes.one.provider.rpm: Expected `float`, got `str`",
        ),
        ("lanes: {one: {provider: {rpm: 60}}}", "missing required field `work`"),
        ("lanes: [", "s.yaml:1: not YAML"),
        ("- a\n- b\n", "a mapping with the key 'lanes'"),
        ("about: x", "missing required field `lanes`"),
        ("extends: s.yaml\n" + GOOD, "extends itself"),
        ("extends: nowhere.yaml\n", "nowhere.yaml: no such file"),
        ("lanes: {}", "'lanes' is empty"),
        ("seeds: []\n" + GOOD, "'seeds' is empty"),
        ("lanes: {one: {work: {units: 3}, provider: {headers: opneai}}}", "did you mean 'openai'?"),
        (
            "lanes: {one: {work: {units: 3}, provider: {holds: [{from_s: 9, until_s: 5}]}}}",
            "until_s (5) must be after from_s (9)",
        ),
        ("lanes: {one: {work: {units: 3}, provider: {}, told: {rpm: -5}}}", "lanes.one.told"),
        ("lanes: {one: {work: {units: 3}, provider: {}, told: {burst_s: -1}}}", "lanes.one.told"),
        ("lanes: {one: {work: {units: 3}, provider: {rpm: .inf}}}", "lanes.one.provider.rpm"),
        ("lanes: {one: {work: {units: 3}, provider: {depth_s: 0}}}", "lanes.one.provider.depth_s"),
        ("about: a\nabout: b\n" + GOOD, "duplicate key 'about'"),
        ("lanes: {one: {work: {units: 0}, provider: {rpm: 60}}}", "units"),
        ("lanes: {one: {work: {units: 3}, provider: {rpm: -1}}}", "rpm"),
    ],
)
def test_an_error_names_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError, match=str(path)):
            load(path)


def test_extends_overrides_parts_of_another_scenario(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("units: 3", "units: 3, cached: 0.5"), "base.yaml")
    top = written(
        tmp_path,
        "extends: base.yaml\nlanes: {one: {work: {units: 9}}, two: {work: {units: 1}, provider: {}}}",
    )
    scenario = load(top)
    assert scenario.lanes["one"].work.units == 9
    assert scenario.lanes["one"].work.cached == 0.5
    gone = written(
        tmp_path, "extends: base.yaml\nlanes: {one: null, two: {work: {units: 1}, provider: {}}}", "gone.yaml"
    )
    assert list(load(gone).lanes) == ["two"]


def test_the_same_seed_draws_the_same_work_whatever_the_other_lanes(tmp_path: Path) -> None:
    scenario = load(ROOT / "scenarios" / "demo.yaml")
    alone = msgspec.structs.replace(scenario, lanes={"small": scenario.lanes["small"]})
    assert draw(scenario, 7).of("small") == draw(alone, 7).of("small")
    assert draw(scenario, 7).of("small") != draw(scenario, 8).of("small")


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
    missing = [key for key in scenarios.known_keys() if f"`{key}`" not in page]
    assert missing == []
