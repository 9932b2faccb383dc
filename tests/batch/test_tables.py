"""A table becomes one row a record; what is wrong is said with its line; templates are text and nothing else."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.batch.configs import ALPHA, BETA, BOTH, config

from headway.batch import reader as reading
from headway.batch.answer_text import answer_of
from headway.batch.file_types import delimiter_of
from headway.batch.input_source import open_batch
from headway.batch.prompt_template import Template
from headway.batch.reader import Reader
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row, parse
from headway.batch.tables import csv_input
from headway.config import Config
from headway.config.routing import Router
from headway.errors import ConfigError, HeadwayError, InputError, UsageError
from headway.forecast.survey import survey
from headway.jobs.base import IngestOptions

ASK = RequestOptions(prompt="Say {{text}}")


def records(
    tmp_path: Path,
    data: str | bytes,
    request_options: RequestOptions = ASK,
    name: str = "t.csv",
    settings: Config = BOTH,
) -> list[tuple[int, Row | BadRow]]:
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(csv_input.numbered(Reader(path), Router(settings), request_options))


def one(tmp_path: Path, data: str, request_options: RequestOptions = ASK, settings: Config = BOTH) -> Row:
    [(_, row)] = records(tmp_path, data, request_options, settings=settings)
    assert isinstance(row, Row), row
    return row


def prompts(found: list[tuple[int, Row | BadRow]]) -> list[tuple[int, str]]:
    return [
        (line, json.loads(row.body)["messages"][-1]["content"]) for line, row in found if isinstance(row, Row)
    ]


def wrong(found: list[tuple[int, Row | BadRow]]) -> list[tuple[int, str]]:
    assert all(line == row.line for line, row in found if isinstance(row, BadRow))
    return [(line, row.message) for line, row in found if isinstance(row, BadRow)]


# -- templates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{a}}", "1"),
        ("x {{ a }} y {{b}}{{a}}", "x 1 y 21"),
        ("no column", "no column"),
        ("{{{{a}}", "{{a}}"),
        ('{"value": {{{a}}}}', '{"value": {1}}'),
        ("}} {a} { }", "}} {a} { }"),
        ("{{long name}}", "3"),
        ("{{{{{{a}}", "{{1"),
    ],
)
def test_a_template(template: str, text: str) -> None:
    assert Template(template, "--prompt").bind(["a", "b", "long name"], "t").render(["1", "2", "3"]) == text


@pytest.mark.parametrize("template", ["{{a", "{{a} }", "x {{ {a} }}", "{{}}", "{{  }}"])
def test_an_invalid_template_is_an_error(template: str) -> None:
    with pytest.raises(UsageError, match="--prompt"):
        Template(template, "--prompt")


@pytest.mark.parametrize(
    "template", ["{{a.__class__}}", "{{a|upper}}", "{{a[0]}}", "{{1+1}}", "{{'a'}}", "{{a()}}"]
)
def test_there_are_no_expressions(template: str) -> None:
    with pytest.raises(ConfigError, match="has no column"):
        Template(template, "--prompt").bind(["a"], "t")


@given(st.text(), st.text())
def test_cells_are_inserted_unchanged(first: str, second: str) -> None:
    bound = Template("<{{a}}|{{b}}>", "--prompt").bind(["a", "b"], "t")
    assert bound.render([first, second]) == f"<{first}|{second}>"


@given(st.text(alphabet="{}a b", max_size=30))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        bound = Template(text, "--prompt").bind(["a"], "t")
    except HeadwayError:
        return
    bound.render(["cell"])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("txt", "did you mean 'text'?"),
        ("TEXT", "did you mean 'text'?"),
        ("zzz", "there are text, number"),
    ],
)
def test_an_unknown_column_suggests_the_nearest(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        records(tmp_path, "text,number\na,1\n", RequestOptions(prompt=f"Say {{{{{name}}}}}"))
    assert f"has no column '{name}', which --prompt names — {hint}" in str(refused.value)


def test_a_table_with_semicolons(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="semicolons"):
        records(tmp_path, "zzzzzzzz;yyyyyyy\n1;2\n")


# -- records ------------------------------------------------------------------------------------------------------------


def test_a_record_is_a_request(tmp_path: Path) -> None:
    row = one(
        tmp_path,
        "id,text,model,priority,note\na1,hello,beta/claude-x,7,mine\n",
        RequestOptions(prompt="Say {{text}}", system="Be {{note}}.", max_tokens=9, model="gpt-x"),
    )
    assert (row.custom_id, row.provider, row.model, row.priority) == ("a1", "beta", "claude-x", 7)
    assert json.loads(row.body) == {
        "model": "claude-x",
        "messages": [{"role": "user", "content": "Say hello"}],
        "system": "Be mine.",
        "max_tokens": 9,
    }
    assert json.loads(row.metadata or b"") == {
        "text": "hello",
        "model": "beta/claude-x",
        "priority": "7",
        "note": "mine",
    }


def test_empty_cells_count_as_missing(tmp_path: Path) -> None:
    row = one(
        tmp_path, "id,text,model,priority\n,hello,,\n", RequestOptions(prompt="{{text}}", model="gpt-y")
    )
    assert (row.custom_id, row.model, row.priority, row.raw_model) == ("row-2", "gpt-y", 0, "gpt-y")
    assert one(tmp_path, "text,model\nhello,\n").model == "gpt-d", "the provider's own"
    body = json.loads(
        one(tmp_path, "text,how\nhi,\n", RequestOptions(prompt="{{text}}", system="{{how}}")).body
    )
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_without_other_columns_there_is_no_metadata(tmp_path: Path) -> None:
    assert one(tmp_path, "id\na\n", RequestOptions(prompt="{{id}}")).metadata is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_quotes_and_line_ends(tmp_path: Path, pack: Any, mark: bytes, end: bytes) -> None:
    data = mark + end.join(
        [b"text , n", b'"one, two",1', b"", b'"first', b'second ""line""",2', b"   ", "größer,3".encode()]
    )
    name = "t.csv" if pack is bytes else "t.csv.gz"
    broken = end.decode()
    found = records(tmp_path, pack(data), RequestOptions(prompt="{{text}}"), name)
    assert prompts(found) == [(2, "one, two"), (4, f'first{broken}second "line"'), (7, "größer")]


def test_tabs(tmp_path: Path) -> None:
    found = records(tmp_path, "text\tn\na, b\t1\n", RequestOptions(prompt="{{text}}{{n}}"), "t.tsv")
    assert prompts(found) == [(2, "a, b1")]


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=2, max_size=2), max_size=6
    ),
    st.integers(1, 40),
)
def test_output_of_the_csv_module_round_trips(
    tmp_path_factory: pytest.TempPathFactory, cells: Any, chunk: int
) -> None:
    """Whatever the cells are, and wherever blocks of the file end."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerows([["text", "n"], *cells])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK", chunk)
        found = records(
            tmp_path_factory.mktemp("t"), buffer.getvalue(), RequestOptions(prompt="<{{text}}|{{n}}>")
        )
    assert wrong(found) == []
    assert [text for _, text in prompts(found)] == [f"<{text}|{n}>" for text, n in cells]


# -- what is wrong ------------------------------------------------------------------------------------------------------


def test_ragged_records_are_bad_rows_with_their_lines(tmp_path: Path) -> None:
    found = records(tmp_path, 'text,n\n"a\nb",1\nc\nd,2,3\ne,4\n')
    assert wrong(found) == [(4, "expected 2 cells, not 1"), (5, "expected 2 cells, not 3")]
    assert [line for line, _ in prompts(found)] == [2, 6]


def test_one_bad_record_does_not_affect_others(tmp_path: Path) -> None:
    data = b'text,priority\nok,1\n\xff\xfe,2\n"a"b,3\nx\ry,4\nlow,much\n,5\nlast,6\n'
    found = records(tmp_path, data, RequestOptions(prompt="{{text}}"))
    assert [line for line, _ in wrong(found)] == [3, 4, 5, 6, 7]
    says = dict(wrong(found))
    assert says[3] == "not valid UTF-8: save the file as UTF-8"
    assert "carriage return" in says[5]
    assert says[6] == '"priority" must be a whole number'
    assert '"prompt"' in says[7]
    assert prompts(found) == [(2, "ok"), (8, "last")]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("text,n,text\na,1,b\n", "two columns are called 'text'"),
        ("text,,\na,1,b\n", "two columns have no name"),
        ('text,n\na,1\n"b,2\nc,3\n', ":3: a quote is opened here and never closed"),
        (b"te\xffxt,n\na,1\n", ":1: not valid UTF-8: save the file as UTF-8"),
        ("text\na\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_that_is_not_a_table_is_an_error(tmp_path: Path, data: str | bytes, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        records(tmp_path, data)
    assert says in str(refused.value)


def test_a_record_without_end_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_input, "LONGEST_LINE", 1000)
    with pytest.raises(ConfigError, match="is a quote opened"):
        records(tmp_path, 'text,n\n"a,1\n' + "b,2\n" * 500)


def test_a_column_without_a_name_is_allowed(tmp_path: Path) -> None:
    """What pandas writes for its index."""
    row = one(tmp_path, ",text\n0,hello\n")
    assert json.loads(row.metadata or b"") == {"": "0", "text": "hello"}


# -- identity -----------------------------------------------------------------------------------------------------------


def test_request_options_are_part_of_the_identity_of_a_job(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\na\n")
    recipes = [
        RequestOptions(prompt="{{text}}"),
        RequestOptions(prompt="Say {{text}}"),
        RequestOptions(prompt="{{text}}", system="x"),
        RequestOptions(prompt="{{text}}", max_tokens=5),
        RequestOptions(prompt="{{text}}", model="m"),
        RequestOptions(prompt="{{text}}", limit=1),
    ]
    digests = [open_batch(str(path), request_options=request_options).digest for request_options in recipes]
    assert len(set(digests)) == len(recipes)
    assert digests == [
        open_batch(str(path), request_options=request_options).digest for request_options in recipes
    ]
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert open_batch(str(packed), request_options=recipes[0]).digest == digests[0]


def test_without_options_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("{}\n")
    assert open_batch(str(path)).digest == reading.digest_of(path)
    assert open_batch(str(path), request_options=RequestOptions(model="m")).digest != reading.digest_of(path)


def test_a_prompt_and_a_table_belong_together(tmp_path: Path) -> None:
    rows, table = tmp_path / "t.jsonl", tmp_path / "t.csv"
    for path in (rows, table):
        path.touch()
    with pytest.raises(UsageError, match="--prompt is for tables"):
        open_batch(str(rows), request_options=ASK)
    with pytest.raises(UsageError, match="is a table"):
        open_batch(str(table))


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [
        ("a.csv", ","),
        ("a.CSV", ","),
        ("a.tsv.gz", "\t"),
        ("a.jsonl", None),
        ("a.csv.jsonl", None),
        ("-", None),
    ],
)
def test_a_table_is_known_by_its_name(name: str, delimiter: str | None) -> None:
    assert delimiter_of(name) == delimiter


# -- flags for .jsonl -----------------------------------------------------------------------------------------------------


FLAGS = RequestOptions(system="Be brief.", max_tokens=5, model="gpt-f")


def filled(**row: Any) -> dict[str, Any]:
    made = parse(1, json.dumps(row).encode(), Router(BOTH), FLAGS)
    assert isinstance(made, Row), made
    body: dict[str, Any] = json.loads(made.body)
    return body


def test_options_fill_missing_fields_of_short_rows() -> None:
    body = filled(prompt="Hi")
    assert (body["model"], body["max_tokens"]) == ("gpt-f", 5)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_fields_of_a_short_row_override_options() -> None:
    body = filled(prompt="Hi", system="Sing.", max_tokens=7, model="gpt-r")
    assert (body["model"], body["max_tokens"]) == ("gpt-r", 7)
    assert body["messages"][0]["content"] == "Sing."
    assert "max_tokens" not in filled(prompt="Hi", max_completion_tokens=3)
    talk = [{"role": "system", "content": "Own."}, {"role": "user", "content": "Hi"}]
    assert filled(messages=talk)["messages"] == talk


def test_batch_rows_and_texts_to_embed_are_left_alone() -> None:
    assert filled(input="text", model="e") == {"model": "e", "input": "text"}
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    assert filled(url="/v1/chat/completions", body=body) == {"model": "gpt-d", **body}


# -- answers as text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"choices": [{"message": {"content": "Hi"}}, {"message": {"content": "Ho"}}]}, "Hi"),
        ({"choices": [{"message": {"content": ""}}]}, ""),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}}]}, "Hi"),
        ({"choices": [{"text": "old"}]}, "old"),
        ({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]}, "Hi"),
        ({"output": [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]}, "Hi"),
    ],
)  # fmt: skip
def test_the_text_of_an_answer(body: dict[str, Any], text: str) -> None:
    assert answer_of(json.dumps(body).encode()) == text


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [{"id": "1"}]}}]},
        {"data": [{"embedding": [0.5]}]},
        {"choices": []},
        {"content": 3},
        [],
    ],
)
def test_an_answer_without_text_is_its_body(body: Any) -> None:
    data = json.dumps(body).encode()
    assert answer_of(data) == data.decode()


# -- a survey ---------------------------------------------------------------------------------------------------------------


def surveyed(
    path: Path, request_options: RequestOptions | None = None, *, skip_bad: bool = False, **more: Any
) -> Any:
    with open_batch(str(path), request_options=request_options) as source:
        return survey(
            config(ALPHA, BETA, run="alpha"), source, options=IngestOptions(skip_bad=skip_bad), check=lambda p, m: None, **more
        )  # fmt: skip


def test_a_survey_counts_what_each_lane_would_get(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,model\n" + "abcd,\n" * 3 + "abcdefgh,beta/claude-x\n")
    found = surveyed(path, RequestOptions(prompt="{{text}}"))
    assert found.rows == 4
    alpha, beta = found.loads
    assert (alpha.provider, alpha.model, beta.provider, beta.model) == ("alpha", "gpt-d", "beta", "claude-x")
    assert (alpha.requests, alpha.chars, alpha.max_output_tokens, alpha.open_ended) == (3, 12, 0, 3)
    assert (beta.requests, beta.chars, beta.max_output_tokens, beta.open_ended) == (1, 8, 4096, 0)
    assert [row.index for row in (*alpha.sample, *beta.sample)] == [0, 1, 2, 3]
    assert surveyed(path, RequestOptions(prompt="{{text}}", limit=2)).rows == 2


def test_a_survey_refuses_what_a_run_refuses(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id,text\na,x\n"b",y,z\nc,"multi\nline"\na,x\n')
    with pytest.raises(UsageError, match=r"'a' occurs twice \(lines 2 and 6\)"):
        surveyed(path, ASK, skip_bad=True)
    with pytest.raises(InputError) as refused:
        surveyed(path, ASK)
    assert refused.value.problems == (
        "t.csv:3: expected 2 cells, not 3",
        "t.csv: the id 'a' occurs twice (lines 2 and 6)",
    )


def test_a_survey_keeps_a_fair_sample(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"id": "{n}", "prompt": "{"a" * (1 + n % 2)}"}}\n' for n in range(5000)))
    [load] = surveyed(path, kept=500).loads
    assert (load.requests, load.chars) == (5000, 7500)
    indices = [row.index for row in load.sample]
    assert len(indices) == len(set(indices)) == 500
    assert indices == sorted(indices)
    assert 2200 < sum(indices) / 500 < 2800, "from all of the file"
    assert 200 < sum(row.chars == 2 for row in load.sample) < 300, "not every second row"


def test_a_survey_leaves_out_finished_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"prompt": "x", "model": "{m}/m"}}\n' for m in ("alpha", "beta") * 3))
    found = surveyed(path, done={("alpha", "m"): 2, ("beta", "m"): 3})
    assert found.rows == 6
    assert [(load.provider, [row.index for row in load.sample]) for load in found.loads] == [("alpha", [4])]
