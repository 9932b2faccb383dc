"""`providers`: ids, objects, maps, files and names of headway.toml; addresses, keys, limits and parameters."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from tests.evals.config.written_evals import PROMPTS, errors, read, settings, written

from headway.config import ProviderConfig
from headway.config.toml_file import provider_from
from headway.core.model import LaneLimits
from headway.evals.config.eval_file import check_eval
from headway.evals.spec import Code, EvalProvider


def providers_of(
    folder: Path, text: str, environ: dict[str, str] | None = None, **files: str
) -> tuple[EvalProvider, ...]:
    return read(written(folder, PROMPTS + dedent(text), **files), environ).providers


def brought(provider: EvalProvider) -> ProviderConfig:
    assert provider.brings is not None
    return provider.brings


@pytest.mark.parametrize(
    ("identity", "kind", "host", "model", "endpoint"),
    [
        ("openai:chat:gpt-x", "openai", "https://api.openai.com", "gpt-x", "chat"),
        ("openai:gpt-x", "openai", "https://api.openai.com", "gpt-x", "chat"),
        ("openai:responses:gpt-x", "openai", "https://api.openai.com", "gpt-x", "responses"),
        ("openai:embeddings:text-3", "openai", "https://api.openai.com", "text-3", "embeddings"),
        ("openai:embedding:text-3", "openai", "https://api.openai.com", "text-3", "embeddings"),
        ("openai:chat:ft:gpt-x:me:1", "openai", "https://api.openai.com", "ft:gpt-x:me:1", "chat"),
        ("anthropic:messages:claude-x", "anthropic", "https://api.anthropic.com", "claude-x", "chat"),
        ("anthropic:claude-x", "anthropic", "https://api.anthropic.com", "claude-x", "chat"),
        ("google:gemini-x", "gemini", "https://generativelanguage.googleapis.com", "gemini-x", "chat"),
        ("groq:llama", "openai", "https://api.groq.com/openai/v1", "llama", "chat"),
        ("mistral:small", "openai", "https://api.mistral.ai/v1", "small", "chat"),
        ("openrouter:openai/gpt-x", "openai", "https://openrouter.ai/api/v1", "openai/gpt-x", "chat"),
        ("ollama:chat:llama3:8b", "openai", "http://127.0.0.1:11434/v1", "llama3:8b", "chat"),
        ("bedrock:anthropic.claude-v2:0", "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com", "anthropic.claude-v2:0", "chat"),
    ],
)  # fmt: skip
def test_ids_of_models(
    identity: str, kind: str, host: str, model: str, endpoint: str, tmp_path: Path
) -> None:
    [one] = providers_of(tmp_path, f"providers: ['{identity}']\n")
    assert (brought(one).kind, brought(one).base_url, one.model, one.endpoint) == (
        kind,
        host,
        model,
        endpoint,
    )
    assert (one.id, one.name, one.provider) == (identity, identity, brought(one).name)


def test_azure_needs_its_address_and_takes_it_from_the_config_or_the_environment(tmp_path: Path) -> None:
    text = "providers: [{id: 'azure:chat:mine', config: {apiHost: me.openai.azure.com, apiVersion: 2024-10-21}}]\n"
    [one] = providers_of(tmp_path, text)
    made = brought(one)
    assert (made.base_url, made.api_version, made.key_withheld) == (
        "https://me.openai.azure.com",
        "2024-10-21",
        False,
    )
    plain = "providers: ['azure:chat:mine']\n"
    [one] = providers_of(tmp_path, plain, {"AZURE_API_HOST": "me.openai.azure.com", "AZURE_API_KEY": "x"})
    assert (brought(one).base_url, brought(one).api_key_env) == (
        "https://me.openai.azure.com",
        "AZURE_API_KEY",
    )
    [found] = errors(written(tmp_path, PROMPTS + plain))
    assert "config.apiBaseUrl: missing" in found


def test_programs(tmp_path: Path) -> None:
    text = "providers: [echo, 'exec: cat', python:model.py, 'https://example.com/x']\n"
    found = providers_of(
        tmp_path,
        text.replace(
            "'https://example.com/x'", "{id: 'https://example.com/x', config: {body: {p: '{{prompt}}'}}}"
        ),
        model__py="def call_api(p, o, c): return {}\n",
    )
    assert [brought(one).kind for one in found] == ["echo", "script", "code", "url"]


def test_limits_delay_and_prices_go_to_the_lane(tmp_path: Path) -> None:
    text = """
    providers:
      - id: openai:chat:gpt-x
        label: slow
        delay: 250
        config: {rateLimit: {rpm: 60, tpm: 9000, maxConcurrent: 2}, inputCost: 0.000001, outputCost: 0.000002}
      - {id: 'exec: cat', delay: 100, config: {rateLimit: {rpm: 5}}}
    """
    one, other = providers_of(tmp_path, text)
    limits = LaneLimits(rpm=60, tpm=9000, max_concurrency=2, min_gap_s=0.25)
    assert brought(one).limits_for("gpt-x") == limits
    price = brought(one).price_of("gpt-x")
    assert price is not None
    assert (round(price.input, 6), round(price.output, 6)) == (1.0, 2.0)
    assert (brought(other).limits.rpm, brought(other).limits.min_gap_s) == (5, 0.1)


def test_parameters_have_the_names_of_apis(tmp_path: Path) -> None:
    text = """
    providers:
      - id: openai:gpt-x
        config: {temperature: 0, maxTokens: 5, topP: 0.5, stop: [x], tools: file://tools.json, passthrough: {own_thing: 1}}
      - id: google:gemini-x
        config: {maxOutputTokens: 7, generationConfig: {topK: 3}}
    """
    one, other = providers_of(tmp_path, text, tools__json='[{"type": "function"}]')
    assert one.options == {
        "temperature": 0, "max_tokens": 5, "top_p": 0.5, "stop": ["x"], "tools": [{"type": "function"}], "own_thing": 1,
    }  # fmt: skip
    assert other.options == {"max_output_tokens": 7, "generationConfig": {"topK": 3}}


def test_maps_files_and_lists(tmp_path: Path) -> None:
    text = "targets: [{'openai:gpt-x': {label: mapped, config: {temperature: 1}}}, file://more.yaml, 'openai:gpt-x', 'openai:gpt-x']\n"
    more = "- id: groq:llama\n  label: from a file\n  prompts: ['Say {{x}}']\n- echo\n"
    found = providers_of(tmp_path, text, more__yaml=more)
    assert [one.name for one in found] == ["mapped", "from a file", "echo", "openai:gpt-x"]
    assert found[0].options == {"temperature": 1}
    assert found[1].prompts == ("Say {{x}}",)


def test_names_follow_from_the_place_and_not_from_limits_or_order(tmp_path: Path) -> None:
    one = "{id: 'openai:a', config: {apiBaseUrl: 'http://127.0.0.1:1'}}"
    two = "{id: 'openai:a', config: {apiBaseUrl: 'http://127.0.0.1:2', rateLimit: {rpm: 5}}}"
    first, second = (one.provider for one in providers_of(tmp_path, f"providers: [{one}, {two}]\n"))
    assert len({"openai", first, second}) == 3
    assert [one.provider for one in providers_of(tmp_path, f"providers: [{two}, {one}]\n")] == [second, first]
    other = two.replace("rpm: 5", "rpm: 6")
    assert [one.provider for one in providers_of(tmp_path, f"providers: [{other}]\n")] == [second]


def test_providers_of_one_place_have_one_name(tmp_path: Path) -> None:
    text = "providers: [openai:a, openai:b, {id: 'openai:c', config: {rateLimit: {rpm: 5}}}]\n"
    assert [one.provider for one in providers_of(tmp_path, text)] == ["openai", "openai", "openai"]


def test_a_lane_has_one_set_of_limits(tmp_path: Path) -> None:
    text = "providers:\n  - openai:a\n  - {id: 'openai:chat:a', label: again, delay: 9}\n  - {id: 'openai:b', delay: 9}\n"
    [found] = errors(written(tmp_path, PROMPTS + text))
    assert found.startswith(
        "4: provider 'again': the limits of a are not the same everywhere, as 'openai:a' in line 3"
    )


def test_names_of_headway_toml(tmp_path: Path) -> None:
    alpha = provider_from(
        "alpha",
        {"kind": "openai", "base_url": "http://127.0.0.1:1", "model": "m1", "limits": {"rpm": 9}},
        tmp_path,
    )
    openai = provider_from("openai", {"kind": "openai", "limits": {"rpm": 7}}, tmp_path)
    text = "providers: [alpha, alpha/m2, 'alpha:m3', {id: alpha/m4, label: two, config: {temperature: 1, rateLimit: {tpm: 5}}}, openai:gpt-x]\n"
    path = written(tmp_path, PROMPTS + text)
    found = read(path, config=settings(tmp_path, alpha=alpha, openai=openai)).providers
    assert [(one.provider, one.model) for one in found] == [
        ("alpha", "m1"), ("alpha", "m2"), ("alpha", "m3"), ("alpha", "m4"), ("openai", "gpt-x"),
    ]  # fmt: skip
    assert [one.brings is None for one in found] == [True, True, True, False, True]
    limits = brought(found[3]).limits_for("m4")
    assert (limits.rpm, limits.tpm) == (9, 5)
    assert found[3].options == {"temperature": 1}


def test_a_usual_key_goes_to_another_host_only_if_its_variable_is_named(tmp_path: Path) -> None:
    text = """
    providers:
      - {id: openai:a, config: {apiBaseUrl: 'https://gateway.example/v1'}}
      - {id: openai:b, config: {apiBaseUrl: 'https://gateway.example/v1', apiKeyEnvar: GATEWAY_KEY}}
      - {id: openai:c, config: {apiBaseUrl: 'https://gateway.example/v1', apiKey: '{{env.OTHER_KEY}}'}}
      - {id: openai:d, env: {OPENAI_BASE_URL: 'https://gateway.example/v1'}}
    """
    found = [brought(one) for one in providers_of(tmp_path, text)]
    assert [(one.api_key_env, one.key_withheld) for one in found] == [
        ("OPENAI_API_KEY", True), ("GATEWAY_KEY", False), ("OTHER_KEY", False), ("OPENAI_API_KEY", True),
    ]  # fmt: skip


def test_an_address_in_the_users_environment_is_the_users_word(tmp_path: Path) -> None:
    plain, environ = "providers: [openai:a]\n", {"OPENAI_BASE_URL": "https://gateway.example/v1"}
    [one] = providers_of(tmp_path, plain, environ)
    assert (brought(one).base_url, brought(one).key_withheld) == ("https://gateway.example/v1", False)
    [one] = providers_of(tmp_path, plain + "env: {OPENAI_BASE_URL: 'https://gateway.example/v1'}\n")
    assert brought(one).key_withheld


def test_a_written_key_is_an_error_and_is_not_shown(tmp_path: Path) -> None:
    text = PROMPTS + "providers:\n  - id: openai:gpt-x\n    config:\n      apiKey: sk-very-secret\n"
    path = written(tmp_path, text)
    [found] = errors(path)
    assert found.startswith(
        "5: providers[0].config.apiKey: not supported: a key is never written into this file"
    )
    assert found.endswith("name its variable: apiKeyEnvar: NAME")
    assert "sk-very" not in found


def test_a_transform_is_code(tmp_path: Path) -> None:
    text = (
        "providers: [{id: echo, transform: output.trim()}, {id: 'openai:a', transform: 'file://t.py:cut'}]\n"
    )
    one, other = providers_of(tmp_path, text, t__py="def cut(output, context): return output\n")
    assert one.transform == Code("javascript", source="output.trim()")
    assert other.transform == Code("python", (tmp_path / "t.py").resolve(), "cut")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("vertex:gemini-x", "not supported: Google's service accounts are not used — write google:MODEL"),
        ("openai:image:dall-e-3", "not supported: answers are texts"),
        ("openai:completion:x", "not supported: the API of completions is not used"),
        ("opnai:gpt-x", "'opnai:gpt-x' is no provider — did you mean 'openai'?"),
        ("openai:chat:", "names no model — write openai:chat:MODEL"),
        ("file://none.py", "none.py"),
        ("file://none.yaml", "there is no file 'none.yaml'"),
        ("{id: 'openai:a', config: {temprature: 1}}", "did you mean 'temperature'?"),
        ("{id: 'openai:a', config: {apiKeyEnvar: 'sk abc'}}", "this is no variable's name"),
        ("{id: 'openai:a', config: {rateLimit: {rmp: 1}}}", "did you mean 'rpm'?"),
        ("{id: 'openai:a', config: {apiBaseUrl: 'ftp://x'}}", "config.apiBaseUrl: expected an address"),
        ("{id: 'openai:a', delay: -1}", "expected a number from 0 on, not -1"),
        ("{label: x}", "'id' is missing"),
        ("{'openai:a': x}", "expected the settings of 'openai:a', not 'x'"),
        ("[a]", "expected an id or an object, not a list"),
        ("{id: 'openai:a', prompts: [none]}", "there is no prompt 'none'"),
    ],
)  # fmt: skip
def test_errors_name_the_key_and_the_line(entry: str, message: str, tmp_path: Path) -> None:
    [found] = errors(written(tmp_path, PROMPTS + f"providers:\n  - {entry}\n"))
    assert message in found
    assert found.startswith("3:")


def test_an_eval_needs_providers(tmp_path: Path) -> None:
    assert "there are no providers" in errors(written(tmp_path, PROMPTS))[0]
    path = written(tmp_path, PROMPTS + "providers: [echo]\ntargets: [echo]\n")
    assert check_eval(path, config=settings(tmp_path), environ={}).spec is None
