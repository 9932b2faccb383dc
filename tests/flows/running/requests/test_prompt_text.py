"""How prompts are filled."""

from __future__ import annotations

import pytest

from headway.errors import UsageError
from headway.flows.running.requests.prompt_text import prompt_of
from headway.flows.running.steps.node_run import NextUnit

UNIT = NextUnit(
    id="review[2]", node="review", state={"diff": "+1", "files": ["a.py"]}, args={"tone": "dry"}, item={"name": "style"}, index=2
)  # fmt: skip


def test_a_prompt_has_paths_and_nothing_else() -> None:
    text = "{{ item.name }} {{index}} {{state.diff}} {{state.files[0]}} {{state.files}} {{args.tone}} {{node}} {{job}} {{{{x}}"
    assert prompt_of(text, UNIT, "j") == 'style 2 +1 a.py ["a.py"] dry review j {{x}}'
    assert (
        prompt_of("{{item}}", NextUnit(id="a", node="a", state={}, args={}, item="{{state.diff}}"))
        == "{{state.diff}}"
    )
    for bad, why in (
        ("{{state.secret}}", "has no value"),
        ("{{__class__}}", "is not a name"),
        ("{{item.name.x}}", "has no value"),
    ):
        with pytest.raises(UsageError, match=why):
            prompt_of(bad, UNIT)
