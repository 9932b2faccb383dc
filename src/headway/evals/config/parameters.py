"""Parameters of requests: `config` of providers and prompts, and what `options` of tests adds, under the names that rows of batches have.

promptfoo takes `max_tokens` and `maxTokens`, Gemini's `maxOutputTokens`, and so on. A name that no API has is an error: it would be sent
in vain. `passthrough` sends any parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headway.config.yaml_file import Marked
from headway.evals.config.code_values import with_files
from headway.evals.config.source_file import SourceFile

#: Parameters that APIs have, as they are sent.
NAMES: Final = (
    "temperature", "max_tokens", "max_completion_tokens", "max_output_tokens", "top_p", "top_k", "min_p", "stop",
    "stop_sequences", "seed", "random_seed", "n", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias",
    "logprobs", "top_logprobs", "response_format", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call",
    "reasoning_effort", "reasoning", "verbosity", "service_tier", "user", "metadata", "store", "thinking", "system",
    "instructions", "text", "include", "truncation", "safety_identifier", "prompt_cache_key", "prediction", "web_search_options",
    "safe_prompt", "dimensions", "encoding_format", "input_type", "effort", "output_config", "generationConfig", "safetySettings",
    "systemInstruction", "toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig",
)  # fmt: skip
#: Other names of parameters.
RENAMED: Final = {
    "max_new_tokens": "max_tokens",
    "max_tokens_to_sample": "max_tokens",
    "num_predict": "max_tokens",
    "generation_config": "generationConfig",
    "safety_settings": "safetySettings",
    "system_instruction": "systemInstruction",
    "tool_config": "toolConfig",
    "inference_config": "inferenceConfig",
    "additional_model_request_fields": "additionalModelRequestFields",
    "guardrail_config": "guardrailConfig",
}
#: Keys whose parameters are sent as they are.
_ANYTHING: Final = ("passthrough", "extra_body")
#: What a request has besides parameters. `passthrough` cannot change it: the lane is the model's, and reports show the prompt.
_NO_PARAMETERS: Final = ("model", "messages", "prompt", "input", "contents")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def parameter_name(name: str) -> str:
    """The name under which a parameter is sent; "" if no API has it."""
    if name in NAMES:
        return name
    snake = _CAPITAL.sub(r"_\1", name).lower()
    snake = RENAMED.get(snake, snake)
    return snake if snake in NAMES else ""


def read_parameters(
    nodes: Mapping[str, Marked], lines: Mapping[str, int], place: str, source: SourceFile
) -> dict[str, Any]:
    """Parameters under the names of APIs, with files read. Unknown ones are reported."""
    result: dict[str, Any] = {}
    for name, node in nodes.items():
        if name in _ANYTHING and isinstance(node.value, dict):
            result |= _passed(node, lines[name], f"{place}.{name}", source)
            continue
        own = parameter_name(name)
        if not own:
            source.unknown(
                lines[name], f"{place}.{name}: no API has this parameter; passthrough sends any", name, NAMES
            )
            continue
        value = with_files(node.plain(), lines[name], f"{place}.{name}", source)
        if value is not None:
            result[own] = value
    return result


def _passed(node: Marked, line: int, place: str, source: SourceFile) -> dict[str, Any]:
    """Parameters that are sent as they are."""
    values: dict[str, Any] = with_files(node.plain(), line, place, source)
    for name in _NO_PARAMETERS:
        if name in values:
            where = "the provider's id names the model" if name == "model" else "write it as a prompt"
            source.refuse(node.key_lines.get(name, line), f"{place}.{name}", "it is no parameter", where)
    return values
