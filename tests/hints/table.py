"""The whole table."""

from __future__ import annotations

from typing import Final

from . import rows_agents, rows_apis, rows_google, rows_hosts
from .row import Row

TABLE: Final[tuple[Row, ...]] = (
    *rows_apis.OPENAI,
    *rows_apis.ANTHROPIC,
    *rows_apis.AZURE,
    *rows_apis.BEDROCK,
    *rows_google.GEMINI,
    *rows_google.VERTEX,
    *rows_hosts.GROQ,
    *rows_hosts.MISTRAL,
    *rows_hosts.TOGETHER,
    *rows_hosts.OPENROUTER,
    *rows_hosts.COHERE,
    *rows_hosts.DEEPSEEK,
    *rows_hosts.XAI,
    *rows_hosts.FIREWORKS,
    *rows_hosts.AT_HOME,
    *rows_hosts.GENERIC,
    *rows_agents.CLAUDE,
    *rows_agents.CODEX,
    *rows_agents.GEMINI_CLI,
    *rows_agents.OPENCODE,
    *rows_agents.EXCEPTIONS,
)
