"""The environment of opencode, in which it does not retry.

It retries a refused request five times, and has no setting for it. A plugin ends it at the first retry: Headway waits, and resumes
the session. A plugin is given in `OPENCODE_CONFIG_CONTENT`, beside what the user has there. opencode starts plugins only after it
has looked for its packages at npm's registry: where that cannot be reached, npm's own retries would take two minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CONTENT: Final = "OPENCODE_CONFIG_CONTENT"
#: Tells the plugin what the programs that opencode starts get instead. An empty variable is as good as none to npm and to opencode.
INSTEAD: Final = "HEADWAY_OPENCODE_INSTEAD"
PLUGIN: Final = Path(__file__).with_name("opencode_no_retries.mjs")
_PLAIN: Final = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}
_NPM: Final = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "5000"}


def opencode_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to set, beside those of the user."""
    content = _with_plugin(environ.get(CONTENT, ""))
    if content is None:
        return dict(_PLAIN)
    present = {name.lower() for name in environ}
    npm = {name: value for name, value in _NPM.items() if name not in present}
    instead = {CONTENT: environ.get(CONTENT, ""), **dict.fromkeys(npm, "")}
    return {**_PLAIN, **npm, CONTENT: content, INSTEAD: json.dumps(instead)}


def _with_plugin(content: str) -> str | None:
    """The user's configuration with the plugin; None if it cannot be read, as JSON with comments."""
    try:
        config: Any = json.loads(content or "{}")
    except ValueError:
        return None
    plugins = config.get("plugin", []) if isinstance(config, dict) else None
    if not isinstance(plugins, list):
        return None
    return json.dumps({**config, "plugin": [*plugins, PLUGIN.as_uri()]})
