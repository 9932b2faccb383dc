"""`--otel`: spans and metrics at a real OTLP/HTTP receiver, and the trace in what attempts start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.tracing.receiver import ReceivedSpan, Receiver, providing, receiving

from headway.tracing.exporting import without_paths

KEY = "sk-trace-6b1f0c9d2e7a4835b0aa"
#: The trace that started the command.
OUTER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CLIENT, INTERNAL = 3, 1


class Place(NamedTuple):
    """A directory with a config, the provider's requests, and a receiver."""

    root: Path
    seen: list[dict[str, str]]
    receiver: Receiver
    environ: dict[str, str]

    def run(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "headway", "run", *args], cwd=self.root, env={**self.environ, **environ},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def configure(self, more: str = "") -> None:
        with (self.root / "headway.toml").open("a", encoding="utf-8") as file:
            file.write(more)

    def ask(self, *rows: Mapping[str, object]) -> str:
        (self.root / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return "in.jsonl"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with providing() as (seen, provider), receiving() as (receiver, url):
        (tmp_path / "headway.toml").write_text(
            f'[providers.alpha]\nkind = "openai"\nbase_url = "{provider}/v1"\napi_key_env = "ALPHA_KEY"\n'
            'model = "gpt-x"\n[providers.alpha.limits]\nmax_concurrency = 1\n'
            '[providers.alpha.retry]\nbase = "10ms"\n[providers.alpha.prices]\ninput = 1000\noutput = 1000\n',
            encoding="utf-8",
        )
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HEADWAY_"))
        }
        environ |= {"ALPHA_KEY": KEY, "OTEL_EXPORTER_OTLP_ENDPOINT": url, "PYTHONWARNINGS": ""}
        yield Place(tmp_path, seen, receiver, environ)


def place_of(traceparent: str) -> tuple[str, str]:
    """The trace and the span that a `traceparent` names; it is sampled."""
    version, trace, span, flags = traceparent.split("-")
    assert (version, int(flags, 16) & 1) == ("00", 1)
    return trace, span


def children(spans: list[ReceivedSpan], span: ReceivedSpan) -> list[ReceivedSpan]:
    return [one for one in spans if one.parent == span.id]


def test_a_span_for_each_unit_and_each_attempt(place: Place) -> None:
    rows = [
        {"id": f"u{n}", "prompt": f"a private prompt {n}", "temperature": 0.5, "max_tokens": 9}
        for n in range(3)
    ]
    done = place.run(place.ask(*rows), "--otel", OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=lab", TRACEPARENT=OUTER, OTEL_EXPORTER_OTLP_HEADERS="x-tenant=7")  # fmt: skip
    assert done.returncode == 0, done.stderr
    receiver = place.receiver
    units, attempts, [run] = receiver.named("chat "), receiver.named("attempt"), receiver.named("run ")
    assert (len(units), len(attempts)) == (3, 6)
    for unit in units:
        first, second = sorted(
            children(attempts, unit), key=lambda one: int(one.attributes["headway.attempt.number"])
        )
        assert unit.attributes == {
            "gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-x",
            "gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 9, "gen_ai.response.id": "chatcmpl-1",
            "gen_ai.response.model": "gpt-x-2026", "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 7, "server.address": "127.0.0.1",
            "server.port": unit.attributes["server.port"], "headway.job": run.attributes["headway.job"],
            "headway.lane": "alpha/gpt-x", "headway.unit.index": unit.attributes["headway.unit.index"], "headway.unit.id": f"u{unit.attributes['headway.unit.index']}",
            "headway.unit.status": "succeeded", "headway.unit.attempts": 2, "headway.cost_usd": pytest.approx(0.018),
        }  # fmt: skip
        assert (unit.kind, unit.parent, unit.is_error, unit.name) == (CLIENT, "", False, "chat gpt-x")
        assert unit.links == [run.id]
        assert first.is_error
        assert (first.attributes["http.response.status_code"], first.attributes["error.type"]) == (
            500,
            "transient",
        )
        assert (second.attributes["http.response.status_code"], second.is_error) == (200, False)
        assert unit.took_s >= first.took_s + second.took_s
    assert {unit.attributes["headway.unit.index"] for unit in units} == {0, 1, 2}
    assert len({unit.trace for unit in units}) == 3, "each unit is a trace of its own"
    assert (run.trace, run.parent) == tuple(OUTER.split("-")[1:3])
    [resource] = {json.dumps(one, sort_keys=True) for one in receiver.resources}
    assert (
        json.loads(resource).items()
        >= {"service.name": "headway", "deployment.environment.name": "lab"}.items()
    )
    assert all(headers["x-tenant"] == "7" for headers in receiver.headers)
    # The deployed names alone; no text, no secret, and nothing for the provider.
    assert set(receiver.metrics) == {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}
    assert {point["gen_ai.token.type"] for point in receiver.metrics["gen_ai.client.token.usage"]} == {
        "input",
        "output",
    }
    assert [point.get("error.type") for point in receiver.metrics["gen_ai.client.operation.duration"]] == [
        "transient",
        None,
    ]
    for private in (b"a private prompt", b"the answer", KEY.encode()):
        assert private not in receiver.bytes
    assert not any("traceparent" in headers for headers in place.seen)


def test_what_is_sent_only_if_it_is_wanted(place: Place) -> None:
    """Texts, the provider's traceparent, and the latest names beside the deployed ones."""
    place.configure("[otel]\nenabled = true\ncontent = true\npropagate = true\n")
    done = place.run(
        place.ask({"id": "u0", "prompt": f"say it, {KEY}"}),
        OTEL_SEMCONV_STABILITY_OPT_IN="http,gen_ai_latest_experimental/dup", OTEL_SERVICE_NAME="night job",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [unit] = place.receiver.named("chat ")
    attempts = place.receiver.named("attempt")
    assert {place_of(headers["traceparent"]) for headers in place.seen} == {
        (unit.trace, one.id) for one in attempts
    }
    assert json.loads(unit.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "say it, ***"}]}
    ]
    assert json.loads(unit.attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "the answer"}]}
    ]
    assert unit.attributes["gen_ai.system"] == unit.attributes["gen_ai.provider.name"] == "openai"
    assert set(place.receiver.metrics) == {
        "gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.client.inference.duration",
        "gen_ai.client.inference.usage.input_tokens", "gen_ai.client.inference.usage.output_tokens",
        "gen_ai.client.inference.operation.input_tokens", "gen_ai.client.inference.operation.output_tokens",
    }  # fmt: skip
    assert KEY.encode() not in place.receiver.bytes
    assert place.receiver.resources[0]["service.name"] == "night job"


def test_programs_and_workers_get_the_trace(place: Place) -> None:
    place.configure(
        '[providers.shell]\nkind = "command"\ncommand = ["sh", "-c", "printf %s \\"$TRACEPARENT\\""]\npreflight = "none"\n'
        '[providers.work]\nkind = "python"\ntarget = "worker_of_test:trace"\nworkers = 1\n'
    )
    (place.root / "worker_of_test.py").write_text(
        "import os\n\n\ndef trace(payload):\n    return os.environ.get('TRACEPARENT', 'none')\n"
    )
    rows = [
        {"id": f"{name}{n}", "prompt": "x", "model": f"{name}/m"}
        for name in ("shell", "work")
        for n in range(2)
    ]
    done = place.run(place.ask(*rows), "--otel", "--text-only", OTEL_METRICS_EXPORTER="none")
    assert done.returncode == 0, done.stderr
    texts = [json.loads(line)["text"] for line in (place.root / "in.results.jsonl").read_text().splitlines()]
    expected = {(span.trace, span.id) for span in place.receiver.named("attempt")}
    assert set(map(place_of, texts)) == expected
    assert len(expected) == 4
    assert {span.kind for span in place.receiver.named("execute_tool")} == {INTERNAL}
    assert place.receiver.metrics == {}
    # The next run without a trace: no unit sees the one before.
    done = place.run(place.ask(*rows), "--text-only", "--fresh", "--force")
    assert done.returncode == 0, done.stderr
    assert {
        json.loads(line)["text"] for line in (place.root / "in.results.jsonl").read_text().splitlines()
    } <= {"none", ""}


def test_a_receiver_that_fails_is_one_line_and_no_more(place: Place) -> None:
    place.receiver.status = 401
    done = place.run(place.ask({"id": "u0", "prompt": "x"}), "--otel")
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if "OpenTelemetry" in line]
    assert len(warnings) == 1, done.stderr
    assert "Traceback" not in done.stderr
    began_at = time.monotonic()
    done = place.run(
        place.ask({"id": "u1", "prompt": "y"}), "--otel", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9"
    )
    assert done.returncode == 0
    assert time.monotonic() - began_at < 60.0
    done = place.run(place.ask({"id": "u2", "prompt": "y"}), "--otel", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert (done.returncode, "Headway sends http/protobuf" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Failed to export to https://otel.example/t0ken/v1/traces?k=s", "Failed to export to https://otel.example"),
        ("https://user:t0ken@otel.example:4318/v1", "https://otel.example:4318"),
        ("(host='otel.example', port=443): Max retries exceeded with url: /t0ken/v1/traces (Caused", "(host='otel.example', port=443): Max retries exceeded with url: … (Caused"),
    ],
)  # fmt: skip
def test_warnings_show_no_path_of_an_address(text: str, shown: str) -> None:
    assert without_paths(text) == shown
