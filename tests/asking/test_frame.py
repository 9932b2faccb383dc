"""`headway.frame`: frames of pandas and polars in, the same with answers out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pydantic
import pytest
from tests.asking.conftest import configure

import headway
from headway.cli import main
from headway.testing import FakeProvider

TEXTS = ["north", "south", "east"]


class Review(pydantic.BaseModel):
    mood: str
    score: int


def received(provider: FakeProvider) -> int:
    return int(provider.stats()["total"]["received"])


def answers(frame: Any, column: str = "answer") -> list[Any]:
    return list(frame[column])


@pytest.mark.parametrize("library", [pd, pl])
def test_an_answer_for_every_row_in_order(provider: FakeProvider, library: Any) -> None:
    frame = library.DataFrame({"text": TEXTS, "n": [1, 2, 3]})
    made = headway.frame(frame, prompt="say {{text}} {{n}}")
    assert isinstance(made, library.DataFrame)
    assert list(made.columns) == ["text", "n", "answer", "_error"]
    asked = [f"echo: say {text} {n}" for n, text in enumerate(TEXTS, 1)]
    assert [answer.startswith(each) for answer, each in zip(answers(made), asked, strict=True)] == [True] * 3
    assert answers(made, "_error") == [None] * 3
    assert list(frame.columns) == ["text", "n"]  # The frame itself is not changed.


def test_an_index_is_kept(provider: FakeProvider) -> None:
    frame = pd.DataFrame({"text": TEXTS}, index=["b", "a", "a"])
    made = headway.frame(frame, prompt="{{text}}")
    assert list(made.index) == ["b", "a", "a"]
    assert made["answer"].iloc[2].startswith("echo: east")


def test_the_fields_of_a_schema_are_columns(provider: FakeProvider) -> None:
    texts = ["#fits", "#repaired", "#never"]
    made = headway.frame(pl.DataFrame({"text": texts}), prompt="{{text}}", schema=Review)
    assert made.columns == ["text", "mood", "score", "_error"]
    assert made["mood"].to_list() == ["good", "better", None]
    assert made["score"].to_list() == [3, 1, None]
    assert made["score"].dtype == pl.Int64
    assert made["_error"].to_list()[:2] == [None, None]
    assert made["_error"][2].startswith("invalid: the answer does not fit the schema")


def test_pandas_has_whole_numbers_beside_missing_ones(provider: FakeProvider) -> None:
    whole = headway.frame(pd.DataFrame({"text": ["#fits"]}), prompt="{{text}}", schema=Review)
    assert str(whole["score"].dtype) == "int64"
    partly = headway.frame(pd.DataFrame({"text": ["#fits", "#never"]}), prompt="{{text}}", schema=Review)
    assert str(partly["score"].dtype) == "Int64"
    assert partly["score"].iloc[0] == 3
    assert pd.isna(partly["score"].iloc[1])


def test_missing_cells_are_empty_and_empty_prompts_are_errors(provider: FakeProvider) -> None:
    frame = pd.DataFrame({"text": ["north", None, float("nan"), pd.NaT]})
    made = headway.frame(frame, prompt="{{text}}")
    assert made["answer"].iloc[0].startswith("echo: north")
    assert made["answer"].iloc[1:].isna().all()
    assert made["_error"].iloc[1:].str.startswith("invalid: the row makes no request").all()


def test_values_are_written_as_in_a_table(provider: FakeProvider) -> None:
    frame = pl.DataFrame({"a": [1.5], "b": [True], "c": [[1, 2]]})
    made = headway.frame(frame, prompt="{{a}} {{b}} {{c}}")
    assert made["answer"][0].startswith("echo: 1.5 true [1,2]")


def test_a_frame_without_rows_sends_nothing(provider: FakeProvider) -> None:
    made = headway.frame(pl.DataFrame({"text": []}, schema={"text": pl.String}), prompt="{{text}}")
    assert made.shape == (0, 3)
    assert received(provider) == 0


def test_with_a_database_nothing_is_asked_twice(
    provider: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.DataFrame({"text": TEXTS})
    first = headway.frame(frame, prompt="say {{text}}", db="f.db")
    again = headway.frame(frame, prompt="say {{text}}", db="f.db")
    assert again.equals(first)
    assert received(provider) == 3
    headway.frame(frame, prompt="tell {{text}}", db="f.db")
    assert received(provider) == 6
    headway.frame(frame, prompt="say {{text}}", db="f.db", model="gpt-y")
    assert received(provider) == 9
    assert main(["jobs", "--db", "f.db"]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    assert "(data frame)" in row
    assert row.rstrip().endswith("say {{text}}"), "the last column is the prompt"
    assert main(["resume", "--db", "f.db"]) == 2
    assert "run that program again" in capsys.readouterr().err


def test_in_a_changed_frame_only_changed_rows_are_asked(provider: FakeProvider) -> None:
    def asked(texts: list[str]) -> list[str]:
        answers = headway.frame(pl.DataFrame({"text": texts}), prompt="say {{text}}", db="f.db")["answer"]
        return [answer.partition(" (")[0] for answer in answers]

    first = asked(TEXTS)
    assert asked(["new", *TEXTS]) == ["echo: say new", *first]
    assert received(provider) == 4
    assert asked([*TEXTS[:2], "changed"]) == [*first[:2], "echo: say changed"]
    assert received(provider) == 5
    assert asked([*TEXTS[:2], TEXTS[0]])[:2] == first[:2]
    assert received(provider) == 6, "a row once more is a new row"


def test_another_default_model_is_another_job(provider: FakeProvider) -> None:
    frame = pl.DataFrame({"text": TEXTS})
    headway.frame(frame, prompt="say {{text}}", db="f.db")
    toml = Path("headway.toml")
    toml.write_text(toml.read_text().replace("gpt-x", "gpt-y"))
    headway.frame(frame, prompt="say {{text}}", db="f.db")
    assert received(provider) == 6


SCRIPT = """
import sys, headway, polars
frame = polars.DataFrame({"text": [f"t{n}" for n in range(300)]})
made = headway.frame(frame, prompt="say {{text}}", db="f.db", progress=False)
assert made["_error"].null_count() == 300
assert [answer.split()[2] for answer in made["answer"]] == [f"t{n}" for n in range(300)]
"""


def test_a_killed_run_continues(provider: FakeProvider) -> None:
    toml = Path("headway.toml")
    toml.write_text(toml.read_text().replace("max_concurrency = 32", "max_concurrency = 2"))
    with subprocess.Popen([sys.executable, "-c", SCRIPT]) as process:
        while received(provider) < 60 and process.poll() is None:
            threading.Event().wait(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    before = received(provider)
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
    assert before < 300
    assert received(provider) <= 300 + 60  # What was in flight, or not committed yet, is sent again.


async def test_it_works_inside_a_running_loop(provider: FakeProvider) -> None:
    made = headway.frame(pl.DataFrame({"text": TEXTS}), prompt="{{text}}")
    assert made["_error"].null_count() == 3


def test_a_refused_key_is_one_error(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-7d1f0c55a9")
    with pytest.raises(headway.UnitError) as refused:
        headway.frame(pl.DataFrame({"text": TEXTS}), prompt="{{text}}")
    assert refused.value.code == "auth"


def test_ctrl_c_stops_it_and_a_later_run_continues(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-slow-7d1f0c55a9")

    def interrupt() -> None:
        while not received(provider):
            threading.Event().wait(0.01)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(0.5)

    thread = threading.Thread(target=interrupt)
    thread.start()
    frame = pl.DataFrame({"text": TEXTS})
    with pytest.raises(KeyboardInterrupt):
        headway.frame(frame, prompt="{{text}}", db="f.db")
    thread.join()
    monkeypatch.setenv("ALPHA_KEY", "sk-asking-7d1f0c55a9")
    assert headway.frame(frame, prompt="{{text}}", db="f.db")["_error"].null_count() == 3


def test_nothing_is_left_behind_without_a_database(
    provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    headway.frame(pl.DataFrame({"text": TEXTS}), prompt="{{text}}")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / ".headway").exists()


@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        ([1], {}, "the frame is"),
        (pl.LazyFrame({"text": ["a"]}), {}, "collect it first"),
        (pl.DataFrame({"text": ["a"]}), {"prompt": "{{txt}}"}, "no column 'txt'.*did you mean 'text'"),
        (pl.DataFrame({"text": ["a"]}), {"prompt": "{text}"}, "two braces"),
        (pl.DataFrame({"text": ["a"]}), {"prompt": ""}, "prompt is ''"),
        (pl.DataFrame({"text": ["a"], "answer": ["b"]}), {}, "a column 'answer' already.*column="),
        (pl.DataFrame({"text": ["a"], "mood": ["b"]}), {"schema": Review}, "'mood' already.*prefix="),
        (pl.DataFrame({"text": ["a"], "_error": ["b"]}), {}, "'_error' already"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), {}, "two columns are called 'text'"),
        (pl.DataFrame({"text": ["a"]}), {"concurrency": -1}, "concurrency"),
    ],
)
def test_mistakes_are_named_before_anything_is_sent(
    provider: FakeProvider, frame: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(headway.HeadwayError, match=message):
        headway.frame(frame, **{"prompt": "{{text}}", **arguments})
    assert received(provider) == 0


def test_a_config_can_be_named(
    provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    configure(provider)
    monkeypatch.chdir(tmp_path)
    Path("headway.toml").unlink()
    made = headway.frame(
        pl.DataFrame({"text": TEXTS}), prompt="{{text}}", config="elsewhere/headway.toml", column="said"
    )
    assert made["said"].null_count() == 0


@pytest.mark.usefixtures("provider")
def test_a_provider_that_is_probably_misspelt_is_warned_about() -> None:
    frame = pl.DataFrame({"text": ["a"]})
    with pytest.warns(UserWarning, match="no provider 'alhpa'.*did you mean alpha/gpt-x") as warned:
        headway.frame(frame, prompt="{{text}}", model="alhpa/gpt-x")
    assert [one.filename for one in warned] == [__file__]
