"""Which requests ask the same thing of a model: the same template, schema and parameters, with other contents.

What a model answers, and how long that is, depends on what it is asked. So everything that is learned of answers is
learned by family. A family is known by two things:

- its *shape*: a hash of where the request goes, its parameters, its system prompt and its schema. `max_tokens` counts
  by its order of magnitude. What only names a request (`user`, `seed`, `metadata`) does not count.
- its *words*: the pairs of neighbouring words that most of its texts share. Those that nearly all share are the template,
  whatever stands between them. Where `--prompt` gives the template itself, that is part of the shape and no words are needed.

Two families of one shape are the same where each one's template is in the other's texts, all of it: one other sentence at the
end of a long prompt asks for something else. Texts that share nothing have no words: such a family is like no other, since
nothing tells essays from yes-or-no questions then, unless a schema or a forced tool says what an answer looks like. Only a
few texts are looked at closely, so that a long file costs no more than a short one.
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

from headway.batch.input_size import has_open_input
from headway.stores.records import Family

#: Texts of a family that are looked at, and how much of each: its beginning and its end.
SAMPLED: Final = 96
LONGEST: Final = 8_000
#: A pair of words that this share of the texts have belongs to the template, and one that this share have may belong to it:
#: between them is what contents have in common by chance ("of the"), now a little more and now a little less of it.
FIXED: Final = 0.9
SHARED: Final = 0.75
#: Pairs that are kept of a family: those with the smallest hashes, so that two families keep the same ones. A text that is
#: looked at has hardly more.
KEPT: Final = 1_024
#: Families are one only if their words overlap by this share: a file of two templates has hardly any.
ALIKE: Final = 0.6
#: With a schema so many pairs must be missing on either side for a template to be another one: long documents share words, too.
OTHERWISE: Final = 3
#: Fewer texts than this share words by chance.
FEW: Final = 8
#: Shapes that are told apart within a route: more of them are one a row.
MOST: Final = 64
#: A system prompt this long says what is asked; a shorter one ("You are a helpful assistant.") may go with anything.
TELLING: Final = 200

#: What names a request and does not change its answer.
_NAMES: Final = frozenset(
    ("model", "user", "metadata", "seed", "stream", "stream_options", "store", "service_tier", "safety_identifier",
     "prompt_cache_key")
)  # fmt: skip
_SYSTEM: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_INSTRUCTING: Final = frozenset(("system", "developer"))
#: What may stand in a schema without saying anything about the answer.
_SAYS_NOTHING: Final = frozenset(
    ("$schema", "$id", "$comment", "type", "title", "description", "additionalProperties")
)
_MOST_SHAPES: Final = 4_096
_NUMBER: Final = re.compile(r"\d+")

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class FamilyTraits(msgspec.Struct, frozen=True, gc=False):
    """What of a request tells its family: its shape, whether that alone tells it, and the text that may tell the rest."""

    shape: int = 0
    firm: bool = True
    text: str = ""
    open_input: bool = False


#: Of what is no request to a model: a function's payload.
NO_TRAITS: Final = FamilyTraits()
_shapes: dict[bytes, int] = {}


def traits_of(
    path: str, body: Mapping[str, Any], limits: Sequence[str], most: float, *, templated: bool
) -> FamilyTraits:
    """What tells the family of a request. `limits` are the names of its limit on the answer, and `most` is that limit.

    `templated`: a template that is known made its texts, so they do not count.
    """
    settings = {name: _without(value, limits) for name, value in body.items() if name not in _NAMES}
    for name in limits:
        settings.pop(name, None)
    contents = next(
        (settings.pop(name) for name in ("messages", "contents", "input") if name in settings), None
    )
    roles, instructions, text = _parts(contents)
    if templated:
        settings = {name: value for name, value in settings.items() if name not in _SYSTEM}
        instructions = text = ""
    told_of = [path, settings, roles, instructions, int(most).bit_length()]
    open_input = has_open_input(body)
    shape = _shape(_encode([*told_of, "open input"] if open_input else told_of))
    told = instructions or next((_text(settings[name]) for name in _SYSTEM if name in settings), "")
    if len(told) >= TELLING:
        text = f"{told}\n{text}"
    firm = templated or _has_schema(settings) or _forces_tool(settings)
    return FamilyTraits(shape, firm, text, open_input)


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
    """Whether the answer must be a call of one certain tool."""
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
    """The object that lies there; an empty one where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _shape(encoded: bytes) -> int:
    shape = _shapes.get(encoded)
    if shape is None:
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        shape = _shapes[encoded] = int.from_bytes(blake2b(encoded, digest_size=7).digest(), "big")
    return shape


def _without(value: Any, limits: Sequence[str]) -> Any:
    """Settings that stand in an object of their own, without the limit."""
    if limits and type(value) is dict and any(name in value for name in limits):
        return {name: one for name, one in value.items() if name not in limits}
    return value


def _parts(contents: object) -> tuple[list[str], str, str]:
    """The roles that occur, what instructs, and the last text of the conversation."""
    if type(contents) is not list:
        return [], "", contents if type(contents) is str else ""
    roles: set[str] = set()
    instructions, text = "", ""
    for message in contents:
        if type(message) is not dict:
            continue
        role = str(message.get("role", "user"))
        roles.add(role)
        said = _text(message.get("content") or message.get("parts"))
        if role in _INSTRUCTING:
            instructions += said
        elif role == "user" and said:
            text = said
    return sorted(roles), instructions, text


def _text(content: object) -> str:
    """Every text of a message's content."""
    if type(content) is str:
        return content
    if type(content) is dict:
        return _text(content.get("text") or content.get("parts"))
    if type(content) is list:
        return "\n".join(filter(None, map(_text, content)))
    return ""


class Families:
    """The families of one input, as its rows come by. `template` is what `--prompt` and `--system` say."""

    def __init__(self, template: str = "") -> None:
        self._template = crc32(template.encode()) if template else 0
        self._numbers: dict[tuple[int, int], int] = {}
        self._made: dict[tuple[int, int], _Sample] = {}
        self._count: Counter[int] = Counter()

    def number(self, route: int, traits: FamilyTraits) -> int:
        """The number of a request's family within its route, from 1 on; 0: there are too many."""
        shape = traits.shape ^ self._template
        number = self._numbers.get((route, shape))
        if number is None:
            if self._count[route] >= MOST:
                return 0
            self._count[route] += 1
            number = self._numbers[route, shape] = self._count[route]
            self._made[route, number] = _Sample(shape, traits)
        self._made[route, number].add(traits.text)
        return number

    def found(self) -> list[Family]:
        """All of them."""
        return [sample.family(*place) for place, sample in self._made.items()]


class _Sample:
    """Some texts of a family, a fair choice of all that came by."""

    __slots__ = ("_chance", "_firm", "_open_input", "_rows", "_shape", "_texts")

    def __init__(self, shape: int, first: FamilyTraits) -> None:
        self._shape, self._firm, self._open_input = shape, first.firm, first.open_input
        self._rows = 0
        self._texts: list[str] = []
        self._chance = Random(0).random

    def add(self, text: str) -> None:
        place = self._rows
        self._rows += 1
        if place >= SAMPLED:
            place = int(self._chance() * self._rows)
        if place < SAMPLED:
            if len(text) > LONGEST:
                text = f"{text[: LONGEST // 2]} {text[-LONGEST // 2 :]}"
            self._texts[place : place + 1] = [text]

    def family(self, route: int, number: int) -> Family:
        words = words_of(self._texts)
        return Family(route, number, self._shape, self._firm, self._rows, words, self._open_input)


def words_of(texts: Sequence[str]) -> tuple[int, ...]:
    """The hashes of the word pairs that many of these texts share: odd ones belong to the template, even ones may."""
    counts = Counter(pair for text in texts for pair in _pairs(text))
    shared, fixed = (max(1.0, share * len(texts)) for share in (SHARED, FIXED))
    return tuple(sorted(pair | (count >= fixed) for pair, count in counts.items() if count >= shared)[:KEPT])


def _pairs(text: str) -> set[int]:
    """Neighbouring words, with the beginning and the end of the text; numbers are all alike."""
    if not text:
        return set()
    words = ["", *_NUMBER.sub("#", text.lower()).split(), ""]
    return {crc32(f"{one} {other}".encode()) & ~1 for one, other in pairwise(words)}


def alike(one: Family, other: Family) -> bool:
    """Whether answers to one tell what answers to the other will be like."""
    if one.shape != other.shape:
        return False
    cut = min([family.words[-1] for family in (one, other) if len(family.words) == KEPT], default=1 << 32)
    ours, theirs = _Words(one, cut), _Words(other, cut)
    missing, added = ours.template - theirs.all, theirs.template - ours.all
    if one.firm and other.firm:
        return ours.few or theirs.few or min(len(missing), len(added)) < OTHERWISE
    if ours.few and theirs.few:
        both = ours.template | theirs.template
        return bool(both) and len(ours.template & theirs.template) >= ALIKE * len(both)
    if not ours.few and not theirs.few and len(ours.all & theirs.all) < ALIKE * len(ours.all | theirs.all):
        return False
    # A few texts share more than the template, so only what many share must be in them.
    return all(
        words.few or (words.template and not gone) for words, gone in ((ours, missing), (theirs, added))
    )


def has_template(family: Family) -> bool:
    """Whether its texts tell what is asked: there are enough of them, and nearly all share something."""
    return family.rows >= FEW and any(word & 1 for word in family.words)


class _Words:
    """The words of a family up to a hash: those of its template, and all."""

    __slots__ = ("all", "few", "template")

    def __init__(self, family: Family, cut: int) -> None:
        known = [word for word in family.words if word <= cut | 1]
        self.all = {word | 1 for word in known}
        self.template = {word for word in known if word & 1}
        self.few = family.rows < FEW
