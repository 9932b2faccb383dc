"""The name of an `AgentWorker` in the records: what it asks, readable, as `AgentWorker(claude, sonnet, directory=checkout)`.

The name is a job's identity, so it has every setting that changes an answer, and two workers with different ones have different names.
Limits of a run (`max_turns`, `max_unit_cost`) are not part of it: who raises them wants the failed units again, not the finished ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from headway.api.agents.agent_options import config_of
from headway.config import ProviderConfig
from headway.config.kinds.programs import AGENT_NAMES, command_of
from headway.providers.error_messages import without_secrets
from headway.providers.scrubber import Scrubber

#: Settings that change an answer, besides the command and the model.
_SETTINGS: Final = ("directory", "args", "env", "allowed_tools", "permission_mode", "output")
#: A word that needs no quotes. Without commas, blanks and equals signs no two lists of settings have the same text.
_PLAIN: Final = re.compile(r"[\w./:@+-]+")
#: The longest text of a setting in characters; of a longer one the beginning and a hash are shown.
LONGEST_SETTING: Final = 80


def worker_name(class_name: str, provider: ProviderConfig, scrub: Scrubber) -> str:
    """The name of a worker with these settings, without secrets."""
    settings, is_agent = command_of(provider), provider.kind in AGENT_NAMES
    usual = config_of(provider.kind, {} if is_agent else {"command": settings.command})[1]
    parts = [provider.kind]
    if not is_agent:
        parts.append(_text(settings.command, scrub))
    if provider.model != usual.model:
        model = _text(provider.model or "", scrub)
        parts.append(model if is_agent else f"model={model}")
    if settings.command != command_of(usual).command:
        parts.append(f"command={_text(settings.command, scrub)}")
    for name in _SETTINGS:
        value = getattr(settings, name)
        if value != getattr(command_of(usual), name):
            parts.append(f"{name}={_text(value, scrub)}")
    return f"{class_name}({', '.join(parts)})"


def _text(value: str | Sequence[str], scrub: Scrubber) -> str:
    """A setting as text: words, quoted where needed; shortened if it is long."""
    words = [value] if isinstance(value, str) else value
    text = " ".join(_word(without_secrets(scrub.text(word))) for word in words) or "()"
    if len(text) <= LONGEST_SETTING:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: LONGEST_SETTING - len(digest) - 1]}…{digest}"


def _word(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else json.dumps(word)
