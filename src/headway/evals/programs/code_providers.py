"""The providers that run the code of an eval: one for Python and one for JavaScript, each only where the eval has such code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.config import Config, ProviderConfig
from headway.config.settings import CodeConfig, CodeLanguage
from headway.evals.programs.code_requests import PREFIX
from headway.evals.spec import AssertionSpec, Code, EvalSpec

#: The time and the size of one result. An assertion that takes longer hangs.
TIMEOUT_S: Final = 30.0
MOST_BYTES: Final = 1_000_000


def with_code(config: Config, spec: EvalSpec) -> Config:
    """The settings with the providers that the eval's code needs."""
    made = {PREFIX + language: _provider(language, spec) for language in languages_of(spec)}
    return msgspec.structs.replace(config, providers={**config.providers, **made}) if made else config


def languages_of(spec: EvalSpec) -> tuple[CodeLanguage, ...]:
    """The languages of its assertions and transforms."""
    return tuple(sorted({code.language for code in _codes(spec)}))


def _codes(spec: EvalSpec) -> Iterator[Code]:
    for provider in spec.providers:
        if provider.transform is not None:
            yield provider.transform
    for test in spec.tests:
        yield from (code for code in (test.transform, test.transform_vars) if code is not None)
        yield from test.var_code.values()
        for assertion in test.asserts:
            yield from _assertion_codes(assertion)


def _assertion_codes(assertion: AssertionSpec) -> Iterator[Code]:
    yield from (code for code in (assertion.code, assertion.transform) if code is not None)
    for child in assertion.children:
        yield from _assertion_codes(child)


def _provider(language: CodeLanguage, spec: EvalSpec) -> ProviderConfig:
    name = PREFIX + language
    return ProviderConfig(
        name=name,
        kind="code",
        base_url="",
        api_key_env="",
        model=language,
        key_optional=True,
        max_answer_bytes=MOST_BYTES,
        kind_settings=CodeConfig(
            target=name,
            preflight="none",
            language=language,
            directory=str(spec.path.parent),
            timeout_s=TIMEOUT_S,
        ),
    )
