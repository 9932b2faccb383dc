"""`prompts`: texts, files, patterns and objects → `PromptSpec`s.

A text of one line without templates is a file if there is such a file, or if it ends like one. A text file has several prompts
between lines of `---`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.config.code_values import is_code_file, with_files
from headway.evals.config.file_trees import file_tree
from headway.evals.config.key_sections import kind_of_value
from headway.evals.config.key_tables import PROMPT
from headway.evals.config.parameters import read_parameters
from headway.evals.config.source_file import SCHEME, SourceFile
from headway.evals.spec import PromptForm, PromptSpec

_SEPARATOR: Final = "---"
_TEXTS: Final = (".txt", ".md", ".j2")
_TREES: Final = (".json", ".yaml", ".yml")
_KNOWN: Final = (*_TEXTS, *_TREES, ".jsonl", ".csv")
_PROGRAMS: Final = (".sh", ".bash", ".exe", ".bat", ".cmd", ".ps1", ".rb", ".pl")
_ELSEWHERE: Final = ("portkey://", "langfuse://", "helicone://")
_CHAT_LIST: Final = re.compile(r"-\s+[\"']?role[\"']?\s*:")
_SHOWN: Final = 50
_SHOWN_TREE: Final = 80


def read_prompts(node: Marked, source: SourceFile) -> tuple[PromptSpec, ...]:
    """All prompts of the configuration, in order."""
    reader = _PromptReader(source)
    return tuple(reader.read(node))


def form_of(raw: str) -> PromptForm:
    """Whether a text is a list of messages, in JSON or YAML. It may become valid only when it is rendered."""
    text = raw.lstrip()
    if text.startswith("[") and ('"role"' in text or "{%" in text):
        return "chat"
    return "chat" if _CHAT_LIST.match(text) else "text"


class _PromptReader:
    """Reads the entries of `prompts`."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._seen: set[str] = set()

    def read(self, node: Marked) -> Iterator[PromptSpec]:
        if isinstance(node.value, dict):  # The older form: file → label.
            for name, label in node.value.items():
                own = PromptSpec(
                    raw=name, label=str(label.value or ""), line=node.key_lines.get(name, node.line)
                )
                yield from self._entry(own, "prompts")
            return
        entries = node.value if isinstance(node.value, list) else [node]
        for number, entry in enumerate(entries):
            place = f"prompts[{number}]" if isinstance(node.value, list) else "prompts"
            if isinstance(entry.value, dict):
                yield from self._object(entry, place)
            elif isinstance(entry.value, str) and entry.value.strip():
                if entry.value not in self._seen:
                    self._seen.add(entry.value)
                    yield from self._entry(PromptSpec(raw=entry.value, label="", line=entry.line), place)
            else:
                what = kind_of_value(entry.value)
                self._source.error(
                    entry.line, f"{place}: expected a text or an object with 'raw', not {what}"
                )

    def _object(self, node: Marked, place: str) -> Iterator[PromptSpec]:
        fields = PROMPT.read(node, place, self._source)
        raw = fields.value("raw") or fields.value("id")
        if not raw:
            self._source.error(node.line, f"{place}: 'raw' is missing", "write the text, or file://NAME")
            return
        config = fields["config"].value if "config" in fields else {}
        around = {key: str(config[key].value or "") for key in ("prefix", "suffix") if key in config}
        parameters = {key: one for key, one in config.items() if key not in around}
        lines = fields["config"].key_lines if config else {}
        own = PromptSpec(
            raw=raw,
            label=str(fields.value("label", fields.value("display", ""))),
            id=fields.value("id", ""),
            config=read_parameters(parameters, lines, f"{place}.config", self._source),
            prefix=fields.value("prefix", around.get("prefix", "")),
            suffix=fields.value("suffix", around.get("suffix", "")),
            line=node.line,
        )
        yield from self._entry(own, place)

    def _entry(self, own: PromptSpec, place: str) -> Iterator[PromptSpec]:
        """The prompts of an entry. `own` has its settings, and what it names in `raw`."""
        raw = own.raw
        if raw.startswith("exec:"):
            self._refuse_code(own, place)
        elif raw.startswith(_ELSEWHERE):
            why = "prompts are not fetched from services"
            self._source.refuse(own.line, place, why, "write the prompt into a file")
        elif self._is_file(raw):
            yield from self._files(own, place)
        else:
            text = msgspec.structs.replace(own, label=own.label or raw, form=form_of(raw))
            yield text

    def _is_file(self, raw: str) -> bool:
        if raw.startswith(SCHEME):
            return True
        if "\n" in raw or "{{" in raw or len(raw) > 500:
            return False
        if " " not in raw and (raw.endswith((*_KNOWN, *_PROGRAMS)) or is_code_file(raw)):
            return True
        return "/" in raw and " " not in raw and self._source.resolve(raw).exists()

    def _files(self, own: PromptSpec, place: str) -> Iterator[PromptSpec]:
        if is_code_file(own.raw) or own.raw.endswith(_PROGRAMS):
            self._refuse_code(own, place)
            return
        for path in self._source.matching(own.raw, own.line, place):
            if is_code_file(path.name) or path.suffix in _PROGRAMS:
                self._refuse_code(own, place)
            else:
                yield from self._file(path, own, place)

    def _refuse_code(self, own: PromptSpec, place: str) -> None:
        why = f"'{own.raw[:80]}' makes prompts by code"
        self._source.refuse(own.line, place, why, "write its prompts into a file, with templates")

    def _file(self, path: Path, own: PromptSpec, place: str) -> Iterator[PromptSpec]:
        inner = self._source.inner(path, own.line)
        if inner is None:
            return
        count = 0
        for raw, label, form in self._contents(inner, own.label):
            count += 1
            raw = self._source.env.text(raw, own.line, self._source)
            identity = "" if own.id.startswith(SCHEME) or own.id == own.raw else own.id
            yield msgspec.structs.replace(own, raw=raw, label=label, form=form, file=path, id=identity)
        if not count and not self._source.problems.has_errors:
            self._source.error(own.line, f"{place}: there is no prompt in '{self._source.shown(path)}'")

    def _contents(self, inner: SourceFile, label: str) -> Iterator[tuple[str, str, PromptForm]]:
        """Each prompt of a file: its text, its label and its form."""
        name = inner.shown(inner.path)
        if inner.path.suffix in (".yaml", ".yml"):
            yield from self._tree(inner, label)
            return
        text = inner.read_text()
        if text is None:
            return
        match inner.path.suffix:
            case ".json":
                raw = _compact_json(text, inner)
                yield raw, label or f"{name}: {raw}", form_of(raw)
            case ".jsonl":
                lines = [line for line in text.splitlines() if line.strip()]
                for line in lines:
                    shown = f"{label or name}: {line}" if len(lines) > 1 else label or name
                    yield line, shown, form_of(line)
            case ".csv":
                yield from _csv_prompts(text, label)
            case ".md" | ".j2":
                yield text, label or f"{name}: {text[:_SHOWN]}...", form_of(text)
            case _:
                for raw in _separated(text):
                    yield raw, f"{label}: {name}: {raw}" if label else f"{name}: {raw}", form_of(raw)

    def _tree(self, inner: SourceFile, label: str) -> Iterator[tuple[str, str, PromptForm]]:
        tree = file_tree(inner)
        if tree is None:
            return
        value = with_files(tree.plain(), 0, inner.path.name, inner)
        raw = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield raw, label or f"{inner.shown(inner.path)}: {raw[:_SHOWN_TREE]}", form_of(raw)


def _compact_json(text: str, inner: SourceFile) -> str:
    """JSON on one line, with its files read. A text with templates that is no JSON yet stays."""
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return msgspec.json.encode(with_files(value, 0, inner.path.name, inner)).decode()


def _separated(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in (*text.splitlines(), _SEPARATOR):
        if line.strip() == _SEPARATOR:
            raw = "\n".join(lines).strip()
            lines = []
            if raw:
                yield raw
        else:
            lines.append(line)


def _csv_prompts(text: str, label: str) -> Iterator[tuple[str, str, PromptForm]]:
    """The columns `prompt` and `label`; or one prompt a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and "," in lines[0]:
        rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
        pairs = [((row.get("prompt") or "").strip(), (row.get("label") or "").strip()) for row in rows]
    else:
        pairs = [(line, "") for line in lines if line.strip().lower() != "prompt"]
    for number, (raw, own) in enumerate((pair for pair in pairs if pair[0]), 1):
        yield raw, own or label or f"Prompt {number} - {raw}", form_of(raw)
