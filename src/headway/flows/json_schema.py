"""The JSON Schema of flow files, for editors. `flow.schema.json` is made of it by tools/draw_flow_schema.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from headway.flows.file_keys import FLOW

SCHEMA_FILE: Final = Path(__file__).with_name("flow.schema.json")


def flow_schema() -> dict[str, Any]:
    """The schema, from the tables of keys."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A flow of Headway",
        **FLOW.schema(),
    }


def schema_text() -> str:
    """The content of `flow.schema.json`."""
    return json.dumps(flow_schema(), indent=2) + "\n"
