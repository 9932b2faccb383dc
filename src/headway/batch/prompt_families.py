"""Families of requests: the same template, schema and parameters, with different contents.

The answer of a model and its length depend on the question. So everything that is learned about answers is learned by family.
A family is identified by two things:

- its *shape*: a hash of the path, the parameters, the system prompt and the schema. `max_tokens` counts by its order of
  magnitude. Fields that only label a request (`user`, `seed`, `metadata`) do not count.
- its *words*: the pairs of neighbouring words that most of its texts share. The pairs that nearly all texts share are the
  template. If `--prompt` gives the template, it is part of the shape, and no words are needed.

Two families of one shape are alike if the whole template of each is in the texts of the other: one different sentence at the end
of a long prompt asks for something else. Texts that share nothing have no words. Such a family is like no other, since
nothing distinguishes essays from yes-or-no questions, unless a schema or a forced tool determines the answer. Only a few
texts of a family are analysed, so that a long file costs no more than a short one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from random import Random
from typing import Any, Final
from zlib import crc32

import msgspec

from headway.batch.input_size import has_open_input, has_open_parts
from headway.stores.records import Family

#: Texts of a family that are analysed, and the most characters of each: its beginning and its end.
SAMPLED: Final = 96
LONGEST: Final = 8_000
#: The share of texts that must have a pair of words for it to belong to the template (FIXED), or for it to belong perhaps (SHARED).
#: Between the two are pairs that contents share by chance ("of the"), sometimes more often and sometimes less.
FIXED: Final = 0.9
SHARED: Final = 0.75
#: Pairs that are kept for a family: those with the smallest hashes, so that two families keep the same ones. An analysed text
#: rarely has more.
KEPT: Final = 1_024
#: Two families are alike only if their words overlap by this share. In a file with two templates, texts share few words.
ALIKE: Final = 0.6
#: With a schema, templates differ if this many pairs are missing on each side: long documents also share words.
DIFFERENT: Final = 3
#: Fewer texts than this share words by chance.
FEW: Final = 8
#: Shapes that are distinguished within a route. With more, nearly every row has its own shape.
MOST: Final = 64
#: A system prompt this long says what is asked. A shorter one ("You are a helpful assistant.") may go with any question.
LONG_PROMPT: Final = 200

#: Fields that label a request and do not change its answer.
_LABELS: Final = frozenset(
    ("model", "user", "metadata", "seed", "stream", "stream_options", "store", "service_tier", "safety_identifier",
     "prompt_cache_key")
)  # fmt: skip
#: Where the contents of a request are.
_CONTENTS: Final = ("messages", "contents", "input")
_SYSTEM: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_SYSTEM_ROLES: Final = frozenset(("system", "developer"))
#: Keywords of a schema that say nothing about the answer.
_SAYS_NOTHING: Final = frozenset(
    ("$schema", "$id", "$comment", "type", "title", "description", "additionalProperties")
)
_MOST_SHAPES: Final = 4_096
_NUMBER: Final = re.compile(r"\d+")

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class FamilyTraits(msgspec.Struct, frozen=True, gc=False):
    """The traits of a request that determine its family: its shape, whether the shape is enough (`firm`), and its text."""

    shape: int = 0
    firm: bool = True
    text: str = ""
    open_input: bool = False


#: For the payload of a function, which is not a request to a model.
NO_TRAITS: Final = FamilyTraits()


class _SettingsTraits(msgspec.Struct, frozen=True, gc=False):
    """What the settings of a request determine. The contents may add to it that the input is open."""

    shape: int
    open_shape: int
    firm: bool
    open_input: bool
    system: str


_known_settings: dict[bytes, _SettingsTraits] = {}


def traits_of(
    path: str, body: Mapping[str, Any], limits: Sequence[str], most: float, *, templated: bool
) -> FamilyTraits:
    """The traits of a request. `limits` are the names of its output limit, and `most` is that limit.

    `templated`: its texts were made from a known template, so they do not count.
    """
    settings = {
        name: _without(value, limits) if type(value) is dict else value
        for name, value in body.items()
        if name not in _LABELS and name not in limits
    }
    contents = None
    for name in _CONTENTS:
        if name in settings:
            contents = settings.pop(name)
            break
    roles, instructions, text = _parts(contents)
    if templated:
        settings = {name: value for name, value in settings.items() if name not in _SYSTEM}
        instructions = text = ""
    encoded = _encode([path, settings, roles, instructions, int(most).bit_length()])
    known = _known_settings.get(encoded) or _learn_settings(encoded, settings, instructions)
    open_input = known.open_input or has_open_parts(contents)
    if known.system:
        text = f"{known.system}\n{text}"
    return FamilyTraits(
        known.open_shape if open_input else known.shape, templated or known.firm, text, open_input
    )


def _learn_settings(encoded: bytes, settings: Mapping[str, Any], instructions: str) -> _SettingsTraits:
    """The traits of settings that were not met before. A file has few different ones, so that is rare."""
    system = instructions or next((_text(settings[name]) for name in _SYSTEM if name in settings), "")
    traits = _SettingsTraits(
        shape=_shape(encoded),
        open_shape=_shape(encoded[:-1] + b',"open input"]'),
        firm=_has_schema(settings) or _forces_tool(settings),
        open_input=has_open_input(settings),
        system=system if len(system) >= LONG_PROMPT else "",
    )
    if len(_known_settings) >= _MOST_SHAPES:
        _known_settings.clear()
    _known_settings[encoded] = traits
    return traits


def _has_schema(settings: Mapping[str, Any]) -> bool:
    """Whether the answer must fit a schema that says more than "an object"."""
    formats = (
        _inner(settings, "response_format", "json_schema", "schema"),
        _inner(settings, "text", "format", "schema"),
        _inner(settings, "output_config", "format", "schema"),
        _inner(settings, "generationConfig", "responseSchema"),
        _inner(settings, "generationConfig", "responseJsonSchema"),
    )
    return any(not _SAYS_NOTHING.issuperset(schema) for schema in formats)


def _forces_tool(settings: Mapping[str, Any]) -> bool:
    """Whether the answer must be a call of one specific tool."""
    config = _inner(settings, "toolConfig")
    tools, choice = (
        config.get("tools", settings.get("tools")),
        config.get("toolChoice", settings.get("tool_choice")),
    )
    single = type(tools) is list and len(tools) == 1
    if type(choice) is not dict:
        return single and choice == "required"
    return (
        "name" in choice
        or "function" in choice
        or "tool" in choice
        or (single and ("any" in choice or choice.get("type") == "any"))
    )


def _inner(value: Any, *names: str) -> Mapping[str, Any]:
    """The object at this path; an empty one if there is none."""
    for name in names:
        value = value.get(name) if type(value) is dict else None
    return value if type(value) is dict else {}


def _shape(encoded: bytes) -> int:
    return int.from_bytes(blake2b(encoded, digest_size=7).digest(), "big")


def _without(value: dict[str, Any], limits: Sequence[str]) -> dict[str, Any]:
    """Nested settings without the output limit."""
    if any(name in value for name in limits):
        return {name: one for name, one in value.items() if name not in limits}
    return value


def _parts(contents: object) -> tuple[list[str], str, str]:
    """The roles that occur, the system prompt, and the last text of the user."""
    if type(contents) is not list:
        return [], "", contents if type(contents) is str else ""
    roles: set[str] = set()
    instructions, text = "", ""
    for message in contents:
        if type(message) is not dict:
            continue
        role = str(message.get("role", "user"))
        roles.add(role)
        content = _text(message.get("content") or message.get("parts"))
        if role in _SYSTEM_ROLES:
            instructions += content
        elif role == "user" and content:
            text = content
    return sorted(roles), instructions, text


def _text(content: object) -> str:
    """All texts of a message's content."""
    if type(content) is str:
        return content
    if type(content) is dict:
        return _text(content.get("text") or content.get("parts"))
    if type(content) is list:
        return "\n".join(filter(None, map(_text, content)))
    return ""


class Families:
    """Finds the families of one input while its rows are read. `template` is that of `--prompt` and `--system`."""

    def __init__(self, template: str = "") -> None:
        self._template = crc32(template.encode()) if template else 0
        self._numbers: dict[tuple[int, int], int] = {}
        self._samples: dict[tuple[int, int], _Sample] = {}
        self._count: Counter[int] = Counter()

    def number(self, route: int, traits: FamilyTraits) -> int:
        """The number of a request's family within its route, from 1 on; 0 if there are too many families."""
        shape = traits.shape ^ self._template
        number = self._numbers.get((route, shape))
        if number is None:
            if self._count[route] >= MOST:
                return 0
            self._count[route] += 1
            number = self._numbers[route, shape] = self._count[route]
            self._samples[route, number] = _Sample(shape, traits)
        self._samples[route, number].add(traits.text)
        return number

    def all(self) -> list[Family]:
        """All families."""
        return [sample.family(*key) for key, sample in self._samples.items()]


class _Sample:
    """A random sample of the texts of a family (reservoir sampling)."""

    __slots__ = ("_firm", "_open_input", "_random", "_rows", "_shape", "_texts")

    def __init__(self, shape: int, first: FamilyTraits) -> None:
        self._shape, self._firm, self._open_input = shape, first.firm, first.open_input
        self._rows = 0
        self._texts: list[str] = []
        self._random = Random(0).random

    def add(self, text: str) -> None:
        place = self._rows
        self._rows += 1
        if place >= SAMPLED:
            place = int(self._random() * self._rows)
        if place < SAMPLED:
            if len(text) > LONGEST:
                text = f"{text[: LONGEST // 2]} {text[-LONGEST // 2 :]}"
            self._texts[place : place + 1] = [text]

    def family(self, route: int, number: int) -> Family:
        words = words_of(self._texts)
        return Family(route, number, self._shape, self._firm, self._rows, words, self._open_input)


def words_of(texts: Sequence[str]) -> tuple[int, ...]:
    """The hashes of the word pairs that many of these texts share. Odd hashes belong to the template, even ones perhaps."""
    counts = Counter(pair for text in texts for pair in _pairs(text))
    shared, fixed = (max(1.0, share * len(texts)) for share in (SHARED, FIXED))
    return tuple(sorted(pair | (count >= fixed) for pair, count in counts.items() if count >= shared)[:KEPT])


def _pairs(text: str) -> set[int]:
    """The hashes of neighbouring words, with the beginning and the end of the text. All numbers count as equal."""
    if not text:
        return set()
    words = ["", *_NUMBER.sub("#", text.lower()).split(), ""]
    return {crc32(f"{one} {other}".encode()) & ~1 for one, other in pairwise(words)}


def alike(one: Family, other: Family) -> bool:
    """Whether the answers of one family predict the answers of the other."""
    if one.shape != other.shape:
        return False
    cut = min([family.words[-1] for family in (one, other) if len(family.words) == KEPT], default=1 << 32)
    ours, theirs = _Words(one, cut), _Words(other, cut)
    missing, added = ours.template - theirs.all, theirs.template - ours.all
    if one.firm and other.firm:
        return ours.few or theirs.few or min(len(missing), len(added)) < DIFFERENT
    if ours.few and theirs.few:
        both = ours.template | theirs.template
        return bool(both) and len(ours.template & theirs.template) >= ALIKE * len(both)
    if not ours.few and not theirs.few and len(ours.all & theirs.all) < ALIKE * len(ours.all | theirs.all):
        return False
    # A few texts share more than the template, so only the template of many texts must be in them.
    return all(
        words.few or (words.template and not absent) for words, absent in ((ours, missing), (theirs, added))
    )


def has_template(family: Family) -> bool:
    """Whether its texts show what is asked: there are enough of them, and nearly all share some words."""
    return family.rows >= FEW and any(word & 1 for word in family.words)


class _Words:
    """The words of a family up to a hash: those of the template, and all of them."""

    __slots__ = ("all", "few", "template")

    def __init__(self, family: Family, cut: int) -> None:
        words = [word for word in family.words if word <= cut | 1]
        self.all = {word | 1 for word in words}
        self.template = {word for word in words if word & 1}
        self.few = family.rows < FEW
