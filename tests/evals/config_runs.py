"""Runs `headway eval` on one of the configurations in tests/evals/configs, against a fake provider."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

CONFIGS: Final = Path(__file__).with_name("configs")
#: What the fake answers.
FAKE: Final = CONFIGS / "fake.yaml"
#: The configurations that promptfoo can run, and agrees with.
SHARED: Final = (
    "matrix", "texts", "json_and_tools", "scores", "graders",
    "tables", "scenarios", "conversation", "transforms", "programs",
)  # fmt: skip
NAMES: Final = (*SHARED, "vendors", "failures")
PATIENCE_S: Final = 120.0
#: Failures are tried again without long waits. `own` is a name that a configuration uses.
_SETTINGS: Final = """
[providers.own]
kind = "openai"
base_url = "{url}/v1"
api_key_env = "OPENAI_API_KEY"
"""
#: Variables of the developer, which would change what the tests run.
_OWN: Final = (
    "ANTHROPIC_",
    "OPENAI_",
    "HEADWAY_",
    "AWS_",
    "AZURE_",
    "GEMINI_",
    "GOOGLE_",
    "GROQ_",
    "MISTRAL_",
)

_VENDOR_KEYS: Final = (
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
)


class ConfigRun(msgspec.Struct, frozen=True):
    """A run that has ended, with its folder and the results file."""

    code: int
    out: str
    err: str
    folder: Path
    results: Path


def copied(name: str, folder: Path, fake_url: str) -> Path:
    """A copy of a configuration in a folder of its own; returns its file."""
    shutil.copytree(CONFIGS / name, folder, dirs_exist_ok=True)
    (folder / "headway.toml").write_text(_SETTINGS.format(url=fake_url))
    return folder / "promptfooconfig.yaml"


def environ(folder: Path, fake_url: str) -> dict[str, str]:
    """The variables of a run: the fake is every provider."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(_OWN)},
        "FAKE_URL": fake_url,
        "OPENAI_BASE_URL": f"{fake_url}/v1",
        "OPENAI_API_KEY": "any",
        "ANTHROPIC_BASE_URL": fake_url,
        "ANTHROPIC_API_KEY": "any",
        **dict.fromkeys(_VENDOR_KEYS, "any"),
        "HOME": str(folder),
        "TZ": "UTC",
        "PYTHONWARNINGS": "error",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_config(
    name: str, folder: Path, fake_url: str, *flags: str, prefix: tuple[str, ...] = ()
) -> ConfigRun:
    """`headway eval` on a copy of the configuration, as a user types it."""
    config = copied(name, folder, fake_url)
    results = folder / "results.json"
    command = [
        *prefix,
        sys.executable,
        "-P",
        "-m",
        "headway",
        "eval",
        config.name,
        "--out",
        results.name,
        *flags,
    ]
    done = subprocess.run(
        command, cwd=folder, env=environ(folder, fake_url), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return ConfigRun(done.returncode, done.stdout, done.stderr, folder, results)
