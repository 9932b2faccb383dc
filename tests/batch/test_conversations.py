"""Rows that build on earlier ones: what they wait for, what is refused, and what they send when their turn comes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.batch.conversations import filled, request_of
from headway.batch.input_source import open_batch
from headway.batch.request_options import RequestOptions
from headway.config import Config, ProviderConfig, WorkersConfig
from headway.errors import InputError
from headway.jobs.base import IngestOptions
from headway.stores.records import NewJob, UnitChange
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

from .configs import ALPHA, BETA, config

GAMMA = ProviderConfig("gamma", "gemini", "http://127.0.0.1:8903", "GAMMA_KEY", model="gemini-d")
DELTA = ProviderConfig("delta", "bedrock", "http://127.0.0.1:8904", "", model="claude", region="eu-west-1")
WORK = ProviderConfig("work", "python", "", "", model="grade", kind_settings=WorkersConfig("grading:grade"))
ALL = config(ALPHA, BETA, GAMMA, DELTA, WORK, run="alpha")


class Input:
    """Rows that were taken in, in a store of their own."""

    def __init__(
        self,
        folder: Path,
        rows: list[dict[str, Any]],
        settings: Config = ALL,
        *,
        skip_bad: bool = False,
        request_options: RequestOptions | None = None,
    ) -> None:
        path = folder / "in.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.store = Store(SqliteMemory())
        self.job = self.store.add_job(NewJob("j", "batch", "in", "d", "out", 1.0))
        self.warnings: list[str] = []
        options = IngestOptions(skip_bad=skip_bad, warn=self.warnings.append)
        with open_batch(str(path), request_options=request_options) as source:
            source.ingest(self.store, settings, self.job, options=options, check=lambda *route: None)
        self.store.begin(self.job, {}, "out", 2.0)

    def edges(self, index: int) -> list[tuple[str, int]]:
        return [(edge.role, edge.before) for edge in self.store.edges(self.job, [index])]

    def answer(self, index: int, body: Any) -> None:
        batch = WriteBatch(self.job)
        batch.change(index, UnitChange("succeeded", finished_utc=3.0))
        batch.answers.append((index, 200, None, msgspec.json.encode(body)))
        self.store.commit(batch)

    def sent(self, index: int) -> dict[str, Any]:
        """Make the request of a unit, and keep it as the engine does."""
        made = request_of(self.job, self.store, index)
        batch = WriteBatch(self.job)
        batch.rendered.append((index, made.body, made.chars))
        self.store.commit(batch)
        body: dict[str, Any] = msgspec.json.decode(made.body)
        return body


@pytest.fixture
def taken(tmp_path: Path) -> partial[Input]:
    return partial(Input, tmp_path)


def chat(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def turn(conversation: str = "c", prompt: str = "go on", **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "conversation": conversation, **more}


def refusals(taken: partial[Input], *rows: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as refused:
        taken(list(rows))
    return list(refused.value.problems)


# -- what waits for what -------------------------------------------------------------------------------------------


def test_a_turn_waits_for_the_turn_before_it(taken: partial[Input]) -> None:
    made = taken([turn("c"), turn("d"), {"prompt": "alone"}, turn("c"), turn("d"), turn("c")])
    assert [made.edges(index) for index in range(6)] == [
        [],
        [],
        [],
        [("conversation", 0)],
        [("conversation", 1)],
        [("conversation", 3)],
    ]


def test_a_reader_waits_for_the_latest_writer_before_it(taken: partial[Input]) -> None:
    reader = {"prompt": "use {{a}}, {{ b }} and {{c}}"}
    made = taken(
        [
            reader,
            {"prompt": "x", "store_as": "a"},
            {"prompt": "y", "store_as": "a"},
            reader,
            {"prompt": "z {{a}}", "store_as": "b"},
            {"prompt": "w", "store_as": "a"},
            reader,
        ]
    )
    assert made.edges(0) == made.edges(1) == made.edges(2) == made.edges(5) == []
    assert made.edges(3) == [("register:a", 2)]
    assert made.edges(4) == [("register:a", 2)]
    assert made.edges(6) == [("register:a", 5), ("register:b", 4)]


def test_a_turn_may_read_and_store_too(taken: partial[Input]) -> None:
    made = taken([turn(store_as="a"), turn(prompt="{{a}}", store_as="a"), turn(prompt="{{a}}")])
    assert made.edges(1) == [("conversation", 0), ("register:a", 0)]
    assert made.edges(2) == [("conversation", 1), ("register:a", 1)]


def test_names_in_anything_but_texts_wait_for_nothing(taken: partial[Input]) -> None:
    made = taken(
        [{"prompt": "x", "store_as": "a"}, {"prompt": "y", "user": "{{a}}", "tools": [{"text": "{{a}}"}]}]
    )
    assert made.edges(1) == []


def test_batch_rows_may_be_turns(taken: partial[Input]) -> None:
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": "{{a}}"}]}
    row = {"url": "/v1/chat/completions", "body": body, "conversation": "c", "store_as": "a"}
    made = taken([row, row])
    assert made.edges(1) == [("conversation", 0), ("register:a", 0)]


def test_what_a_request_will_have_of_others_is_counted_in_its_length(taken: partial[Input]) -> None:
    made = taken(
        [turn(max_tokens=100), turn(prompt="12345", max_tokens=100), turn(prompt="1", max_tokens=100)]
    )
    lengths = [unit.chars for unit in made.store.next_serial(made.job, -1, 9, every=True)]
    assert lengths == [5, 5 + (5 + 100), 1 + (5 + 100) + (5 + 100)]


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (turn(""), '"conversation" must be a string'),
        ({"prompt": "x", "conversation": 5}, '"conversation" must be a string'),
        ({"prompt": "x", "store_as": 5}, '"store_as" must be a name'),
        ({"prompt": "x", "store_as": "a b"}, '"store_as" must be a name'),
        ({"prompt": "x", "store_as": "1a"}, '"store_as" must be a name'),
        ({"prompt": "x", "store_as": "re\u0301sume\u0301"}, '"store_as" must be a name'),
        ({"input": "x", "model": "e", "conversation": "c"}, '"conversation" is for text answers, and /v1/embeddings'),
        ({"input": "x", "model": "e", "store_as": "c"}, '"store_as" is for text answers, and /v1/embeddings'),
        (
            {"url": "/model/claude/invoke", "body": {"model": "delta/claude"}, "conversation": "c"},
            '"conversation" goes with /model/{model}/converse',
        ),
        ({"payload": 5, "model": "work/grade", "conversation": "c"}, "must be an object"),
        ({"earlier_turns": 5, "model": "work/grade", "conversation": "c"}, '"earlier_turns" is reserved for the earlier turns'),
        ({"payload": {}, "model": "work/grade", "store_as": "a b"}, '"store_as" must be a name'),
        ({"payload": {}, "model": "work/grade", "conversation": 5}, '"conversation" must be a string'),
        (
            {"messages": [{"role": "system", "content": "be brief"}], "conversation": "c"},
            "needs a message beside its system prompt",
        ),
    ],
)  # fmt: skip
def test_bad_use_is_an_error_with_the_line(taken: partial[Input], row: dict[str, Any], message: str) -> None:
    [line] = refusals(taken, {"prompt": "fine"}, row)
    assert line.startswith("in.jsonl:2: ")
    assert message in line


def test_every_bad_row_is_reported_whatever_is_wrong_with_the_rows_before_it(taken: partial[Input]) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    first = {"messages": [{"role": "user", "content": [image]}], "conversation": "c"}
    lines = refusals(taken, {"prompt": 5}, first, turn(model="beta/claude-x"))
    assert [line.partition(": ")[0] for line in lines] == ["in.jsonl:1", "in.jsonl:3"]


def test_a_row_that_is_too_deep_to_be_searched_for_names_is_a_bad_row(taken: partial[Input]) -> None:
    deep: Any = "{{r}}"
    for _ in range(900):
        deep = [deep]
    reader = {"messages": [{"role": "user", "content": [{"type": "x", "content": deep}]}]}
    [line] = refusals(taken, {"prompt": "x", "store_as": "r"}, reader)
    assert line.startswith("in.jsonl:2: nested too deeply")


def test_an_image_cannot_go_on_at_another_api(taken: partial[Input]) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    first = {"messages": [{"role": "user", "content": [image]}], "conversation": "c"}
    assert taken([first, turn()]).edges(1) == [("conversation", 0)]
    [line] = refusals(taken, first, turn(), turn(model="beta/claude-x"))
    assert line.startswith("in.jsonl:3: the conversation 'c' continues at another API, but an earlier turn")


# -- names that are not replaced -----------------------------------------------------------------------------------


def test_a_name_that_a_later_row_stores_is_literal_text_with_a_warning(taken: partial[Input]) -> None:
    made = taken(
        [
            {"id": "a", "prompt": "use {{x}} and {{unknown}}"},
            {"id": "b", "prompt": "use {{x}}"},
            {"id": "c", "prompt": "x", "store_as": "x"},
            {"id": "d", "prompt": "use {{x}}"},
            {"id": "e", "prompt": "x", "store_as": "x"},
        ]
    )
    assert [made.edges(index) for index in range(4)] == [[], [], [], [("register:x", 2)]]
    assert made.warnings == [
        "warning: sent as literal text, because the row that stores the name comes later: "
        "{{x}} in row 'a' (row 'c' stores it)"
    ]


def test_a_row_that_reads_and_stores_one_name_is_no_mistake(taken: partial[Input]) -> None:
    made = taken([{"prompt": "go on from {{x}}", "store_as": "x"}] * 3)
    assert made.warnings == []
    assert made.edges(2) == [("register:x", 1)]


def test_many_names_make_one_warning(taken: partial[Input]) -> None:
    readers = [{"id": f"r{n}", "prompt": f"{{{{n{n}}}}}"} for n in range(5)]
    made = taken([*readers, *({"id": f"w{n}", "prompt": "x", "store_as": f"n{n}"} for n in range(5))])
    [warning] = made.warnings
    assert warning.endswith("{{n2}} in row 'r2' (row 'w2' stores it), and 2 more")


@pytest.mark.parametrize(
    "bad",
    [
        {"prompt": 5, "store_as": "x"},
        {"prompt": "p", "max_tokens": -1, "store_as": "x"},
        {"earlier_turns": 5, "model": "work/grade", "conversation": "c", "store_as": "x"},
    ],
)
def test_a_name_whose_row_was_left_out_is_not_replaced_and_gives_a_warning(
    taken: partial[Input], bad: dict[str, Any]
) -> None:
    made = taken(
        [
            {"prompt": "x", "store_as": "y"},
            bad,
            {"id": "r", "prompt": "use {{x}}"},
            {"prompt": "x", "store_as": "x"},
            {"prompt": "use {{x}}"},
        ],
        skip_bad=True,
    )
    assert [made.edges(index) for index in range(4)] == [[], [], [], [("register:x", 2)]]
    assert made.warnings == [
        "warning: sent as literal text or with an earlier value, because the row that stores the name was left out: "
        "{{x}} in row 'r' (line 2 stores it)"
    ]


def test_an_earlier_value_in_place_of_one_that_was_left_out_gives_a_warning_too(
    taken: partial[Input],
) -> None:
    made = taken(
        [
            {"prompt": "x", "store_as": "x"},
            {"prompt": 5, "store_as": "x"},
            {"id": "r", "prompt": "use {{x}}"},
        ],
        skip_bad=True,
    )
    assert made.edges(1) == [("register:x", 0)]
    assert len(made.warnings) == 1


# -- what is sent --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["alpha/gpt-d", "beta/claude-d", "gamma/gemini-d", "delta/claude"])
def test_words_that_a_schema_adds_to_every_row_do_not_replace_the_system_prompt(
    taken: partial[Input], model: str
) -> None:
    """`--schema` in words makes a system prompt where a row has none: the one of the conversation stays."""
    words = "Answer with JSON alone."
    made = taken(
        [
            turn(prompt="one", model=model, system=f"PIRATE\n\n{words}"),
            turn(prompt="two", model=model, system=words),
        ]
    )
    made.answer(0, chat("1"))
    assert "PIRATE" in json.dumps(made.sent(1))


def test_a_turn_is_sent_with_all_that_was_said_before(taken: partial[Input]) -> None:
    made = taken(
        [turn(prompt="one", system="brief", temperature=0), turn(prompt="two"), turn(prompt="three")]
    )
    made.answer(0, chat("1"))
    assert made.sent(1)["messages"] == [
        {"role": "system", "content": "brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]
    made.answer(1, chat("2"))
    third = made.sent(2)
    assert [message["content"] for message in third["messages"]] == ["brief", "one", "1", "two", "2", "three"]
    assert third.keys() == {"model", "messages"}, "settings are the row's own"


def test_a_conversation_goes_round_the_apis(taken: partial[Input]) -> None:
    models = ("alpha/gpt-x", "beta/claude-x", "gamma/gemini-x", "delta/claude", "alpha/gpt-x")
    made = taken([turn(prompt=f"p{n}", model=model) for n, model in enumerate(models)])
    answers = (
        chat("a0"),
        {"content": [{"type": "text", "text": "a1"}]},
        {"candidates": [{"content": {"parts": [{"text": "a2"}]}}]},
        {"output": {"message": {"content": [{"text": "a3"}]}}},
    )
    for index, answer in enumerate(answers):
        made.answer(index, answer)
        last = made.sent(index + 1)
    assert last["messages"] == [
        message
        for n in range(4)
        for message in ({"role": "user", "content": f"p{n}"}, {"role": "assistant", "content": f"a{n}"})
    ] + [{"role": "user", "content": "p4"}]


def test_names_are_replaced_by_the_text_of_the_answer(taken: partial[Input]) -> None:
    made = taken(
        [
            {"prompt": "x", "store_as": "a"},
            {"prompt": "{{a}}, {{ a }}, {{b}}, {a}, {{{a}}}", "system": "know {{a}}"},
        ]
    )
    made.answer(0, chat('the "one" {{b}}\n'))
    assert [message["content"] for message in made.sent(1)["messages"]] == [
        'know the "one" {{b}}\n',
        'the "one" {{b}}\n, the "one" {{b}}\n, {{b}}, {a}, {the "one" {{b}}\n}',
    ]


def test_the_system_prompt_of_the_command_line_is_literal_except_for_stored_names(
    taken: partial[Input],
) -> None:
    made = taken(
        [{"prompt": "{{text}}", "store_as": "a"}, {"prompt": "x"}],
        request_options=RequestOptions(system="know {{a}}, {{text}} and {b}"),
    )
    assert made.edges(0) == []
    assert made.edges(1) == [("register:a", 0)]
    assert b"know {{a}}, {{text}} and {b}" in made.store.request(made.job, 0)[1]
    made.answer(0, chat("A"))
    assert made.sent(1)["messages"][0]["content"] == "know A, {{text}} and {b}"


def test_what_is_put_in_is_not_looked_at_again() -> None:
    assert filled("{{a}} {{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}} {{a}}"


def test_only_the_rows_own_texts_have_names_replaced(taken: partial[Input]) -> None:
    """`{{a}}` was literal text in the first turn, because nothing was stored then: it stays that."""
    made = taken([turn(prompt="say {{a}}"), {"prompt": "x", "store_as": "a"}, turn(prompt="{{a}}")])
    made.answer(0, chat("{{a}}"))
    made.answer(1, chat("A"))
    assert [message["content"] for message in made.sent(2)["messages"]] == ["say {{a}}", "{{a}}", "A"]


def test_the_length_and_the_open_input_are_of_what_is_sent(taken: partial[Input]) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}
    made = taken(
        [{"messages": [{"role": "user", "content": [image]}], "conversation": "c"}, turn(prompt="12345")]
    )
    made.answer(0, chat("123"))
    request = request_of(made.job, made.store, 1)
    assert request.chars == 4000 + 3 + 5
    assert request.open_input, "the image of the first turn goes in again"


# -- functions -----------------------------------------------------------------------------------------------------


def work(**more: Any) -> dict[str, Any]:
    return {"model": "work/grade", **more}


def test_a_functions_row_keeps_its_keys_and_gets_the_turns_before(taken: partial[Input]) -> None:
    made = taken(
        [
            work(prompt="grade", conversation="c", store_as="a"),
            work(essay="{{a}}", conversation="c"),
            turn(prompt="explain"),
            work(n=1, conversation="c"),
        ]
    )
    assert made.edges(1) == [("conversation", 0), ("register:a", 0)]
    made.answer(0, "B+")
    assert made.sent(1) == {
        "essay": "B+",
        "conversation": "c",
        "model": "grade",
        "earlier_turns": [{"role": "user", "content": "grade"}, {"role": "assistant", "content": "B+"}],
    }
    made.answer(1, {"mark": 3})
    assert [message["content"] for message in made.sent(2)["messages"]] == [
        "grade", "B+", '{"essay":"B+"}', '{"mark":3}', "explain",
    ]  # fmt: skip
    made.answer(2, chat("because"))
    assert [one["content"] for one in made.sent(3)["earlier_turns"]][-2:] == ["explain", "because"]


def test_a_payload_may_have_both_keys_beside_it(taken: partial[Input]) -> None:
    made = taken(
        [
            work(payload={"n": 1}, conversation="c", store_as="a"),
            work(payload={"n": "{{a}}"}, conversation="c"),
        ]
    )
    made.answer(0, 7)
    assert made.sent(1) == {
        "n": "7",
        "earlier_turns": [{"role": "user", "content": '{"n":1}'}, {"role": "assistant", "content": "7"}],
    }


def test_a_functions_own_data_may_have_any_form_under_both_keys(taken: partial[Input]) -> None:
    row = work(conversation=[{"role": "user"}], store_as="not a name", text="{{not}} {{a}}")
    made = taken([row, row])
    assert made.edges(1) == []
    assert msgspec.json.decode(made.store.request(made.job, 1)[1]) == {
        "conversation": [{"role": "user"}],
        "store_as": "not a name",
        "text": "{{not}} {{a}}",
        "model": "grade",
    }


def test_the_system_prompt_outlives_a_functions_turn(taken: partial[Input]) -> None:
    made = taken(
        [
            turn(prompt="one", system="brief"),
            work(prompt="two", conversation="c"),
            work(prompt="three", conversation="c"),
            turn(prompt="four", model="beta/claude-x"),
            turn(prompt="five", model="beta/claude-x", system="long"),
        ]
    )
    made.answer(0, chat("1"))
    made.answer(1, "2")
    assert made.sent(1)["earlier_turns"] == [
        {"role": "system", "content": "brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
    ]
    assert [one["content"] for one in made.sent(2)["earlier_turns"]] == ["brief", "one", "1", "two", "2"]
    made.answer(2, "3")
    fourth = made.sent(3)
    assert fourth["system"] == "brief"
    texts = ["one", "1", "two", "2", "three", "3", "four"]
    assert [message["content"] for message in fourth["messages"]] == texts
    made.answer(3, {"content": [{"type": "text", "text": "4"}]})
    assert made.sent(4)["system"] == "long"


@pytest.mark.parametrize(
    "value", [chat("inside"), {"content": [{"type": "text", "text": "inside"}]}, {"text": "x"}]
)
def test_a_functions_result_is_its_value_even_if_it_looks_like_a_models_answer(
    taken: partial[Input], value: dict[str, Any]
) -> None:
    made = taken(
        [
            work(prompt="one", conversation="c", store_as="a"),
            turn(prompt="two"),
            {"prompt": "{{a}}"},
        ]
    )
    made.answer(0, value)
    written = json.dumps(value, separators=(",", ":"))
    assert [message["content"] for message in made.sent(1)["messages"]] == ["one", written, "two"]
    assert made.sent(2)["messages"][0]["content"] == written
