"""Generates docs/reference/eval-files.md from the tables of keys in headway.evals.config.

python tools/draw_eval_keys.py           writes the page
python tools/draw_eval_keys.py --check   exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pages import ROOT, write_or_check

from headway.config.known_vendors import BY_NAME
from headway.evals.assertions.registry import KINDS
from headway.evals.config.assertion_types import REFUSED
from headway.evals.config.key_sections import KeySection
from headway.evals.config.key_tables import SECTIONS
from headway.evals.config.parameters import NAMES
from headway.evals.config.provider_ids import PROGRAM_IDS, REFUSED_IDS, VENDOR_IDS

PAGE = ROOT / "docs" / "reference" / "eval-files.md"
COMMAND = "python tools/draw_eval_keys.py"

HEAD = f"""\
# Eval files

Every key of the file that `headway eval` takes: promptfoo's configuration, as of 0.123. Generated from `src/headway/evals/config` by `{COMMAND}`; a test
fails when this page is stale. An unknown key is an error that names the nearest one. What cannot be honoured is an error with its line, never
ignored; `headway eval --check CONFIG` lists it.
"""
FILES = """\
## Files

`file://NAME` begins at the folder of the configuration; a name that is not there is also looked for beside the file that names it. `*`, `**` and `?`
name several files, in the order of their paths.

| where | what a file may be |
|---|---|
| `prompts` | `.txt` (several between lines of `---`), `.md`, `.j2`, `.json` and `.yaml` (messages), `.jsonl` (one a line), `.csv` (columns `prompt`, `label`) |
| `providers` | `.yaml`, `.json`: a provider or a list of them |
| `tests`, `scenarios`, `defaultTest`, `assert` | `.yaml`, `.json`; tests also `.jsonl` and `.csv` |
| a variable | text, `.yaml` (as JSON), images (as `data:` addresses), `.py` and `.js` (a function computes it) |
| a value of an assertion, tools, `response_format`, `rubricPrompt` | `.json` and `.yaml` as values, all else as text |
| code | `.py`, `.js`, `.mjs`, `.cjs`, with `:FUNCTION` |

A column of a `.csv` file is a variable, unless its name begins with `__`:

| column | meaning |
|---|---|
| `__expected`, `__expected1`, … | an assertion: `contains: Paris`, `similar(0.9): a text`, `python: len(output) < 9`; a text without a type is what the output must equal |
| `__prefix`, `__suffix`, `__description`, `__threshold` | as the keys of a test |
| `__metric` | the metric of all assertions of the row |
| `__metadata:KEY`, `__metadata:KEY[]` | metadata: a text, a list of texts between commas |
| `__config:__expected1:threshold` | the threshold of an assertion |
"""


def page() -> str:
    """The whole page."""
    tables = [line for section in SECTIONS for line in _section(section)]
    return "\n".join((HEAD, *tables, FILES, *_providers(), *_assertions()))


def _section(section: KeySection) -> Iterator[str]:
    yield from (f"## {section.title}", "")
    if section.about:
        yield from (section.about, "")
    yield from ("| key | value | meaning |", "|---|---|---|")
    for name, key in section.keys.items():
        if not key.refused:
            yield f"| `{name}` | {key.form.expected} | {_cell(key.meaning)} |"
    if section.others:
        yield f"| any other | | {_cell(section.others)} |"
    yield ""
    refused = {name: (key.meaning, key.instead) for name, key in section.keys.items() if key.refused}
    if refused:
        yield from _refused("key", refused.items())


def _refused(title: str, rows: Iterable[tuple[str, tuple[str, str]]]) -> Iterator[str]:
    yield from ("Not supported:", "", f"| {title} | why | instead |", "|---|---|---|")
    for name, (why, instead) in rows:
        yield f"| `{name}` | {_cell(why)} | {_cell(instead)} |"
    yield ""


def _providers() -> Iterator[str]:
    yield from ("## Ids of providers", "")
    yield "A name of headway.toml stands for itself: `alpha` (its default model), `alpha/MODEL`. An id of a vendor uses the table of headway.toml that has"
    yield "the vendor's name, if there is one and the file names no other address or key. A key is never written into the file."
    yield from ("", "| id | what it is | key |", "|---|---|---|")
    for word, vendor in VENDOR_IDS.items():
        words = " ".join(f"`{word}:{inner}:…`" for inner in vendor.words)
        variable = BY_NAME[vendor.vendor].variable
        yield f"| `{word}:…` {words} | {vendor.title} | `{variable}` |"
    for word, meaning in PROGRAM_IDS.items():
        yield f"| `{word}{'' if word == 'echo' else '…'}` | {meaning} | |"
    yield ""
    yield from _refused("id", ((f"{word}:", row) for word, row in REFUSED_IDS.items()))
    inner = {
        f"{word}:{name}:": row for word, vendor in VENDOR_IDS.items() for name, row in vendor.refused.items()
    }
    yield from _refused("id", inner.items())
    yield from ("Parameters of requests: " + ", ".join(f"`{name}`" for name in NAMES) + ".", "")


def _assertions() -> Iterator[str]:
    yield from ("## Types of assertions", "", "| type | passes if | value | threshold |", "|---|---|---|---|")
    for name, kind in KINDS.items():
        value = _cell(kind.value) if kind.value else ""
        yield f"| `{name}` | {_cell(kind.passes)} | {value} | {kind.threshold} |"
    yield ""
    yield from _refused("type", REFUSED.items())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), __doc__ or "", COMMAND))
