"""Makes an `EvalSpec` from promptfoo's configuration. Everything that is wrong with it is reported at once.

`read_eval` is what other parts use. `unsupported` lists what Headway knows and does not do, for `headway eval --check`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import Config
from headway.config.file_problems import FileErrors, FileProblem
from headway.config.yaml_file import Marked
from headway.errors import InputError
from headway.evals.assertions.derived_metrics import problem_of_expression
from headway.evals.config.assertion_list import AssertionReader
from headway.evals.config.env_templates import EnvTemplates
from headway.evals.config.file_trees import config_tree, file_tree
from headway.evals.config.graders import GraderReader, Graders
from headway.evals.config.key_sections import Fields, kind_of_value
from headway.evals.config.key_tables import COMMAND_LINE_OPTIONS, EVALUATE_OPTIONS, FILE
from headway.evals.config.matrix import cell_count, size_problem, takes_prompt, takes_provider
from headway.evals.config.prompt_list import read_prompts
from headway.evals.config.provider_list import ProviderReader
from headway.evals.config.provider_settings import SettingsReader, check_env, check_lanes
from headway.evals.config.source_file import EvalProblems, SourceFile, Unsupported
from headway.evals.config.template_check import check_templates
from headway.evals.config.test_list import TestParts, TestReader, finished
from headway.evals.spec import EvalProvider, EvalSpec, PromptSpec, TestSpec

_SECRETS: Final = re.compile(
    r"(api[-_]?key|token|secret|password|authorization|credential)s?$", re.IGNORECASE
)
_BLOT: Final = "(removed)"
_DEFAULT_PROMPT: Final = "{{prompt}}"


class CheckedEval(msgspec.Struct, frozen=True):
    """What a check found: the eval, or None if there are errors; all problems, by line; and what is not supported."""

    spec: EvalSpec | None
    problems: tuple[FileProblem, ...]
    unsupported: tuple[Unsupported, ...]


def read_eval(path: Path, *, config: Config, environ: Mapping[str, str]) -> EvalSpec:
    """Read a configuration. Raises `InputError` with every error."""
    return spec_of(check_eval(path, config=config, environ=environ), path)


def spec_of(checked: CheckedEval, path: Path) -> EvalSpec:
    """The eval that was checked. Raises `InputError` with every error."""
    if checked.spec is not None:
        return checked.spec
    errors = [one.text(str(path)) for one in checked.problems if one.severity == "error"]
    if len(errors) == 1:
        raise InputError(errors[0])
    raise FileErrors(f"{path} has {len(errors):,} errors", tuple(errors))


def check_eval(path: Path, *, config: Config, environ: Mapping[str, str]) -> CheckedEval:
    """Read a configuration, and report everything that is wrong with it."""
    problems = EvalProblems()
    source = SourceFile(path.resolve(), problems)
    tree = config_tree(source)
    spec = None if tree is None else _EvalBuilder(source, config, environ).build(tree)
    found = tuple(sorted(problems.unsupported))
    return CheckedEval(None if problems.has_errors else spec, problems.found(), found)


def unsupported(
    path: Path, *, config: Config | None = None, environ: Mapping[str, str] | None = None
) -> list[Unsupported]:
    """What a configuration has that Headway knows and does not do: line, key, why, and what to write instead."""
    config = config or Config(path=None, root=path.resolve().parent, db="")
    return list(check_eval(path, config=config, environ=environ or {}).unsupported)


class _EvalBuilder:
    """Builds one eval. Each part reports what is wrong and goes on."""

    def __init__(self, source: SourceFile, config: Config, environ: Mapping[str, str]) -> None:
        self._source, self._config, self._environ = source, config, environ

    def build(self, tree: Marked) -> EvalSpec | None:
        source = self._source
        if not isinstance(tree.value, dict):
            source.error(
                tree.line,
                f"expected a mapping with prompts, providers and tests, not {kind_of_value(tree.value)}",
            )
            return None
        env = self._env(tree)
        source.env = EnvTemplates({**self._environ, **env})
        fields = FILE.read(source.env.render_file(tree, source), "", source)
        settings = SettingsReader(self._config, self._environ, env)
        provider_reader = ProviderReader(self._config, settings)
        providers = self._providers(fields, provider_reader)
        prompts = self._prompts(fields)
        check_lanes(providers, self._config, source)
        graders = GraderReader(provider_reader, providers)
        tests, general = self._tests(fields, graders)
        spec = EvalSpec(
            path=source.path,
            prompts=prompts,
            providers=providers,
            tests=tests,
            grader=general.text,
            embedder=general.embedding,
            derived_metrics=self._derived_metrics(fields),
            env=env,
            config=_blotted(tree.plain()),
            **self._run_options(fields),
        )
        self._check_references(spec)
        check_templates(spec, source)
        return spec

    def _env(self, tree: Marked) -> dict[str, str]:
        """The variables of `env`, which may name those of the environment."""
        node = tree.value.get("env")
        if node is None or not isinstance(node.value, dict):
            return {}
        own = EnvTemplates(self._environ).render(node, self._source, keys_stay=True)
        return check_env(own, "env", self._source)

    def _providers(self, fields: Fields, reader: ProviderReader) -> tuple[EvalProvider, ...]:
        if "providers" in fields and "targets" in fields:
            self._source.error(
                fields.lines["targets"], "targets: there are providers, too", "write one of them"
            )
        name = "providers" if "providers" in fields else "targets"
        if name not in fields:
            self._source.error(0, "there are no providers", "write providers: [openai:chat:MODEL]")
            return ()
        providers = reader.read(fields[name], name, self._source)
        if not providers and not self._source.problems.has_errors:
            self._source.error(fields.lines[name], f"{name}: there is none", "write an id: openai:chat:MODEL")
        return providers

    def _prompts(self, fields: Fields) -> tuple[PromptSpec, ...]:
        if "prompts" not in fields:
            return (PromptSpec(raw=_DEFAULT_PROMPT, label=_DEFAULT_PROMPT),)
        prompts = read_prompts(fields["prompts"], self._source)
        if not prompts and not self._source.problems.has_errors:
            self._source.error(fields.lines["prompts"], "prompts: there is none")
        return prompts

    def _tests(self, fields: Fields, graders: GraderReader) -> tuple[tuple[TestSpec, ...], Graders]:
        """The tests, and the graders of the eval."""
        source = self._source
        reader = TestReader(AssertionReader(graders), graders)
        defaults = self._defaults(fields, reader, graders)
        general: Graders = defaults.options.get("provider") or Graders()
        parts = list(reader.read(fields["tests"], "tests", source)) if "tests" in fields else []
        if "tests" in fields and not parts and not source.problems.has_errors:
            source.error(fields.lines["tests"], "tests: there is none")
        if "scenarios" in fields:
            parts += reader.scenarios(fields["scenarios"], source)
        if not parts and "scenarios" not in fields:
            parts = [TestParts()]
        return tuple(finished(one, defaults, general) for one in parts), general

    def _defaults(self, fields: Fields, reader: TestReader, graders: GraderReader) -> TestParts:
        """`defaultTest`, over what the command line's options and the file's metadata say."""
        base = TestParts(metadata=fields.value("metadata", {}), options=self._prompt_options(fields, graders))
        node = fields.get("defaultTest")
        if node is None:
            return base
        if isinstance(node.value, dict):
            return reader.parts(node, "defaultTest", self._source).over(base)
        path = self._source.find(node.value, node.line, "defaultTest")
        inner = None if path is None else self._source.inner(path, node.line)
        tree = None if inner is None else file_tree(inner)
        return base if inner is None or tree is None else reader.parts(tree, "defaultTest", inner).over(base)

    def _prompt_options(self, fields: Fields, graders: GraderReader) -> dict[str, Any]:
        options = self._command_line(fields)
        found: dict[str, Any] = {}
        for name, own in (("promptPrefix", "prefix"), ("promptSuffix", "suffix")):
            if name in options:
                found[own] = options.value(name)
        if "grader" in options:
            found["provider"] = graders.read(options["grader"], "commandLineOptions.grader", self._source)
        return found

    def _command_line(self, fields: Fields) -> Fields:
        node = fields.get("commandLineOptions")
        return (
            Fields(0) if node is None else COMMAND_LINE_OPTIONS.read(node, "commandLineOptions", self._source)
        )

    def _run_options(self, fields: Fields) -> dict[str, Any]:
        """How the eval runs: the fields of the spec that are named like this."""
        node = fields.get("evaluateOptions")
        options = Fields(0) if node is None else EVALUATE_OPTIONS.read(node, "evaluateOptions", self._source)
        typed = self._command_line(fields)
        both = Fields(0)
        both.update({**options, **typed})
        outputs = fields.value("outputPath", both.value("output", ()))
        if fields.value("sharing") not in (None, False):
            why = "results are not sent anywhere"
            self._source.refuse(
                fields.lines["sharing"], "sharing", why, "write a file with --out results.html"
            )
        return {
            "description": fields.value("description", both.value("description", "")),
            "tags": {
                name: str(value) for name, value in fields.value("tags", both.value("tags", {})).items()
            },
            "repeat": both.value("repeat", 1),
            "max_concurrency": both.value("maxConcurrency", 0),
            "delay_s": float(both.value("delay", 0.0)) / 1000,
            "cached": both.value("cache", True),
            "timeout_s": float(both.value("timeoutMs", 0.0)) / 1000,
            "max_duration_s": float(both.value("maxEvalTimeMs", 0.0)) / 1000,
            "outputs": (outputs,) if isinstance(outputs, str) else tuple(str(one) for one in outputs),
        }

    def _derived_metrics(self, fields: Fields) -> dict[str, str]:
        metrics: dict[str, str] = {}
        node = fields.get("derivedMetrics")
        for number, one in enumerate(node.value if node is not None else ()):
            place = f"derivedMetrics[{number}]"
            value = one.plain()
            if not isinstance(value, dict) or not {"name", "value"} <= value.keys():
                self._source.error(one.line, f"{place}: expected 'name' and 'value'")
            elif unknown := sorted(value.keys() - {"name", "value"}):
                self._source.error(one.line, f"{place}.{unknown[0]}: unknown key")
            elif not isinstance(value["value"], str | int | float):
                self._source.error(one.line, f"{place}.value: expected an expression, such as 'accuracy / 2'")
            elif problem := problem_of_expression(str(value["value"])):
                self._source.error(one.line, f"{place}.value: {problem}")
            else:
                metrics[str(value["name"])] = str(value["value"])
        return metrics

    def _check_references(self, spec: EvalSpec) -> None:
        """Report labels and ids that name no prompt or provider, and an eval without cells."""
        problems = self._source
        for provider in spec.providers:
            for name in provider.prompts:
                if not any(takes_prompt((name,), prompt) for prompt in spec.prompts):
                    known = [prompt.label for prompt in spec.prompts]
                    problems.unknown(
                        provider.line, f"provider '{provider.name}': there is no prompt '{name}'", name, known
                    )
        checked: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        for test in spec.tests:
            if (test.providers, test.prompts) not in checked:
                checked.add((test.providers, test.prompts))
                self._check_test(test, spec)
        if not self._source.problems.has_errors and cell_count(spec) == 0:
            problems.error(0, "no test has a provider and a prompt to run with")
        if too_large := size_problem(spec):
            problems.error(0, too_large, "lists of variables multiply: write fewer, or the tests that matter")

    def _check_test(self, test: TestSpec, spec: EvalSpec) -> None:
        for name in test.prompts:
            if not any(takes_prompt((name,), prompt) for prompt in spec.prompts):
                known = [prompt.label for prompt in spec.prompts]
                self._source.unknown(
                    test.line, f"a test names the prompt '{name}', which does not exist", name, known
                )
        for name in test.providers:
            if not any(takes_provider((name,), provider) for provider in spec.providers):
                known = [provider.name for provider in spec.providers]
                self._source.unknown(
                    test.line, f"a test names the provider '{name}', which does not exist", name, known
                )


def _blotted(value: Any) -> Any:
    """The configuration without what may be a key."""
    if isinstance(value, dict):
        return {
            key: _BLOT if _SECRETS.search(key) and isinstance(one, str) else _blotted(one)
            for key, one in value.items()
        }
    return [_blotted(one) for one in value] if isinstance(value, list) else value
