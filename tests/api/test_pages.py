"""The pages about Python: every name and argument stands in the reference, every block of the how-tos runs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import headway
import headway.testing
from headway.api.mapping.map_options import MapArguments

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_public_name_is_documented() -> None:
    missing = [name for name in headway.__all__ if not re.search(rf"`headway\.{name}\b", REFERENCE)]
    section = REFERENCE.partition("## headway.testing")[2]
    missing += [name for name in headway.testing.__all__ if not re.search(rf"`{name}\b", section)]
    assert missing == []


def test_every_argument_of_a_call_is_documented() -> None:
    assert [name for name in MapArguments.__annotations__ if f"| `{name}` |" not in REFERENCE] == []


def test_every_field_is_documented() -> None:
    records = (headway.Limits, headway.Retry, headway.PoolResult, headway.WorkerResult, headway.WorkUnit)
    fields = [field.name for record in records for field in dataclasses.fields(record)]
    fields += headway.Result.__struct_fields__
    assert [name for name in fields if not re.search(rf"[`( ]{name}\b", REFERENCE)] == []


@pytest.mark.parametrize("page", ["python", "testing"])
def test_every_block_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # The page writes answers.db.
    text = (DOCS / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) > 4
    names: dict[str, Any] = {"__name__": page}
    for block in blocks:
        code = compile(block, f"{page}.md", "exec")
        if page == "python":
            with headway.testing.virtual_time():
                exec(code, names)
        else:
            exec(code, names)
    for name, value in list(names.items()):
        if name.startswith("test_"):
            value()


def test_the_readme_has_the_way_in() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (block,) = (block for block in BLOCK.findall(readme) if "headway.map" in block)
    names: dict[str, Any] = {"ask": str.upper, "questions": ["a", "b"]}
    exec(compile(block, "README.md", "exec"), names)
    assert names["answers"] == ["A", "B"]
    for page in ("how-to/python.md", "reference/python.md"):
        assert f"docs/{page}" in readme


def test_the_readme_asks_without_an_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    @dataclasses.dataclass
    class Review:
        positive: bool

    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (block,) = (block for block in BLOCK.findall(readme) if "headway.ask" in block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-readme-0123")
    with headway.testing.fake_provider() as fake:
        toml = f'[providers.alpha]\nkind = "openai"\nbase_url = "{fake.openai_url}"\nmodel = "gpt-x"\n'
        (tmp_path / "headway.toml").write_text(toml, encoding="utf-8")
        names: dict[str, Any] = {
            "headway": headway,
            "Review": Review,
            "df": pd.DataFrame({"text": ["a", "b"]}),
        }
        exec(compile(block, "README.md", "exec"), names)
    assert isinstance(names["review"], Review)
    assert list(names["table"]["text"]) == ["a", "b"]
    assert "positive" in names["table"].columns
