"""Writes src/headway/flows/flow.schema.json from the tables of keys; `--check` fails if it is not current."""

from __future__ import annotations

import sys

from headway.flows.json_schema import SCHEMA_FILE, schema_text


def main() -> int:
    text = schema_text()
    if "--check" not in sys.argv[1:]:
        SCHEMA_FILE.write_text(text, encoding="utf-8")
        return 0
    if SCHEMA_FILE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{SCHEMA_FILE} is not current: run python tools/draw_flow_schema.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
