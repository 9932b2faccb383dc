"""Every kind and every profile, end to end: a batch against a fake that speaks its dialect, at its limits."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli import vendors
from tests.cli.conftest import Headway
from tests.cli.test_run_secrets import places_of
from tests.cli.vendors import VENDORS, Vendor
from tests.crash.stage import Stage

from headway.batch.answer_text import answer_of
from headway.config.known_vendors import BY_NAME
from headway.fake.process import FakeProcess, fake_process

UNITS = 80
LOCAL = ("vllm", "ollama", "llamacpp")
by_name = pytest.mark.parametrize("vendor", VENDORS, ids=[vendor.name for vendor in VENDORS])


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    path = tmp_path_factory.mktemp("vendors") / "plan.yaml"
    path.write_text(vendors.plan(), encoding="utf-8")
    with fake_process("--config", str(path)) as process:
        yield process


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for vendor in BY_NAME.values():
        monkeypatch.delenv(vendor.variable, raising=False)
    for name in ("GOOGLE_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def configure(stage: Stage, vendor: Vendor, url: str) -> None:
    """Two or three lines, and the address of the fake."""
    (stage.root / "headway.toml").write_text(
        f'[providers.p]\n{vendor.settings}\nbase_url = "{url}"\nmodel = "{vendor.model}"\n', encoding="utf-8"
    )


@by_name
def test_a_batch_at_the_limit(
    vendor: Vendor, fake: FakeProcess, stage: Stage, headway: Headway, no_keys: pytest.MonkeyPatch
) -> None:
    fake.reset()  # Other tests use the same account.
    for name, value in vendor.environ.items():
        no_keys.setenv(name, value)
    configure(stage, vendor, fake.url)
    prompts = [f"{vendor.name}: say {index}" for index in range(UNITS)]
    stage.write_input([{"id": f"u{n}", "prompt": text, "max_tokens": 20} for n, text in enumerate(prompts)])
    done = headway("run", "in.jsonl", "--json", "--log-file", "run.log")
    assert done.code == 0, done.err
    rows = stage.rows()
    said = [answer_of(json.dumps(row["response"]["body"]).encode()) for row in rows]
    assert said == [f"echo: {text}" for text in prompts]
    assert all(bool(row["response"]["request_id"]) is vendor.named for row in rows)
    assert [row["headway"]["usage"]["input_tokens"] for row in rows] == [
        -(-len(text) // 4) for text in prompts
    ]
    assert all(row["headway"]["usage"]["output_tokens"] > 0 for row in rows)
    account = fake.stats()["accounts"][vendor.name]
    assert (account["admitted"], account["ok"], account["repeats"]) == (UNITS, UNITS, 0)
    assert json.loads(done.out)["refused"] == sum(account["refused"].values()) <= UNITS / 10
    [lane] = json.loads(headway("lanes", "--json").out)
    learned = {(m["dimension"], m["limit"], m["period_s"]) for m in lane["learned"]["meters"]}
    if vendor.headers or account["refused"]:
        assert set(vendor.learned_limits) <= learned, "from headers or a refusal"
    assert places_of(vendor.secret, stage.root) == []
    assert vendor.secret not in done.out + done.err


def trouble(fake: str, vendor: Vendor) -> str:
    """Four accounts of one vendor: a good one, one without credit, one whose prompts are blocked, and an unknown one."""
    tables = [
        f'[providers.{name}]\n{vendor.settings}\nbase_url = "{fake}"\nmodel = "{vendor.model}"\n'
        f'api_key_env = "{name.upper()}_KEY"\n'
        for name in ("good", "poor", "blocked", "wrong")
    ]
    return "\n".join(tables)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    path = tmp_path_factory.mktemp("trouble") / "plan.yaml"
    lines = ["strict: true", "accounts:"]
    for vendor in VENDORS:
        more = f"dialect: {vendor.name}, " if "profile" in vendor.settings else ""
        lines.append(f"  {vendor.name}: {{key: good-{vendor.name}, {more}context: 50}}")
        for fault, name in (("quota", "poor"), ("blocked", "blocked")):
            lines.append(
                f"  {vendor.name}-{name}: {{key: {name}-{vendor.name}, {more}faults: [{{kind: {fault}}}]}}"
            )
    path.write_text("\n".join(lines), encoding="utf-8")
    with fake_process("--config", str(path)) as process:
        yield process


@by_name
def test_errors_are_mapped_to_their_kinds(
    vendor: Vendor, troubled: FakeProcess, stage: Stage, headway: Headway, no_keys: pytest.MonkeyPatch
) -> None:
    (stage.root / "headway.toml").write_text(trouble(troubled.url, vendor), encoding="utf-8")
    for name in ("good", "poor", "blocked", "wrong"):
        no_keys.setenv(f"{name.upper()}_KEY", f"{name}-{vendor.name}")
    prompts = {"fine": "hello", "long": "word " * 100}
    rows: list[dict[str, Any]] = [
        {"id": name, "prompt": text, "model": f"good/{vendor.model}"} for name, text in prompts.items()
    ]
    rows += [{"id": name, "prompt": "hi", "model": f"{name}/{vendor.model}"} for name in ("blocked", "wrong")]
    if vendor.name not in LOCAL:
        rows.append({"id": "poor", "prompt": "hi", "model": f"poor/{vendor.model}"})
    stage.write_input(rows)
    done = headway("run", "in.jsonl", "--json")
    assert done.code == 1, done.err
    found = {row["custom_id"]: (row["error"] or {"code": None})["code"] for row in stage.rows()}
    money = {} if vendor.name in LOCAL else {"poor": "auth" if vendor.name == "groq" else "quota"}
    assert found == {"fine": None, "long": "too_large", "blocked": "invalid", "wrong": "auth"} | money


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_used_up_daily_limit_is_a_hold(stage: Stage, headway: Headway, no_keys: pytest.MonkeyPatch) -> None:
    no_keys.setenv("GEMINI_API_KEY", "any-key-at-all")
    with fake_process("--rpd", "3", "--burst", "1s") as fake:
        (stage.root / "headway.toml").write_text(
            f'[providers.g]\nkind = "gemini"\nbase_url = "{fake.url}"\nmodel = "gemini-x"\n'
            "[providers.g.limits]\nmax_concurrency = 1\n"
        )
        done = headway("run", "in.jsonl", "--json", "--max-hold", "10s")
    assert done.code == 4, done.err
    facts = json.loads(done.out)
    assert facts["succeeded"] == 3
    [lane] = json.loads(headway("lanes", "--json").out)
    assert instant(lane["learned"]["held_until_utc"]) > instant(lane["updated_utc"]) + 60
    assert ("requests", 3.0, vendors.DAY) in {
        (m["dimension"], m["limit"], m["period_s"]) for m in lane["learned"]["meters"]
    }


def test_a_wrong_secret_stops_the_lane(
    fake: FakeProcess, stage: Stage, headway: Headway, no_keys: pytest.MonkeyPatch
) -> None:
    vendor = next(vendor for vendor in VENDORS if vendor.name == "bedrock")
    configure(stage, vendor, fake.url)
    no_keys.setenv("AWS_ACCESS_KEY_ID", vendors.ACCESS)
    no_keys.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret-of-this-account")
    done = headway("run", "in.jsonl", "--json")
    assert done.code == 1
    assert "stopped: auth" in done.err
    assert "signature" in done.err
    assert "not-the-secret" not in done.out + done.err
    assert places_of("not-the-secret-of-this-account", stage.root) == []


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("azure", "AZURE_OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("bedrock", "AWS_BEARER_TOKEN_BEDROCK"),
    ],
)
def test_a_table_a_system_prompt_and_a_limit(
    kind: str, variable: str, stage: Stage, headway: Headway, no_keys: pytest.MonkeyPatch
) -> None:
    no_keys.setenv(variable, "any-key-at-all")
    region = 'region = "us-east-1"\n' if kind == "bedrock" else ""
    (stage.root / "headway.toml").write_text(
        f'[providers.p]\nkind = "{kind}"\nbase_url = "{stage.fake.url}"\nmodel = "m-x"\n{region}'
    )
    Path("in.csv").write_text("id,text\na,one\nb,two and three and four and five\n")
    done = headway(
        *("run", "in.csv", "--prompt", "Say {{text}}", "--system", "x" * 400, "--max-tokens", "4"),
        *("--out", "out.csv", "-q"),
    )
    assert done.code == 0, done.err
    with Path("out.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [record["answer"] for record in records] == ["echo: Say one", "echo: Say two an"]
    [(tokens,), _] = stage.query("SELECT input_tokens FROM attempts ORDER BY uid")
    assert tokens == 102, "the system prompt was sent"


def test_two_lines_configure_a_provider(stage: Stage, headway: Headway, no_keys: pytest.MonkeyPatch) -> None:
    """A vendor's address needs the vendor's key: OpenAI's is never sent to Groq."""
    no_keys.setenv("OPENAI_API_KEY", "sk-of-openai-0123456789")
    (stage.root / "headway.toml").write_text('[providers.p]\nkind = "openai"\nprofile = "groq"\n')
    done = headway("run", "in.jsonl", "--model", "llama", "--dry-run")
    assert done.code == 2
    assert "GROQ_API_KEY is not set" in done.err
    no_keys.setenv("GROQ_API_KEY", "gsk_0123456789abcdef")
    assert headway("run", "in.jsonl", "--model", "llama", "--dry-run").code == 0
