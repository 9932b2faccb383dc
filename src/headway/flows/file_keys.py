"""Every key of a flow file. The reader and the JSON Schema for editors both come from these tables."""

from __future__ import annotations

from typing import Final

from headway.flows.spec import BACKOFFS, ERROR_POLICIES, FIELD_TYPES, MERGES, NODE_KINDS
from headway.flows.value_kinds import (
    AnyJson,
    ChoiceValue,
    ConcurrencyValue,
    ConditionValue,
    DollarValue,
    DurationValue,
    FileKey,
    JsonObject,
    ListOf,
    MappingValue,
    NamedMappings,
    NamesValue,
    NameValue,
    SchemaValue,
    SourceValue,
    SwitchValue,
    TextValue,
    ToleranceValue,
    WholeNumber,
)

FIELD: Final = MappingValue(
    {
        "type": FileKey(ChoiceValue(FIELD_TYPES), "The type of the value; any by default."),
        "merge": FileKey(
            ChoiceValue(MERGES),
            "How a write joins the value that is there; array_append if a for_each node writes it, otherwise last_wins.",
        ),
        "default": FileKey(AnyJson(), "The value before anything is written."),
        "schema": FileKey(SchemaValue(), "A JSON Schema of the value, or a file with one."),
        "description": FileKey(TextValue(), "What the field is for."),
    },
    short="type",
)
FOR_EACH: Final = MappingValue(
    {
        "source": FileKey(SourceValue(), "The list: '$.issues', or the items themselves.", required=True),
        "concurrency": FileKey(ConcurrencyValue(), "Iterations at a time; 1 by default."),
        "max_failures": FileKey(
            ToleranceValue(), "Iterations that may fail: a number or a percentage; 0 by default."
        ),
    },
    short="source",
)
ON_ERROR: Final = MappingValue(
    {
        "policy": FileKey(
            ChoiceValue(ERROR_POLICIES), "What a failure means; skip by default.", required=True
        ),
        "attempts": FileKey(WholeNumber(1, 100), "Attempts of a unit, instead of the lane's."),
        "backoff": FileKey(ChoiceValue(BACKOFFS), "How the wait grows; exponential by default."),
        "base_ms": FileKey(
            WholeNumber(0, 3_600_000), "The first wait in milliseconds, instead of the lane's."
        ),
    },
    short="policy",
)
NODE: Final = MappingValue(
    {
        "id": FileKey(NameValue(), "The name of the node, unique in the flow.", required=True),
        "kind": FileKey(ChoiceValue(NODE_KINDS), "What the node does.", required=True),
        "description": FileKey(TextValue(), "What the node is for."),
        "prompt": FileKey(TextValue(), "The file of the prompt (agent, human)."),
        "impl": FileKey(TextValue(), "'./tools/fetch.py:main', or an executable (tool)."),
        "file": FileKey(TextValue(), "The file of rows (dataset), or another flow (flow)."),
        "model": FileKey(TextValue(), "The model (agent)."),
        "provider": FileKey(TextValue(), "The provider of headway.toml (agent)."),
        "reads": FileKey(NamesValue(), "Fields of the state that the node is given."),
        "writes": FileKey(NamesValue(), "Fields of the state that its answer is written to."),
        "args": FileKey(JsonObject(), "Constant arguments."),
        "for_each": FileKey(
            FOR_EACH, "One iteration for each item of a list: source, concurrency, max_failures."
        ),
        "on_error": FileKey(ON_ERROR, "What a failure means: policy, attempts, backoff, base_ms."),
        "timeout": FileKey(DurationValue(), "The longest time of one attempt."),
        "when": FileKey(ConditionValue(), "The node is skipped if this is false."),
        "cache": FileKey(SwitchValue(), "Whether known answers are used; by default only for agents."),
        "schema": FileKey(SchemaValue(), "A JSON Schema of the answers, or a file with one."),
    }
)
EDGE: Final = MappingValue(
    {
        "from": FileKey(NameValue(), "The step that comes first.", required=True),
        "to": FileKey(NameValue(), "The step that waits for it.", required=True),
        "when": FileKey(ConditionValue(), "The second step is skipped if this is false."),
    }
)
PIPELINE: Final = MappingValue(
    {
        "id": FileKey(NameValue(), "The name of the pipeline, unique in the flow."),
        "items": FileKey(SourceValue(), "The list: '$.chapters', or the items themselves.", required=True),
        "stages": FileKey(NamesValue(), "Nodes that every item goes through, in order.", required=True),
        "concurrency": FileKey(ConcurrencyValue(), "Items at a time; 1 by default."),
    }
)
LOOP: Final = MappingValue(
    {
        "id": FileKey(NameValue(), "The name of the loop, unique in the flow."),
        "body": FileKey(NamesValue(), "Nodes of one iteration, in order.", required=True),
        "until": FileKey(
            ConditionValue(), "The loop ends when this is true; evaluated before each iteration."
        ),
        "max_iters": FileKey(WholeNumber(1, 1_000_000), "The most iterations; 100 by default."),
        "budget": FileKey(DollarValue(), "In USD: no iteration starts once the loop has spent this."),
    }
)
GRAPH: Final = MappingValue(
    {
        "nodes": FileKey(ListOf(NODE), "The nodes.", required=True),
        "edges": FileKey(ListOf(EDGE), "Order beyond what reads and writes imply."),
        "pipelines": FileKey(ListOf(PIPELINE), "Lists of items that go through several nodes."),
        "loops": FileKey(ListOf(LOOP), "Nodes that repeat."),
    }
)
FLOW: Final = MappingValue(
    {
        "name": FileKey(TextValue(), "The name of the flow; by default that of the file."),
        "version": FileKey(AnyJson(), "For people; not used."),
        "description": FileKey(TextValue(), "What the flow is for."),
        "runtime": FileKey(
            MappingValue({"concurrency": FileKey(ConcurrencyValue(), "Nodes at a time; 1 by default.")}),
            "How it runs: concurrency, the nodes at a time (1 by default, or auto).",
        ),
        "state": FileKey(
            MappingValue(
                {"schema": FileKey(NamedMappings(FIELD), "The fields of the state.", required=True)}
            ),
            "The state; without it, fields are what nodes read and write.",
        ),
        "graph": FileKey(GRAPH, "The graph.", required=True),
    }
)
