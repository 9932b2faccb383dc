"""Graders: the providers that `options.provider`, `provider` of an assertion and `commandLineOptions.grader` name."""

from __future__ import annotations

from typing import Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.config.provider_list import ProviderReader
from headway.evals.config.source_file import SourceFile
from headway.evals.spec import EvalProvider

_TYPES: Final = ("text", "embedding")
_OTHER_TYPES: Final = ("classification", "moderation")


class Graders(msgspec.Struct, frozen=True):
    """What grades: the model that answers questions, and the model of embeddings."""

    text: EvalProvider | None = None
    embedding: EvalProvider | None = None


class GraderReader:
    """Reads graders. A text that is the label or the id of a provider of the eval is that provider, with its settings."""

    def __init__(self, reader: ProviderReader, providers: tuple[EvalProvider, ...]) -> None:
        self._reader = reader
        self._known = {one.id: one for one in reversed(providers)}
        self._known |= {one.label: one for one in reversed(providers) if one.label}

    def read(self, node: Marked, place: str, source: SourceFile) -> Graders:
        """The graders of a value: one provider, or a mapping with `text` and `embedding`."""
        value = node.value
        if isinstance(value, dict) and "id" not in value and set(value) & {*_TYPES, *_OTHER_TYPES}:
            for name in _OTHER_TYPES:
                if name in value:
                    source.refuse(
                        node.key_lines.get(name, node.line), f"{place}.{name}", "there are no such graders"
                    )
            for name in value.keys() - {*_TYPES, *_OTHER_TYPES}:
                line = node.key_lines.get(name, node.line)
                source.unknown(line, f"{place}.{name}: unknown key", name, _TYPES)
            read = {
                name: self._one(value[name], f"{place}.{name}", source) for name in _TYPES if name in value
            }
            return Graders(read.get("text"), read.get("embedding"))
        one = self._one(node, place, source)
        if one is not None and one.endpoint == "embeddings":
            return Graders(embedding=one)
        return Graders(text=one)

    def _one(self, node: Marked, place: str, source: SourceFile) -> EvalProvider | None:
        if isinstance(node.value, str) and node.value in self._known:
            return self._known[node.value]
        for name in ("prompts", "transform"):
            if isinstance(node.value, dict) and name in node.value:
                line = node.key_lines.get(name, node.line)
                source.refuse(line, f"{place}.{name}", "it changes nothing for a grader", "leave it out")
        read = self._reader.entry(node, place, source)
        if len(read) > 1:
            source.error(node.line, f"{place}: a grader is one provider, and this is a list of {len(read)}")
        return read[0] if read else None
