"""An eval that has been read and checked. Plain data: nothing here reads files or runs anything.

The matrix of an eval has a row for each test, combination of its variables and repetition, and a column for each provider and
prompt. A *cell* is one of its fields: one prompt, filled with the variables of one test, sent to one provider. Rows and columns
are numbered as promptfoo 0.123 numbers them: `test_index` counts tests × combinations × repetitions, `prompt_index` counts
columns, provider by provider.

Everything that a file may leave out is filled in here: `defaultTest` and scenarios are merged into the tests, files are read,
and the variables of a cell are plain values. What is rendered late (prompts with `_conversation` or a stored output) is still a
template.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from headway.config.settings import ProviderConfig

#: How a prompt is sent: as one user message, or as the messages that its JSON or YAML text is.
PromptForm = Literal["text", "chat"]
#: The language of code in a configuration. Python runs in a worker process, JavaScript in node.
CodeLanguage = Literal["javascript", "python"]
#: What a provider is asked for: an answer to messages, a response of OpenAI's Responses API, or embeddings of texts.
EvalEndpoint = Literal["chat", "responses", "embeddings"]

#: `max_concurrency` where the file sets none: the lanes decide.
BY_LANES: Final = 0


class Code(msgspec.Struct, frozen=True, omit_defaults=True):
    """Code of a configuration: a file with a function in it, or an expression or a function body in the file itself."""

    language: CodeLanguage
    #: The file; None for inline code, which is `source`.
    file: Path | None = None
    function: str = ""
    source: str = ""


class PromptSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt template. `raw` is its text as promptfoo shows it; `label` names it in reports."""

    raw: str
    label: str
    id: str = ""
    form: PromptForm = "text"
    #: Where its text is from; None: written in the configuration.
    file: Path | None = None
    #: Options that go with every request of this prompt (`config` of a prompt), and texts around it.
    config: dict[str, Any] = {}
    prefix: str = ""
    suffix: str = ""
    line: int = 0


class EvalProvider(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A provider of the matrix, or a grader. `id` and `label` are as the configuration writes them.

    `provider` and `model` name the target. `brings` is the table of a provider that the id itself describes (`openai:gpt-4o`,
    `exec:…`); None: `provider` is a table of headway.toml.
    """

    id: str
    label: str = ""
    provider: str
    model: str
    brings: ProviderConfig | None = None
    endpoint: EvalEndpoint = "chat"
    #: Parameters of its requests: temperature, max_tokens, tools, response_format, ….
    options: dict[str, Any] = {}
    #: The labels and ids of the prompts that it gets; empty: all.
    prompts: tuple[str, ...] = ()
    transform: Code | None = None
    line: int = 0

    @property
    def name(self) -> str:
        """For people."""
        return self.label or self.id


class AssertionSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One assertion, or a set of them (`assert-set`, whose parts are `children`).

    `type` has no "not-"; that is `negated`. `value` is plain data; templates in it are rendered with the variables of the cell.
    A value that is a file was read, except for code, which is `code`.
    """

    type: str
    negated: bool = False
    value: Any = None
    threshold: float | None = None
    weight: float = 1.0
    metric: str = ""
    code: Code | None = None
    transform: Code | None = None
    #: The grader; None: the one of the test, of the eval, or the default.
    grader: EvalProvider | None = None
    #: A rubric prompt that replaces the built-in one: a text, or the messages of a chat.
    rubric_prompt: str = ""
    config: dict[str, Any] = {}
    children: tuple[AssertionSpec, ...] = ()
    line: int = 0

    @property
    def name(self) -> str:
        """The type as the configuration writes it."""
        return f"not-{self.type}" if self.negated else self.type


class TestSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test with the defaults merged in. `vars`: a list is a dimension of the cross product, anything else is one value."""

    vars: dict[str, Any] = {}
    #: Variables whose value a function computes (`get_var` in Python), by name. They are not in `vars`.
    var_code: dict[str, Code] = {}
    description: str = ""
    asserts: tuple[AssertionSpec, ...] = ()
    threshold: float | None = None
    #: The labels and ids of the providers and prompts that the test is for; empty: all.
    providers: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    prefix: str = ""
    suffix: str = ""
    transform: Code | None = None
    transform_vars: Code | None = None
    grader: EvalProvider | None = None
    rubric_prompt: str = ""
    #: Further request parameters of `options`.
    options: dict[str, Any] = {}
    runs_serially: bool = False
    #: Repetitions of this test; 0: those of the eval.
    repeat: int = 0
    store_output_as: str = ""
    line: int = 0

    @property
    def conversation_id(self) -> str:
        """The conversation that the test is a turn of; "": one for each provider and prompt."""
        return str(self.metadata.get("conversationId") or "")


class EvalSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checked eval."""

    path: Path
    description: str = ""
    tags: dict[str, str] = {}
    prompts: tuple[PromptSpec, ...]
    providers: tuple[EvalProvider, ...]
    tests: tuple[TestSpec, ...]
    #: The grader of assertions that name none, and the model of embeddings; None: the default.
    grader: EvalProvider | None = None
    embedder: EvalProvider | None = None
    #: Metrics that are computed from others: name → expression.
    derived_metrics: dict[str, str] = {}
    repeat: int = 1
    #: A cap on all lanes together.
    max_concurrency: int = BY_LANES
    delay_s: float = 0.0
    cached: bool = True
    timeout_s: float = 0.0
    max_duration_s: float = 0.0
    #: Variables of templates (`{{env.NAME}}`) and of graders; never keys.
    env: dict[str, str] = {}
    #: Output files of the configuration (`outputPath`).
    outputs: tuple[str, ...] = ()
    #: The configuration as it was read, for reports. Keys in it are blotted out.
    config: dict[str, Any] = {}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the matrix. `test`, `provider` and `prompt` are positions in the eval's lists."""

    index: int
    test_index: int
    prompt_index: int
    test: int
    provider: int
    prompt: int
    repetition: int = 0
    vars: dict[str, Any] = {}
