"""`tests`, `defaultTest` and `scenarios` → `TestSpec`s with the defaults merged in.

A test is first read into `TestParts`, which know what the file says and what it leaves out. Merging follows promptfoo: variables, options
and metadata of a test go over those of the scenario's set, and these over the defaults; assertions are joined, the defaults' first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.assertions.registry import KINDS
from headway.evals.config.assertion_list import AssertionReader, with_factuality
from headway.evals.config.assertion_types import EMBEDDING_TYPES
from headway.evals.config.code_values import read_code, read_rubric
from headway.evals.config.csv_tests import TableRow, assertion_node, table_rows
from headway.evals.config.file_trees import file_tree
from headway.evals.config.graders import GraderReader, Graders
from headway.evals.config.key_sections import kind_of_value
from headway.evals.config.key_tables import FACTUALITY, OPTIONS, SCENARIO, TEST
from headway.evals.config.parameters import read_parameters
from headway.evals.config.source_file import SCHEME, SourceFile
from headway.evals.config.variables import read_computed, read_vars, text_variable
from headway.evals.spec import AssertionSpec, Code, EvalProvider, TestSpec

_SERVICES: Final = ("huggingface://", "az://", "https://", "http://")
_CODE: Final = (".py", ".js", ".mjs", ".cjs", ".ts")
_SHEETS: Final = (".xlsx", ".xls")


class TestParts(msgspec.Struct, frozen=True, kw_only=True):
    """A test, a set of a scenario or the defaults, as a file has it. None: the file does not say."""

    __test__ = False

    vars: dict[str, Any] = {}
    var_code: dict[str, Code] = {}
    asserts: tuple[AssertionSpec, ...] = ()
    #: Options by their names; those that are not known are parameters of the request.
    options: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    description: str = ""
    threshold: float | None = None
    providers: tuple[str, ...] | None = None
    prompts: tuple[str, ...] | None = None
    line: int = 0

    def over(self, base: TestParts) -> TestParts:
        """These parts, and those of `base` where these say nothing. Assertions of both, those of `base` first."""
        return TestParts(
            vars=_uncovered(base.vars, self.var_code) | self.vars if base.vars else self.vars,
            var_code=_uncovered(base.var_code, self.vars) | self.var_code,
            asserts=(*base.asserts, *self.asserts),
            options={**base.options, **self.options} if base.options else self.options,
            metadata={**base.metadata, **self.metadata} if base.metadata else self.metadata,
            description=self.description or base.description,
            threshold=base.threshold if self.threshold is None else self.threshold,
            providers=base.providers if self.providers is None else self.providers,
            prompts=base.prompts if self.prompts is None else self.prompts,
            line=self.line or base.line,
        )


def _uncovered(values: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The values whose names are not in `over`."""
    return {name: value for name, value in values.items() if name not in over} if over else dict(values)


class TestReader:
    """Reads tests. `defaults` are merged into each of them by `finished`."""

    __test__ = False

    def __init__(self, assertions: AssertionReader, graders: GraderReader) -> None:
        self._assertions, self._graders = assertions, graders

    def read(self, node: Marked, place: str, source: SourceFile) -> Iterator[TestParts]:
        """All tests of a value: the name of a file, a test, or a list of both."""
        if isinstance(node.value, list):
            for number, one in enumerate(node.value):
                yield from self._entry(one, f"{place}[{number}]", source)
        elif isinstance(node.value, str):
            yield from self._files(node.value, node.line, place, source, numbered=True)
        else:
            yield from self._entry(node, place, source)

    def _entry(self, node: Marked, place: str, source: SourceFile) -> Iterator[TestParts]:
        if isinstance(node.value, str):
            yield from self._files(node.value, node.line, place, source, numbered=False)
        elif isinstance(node.value, dict) and isinstance(node.value.get("path"), Marked):
            if "config" in node.value:
                why = "tests are not made by code"
                source.refuse(node.line, f"{place}.config", why, "write the tests into a .jsonl file")
            path = node.value["path"]
            yield from self._files(str(path.value), path.line, place, source, numbered=True)
        elif isinstance(node.value, dict):
            yield self.parts(node, place, source)
        else:
            what = kind_of_value(node.value)
            source.error(node.line, f"{place}: expected a test or the name of a file with tests, not {what}")

    def _files(
        self, name: str, line: int, place: str, source: SourceFile, *, numbered: bool
    ) -> Iterator[TestParts]:
        path = name.removeprefix(SCHEME)
        if path.startswith(_SERVICES):
            why = f"tests are not fetched from {path.split('://')[0]}://"
            source.refuse(line, place, why, "save them as .csv or .jsonl")
        elif path.partition(":")[0].endswith(_CODE):
            source.refuse(line, place, "tests are not made by code", "write the tests into a .jsonl file")
        elif path.partition("#")[0].endswith(_SHEETS):
            source.refuse(line, place, "Excel files are not read", "save the sheet as .csv")
        else:
            for one in source.matching(name, line, place):
                inner = source.inner(one, line)
                if inner is not None:
                    yield from self._file(one, inner, numbered=numbered)

    def _file(self, path: Path, inner: SourceFile, *, numbered: bool) -> Iterator[TestParts]:
        """The tests of one file. Rows of tables, and of files that are all tests, are called `Row #1` unless they have a description."""
        match path.suffix:
            case ".csv":
                for number, row in enumerate(table_rows(inner), 1):
                    yield self._row(row, f"Row #{number}", inner)
            case ".jsonl":
                nodes = (inner.env.render(node, inner) for node in inner.read_lines())
                yield from self._nodes(nodes, inner, "tests", numbered=numbered)
            case ".json" | ".yaml" | ".yml":
                tree = file_tree(inner)
                if tree is not None:
                    found = tree.value if isinstance(tree.value, list) else [tree]
                    rows = numbered and path.suffix == ".json"
                    yield from self._nodes(iter(found), inner, "tests", numbered=rows)
            case _:
                inner.error(0, "tests are read from .yaml, .json, .jsonl and .csv files")

    def _nodes(
        self, nodes: Iterator[Marked], inner: SourceFile, place: str, *, numbered: bool
    ) -> Iterator[TestParts]:
        for number, node in enumerate(nodes, 1):
            for parts in self._entry(node, f"{place}[{number - 1}]", inner):
                if numbered and not parts.description:
                    yield msgspec.structs.replace(parts, description=f"Row #{number}")
                else:
                    yield parts

    def _row(self, row: TableRow, name: str, source: SourceFile) -> TestParts:
        values = {
            key: text_variable(text, row.line, key, source) if text.startswith((SCHEME, "package:")) else text
            for key, text in row.vars.items()
        }
        nodes = [
            assertion_node(text, row.line, row.thresholds.get(place), row.metric)
            for place, text in enumerate(row.asserts)
        ]
        asserts = self._assertions.read(Marked(nodes, row.line), "__expected", source) if nodes else ()
        return TestParts(
            vars=values,
            asserts=asserts,
            options=dict(row.options),
            metadata=row.metadata,
            description=row.description or name,
            threshold=row.threshold,
            line=row.line,
        )

    def parts(self, node: Marked, place: str, source: SourceFile) -> TestParts:
        """One test, or the defaults."""
        fields = TEST.read(node, place, source)
        options = self._options(fields["options"], f"{place}.options", source) if "options" in fields else {}
        values = read_vars(fields["vars"], f"{place}.vars", source) if "vars" in fields else {}
        if options.get("disableVarExpansion"):
            values = {name: [value] if isinstance(value, list) else value for name, value in values.items()}
        if "assert" in values:
            source.warning(
                fields.lines["vars"], f"{place}.vars.assert is a variable", "assert belongs beside vars"
            )
        return TestParts(
            vars=values,
            var_code=read_computed(fields["vars"], f"{place}.vars", source) if "vars" in fields else {},
            asserts=self._assertions.read(fields["assert"], f"{place}.assert", source)
            if "assert" in fields
            else (),
            options=options,
            metadata=fields.value("metadata", {}),
            description=str(fields.value("description", "")),
            threshold=fields.value("threshold"),
            providers=_references(fields.get("providers"), f"{place}.providers", source),
            prompts=_references(fields.get("prompts"), f"{place}.prompts", source),
            line=node.line,
        )

    def _options(self, node: Marked, place: str, source: SourceFile) -> dict[str, Any]:
        fields = OPTIONS.read(node, place, source)
        parameters = {name: one for name, one in fields.items() if name not in OPTIONS.keys}
        options: dict[str, Any] = read_parameters(parameters, fields.lines, place, source)
        for name, one in fields.items():
            match name:
                case "transform" | "postprocess":
                    options["transform"] = read_code(one, f"{place}.{name}", source)
                case "transformVars":
                    options[name] = read_code(one, f"{place}.{name}", source)
                case "provider":
                    options[name] = self._graders.read(one, f"{place}.{name}", source)
                case "rubricPrompt":
                    options[name] = read_rubric(one, f"{place}.{name}", source)
                case "factuality":
                    scores = FACTUALITY.read(one, f"{place}.{name}", source)
                    options[name] = {category: score.value for category, score in scores.items()}
                case _ if name in OPTIONS.keys:
                    options[name] = one.plain()
        return options

    def scenarios(self, node: Marked, source: SourceFile, place: str = "scenarios") -> Iterator[TestParts]:
        """The tests of all scenarios. Each set of values is a conversation of its own, unless the file names another."""
        number = 0
        for scenario, inner, at in _scenario_nodes(node, source, place):
            fields = SCENARIO.read(scenario, at, inner)
            if "config" not in fields:
                inner.error(fields.line, f"{at}: 'config' is missing, the sets of values")
                continue
            tests = (
                list(self.read(fields["tests"], f"{at}.tests", inner)) if "tests" in fields else [TestParts()]
            )
            for values in self.read(fields["config"], f"{at}.config", inner):
                identity = f"__scenario_{number}__"
                number += 1
                for test in tests:
                    merged = test.over(values)
                    yield msgspec.structs.replace(
                        merged, metadata={"conversationId": identity, **merged.metadata}
                    )


def _scenario_nodes(node: Marked, source: SourceFile, place: str) -> Iterator[tuple[Marked, SourceFile, str]]:
    """Each scenario with the file that it is in."""
    entries = node.value if isinstance(node.value, list) else [node]
    for number, one in enumerate(entries):
        at = f"{place}[{number}]"
        if not isinstance(one.value, str):
            yield one, source, at
            continue
        for path in source.matching(one.value, one.line, at):
            inner = source.inner(path, one.line)
            tree = None if inner is None else file_tree(inner)
            if inner is not None and tree is not None:
                yield from _scenario_nodes(tree, inner, place)


def _references(node: Marked | None, place: str, source: SourceFile) -> tuple[str, ...] | None:
    """Labels and ids; None where the file has none."""
    if node is None:
        return None
    names = [node] if isinstance(node.value, str) else node.value
    if not names:
        source.error(node.line, f"{place}: an empty list: nothing would run", "leave the key out for all")
    result = []
    for one in names:
        if isinstance(one.value, str):
            result.append(one.value)
        else:
            source.error(one.line, f"{place}: expected labels or ids, not {kind_of_value(one.value)}")
    return tuple(result)


#: Options that are not parameters of the request.
_OWN_OPTIONS: Final = frozenset(OPTIONS.keys)


def finished(parts: TestParts, defaults: TestParts, spec_graders: Graders) -> TestSpec:
    """A test with the defaults. A grader that is the eval's own is left out of the test."""
    if parts.options.get("disableDefaultAsserts"):
        defaults = msgspec.structs.replace(defaults, asserts=())
    merged = parts.over(defaults)
    options = merged.options
    graders: Graders = options.get("provider") or Graders()
    asserts = merged.asserts
    if options:
        asserts = tuple(_settled(one, options, graders, spec_graders) for one in asserts)
    return TestSpec(
        vars=merged.vars,
        var_code=merged.var_code,
        description=parts.description,
        asserts=asserts,
        threshold=merged.threshold,
        providers=merged.providers or (),
        prompts=merged.prompts or (),
        metadata=merged.metadata,
        prefix=str(options.get("prefix") or ""),
        suffix=str(options.get("suffix") or ""),
        transform=options.get("transform"),
        transform_vars=options.get("transformVars"),
        grader=_unless(graders.text, spec_graders.text),
        rubric_prompt=options.get("rubricPrompt") or "",
        options={name: value for name, value in options.items() if name not in _OWN_OPTIONS},
        runs_serially=bool(options.get("runSerially")),
        repeat=options.get("repeat") or 0,
        store_output_as=options.get("storeOutputAs") or "",
        line=merged.line,
    )


def _unless(own: EvalProvider | None, general: EvalProvider | None) -> EvalProvider | None:
    return None if own == general else own


def _settled(
    assertion: AssertionSpec, options: dict[str, Any], graders: Graders, general: Graders
) -> AssertionSpec:
    """An assertion with what the options of its test say about it."""
    if "factuality" in options:
        assertion = with_factuality(assertion, options["factuality"])
    if options.get("rubricPrompt"):
        assertion = _with_rubric(assertion, options["rubricPrompt"])
    embedder = _unless(graders.embedding, general.embedding)
    return assertion if embedder is None else _with_embedder(assertion, embedder)


def _with_rubric(assertion: AssertionSpec, rubric: str) -> AssertionSpec:
    """An assertion with the rubric prompt of its test, if it has a grader and no prompt of its own."""
    if assertion.children:
        children = tuple(_with_rubric(one, rubric) for one in assertion.children)
        return msgspec.structs.replace(assertion, children=children)
    if assertion.rubric_prompt or KINDS[assertion.type].needs not in ("grader", "row"):
        return assertion
    return msgspec.structs.replace(assertion, rubric_prompt=rubric)


def _with_embedder(assertion: AssertionSpec, embedder: EvalProvider) -> AssertionSpec:
    if assertion.children:
        children = tuple(_with_embedder(one, embedder) for one in assertion.children)
        return msgspec.structs.replace(assertion, children=children)
    if assertion.type in EMBEDDING_TYPES and assertion.grader is None:
        return msgspec.structs.replace(assertion, grader=embedder)
    return assertion
