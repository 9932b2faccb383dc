"""Every command over PostgreSQL says what it says over SQLite: jobs of every kind in two folders, the same command lines, and what they print
compared, without times, places and what chance decides.
"""

from __future__ import annotations

import difflib
import glob
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.dashboard.demo_site import KEYS, DemoSite, demo_site
from tests.postgres_server import PostgresServer

from headway.cli import main
from headway.fake.process import FakeProcess

#: The command lines as a user types them, each with the code that it ends with. `~`: what it prints depends on the time.
LINES: Final = """
0 plan tickets.jsonl
1 run tickets.jsonl --name batch
4 run release.yaml --name notes
5 eval --name eval
0 review src --name review --model openai/m --axis correctness
0 run table.csv --name table --prompt "say {{text}}" --out table.out.csv
0 run texts/*.txt --name texts --prompt "say {{text}}" --out-dir answers
0 run strange.jsonl --name strange --skip-bad-rows
0 ask "What is the capital of France?"
0 jobs
0 status batch
0 status notes --json
0 status review --json
0 show batch ticket-001 --json
0 show batch ticket-013
0 show notes draft
0 show strange zero
0 show strange 2
0~ logs batch
0 export batch
0 export strange
0 export eval
0 report batch -o batch.html
0 report review -o review.html
0~ lanes
2 lanes --rpm openai/gpt-4.1-mini=6000
0 budget batch 9
0 graph release.yaml
2 pause batch
2 cancel batch
1 retry batch --failed
0 retry batch ticket-003
1 run tickets.jsonl --name batch
1 resume batch
1 run tickets.jsonl --only-failed --name again --force
1 run tickets.jsonl --fresh --name fresh --cache --out fresh.jsonl
0~ diff batch fresh
0 cache stats
0 cache why notes outline
0 approve notes sign_off --note fine
0 resume notes
0 cache clear -y
0 worktrees
0~ top --once
1~ attach batch
0 jobs --json
"""
#: A text that no text column of PostgreSQL takes, half of a surrogate pair, an id as long as a page, a line that is no UTF-8, marks of direction.
_STRANGE: Final = (
    b'{"id": "zero", "prompt": "a\\u0000b", "metadata": {"k\\u0000": "v"}}\n'
    b'{"id": "lone", "prompt": "\\ud800 alone"}\n'
    b'{"id": "' + b"x" * 3000 + b'", "prompt": "long"}\n'
    b'{"id": "broken", "prompt": "\xff\xfe"}\n'
    b'{"id": "emoji \xf0\x9f\x9a\x82", "prompt": "\xe2\x80\xae mirrored"}\n'
)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.5g}"


#: What differs between two runs of the same commands.
_MASKS: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?|\b\d\d:\d\d:\d\d(?:\.\d+)?\b", "TIME"),
    (r'"(\w+_m?s|created|used_of_binding|level)":( ?)[\d.e-]+', r'"\1":\2N'),
    (r"\b[\d,.]+ ?(?:ms|s|min|h|kB|MB|KB)\b", "SPAN"),
    (r"\b[\d,.]+/(?:s|min)\b", "RATE"),
    (r"\b(?:req|msg|chatcmpl)[-_][0-9a-f]+|\bask-[0-9a-f]{10}|account [0-9a-f]{10}", "ID"),
    (r"\d+\.\d{5,}(?:e-\d+)?", _rounded),
    (r" \(after SPAN of waiting\)", ""),
    (r" +", " "),
)


class Said(NamedTuple):
    """What a command printed and its exit code. Of standard error, errors: progress depends on the time."""

    line: str
    code: int
    out: list[str]
    errors: list[str]


def _plain(text: str, root: Path) -> list[str]:
    text = text.replace(str(root), "ROOT")
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    return text.splitlines()


def _site(root: Path, fake: FakeProcess) -> None:
    site = DemoSite(root, fake)
    site.write_all()
    site.write("table.csv", "id,text\n" + "".join(f"r{n},word {n}\n" for n in range(5)))
    for n in range(3):
        site.write(f"texts/{n}.txt", f"text {n}")
    (root / "strange.jsonl").write_bytes(_STRANGE)


def _all_said(root: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Said]:
    for line in LINES.strip().splitlines():
        words = [path for word in shlex.split(line)[1:] for path in sorted(glob.glob(word)) or [word]]
        capfd.readouterr()
        code = main(words)
        out, err = capfd.readouterr()
        assert "Traceback" not in err, (line, err)
        errors = [row for row in _plain(err, root) if row.startswith("headway: ")]
        yield Said(line, code, [] if line[1] == "~" else _plain(out, root), errors)


def test_all_commands_say_the_same(
    tmp_path: Path,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in {f"{name}_KEY": key for name, key in KEYS.items()}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HEADWAY_CONFIG", raising=False)
    said: dict[str, list[Said]] = {}
    with (
        demo_site(tmp_path / "provider", quick=True) as provider,
        postgres_server.lent_address() as address,
    ):
        for store, db in (("sqlite", "records.db"), ("postgres", address)):
            root = tmp_path / store / "work"
            _site(root, provider.fake)
            monkeypatch.chdir(root)
            monkeypatch.setenv("HEADWAY_DB", db)
            said[store] = list(_all_said(root, capfd))
    for one, other in zip(said["sqlite"], said["postgres"], strict=True):
        assert other == one, "".join(difflib.unified_diff(one.out, other.out, n=0))[:2000]
        assert str(other.code) == one.line[0], other
