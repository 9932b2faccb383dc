"""The environment in which opencode does not retry."""

from __future__ import annotations

import json

import pytest

from headway.executors.commands.clis.opencode_variables import CONTENT, INSTEAD, PLUGIN, opencode_variables


def test_the_plugin_is_added_to_what_the_user_has() -> None:
    theirs = json.dumps({"model": "a/b", "plugin": ["other"]})
    variables = opencode_variables({CONTENT: theirs})
    assert json.loads(variables[CONTENT]) == {"model": "a/b", "plugin": ["other", PLUGIN.as_uri()]}
    assert PLUGIN.is_file()
    instead = json.loads(variables[INSTEAD])
    assert instead[CONTENT] == theirs, "programs that opencode starts get the user's own"
    assert instead["npm_config_fetch_retries"] == ""


def test_settings_of_the_user_for_npm_stay() -> None:
    variables = opencode_variables({"NPM_CONFIG_FETCH_RETRIES": "7"})
    assert "npm_config_fetch_retries" not in variables
    assert "npm_config_fetch_retries" not in json.loads(variables[INSTEAD])
    assert variables["npm_config_fetch_timeout"] == "5000"


@pytest.mark.parametrize("content", ["// a comment\n{}", "[]", '{"plugin": "one"}'])
def test_a_configuration_that_cannot_be_read_is_left_alone(content: str) -> None:
    assert CONTENT not in opencode_variables({CONTENT: content})
