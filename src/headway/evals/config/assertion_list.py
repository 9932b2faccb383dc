"""`assert`: assertions and sets of them → `AssertionSpec`s."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.assertions.registry import KINDS, problem_of
from headway.evals.config.assertion_types import (
    CODE_TYPES,
    EMBEDDING_TYPES,
    FACTUALITY_TYPES,
    NEVER_NEGATED,
    REFUSED,
)
from headway.evals.config.code_values import read_code, read_rubric, with_files
from headway.evals.config.file_trees import file_tree
from headway.evals.config.graders import GraderReader
from headway.evals.config.key_sections import Fields, kind_of_value
from headway.evals.config.key_tables import ASSERTION
from headway.evals.config.source_file import SCHEME, SourceFile
from headway.evals.spec import AssertionSpec, Code, CodeLanguage, EvalProvider

SET: Final = "assert-set"
_BEST: Final = "select-best"
_NOT: Final = "not-"


class AssertionReader:
    """Reads assertions, with their graders and files."""

    def __init__(self, graders: GraderReader) -> None:
        self._graders = graders

    def read(self, node: Marked, place: str, source: SourceFile) -> tuple[AssertionSpec, ...]:
        """All assertions of a value: a list, or the name of a file with one."""
        if isinstance(node.value, str):
            return self._of_file(node, place, source)
        if not isinstance(node.value, list):
            source.error(node.line, f"{place}: expected a list, not {kind_of_value(node.value)}")
            return ()
        result: list[AssertionSpec] = []
        for number, one in enumerate(node.value):
            at = f"{place}[{number}]"
            if isinstance(one.value, str):
                result += self._of_file(one, at, source)
            elif (read := self._assertion(one, at, source)) is not None:
                result.append(read)
        return tuple(result)

    def _of_file(self, node: Marked, place: str, source: SourceFile) -> tuple[AssertionSpec, ...]:
        if not node.value.startswith(SCHEME):
            source.error(node.line, f"{place}: expected an assertion with 'type', or file://NAME")
            return ()
        path = source.find(node.value, node.line, place)
        inner = None if path is None else source.inner(path, node.line)
        tree = None if inner is None else file_tree(inner)
        if inner is None or tree is None:
            return ()
        if isinstance(tree.value, dict):
            tree = Marked([tree], tree.line)
        return self.read(tree, "assert", inner)

    def _assertion(self, node: Marked, place: str, source: SourceFile) -> AssertionSpec | None:
        fields = ASSERTION.read(node, place, source)
        if not isinstance(node.value, dict):
            return None
        kind = _kind(fields, place, source)
        if kind is None:
            return None
        name, negated = kind
        _check_idle(fields, name, place, source)
        value = fields.get("value")
        spec = AssertionSpec(
            type=name,
            negated=negated,
            value=None if value is None or name in CODE_TYPES else _value(value, place, source),
            threshold=fields.value("threshold"),
            weight=float(fields.value("weight", 1.0)),
            metric=fields.value("metric", ""),
            code=_code(value, name, place, source) if value is not None and name in CODE_TYPES else None,
            transform=_transform(fields, place, source),
            grader=self._grader(fields, name, place, source),
            rubric_prompt=_rubric(fields, place, source),
            config=fields.value("config", {}),
            children=self._children(fields, place, source),
            line=node.line,
        )
        if name != SET and "assert" in fields:
            source.error(fields.lines["assert"], f"{place}.assert: only an assert-set has assertions in it")
        unread = name in CODE_TYPES and value is not None and spec.code is None  # Reported above.
        if not unread and (problem := problem_of(spec)):
            source.error(node.line, f"{place}: {problem}")
        return spec

    def _grader(self, fields: Fields, name: str, place: str, source: SourceFile) -> EvalProvider | None:
        if "provider" not in fields:
            return None
        read = self._graders.read(fields["provider"], f"{place}.provider", source)
        return (read.embedding or read.text) if name in EMBEDDING_TYPES else read.text

    def _children(self, fields: Fields, place: str, source: SourceFile) -> tuple[AssertionSpec, ...]:
        if "assert" not in fields:
            return ()
        children = self.read(fields["assert"], f"{place}.assert", source)
        for one in children:
            if one.type in (SET, "select-best"):
                source.refuse(
                    one.line, f"{place}.assert", f"{one.type} inside an assert-set", "put it beside the set"
                )
        return children


def _kind(fields: Fields, place: str, source: SourceFile) -> tuple[str, bool] | None:
    """The type without `not-`, and whether it was there; None after an error was reported."""
    if "type" not in fields:
        source.error(fields.line, f"{place}: 'type' is missing")
        return None
    written, line = fields["type"].value, fields.lines["type"]
    name = written.removeprefix(_NOT)
    if name in REFUSED:
        why, instead = REFUSED[name]
        source.refuse(line, f"{place}.type: {written}", why, instead)
    elif name.startswith("promptfoo:redteam:"):
        source.refuse(line, f"{place}.type: {written}", "attacks are not graded", "write an llm-rubric")
    elif name not in KINDS:
        source.unknown(line, f"{place}.type: there is no assertion '{written}'", name, KINDS)
    elif written != name and written.startswith(_NOT) and name in NEVER_NEGATED:
        source.error(line, f"{place}.type: {name} cannot be negated")
    else:
        return name, written.startswith(_NOT)
    return None


def _value(node: Marked, place: str, source: SourceFile) -> Any:
    return with_files(node.plain(), node.line, f"{place}.value", source)


def _code(node: Marked, name: str, place: str, source: SourceFile) -> Code | None:
    language: CodeLanguage = "python" if name == "python" else "javascript"
    return read_code(node, f"{place}.value", source, language)


def _rubric(fields: Fields, place: str, source: SourceFile) -> str:
    node = fields.get("rubricPrompt")
    return "" if node is None else read_rubric(node, f"{place}.rubricPrompt", source)


def _transform(fields: Fields, place: str, source: SourceFile) -> Code | None:
    return read_code(fields["transform"], f"{place}.transform", source) if "transform" in fields else None


def _check_idle(fields: Fields, name: str, place: str, source: SourceFile) -> None:
    """Report keys that change nothing for this type."""
    kind = KINDS[name]
    has = {
        "value": bool(kind.value) or name in CODE_TYPES,
        "threshold": bool(kind.threshold),
        "provider": kind.needs in ("grader", "embedding", "row"),
        "rubricPrompt": kind.needs in ("grader", "row"),
        "config": name in (*CODE_TYPES, *FACTUALITY_TYPES),
        "transform": name not in (SET, _BEST),
        "weight": name != _BEST,
        "metric": name != _BEST,
    }
    for key, is_used in has.items():
        if key in fields and not is_used:
            source.refuse(
                fields.lines[key], f"{place}.{key}", f"it changes nothing for '{name}'", "leave it out"
            )


def with_factuality(assertion: AssertionSpec, scores: Any) -> AssertionSpec:
    """An assertion with the scores of `options.factuality`, if it is one that has them."""
    if assertion.children:
        children = tuple(with_factuality(one, scores) for one in assertion.children)
        return msgspec.structs.replace(assertion, children=children)
    if assertion.type not in FACTUALITY_TYPES:
        return assertion
    return msgspec.structs.replace(assertion, config={"factuality": scores, **assertion.config})
