"""Likely mistakes: each error is one line that names the cause and what to do. Nothing is created or overwritten.

A table: the directory before, the command, and the expected message. `says` is the cause, `step` the remedy.
"""

from __future__ import annotations

import gzip
import socket
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import KEY, Stage

from headway.config.known_vendors import BY_NAME
from headway.fake.process import fake_process

SECRET = "sk-proj-1f2e3d4c5b6a7988"
RUN = ("run", "in.jsonl")
ASK = ("run", "in.parquet", "--prompt", "{{text}}")
SCHEMA = (*RUN, "--schema", "s.json")

Prepare = Callable[[Stage], object]


@dataclass(frozen=True)
class Mistake:
    """One mistake. `store`: it is found only after the store was opened. `rows`: lines before the last one."""

    name: str
    args: tuple[str, ...]
    says: str
    step: str
    prepare: Prepare = lambda stage: None
    code: int = 2
    env: dict[str, str] = field(default_factory=dict)
    store: bool = False
    rows: int = 0


# -- preparing the directory ---------------------------------------------------------------------------------------


def toml(old: str, new: str) -> Prepare:
    """Replace text in headway.toml."""

    def prepare(stage: Stage) -> None:
        path = stage.root / "headway.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return prepare


def ends_with(text: str) -> Prepare:
    """Append text to headway.toml."""
    return lambda stage: stage.configure(more=text)


def file(name: str, data: str | bytes) -> Prepare:
    """Write a file."""
    content = data if isinstance(data, bytes) else data.encode()
    return lambda stage: (stage.root / name).write_bytes(content)


def rows(*lines: str) -> Prepare:
    """Write an input of these lines."""
    return file("in.jsonl", "\n".join(lines) + "\n")


def parquet(**columns: list[str | None]) -> Prepare:
    """A Parquet file with texts."""
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return lambda stage: pq.write_table(table, stage.root / "in.parquet")


def folder(name: str) -> Prepare:
    return lambda stage: (stage.root / name).mkdir()


def near_image(stage: Stage) -> None:
    folder("img")(stage)
    file("img/p8.png", "x")(stage)


def newer_db(stage: Stage) -> None:
    db = sqlite3.connect(stage.root / "newer.db")
    db.execute("CREATE TABLE jobs (id)")
    db.execute("PRAGMA user_version = 99")
    db.close()


def two_providers(stage: Stage) -> None:
    stage.configure(more='[providers.beta]\nkind = "openai"\napi_key_env = "ALPHA_KEY"')
    stage.input.write_text('{"prompt": "a", "model": "alhpa/gpt-x"}\n')


def two_models(stage: Stage) -> None:
    stage.configure(more='[providers.beta]\nkind = "openai"\napi_key_env = "ALPHA_KEY"\nmodel = "mini"')


def no_default(stage: Stage) -> None:
    toml('model = "gpt-x"', "")(stage)


def _empty_wal(stage: Stage) -> None:
    """What an interrupt leaves right after the database was made."""
    db = sqlite3.connect(stage.root / "new.db")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()


def no_config(stage: Stage) -> None:
    (stage.root / "headway.toml").unlink()


GOOD = '{"id": "a", "prompt": "say a"}'

TABLE = [
    # keys
    Mistake("a dot for a file", ("run", "."), ". is a set of files: say what to ask about each", "--prompt"),
    Mistake("one brace for two", ("run", "in.csv", "--prompt", "Is it good? {text}"), "--prompt has '{text}' in it", "'{{text}}'", lambda stage: (stage.root / "in.csv").write_text("text\nfine\n"), store=True),
    Mistake("no key", RUN, "ALPHA_KEY is not set", ".env", env={"ALPHA_KEY": ""}, store=True),
    Mistake("a key with a line break", RUN, "ALPHA_KEY holds a space", "set it again", env={"ALPHA_KEY": f"{SECRET}\n"}, store=True),
    Mistake("no provider at all", RUN, "no provider is configured", "headway init", no_config, env={"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}),
    Mistake("a key in the file", RUN, "providers.alpha.api_key: a key is never written", "api_key_env", toml('kind = "openai"', f'kind = "openai"\napi_key = "{SECRET}"')),
    Mistake("a key for its name", RUN, "the NAME of an environment variable", ".env", toml('"ALPHA_KEY"', f'"{SECRET}"')),
    Mistake("a password in base_url", RUN, "without user and password", "api_key_env", toml("http://", f"http://me:{SECRET}@")),
    Mistake(".env with a bad line", RUN, ".env:2: expected KEY=value", "KEY=value", file(".env", f"ALPHA_KEY=x\n{SECRET}\n"), store=True),
    # headway.toml
    Mistake("a typo in a config key", RUN, "providers.alpha.limits.rmp: unknown key", "did you mean 'rpm'", toml("max_concurrency", "rmp")),
    Mistake("a key in the wrong table", RUN, "providers.alpha.rpm: unknown key", "belongs in [providers.NAME.limits]", toml('kind = "openai"', 'kind = "openai"\nrpm = 5')),
    Mistake("a typo in a kind", RUN, "expected a kind of provider", "openai, anthropic", toml('"openai"', '"opnai"')),
    Mistake("a typo in a profile", RUN, "providers.alpha.profile: unknown", "did you mean 'mistral'", toml('kind = "openai"', 'kind = "openai"\nprofile = "mistrl"')),
    Mistake("a profile of another kind", RUN, "providers.alpha.profile: Amazon Bedrock needs", 'kind = "bedrock"', toml('kind = "openai"', 'kind = "openai"\nprofile = "bedrock"')),
    Mistake("bedrock without a region", RUN, "providers.alpha.region: missing", '"us-east-1"', toml('"openai"', '"bedrock"')),
    Mistake("azure without an address", RUN, "providers.b.base_url: missing", "https://NAME.openai.azure.com", ends_with('[providers.b]\nkind = "azure"')),
    Mistake("a version where none is", RUN, "providers.alpha.api_version: only", 'kind = "azure"', toml('kind = "openai"', 'kind = "openai"\napi_version = "2024-10-21"')),
    Mistake("a typo in run.provider", RUN, "no provider of that name", "did you mean 'alpha'", ends_with('[run]\nprovider = "alhpa"')),
    Mistake("base_url without a scheme", RUN, "providers.alpha.base_url: expected an address", "http:// or https://", toml("http://", "")),
    Mistake("base_url with its endpoint", RUN, "ends before the endpoint", "with or without /v1", toml("/v1", "/v1/chat/completions")),
    Mistake("a negative limit", RUN, "limits.max_concurrency: expected", "0 or more", toml("max_concurrency = 8", "max_concurrency = -8")),
    Mistake("a limit in quotes", RUN, "limits.max_concurrency: expected", "0 or more", toml("max_concurrency = 8", 'max_concurrency = "8"')),
    Mistake("a bad duration in the file", RUN, "run.timeout: expected a duration", '"10m"', ends_with('[run]\ntimeout = "ten minutes"')),
    Mistake("bad TOML", RUN, "headway.toml: not TOML", "line 1", file("headway.toml", "providers.alpha\n")),
    Mistake("a config that is a directory", (*RUN, "--config", "conf"), "conf: cannot be read: is a directory", "name a file", folder("conf")),
    Mistake("a config that is missing", (*RUN, "--config", "other.toml"), "other.toml: no such file", "headway init"),
    Mistake("HEADWAY_CONFIG that is missing", RUN, "HEADWAY_CONFIG", "headway init", env={"HEADWAY_CONFIG": "other.toml"}),
    Mistake("a database of a kind that is none", RUN, "HEADWAY_DB: expected a path", "postgresql://", env={"HEADWAY_DB": "mysql://host/db"}),
    # models
    Mistake("a typo in the provider of --model", (*RUN, "--model", "bta/mini"), "--model bta/mini names no provider, and there are several (alpha, beta)", "did you mean 'beta/mini'?", two_models),
    Mistake("a plan with such a typo", ("plan", "in.jsonl", "--model", "bta/mini"), "--model bta/mini names no provider", "did you mean 'beta/mini'?", two_models),
    Mistake("a question to a model of the other provider", ("ask", "hi", "-m", "mini"), "-m mini names no provider, and there are several", "write 'beta/mini'", two_models, store=True),
    Mistake("a question to a provider", ("ask", "hi", "-m", "beta"), "-m beta names a provider and no model of it", "such as beta/mini", two_models, store=True),
    Mistake("a question without a model", ("ask", "hi"), "no model is named, and provider 'alpha' has no default model", "name one with -m, or set model in", no_default, store=True),
    Mistake("a limit for one of two providers", ("plan", "in.jsonl", "--rpm", "6000"), "--rpm 6000: expected NAME=N", "for example alpha=6000", two_models),
    # files of a question, and attachments
    Mistake("a missing image", ("ask", "hi", "-f", "img/p9.png"), "-f img/p9.png: no such file", "did you mean 'img/p8.png'?", near_image),
    Mistake("a file in no directory", ("ask", "hi", "-f", "img/p9.png"), "-f img/p9.png: no such file", "there is no directory img"),
    Mistake("a question about a binary file", ("ask", "hi", "-f", "x.bin"), "-f x.bin: neither a text (UTF-8) nor an image or PDF", "an image (PNG, JPEG, GIF, WebP) or a PDF", file("x.bin", b"\xff\xfe\x00\x80")),
    Mistake("a column without its braces", ("run", "in.csv", "--prompt", "What? {{note}}", "--attach", "photo"), "--attach photo is the name of a column", "write --attach '{{photo}}'", file("in.csv", "photo,note\na.png,b\n"), store=True),
    Mistake("a key without its braces", (*RUN, "--attach", "photo"), "--attach photo is the name of a column", "write --attach '{{photo}}'", rows('{"prompt": "What?", "photo": "a.png"}'), store=True, rows=1),
    # commands and flags
    Mistake("a typo in a command", ("rnu", "in.jsonl"), "there is no command 'rnu'", "did you mean 'run'"),
    Mistake("a typo in a flag", (*RUN, "--concurency", "5"), "--concurency", "--concurrency"),
    Mistake("no file", ("run",), "Missing argument 'FILE...'", "headway run --help"),
    Mistake("a flag's value that is no number", (*RUN, "--concurrency", "many"), "--concurrency", "headway run --help"),
    Mistake("a negative number in flight", (*RUN, "--concurrency", "-1"), "--concurrency: expected", "0 or more"),
    Mistake("no attempt at all", (*RUN, "--max-attempts", "0"), "--max-attempts: expected", "1 or more"),
    Mistake("a bad duration", (*RUN, "--timeout", "soon"), "--timeout: expected a duration", '"10m"'),
    Mistake("a bad delay", (*RUN, "--delay", "a while"), "--delay: expected a duration", '"10m"', store=True),
    Mistake("a negative budget", (*RUN, "--max-cost", "-5"), "--max-cost: expected", "0 or more"),
    Mistake("a way to show progress that is none", (*RUN, "--progress", "fancy"), "--progress", "'plain'"),
    Mistake("a budget without prices", (*RUN, "--max-cost", "5"), "the price of alpha/gpt-x is not known", '.models."gpt-x".prices]', store=True),
    Mistake("retry what", ("retry",), "--failed is required", "headway retry --failed"),
    Mistake("a log that is a directory", (*RUN, "--log-file", "."), "is a directory", "name a file"),
    Mistake("a log in no directory", (*RUN, "--log-file", "logs/run.log"), "there is no directory logs", "create it first"),
    Mistake("init over a file", ("init",), "headway.toml already exists", "--force"),
    Mistake("a scenario that is missing", ("simulate", "none.yaml"), "none.yaml", "no such file"),
    # the input
    Mistake("a missing file", ("run", "xyzzy-questions.jsonl"), "xyzzy-questions.jsonl: no such file", "check its name"),
    Mistake("a file whose name is nearly right", ("run", "in.json"), "in.json: no such file", "did you mean 'in.jsonl'?"),
    Mistake("a directory without a question", ("run", "data"), "data is a set of files: say what to ask about each", "--prompt", folder("data")),
    Mistake("an empty directory", ("run", "data", "--prompt", "Sum up {{text}}"), "data has no files to ask about", "search its subfolders: 'data/**/*.txt'", folder("data")),
    Mistake("an empty file", RUN, "in.jsonl has no rows", "one JSON object per line", file("in.jsonl", ""), store=True),
    Mistake("half a JSON line", RUN, "in.jsonl:2: not JSON: it ends too early", "--skip-bad-rows", rows(GOOD, '{"id": "b", "prom'), store=True, rows=1),
    Mistake("a list for an object", RUN, "in.jsonl:1: must be a JSON object", "--skip-bad-rows", rows('["a"]'), store=True, rows=1),
    Mistake("a binary file", RUN, "in.jsonl:1: not ", "--skip-bad-rows", file("in.jsonl", bytes(range(128, 256)) * 40), store=True, rows=1),
    Mistake("UTF-16", RUN, "in.jsonl: written in UTF-16", "save it as UTF-8", file("in.jsonl", GOOD.encode("utf-16")), store=True),
    Mistake("a .gz that is none", ("run", "in.jsonl.gz"), "in.jsonl.gz: not compressed by gzip", "remove .gz from", file("in.jsonl.gz", GOOD)),
    Mistake("a .gz cut off", ("run", "in.jsonl.gz"), "the compressed data ends too early", "again", file("in.jsonl.gz", gzip.compress(GOOD.encode() * 99)[:-20])),
    Mistake("an id twice", RUN, "the id 'a' occurs twice (lines 1 and 2)", "an id of its own", rows(GOOD, GOOD), store=True),
    Mistake("a row without a prompt", RUN, 'in.jsonl:1: expected one of "prompt"', "--skip-bad-rows", rows('{"id": "a"}'), store=True, rows=1),
    Mistake("prompt and messages", RUN, "not several", "--skip-bad-rows", rows('{"prompt": "a", "messages": [{"role": "user"}]}'), store=True, rows=1),
    Mistake("negative max_tokens", RUN, '"max_tokens" must be a whole number above 0', "--skip-bad-rows", rows('{"prompt": "a", "max_tokens": -1}'), store=True, rows=1),
    Mistake("a model that is a number", RUN, '"model" must be a string', "--skip-bad-rows", rows('{"prompt": "a", "model": 4}'), store=True, rows=1),
    Mistake("a provider without its model", RUN, "names a provider and no model of it", "--skip-bad-rows", rows('{"prompt": "a", "model": "alpha/"}'), store=True, rows=1),
    Mistake("a typo in a row's provider", RUN, "\"model\" 'alhpa/gpt-x' names no provider", "did you mean 'alpha/gpt-x'?", two_providers, store=True, rows=1),
    Mistake("an endpoint that is none", RUN, '"url" must be one of /v1/chat/completions', "--skip-bad-rows", rows('{"custom_id": "a", "url": "/v1/chat", "body": {"model": "m"}}'), store=True, rows=1),
    # tables with types
    Mistake("a Parquet file without a prompt", ("run", "in.parquet"), "in.parquet is a table", "--prompt 'Translate", parquet(text=["a"])),
    Mistake("a Parquet file that is none", ASK, "in.parquet is not a Parquet file", "check what wrote it", file("in.parquet", "text\na\n"), store=True),
    Mistake("a Parquet file cut off", ASK, "in.parquet is not a Parquet file", "check what wrote it", file("in.parquet", b"PAR1" * 50 + b"\0"), store=True),
    Mistake("a column that a Parquet file has not", ("run", "in.parquet", "--prompt", "{{txet}}"), "in.parquet has no column 'txet'", "did you mean 'text'?", parquet(text=["a"]), store=True),
    Mistake("a Parquet file without records", ASK, "in.parquet has no rows", "at least one record", parquet(text=[]), store=True),
    Mistake("an empty cell of a Parquet file", ASK, 'in.parquet:2: "prompt" must be a string', "--skip-bad-rows", parquet(text=["a", None]), store=True, rows=1),
    Mistake("Parquet compressed once more", ("run", "in.parquet.gz", "--prompt", "x"), "a Parquet file cannot be compressed again", "gunzip", file("in.parquet.gz", b"")),
    Mistake("a Parquet output compressed once more", (*RUN, "--out", "o.parquet.gz"), "a table is not written compressed", "remove .gz from", store=True),
    Mistake("a Parquet output as rows finish", (*RUN, "--out", "o.parquet", "--out-order", "completion"), "--out-order completion cannot be used with a table", ".jsonl"),
    # structured output
    Mistake("a schema that is missing", SCHEMA, "--schema s.json: no such file", "name a file"),
    Mistake("a schema that is a directory", SCHEMA, "--schema s.json: cannot be read: is a directory", "name a file", folder("s.json")),
    Mistake("a schema that is not JSON", SCHEMA, "--schema s.json:2: not JSON", "fix that line", file("s.json", '{\n"type" "object"}')),
    Mistake("a schema that is a list", SCHEMA, "a schema is a JSON object", "for example", file("s.json", "[]")),
    Mistake("a schema that says nothing", SCHEMA, "anything would fit it", '"type"', file("s.json", "{}")),
    Mistake("a schema with a type that is none", SCHEMA, 'properties.a.type: "strnig" is no type', "json-schema.org", file("s.json", '{"properties": {"a": {"type": "strnig"}}}')),
    Mistake("a schema with a typo in a keyword", SCHEMA, "there is no keyword 'requierd'", "did you mean 'required'?", file("s.json", '{"requierd": []}')),
    Mistake("a schema that leads out of its file", SCHEMA, "'$ref' points outside the file, to other.json", "'$defs'", file("s.json", '{"$ref": "other.json"}')),
    Mistake("a schema that points to nothing", SCHEMA, "'$ref' points to nothing: '#/$defs/x'", "json-schema.org", file("s.json", '{"$ref": "#/$defs/x"}')),
    Mistake("a schema for embeddings", SCHEMA, "in.jsonl:1: --schema is for text answers", "--skip-bad-rows", lambda stage: (rows('{"input": "a", "model": "m"}')(stage), file("s.json", '{"type": "object"}')(stage)), store=True, rows=1),
    # the output
    Mistake("an output below a file", (*RUN, "--out", "in.jsonl/out.jsonl"), "in.jsonl is not a directory", "name another file", store=True),
    Mistake("an output that is a directory", (*RUN, "--out", "results"), "/results is a directory", "name a file", folder("results"), store=True),
    Mistake("somebody else's output file", RUN, "in.results.jsonl exists and is not the output of job", "--force", file("in.results.jsonl", "precious\n"), store=True),
    Mistake("the input as the output", (*RUN, "--out", "in.jsonl"), "--out in.jsonl is the input itself", "name another file", store=True),
    Mistake("an output of no known kind", (*RUN, "--out", "x.xlsx"), "--out x.xlsx: results cannot be written as .xlsx", ".jsonl (rows), .csv, .tsv, .parquet (tables)"),
    Mistake("an output that is JSON in one piece", (*RUN, "--out", "x.json"), "results cannot be written as .json", ".jsonl (rows)"),
    Mistake("a compressed output", (*RUN, "--out", "x.jsonl.gz"), "results are not written compressed", "remove .gz from"),
    # the records
    Mistake("a newer database", (*RUN, "--db", "newer.db"), "written by a newer Headway", "upgrade", newer_db),
    Mistake("a database that is a directory", (*RUN, "--db", "data"), "data is a directory", "--db", folder("data"), code=1),
    Mistake("a database that is none", (*RUN, "--db", "text.db"), "text.db is not a Headway database", "--db", file("text.db", "no database " * 100), code=1),
    Mistake("somebody else's database", (*RUN, "--db", "other.db"), "other.db is not a Headway database", "--db", lambda stage: _foreign(stage.root / "other.db"), code=1),
    Mistake("resume with no jobs", ("resume",), "there is no database", "headway run FILE"),
    Mistake("status after an interrupted start", ("status", "--db", "new.db"), "there are no jobs yet", "headway run --db new.db FILE", _empty_wal),
    Mistake("export after an interrupted start", ("export", "--db", "new.db"), "there are no jobs yet", "headway run --db new.db FILE", _empty_wal),
    Mistake("status with no jobs", ("status",), "there is no database", "headway run FILE"),
]  # fmt: skip


def _foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE things (id)")
    db.close()


def files(root: Path) -> dict[str, bytes]:
    """All files below a directory except the records."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and name.parts[0] != ".headway" and not name.name.endswith(("-wal", "-shm")):
            found[str(name)] = path.read_bytes()
    return found


def check_error(err: str, says: str, step: str, *, before: int = 0) -> None:
    """Check that the error is one line with the cause and the remedy, after `rows` lines about single rows."""
    lines = err.splitlines()
    assert len(lines) == before + 1, err
    assert lines[-1].startswith("headway: ")
    assert says in err
    assert step in err
    assert "Traceback" not in err
    assert SECRET not in err
    assert KEY not in err


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: mistake.name)
def test_a_mistake_is_reported_in_one_line(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    mistake.prepare(stage)
    for name, value in mistake.env.items():
        monkeypatch.setenv(name, value)
    before = files(stage.root)
    refused = headway(*mistake.args)
    assert refused.code == mistake.code, refused.err
    check_error(refused.err, mistake.says, mistake.step, before=mistake.rows)
    assert refused.out == ""
    assert files(stage.root) == before
    assert mistake.store or not (stage.root / ".headway").exists()
    assert [stage.sent(index) for index in range(2)] == [0, 0]


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 30
    assert len({mistake.name for mistake in TABLE}) == len(TABLE)


# -- mistakes about an existing job ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says", "step"),
    [
        (("status", "nothing"), "there is no job 'nothing'", "headway jobs"),
        (("resume", "nothing"), "there is no job 'nothing'", "headway jobs"),
        (("show", "in", "u99"), "has no unit 'u99'", "an index below 10"),
        (("pause",), "is not running", "headway jobs"),
        (("cancel",), "is not running", "headway jobs"),
        (("export", "--out", "in.jsonl"), "in.jsonl already exists", "--force"),
        (("export", "--out", "x.xlsx"), "results cannot be written as .xlsx", ".parquet"),
        (("resume", "--out", "x.xlsx"), "results cannot be written as .xlsx", ".parquet"),
        (("export", "--out", "nowhere/out.jsonl"), "cannot be written", "--out"),
    ],
)
def test_a_mistake_about_a_job(
    stage: Stage, headway: Headway, args: tuple[str, ...], says: str, step: str
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    before = files(stage.root)
    refused = headway(*args)
    assert refused.code == 2
    check_error(refused.err, says, step)
    assert files(stage.root) == before


def test_a_wrong_key_ends_the_run_with_one_clear_line(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    done = headway("run", "in.jsonl", "--progress", "none")
    assert done.code == 1
    [line] = [line for line in done.err.splitlines() if "auth" in line]
    assert "ALPHA_KEY" in line, "and where the key is that is wrong"
    assert f"headway resume {stage.job()['name']}" in done.err
    assert "Traceback" not in done.err
    assert "sk-revoked-account" not in done.err


@pytest.mark.parametrize("profile", ["vllm", "ollama", "llamacpp"])
def test_a_local_server_that_wants_a_key_says_where_it_is_read(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    variable = BY_NAME[profile].variable
    monkeypatch.delenv(variable, raising=False)
    with fake_process("--strict", "--dialect", profile, "--key", "mine=sk-local-1") as fake:
        (stage.root / "headway.toml").write_text(
            f'[providers.local]\nkind = "openai"\nprofile = "{profile}"\nbase_url = "{fake.url}/v1"\nmodel = "m"\n'
        )
        stopped = headway("run", "in.jsonl", "--progress", "none")
        assert stopped.code == 1
        [line] = [line for line in stopped.err.splitlines() if "stopped: auth" in line]
        assert f"no key was sent: {variable} is not set" in line
        assert ".env" in line
        monkeypatch.setenv(variable, "sk-local-2")
        [line] = [
            line
            for line in headway("resume", "--progress", "none").err.splitlines()
            if "stopped: auth" in line
        ]
        assert f"check the key in {variable}" in line
        monkeypatch.setenv(variable, "sk-local-1")
        assert headway("resume", "-q").code == 0


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use(stage: Stage, headway: Headway, taken: int) -> None:
    refused = headway("fake", "--port", str(taken))
    assert refused.code == 2
    check_error(refused.err, f"port {taken} is in use", "--port 0")
