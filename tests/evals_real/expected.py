"""Writes expected.json of configurations from what promptfoo makes of them: python -m tests.evals_real.expected matrix texts …"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import yaml
from bench.evals import promptfoo
from tests.agents_real import room
from tests.evals.config_runs import CONFIGS, FAKE
from tests.evals.result_cells import read_cells, write_expected


def main(names: list[str]) -> None:
    """Run each configuration, and write its cells."""
    answers = yaml.safe_load(FAKE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with room.opened(place) as opened, opened.fake(place, answers) as fake:
            for name in names:
                config, results = CONFIGS / name / "promptfooconfig.yaml", place / f"{name}.json"
                targets = promptfoo.targets(fake.url)
                run = promptfoo.evaluate(opened.prefix, config, results, targets)
                if not results.exists():
                    raise SystemExit(run.printed)
                write_expected(CONFIGS / name / "expected.json", read_cells(results))


if __name__ == "__main__":
    main(sys.argv[1:])
