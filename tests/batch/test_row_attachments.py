"""Rows with attachments: what they name, how requests get them, which job they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.batch.attachment_files import pdf, png
from tests.batch.configs import config

from headway.batch.attachments.row_attachments import RowAttachments
from headway.batch.input_source import BatchSource, open_batch
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row
from headway.config import ProviderConfig
from headway.config.routing import Router
from headway.providers.attached_body import mark_of

A, DOC = png(640, 480), pdf(2)
CONFIG = config(
    ProviderConfig("o", "openai", "http://127.0.0.1:1", "K", model="gpt-4o"),
    ProviderConfig("a", "anthropic", "http://127.0.0.1:1", "K", model="claude-3"),
    ProviderConfig("g", "gemini", "http://127.0.0.1:1", "K", model="gemini-2.5"),
    ProviderConfig("b", "bedrock", "http://127.0.0.1:1", "K", model="claude-3", region="us-east-1"),
    ProviderConfig("z", "azure", "http://127.0.0.1:1", "K", model="d"),
    run="o",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(A)
    (tmp_path / "d.pdf").write_bytes(DOC)
    return tmp_path


def source_of(folder: Path, *rows: Any, name: str = "in.jsonl", **options: Any) -> BatchSource:
    path = folder / name
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return open_batch(str(path), request_options=RequestOptions(**options))


def rows_of(folder: Path, *rows: Any, **options: Any) -> list[Row | BadRow]:
    with source_of(folder, *rows, **options) as source:
        return [row for _, row in source.numbered(Router(CONFIG))]


def attached(folder: Path, row: dict[str, Any], **options: Any) -> Row:
    [found] = rows_of(folder, row, **options)
    assert isinstance(found, Row), found
    return found


def refused(folder: Path, row: dict[str, Any], **options: Any) -> str:
    [found] = rows_of(folder, row, **options)
    assert isinstance(found, BadRow), found
    return found.message


def marks(folder: Path) -> tuple[str, str]:
    files = RowAttachments(folder).files
    found = [files.file(name) for name in ("a.png", "d.pdf")]
    first, second = (mark_of(file.digest, file.size) for file in found)
    return first, second


# -- each API ---------------------------------------------------------------------------------------------------------


def test_each_api_gets_the_parts_that_it_wants(folder: Path) -> None:
    image, document = marks(folder)
    base64 = {"type": "base64", "media_type": "image/png", "data": image}
    chat = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
        {
            "type": "file",
            "file": {"filename": "document-2.pdf", "file_data": f"data:application/pdf;base64,{document}"},
        },
        {"type": "text", "text": "look"},
    ]
    wanted: dict[str, tuple[str, str, list[Any]]] = {
        "o": ("messages", "content", chat),
        "z": ("messages", "content", chat),
        "a": ("messages", "content", [
            {"type": "image", "source": base64},
            {"type": "document", "source": {**base64, "media_type": "application/pdf", "data": document}},
            {"type": "text", "text": "look"},
        ]),
        "g": ("contents", "parts", [
            {"inlineData": {"mimeType": "image/png", "data": image}},
            {"inlineData": {"mimeType": "application/pdf", "data": document}},
            {"text": "look"},
        ]),
        "b": ("messages", "content", [
            {"image": {"format": "png", "source": {"bytes": image}}},
            {"document": {"format": "pdf", "name": f"document-2-{document.split(':')[2][:8]}", "source": {"bytes": document}}},
            {"text": "look"},
        ]),
    }  # fmt: skip
    for provider, (turns, key, parts) in wanted.items():
        row = attached(
            folder, {"prompt": "look", "model": f"{provider}/m", "attachments": ["a.png", "d.pdf"]}
        )
        assert json.loads(row.body)[turns] == [{"role": "user", key: parts}], provider
        assert [file.media.type for file in row.files] == ["image/png", "application/pdf"]
        assert len(row.body) < 900


def test_batch_rows_get_them_too(folder: Path) -> None:
    image, document = marks(folder)
    responses = {"url": "/v1/responses", "body": {"input": "look", "model": "o/m"}}
    row = attached(folder, {**responses, "attachments": ["a.png", "d.pdf"]})
    assert json.loads(row.body)["input"][0]["content"] == [
        {"type": "input_image", "image_url": f"data:image/png;base64,{image}"},
        {"type": "input_file", "filename": "document-2.pdf", "file_data": f"data:application/pdf;base64,{document}"},
        {"type": "input_text", "text": "look"},
    ]  # fmt: skip
    row = attached(folder, {**responses, "attachments": ["https://x.org/a.pdf"]})
    assert json.loads(row.body)["input"][0]["content"][0] == {
        "type": "input_file",
        "file_url": "https://x.org/a.pdf",
    }
    message = [{"role": "user", "content": "look"}]
    claude = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": message}
    row = attached(folder, {"url": "/model/b%2Fx/invoke", "body": claude | {"model": "b/b/x"}, "attachments": ["a.png"]})  # fmt: skip
    assert json.loads(row.body)["messages"][0]["content"][0]["source"]["data"] == image
    llama = {"url": "/model/x/invoke", "body": {"prompt": "p", "model": "b/x"}, "attachments": ["a.png"]}
    assert "use /model/{model}/converse" in refused(folder, llama)


def test_they_go_into_the_last_message_of_the_user(folder: Path) -> None:
    turns = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": [{"type": "text", "text": "three"}]},
        {"role": "assistant", "content": "four"},
    ]
    row = attached(folder, {"messages": turns, "attachments": ["a.png"]})
    sent = json.loads(row.body)["messages"]
    assert [type(turn["content"]) for turn in sent] == [str, str, list, str]
    assert [part["type"] for part in sent[2]["content"]] == ["image_url", "text"]
    assert "message of the user" in refused(folder, {"messages": turns[1:2], "attachments": ["a.png"]})


def test_addresses_are_passed_on_where_the_api_reads_them(folder: Path) -> None:
    url = "https://x.org/a.png?sig=1"
    row = attached(folder, {"prompt": "p", "attachments": [{"url": url, "detail": "low"}]})
    part = json.loads(row.body)["messages"][0]["content"][0]
    assert part == {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    row = attached(folder, {"prompt": "p", "model": "a/m", "attachments": [url, "https://x.org/b.pdf"]})
    parts = json.loads(row.body)["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image", "document", "text"]
    assert parts[0]["source"] == {"type": "url", "url": url}
    row = attached(folder, {"prompt": "p", "model": "g/m", "attachments": [{"url": "https://x.org/1", "type": "image/gif"}]})  # fmt: skip
    part = json.loads(row.body)["contents"][0]["parts"][0]
    assert part == {"fileData": {"mimeType": "image/gif", "fileUri": "https://x.org/1"}}
    said = {
        "b": ("https://x.org/a.png", "Bedrock takes no addresses"),
        "g": ("https://x.org/1", "Gemini must know its type"),
        "o": ("https://x.org/1.PDF", "no PDF by its address"),
    }
    for provider, (address, why) in said.items():
        assert why in refused(folder, {"prompt": "p", "model": f"{provider}/m", "attachments": [address]})


@pytest.mark.parametrize(
    ("attachments", "why"),
    [
        ("a.png", "must be a list"),
        ([3], '"attachments[0]" must be a path'),
        ([""], "is empty"),
        (["a.png", "x.png"], "x.png does not exist"),
        (["a\0.png"], "zero byte"),
        ([{"path": "a.png", "url": "https://x.org"}], 'one of "path" and "url"'),
        ([{}], 'one of "path" and "url"'),
        ([{"path": "a.png", "size": 3}], 'unknown key "size"'),
        ([{"path": 3}], '"path" must be a text'),
        ([{"path": "a.png", "type": "image/tiff"}], "the type must be one of"),
        ([{"path": "a.png", "type": "image/jpeg"}], "a.png is image/png, and the row says image/jpeg"),
        ([{"path": "a.png", "detail": "fine"}], "the detail must be one of auto, low, high, original"),
        (["file:///etc/passwd"], "only http and https"),
        (["data:image/png;base64,AAAA"], "only http and https"),
        (["s3://bucket/a.png"], "only http and https"),
        (["https://"], "only http and https"),
        (["https://[::1"], "only http and https"),
        (["https://x.org/a b.png"], "only http and https"),
        (["https://me:secret@x.org/a.png"], "user or password"),
        (["/etc/passwd"], "/etc/passwd is neither a PNG"),
        ([".."], "is a directory"),
        (["a" * 5_000], "cannot be read"),
    ],
)
def test_mistakes_are_bad_rows(folder: Path, attachments: Any, why: str) -> None:
    assert why in refused(folder, {"prompt": "p", "attachments": attachments})


def test_only_chats_have_attachments(folder: Path) -> None:
    row = {"input": "text", "model": "o/m", "attachments": ["a.png"]}
    assert "attachments are for chats" in refused(folder, row)


def test_null_and_an_empty_list_attach_nothing(folder: Path) -> None:
    nothing: Any
    for nothing in (None, []):
        row = attached(folder, {"prompt": "p", "attachments": nothing})
        assert json.loads(row.body) == {"model": "gpt-4o", "messages": [{"role": "user", "content": "p"}]}


def test_tokens_are_part_of_the_size_and_the_family_has_an_open_input(folder: Path) -> None:
    plain = attached(folder, {"prompt": "p" * 400})
    image = attached(folder, {"prompt": "p" * 400, "attachments": ["a.png"]})
    low = attached(folder, {"prompt": "p" * 400, "attachments": [{"path": "a.png", "detail": "low"}]})
    assert (image.chars - plain.chars, low.chars - plain.chars) == (4 * (85 + 2 * 170), 4 * 85)
    assert image.traits.open_input
    assert not plain.traits.open_input
    assert image.traits.shape != plain.traits.shape


# -- --attach ---------------------------------------------------------------------------------------------------------


def parts_of(row: Row | BadRow) -> list[str]:
    assert isinstance(row, Row), row
    content = json.loads(row.body)["messages"][-1]["content"]
    return ["text"] if isinstance(content, str) else [part["type"] for part in content]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_columns_of_a_table_name_files(folder: Path, name: str) -> None:
    lines = ["id,photo,more\n", "a,a.png,\n", "b,,\n", 'c," a.png ",d.pdf\n', "d,a.jpg,\n"]
    rows = rows_of(
        folder,
        *(line.replace(",", "\t") if name == "t.tsv" else line for line in lines),
        name=name,
        prompt="look",
        attach=("{{photo}}", "./{{ more }}"),
    )
    assert [parts_of(row) for row in rows[:3]] == [
        ["image_url", "text"],
        ["text"],
        ["image_url", "file", "text"],
    ]
    assert isinstance(rows[3], BadRow)
    assert rows[3].at("t") == "t:5: a.jpg does not exist"


def test_keys_of_a_row_name_files_and_are_not_sent(folder: Path) -> None:
    (folder / "7.png").write_bytes(A)
    row = attached(folder, {"id": 7, "prompt": "p", "photo": "a.png", "attachments": ["d.pdf"]}, attach=("{{photo}}", "{{id}}.png"))  # fmt: skip
    assert parts_of(row) == ["file", "image_url", "image_url", "text"]
    assert json.loads(row.body).keys() == {"model", "messages"}
    assert row.custom_id == "7"
    row = attached(folder, {"prompt": "p", "metadata": {"photo": "a.png"}}, attach=("{{photo}}",))
    assert parts_of(row) == ["image_url", "text"]
    assert row.metadata == b'{"photo":"a.png"}'
    assert parts_of(attached(folder, {"prompt": "p", "photo": None}, attach=("x/{{photo}}",))) == ["text"]
    assert "which neither the row" in refused(folder, {"prompt": "p"}, attach=("{{photo}}",))
    assert "must be a text" in refused(folder, {"prompt": "p", "photo": ["a"]}, attach=("{{photo}}",))


def test_a_constant_goes_with_every_row(folder: Path) -> None:
    batch = {"url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "x"}]}}
    rows = rows_of(folder, {"prompt": "p"}, batch, attach=("a.png",))
    assert [parts_of(row) for row in rows] == [["image_url", "text"]] * 2


# -- which job it is --------------------------------------------------------------------------------------------------


def test_the_content_of_files_is_part_of_the_identity(folder: Path) -> None:
    rows = [{"prompt": "p", "attachments": ["a.png"]}, {"prompt": "q", "attachments": ["d.pdf"]}]
    first = source_of(folder, *rows)
    assert source_of(folder, *rows).digest == first.digest
    first_only = source_of(folder, *rows, limit=1).digest
    (folder / "d.pdf").write_bytes(pdf(3))
    changed = source_of(folder, *rows)
    assert changed.digest != first.digest
    assert changed.form()["rows"] == first.form()["rows"]
    assert source_of(folder, *rows, limit=1).digest == first_only  # The second row is not read.
    (folder / "e.png").write_bytes(A)
    (folder / "a.png").rename(folder / "f.png")
    assert source_of(folder, *rows).digest != changed.digest


def test_tables_have_it_too_and_inputs_without_files_do_not(folder: Path) -> None:
    table = ["photo\n", "a.png\n"]
    options: dict[str, Any] = {"name": "t.csv", "prompt": "p", "attach": ("{{photo}}",)}
    first = source_of(folder, *table, **options)
    assert "rows" in first.form()
    (folder / "a.png").write_bytes(png(1, 1))
    assert source_of(folder, *table, **options).digest != first.digest
    plain = source_of(
        folder, {"prompt": 'says "attachments": none'}, {"prompt": "p", "attachments": ["x.png"]}
    )
    assert plain.digest == plain.content
    assert "rows" not in plain.form()
