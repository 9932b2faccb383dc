"""What a job keeps of its eval, so that `headway resume` needs no file again except those with code.

The form has the checked eval without its tests, and the providers that it brings. Tests are values of the job, one by one: there may be a
hundred thousand, and the form of every job is read by `headway jobs`. Cells are kept with the units of their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import Config
from headway.config import settings as config_settings
from headway.config.settings import ProviderConfig
from headway.errors import UsageError
from headway.evals.config.provider_names import is_same_place, with_models_of
from headway.evals.programs.code_providers import languages_of, with_code
from headway.evals.running.planned_units import flat
from headway.evals.spec import Cell, Code, CodeLanguage, EvalProvider, EvalSpec, TestSpec
from headway.stores.records import Job
from headway.stores.store import Store

#: The lists of the job's values: its tests, and the configuration as it was read.
TESTS: Final = "tests"
CONFIGURATION: Final = "config"
#: Tests that are kept decoded.
_FEW: Final = 512

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class EvalForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An eval as its job keeps it. `brings` has the providers that the eval describes itself, by name."""

    spec: EvalSpec
    brings: dict[str, Any] = {}
    #: The languages of its code.
    languages: tuple[CodeLanguage, ...] = ()
    rows: int = 0
    cells: int = 0


def form_values(spec: EvalSpec, *, rows: int, cells: int) -> dict[str, Any]:
    """The form as JSON values."""
    bare = msgspec.structs.replace(
        spec,
        tests=(),
        config={},
        providers=tuple(map(_bare, spec.providers)),
        grader=spec.grader and _bare(spec.grader),
        embedder=spec.embedder and _bare(spec.embedder),
    )
    brings = {name: _provider_values(one) for name, one in brought(spec).items()}
    form = EvalForm(spec=bare, brings=brings, languages=languages_of(spec), rows=rows, cells=cells)
    values: dict[str, Any] = msgspec.to_builtins(form, enc_hook=str, str_keys=True)
    return values


def form_of(job: Job) -> EvalForm:
    """The eval of a job, without its tests."""
    return _decoded(msgspec.json.encode(job.form["eval"]))


@lru_cache(4)
def _decoded(encoded: bytes) -> EvalForm:
    return msgspec.json.decode(encoded, type=EvalForm, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    return kind(value)


# -- providers ----------------------------------------------------------------------------------------------------------


def providers_of(spec: EvalSpec) -> Iterator[EvalProvider]:
    """Every provider that an eval names: of the matrix, graders, and models of embeddings."""
    yield from spec.providers
    yield from (one for one in (spec.grader, spec.embedder) if one is not None)
    for test in spec.tests:
        if test.grader is not None:
            yield test.grader
        for _, one in flat(test.asserts):
            if one.grader is not None:
                yield one.grader


def brought(spec: EvalSpec) -> dict[str, ProviderConfig]:
    """The providers that an eval describes itself, by name."""
    found: dict[str, ProviderConfig] = {}
    for one in providers_of(spec):
        if one.brings is not None:
            found[one.provider] = with_models_of(found.get(one.provider, one.brings), one.brings)
    return found


def with_brought(config: Config, brings: dict[str, ProviderConfig]) -> Config:
    """The settings with these providers. A table of headway.toml with the same name wins if it is for the same place: it has the limits of
    today, and gets those that the eval sets for models.
    """
    return _with_tables(config, brings, with_models_of)


def _with_tables(
    config: Config,
    brings: dict[str, ProviderConfig],
    join: Callable[[ProviderConfig, ProviderConfig], ProviderConfig],
) -> Config:
    """The settings with these providers; where there is a table of the same name and place, with what `join` makes of both.

    A table with the same name for another place does not count: the requests and the keys of an eval go where it says.
    """
    guessed = config.providers.keys() - config.of_eval if config.providers_are_guessed else ()
    tables = {
        name: join(table, brings[name]) if name in brings else table
        for name, table in config.providers.items()
        if name not in brings or (name not in guessed and is_same_place(table, brings[name]))
    }
    of_eval = config.of_eval | (brings.keys() - tables.keys())
    return msgspec.structs.replace(config, providers={**brings, **tables}, of_eval=of_eval)


def brought_by(job: Job) -> dict[str, ProviderConfig]:
    """The same for a job, from its form."""
    return {name: _provider_of(values) for name, values in form_of(job).brings.items()}


def with_own(config: Config, job: Job) -> Config:
    """The settings with all providers of a job: those that its eval describes, and those that run its code."""
    form = form_of(job)
    # The languages are all that is needed of its code.
    tests = tuple(TestSpec(transform=Code(language=language)) for language in form.languages)
    brings = {name: _provider_of(values) for name, values in form.brings.items()}
    # The settings may have the limits that the file sets today: they win over those of the job's first run.
    known = _with_tables(config, brings, lambda table, own: with_models_of(table, with_models_of(own, table)))
    return with_code(known, msgspec.structs.replace(form.spec, tests=tests))


def _bare(provider: EvalProvider) -> EvalProvider:
    return msgspec.structs.replace(provider, brings=None)


def _bare_test(test: TestSpec) -> TestSpec:
    """A test whose graders are names alone."""

    def bare(one: Any) -> Any:
        return msgspec.structs.replace(
            one, grader=one.grader and _bare(one.grader), children=tuple(map(bare, one.children))
        )

    return msgspec.structs.replace(
        test, grader=test.grader and _bare(test.grader), asserts=tuple(map(bare, test.asserts))
    )


def _provider_values(provider: ProviderConfig) -> dict[str, Any]:
    """A provider as JSON values. Settings of its kind are a struct that only its name identifies."""
    own = provider.kind_settings
    values: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(provider, kind_settings=None), enc_hook=str, str_keys=True
    )
    if own is not None:
        values["kind_settings"] = None
        settings = msgspec.to_builtins(own, enc_hook=str, str_keys=True)
        return {"provider": values, "settings": settings, "settings_type": type(own).__name__}
    return {"provider": values}


def _provider_of(values: dict[str, Any]) -> ProviderConfig:
    provider = msgspec.convert(values["provider"], ProviderConfig, str_keys=True, strict=False)
    if "settings" not in values:
        return provider
    kind = getattr(config_settings, values["settings_type"])
    settings = msgspec.convert(values["settings"], kind, str_keys=True, strict=False, dec_hook=_path)
    return msgspec.structs.replace(provider, kind_settings=settings)


# -- tests and cells ----------------------------------------------------------------------------------------------------


def test_values(spec: EvalSpec) -> Iterator[bytes]:
    """The tests as values of a job."""
    return (_encode(_bare_test(test)) for test in spec.tests)


def cell_value(cell: Cell) -> bytes:
    """A cell as it is kept with the unit of its answer."""
    return _encode(cell)


_decode_test: Final = msgspec.json.Decoder(TestSpec, dec_hook=_path).decode
_decode_cell: Final = msgspec.json.Decoder(Cell).decode


def cell_of(metadata: bytes | None) -> Cell:
    assert metadata is not None
    return _decode_cell(metadata)


class StoredTests:
    """The tests of a job, read one by one."""

    def __init__(self, job: int) -> None:
        self._job = job
        self._known: dict[int, TestSpec] = {}

    def test(self, store: Store, number: int) -> TestSpec:
        known = self._known.get(number)
        if known is None:
            if len(self._known) >= _FEW:
                self._known.clear()
            known = self._known[number] = _decode_test(store.values(self._job, TESTS, number, 1)[0])
        return known


def stored_config(store: Store, job: Job) -> dict[str, Any]:
    """The configuration as it was read."""
    values = store.values(job.id, CONFIGURATION, 0, 1)
    decoded: dict[str, Any] = msgspec.json.decode(values[0]) if values else {}
    return decoded


# -- identity -----------------------------------------------------------------------------------------------------------

#: Fields that change no request and no grade, by the name of their record. `line` is left out everywhere.
_NOT_IDENTITY: Final = {
    "EvalSpec": frozenset(
        {"path", "tests", "outputs", "config", "max_concurrency", "delay_s", "timeout_s", "max_duration_s", "cached", "tags"}
    ),
    "PromptSpec": frozenset({"file"}),
}  # fmt: skip


def digest_of(spec: EvalSpec) -> str:
    """The identity of an eval: what it asks, how it grades, and the code that it runs."""
    identity = blake2b(digest_size=32)
    files: set[Path] = set()
    for part in (spec, *spec.tests):
        identity.update(msgspec.json.encode(_identity(part, files), order="sorted", enc_hook=str))
    for file in sorted(files):
        identity.update(str(file).encode() + b"\0" + blake2b(_content(file)).digest())
    return identity.hexdigest()


def _identity(value: Any, files: set[Path]) -> Any:
    """A record as plain values, without what is not part of its identity. Adds the files of its code to `files`."""
    if isinstance(value, Code) and value.file is not None:
        files.add(value.file)
    if isinstance(value, ProviderConfig):  # Its limits are not part of it; its address is in its name.
        return (
            None
            if value.kind_settings is None
            else msgspec.to_builtins(value.kind_settings, enc_hook=str, str_keys=True)
        )
    if isinstance(value, msgspec.Struct):
        without = _NOT_IDENTITY.get(type(value).__name__, frozenset())
        names = (name for name in value.__struct_fields__ if name != "line" and name not in without)
        return {name: _identity(getattr(value, name), files) for name in names}
    if isinstance(value, dict):
        return {key: _identity(one, files) for key, one in value.items()}
    return [_identity(one, files) for one in value] if isinstance(value, list | tuple) else value


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from None
