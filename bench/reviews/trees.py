"""Trees of source files for measurements: written once, alike on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_BODY: Final = "".join(f"def f{number}(x):\n    y = x + {number}\n    return y\n\n\n" for number in range(12))
#: Sixty-five rules, as a large repository has them.
_IGNORED: Final = "\n".join(
    ["*.pyc", "build/", "*.log", ".env", "!kept.log", *(f"*.end{n}" for n in range(60))]
)
_FILES_A_FOLDER: Final = 100


def write_tree(root: Path, files: int, *, version: int = 1) -> None:
    """Write so many files below `root/src`, each with a text of its own."""
    (root / ".gitignore").write_text(_IGNORED, encoding="utf-8")
    for number in range(files):
        folder = root / "src" / f"part{number // _FILES_A_FOLDER}"
        if number % _FILES_A_FOLDER == 0:
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_text(text_of(number, version), encoding="utf-8")


def text_of(number: int, version: int) -> str:
    """The text of a file. Files have three lengths, and one in four is asked about as `long`."""
    kind = "long" if number % 4 == 0 else "short"
    return f"# {kind} {number} {version}\n" + _BODY * (1 + number % 3)


def write_settings(root: Path, url: str, limits: str = "rpm = 0\ntpm = 0") -> None:
    """The settings of a folder with one provider."""
    (root / "headway.toml").write_text(
        f'[providers.x]\nkind = "openai"\nbase_url = "{url}/v1"\napi_key_env = "KEY_X"\nmodel = "m"\n'
        f"prices = {{input = 1.0, output = 4.0}}\n[providers.x.limits]\n{limits}\n",
        encoding="utf-8",
    )
