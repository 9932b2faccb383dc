"""The provider of each agent: a name that is wrong is an error before anything starts, and names of other nodes change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.config import load
from headway.errors import InputError, UsageError
from headway.flows.flow_file import load_flow
from headway.flows.running.intake.flow_source import routes_of, with_named_agents


def routes(folder: Path, nodes: str, settings: str) -> Iterator[str]:
    (folder / "headway.toml").write_text(settings)
    (folder / "p.md").write_text("Say something.")
    (folder / "flow.yaml").write_text(f"graph:\n  nodes:\n{nodes}")
    spec = load_flow(folder / "flow.yaml")
    config = with_named_agents(load(folder / "headway.toml", folder, {}), spec)
    return (f"{route.provider}/{route.model}" for route, _ in routes_of(config, spec))


def agent(name: str, more: str = "") -> str:
    return f"    - {{id: {name}, kind: agent, prompt: ./p.md{more}}}\n"


FAKE = "[providers.fake]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\n"
MODEL = FAKE + "model = 'm'\n"


def test_a_provider_that_one_node_names_does_not_concern_the_others(tmp_path: Path) -> None:
    nodes = (
        agent("a", ", provider: claude")
        + agent("b")
        + agent("c", ", provider: fake")
        + agent("d", ", model: x")
    )
    assert list(routes(tmp_path, nodes, MODEL)) == ["claude/default", "fake/m", "fake/m", "fake/x"]


def test_unknown_providers_are_all_reported(tmp_path: Path) -> None:
    nodes = agent("a", ", provider: fakee") + agent("b", ", provider: claud")
    with pytest.raises(InputError) as error:
        routes(tmp_path, nodes, MODEL)
    assert "flow.yaml, line 3: a: there is no provider 'fakee' — did you mean 'fake'?" in str(error.value)
    assert "there is no provider 'claud' — did you mean 'claude'?" in str(error.value)


def test_a_missing_model_is_written_in_the_node_or_in_the_settings(tmp_path: Path) -> None:
    for more in ("", ", provider: fake"):
        with pytest.raises(UsageError) as error:
            routes(tmp_path, agent("a", more), FAKE)
        assert (
            "has no default model — write 'model: NAME' in the node, or set model in [providers.fake]"
            in str(error.value)
        )
        assert "--model" not in str(error.value)
