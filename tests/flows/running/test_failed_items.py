"""Items of a pipeline that failed, after later steps or items have used what the others wrote: they stay failed in their job."""

from __future__ import annotations

from tests.flows.running.conftest import FlowFolder
from tests.flows.running.memory_run import BAD, Good, MemoryRun, flow, node, pipeline

from headway.flows.spec import AUTO, Dependency, FlowSpec, StateField

TOOLS = """
def note(given):
    with open("calls.txt", "a") as file:
        file.write(f"{given['node']}#{given['index']}\\n")

def add(given):
    note(given)
    if given["item"] == 2 and not given["state"]["works"]:
        raise ValueError("no two")
    return given["item"] + 10

def total(given):
    note(given)
    return sum(given["state"]["found"])
"""
STATE = (
    "  schema: {works: {type: boolean}, found: {type: array, merge: array_append}, sum: {type: integer}}\n"
)
ADD = "  - {id: add, kind: tool, impl: './tools/sums.py:add', reads: [works], writes: [found]}\n"
TOTAL = "  - {id: total, kind: tool, impl: './tools/sums.py:total', reads: [found], writes: [sum]}\n"
PIPELINE = "  - {id: each, items: [1, 2, 3], stages: [add], concurrency: auto}\n"


def items(*after: str | Dependency) -> FlowSpec:
    return flow(
        node("first", group="p"),
        node("end", *after, reads=("first_out",)),
        pipelines=pipeline("p", "first", concurrency=AUTO),
    )


def after_one_failure(spec: FlowSpec, *, end: bool = True) -> MemoryRun:
    run = MemoryRun(spec, {"xs": [1, 2]})
    run.advance()
    run.advance({"first#0": Good(1), "first#1": BAD})
    if end:
        run.advance({"end": Good()})
    return run


def test_an_item_stays_failed_once_a_later_step_has_read_what_the_others_wrote() -> None:
    run = after_one_failure(items(Dependency(id="p", fields=("first_out",))))
    assert (run.run.status, run.run.stays_ended("first#1")) == ("partial", True)


def test_also_if_that_step_is_in_flight() -> None:
    run = after_one_failure(items(Dependency(id="p", fields=("first_out",))), end=False)
    assert run.run.stays_ended("first#1")


def test_a_step_that_only_comes_later_has_seen_nothing() -> None:
    run = after_one_failure(items("p"))
    assert not run.run.stays_ended("first#1")


def test_an_item_stays_failed_once_the_next_one_has_a_field_without_it() -> None:
    glossary = node("terms", reads=("gloss",), writes=("gloss",), group="p")
    spec = flow(glossary, pipelines=pipeline("p", "terms"), fields={"gloss": StateField(name="gloss")})
    run = MemoryRun(spec, {"xs": [1, 2, 3], "gloss": []})
    run.advance()
    run.advance({"terms#0": Good([1])})
    run.advance({"terms#1": BAD})
    assert run.run.stays_ended("terms#1")
    run.advance({"terms#2": BAD})
    assert not run.run.stays_ended("terms#2")


def failing(folder: FlowFolder, nodes: str) -> None:
    folder.write("tools/sums.py", TOOLS)
    folder.flow(nodes, pipelines=PIPELINE, state=STATE)
    assert folder.headway("run", "flow.yaml", "--arg", "works=false").code == 1


def fix(folder: FlowFolder) -> None:
    folder.write("tools/sums.py", TOOLS.replace('not given["state"]["works"]', "False"))


def test_a_retry_never_leaves_a_result_of_fewer_items(folder: FlowFolder) -> None:
    failing(folder, ADD + TOTAL)
    fix(folder)
    for command in (("retry", "--failed"), ("resume",)):
        done = folder.headway(*command)
        results = folder.results()
        assert (done.code, results["status"]) == (1, "partial")
        assert (results["state"]["found"], results["state"]["sum"]) == ([11, 13], 24)
    assert folder.calls() == ["add#0", "add#1", "add#2", "total#None"]
    assert "later nodes have used what the others wrote" in done.err
    assert "'headway run flow.yaml' with the same inputs runs it again in a new job" in done.err


def test_the_same_command_runs_it_in_a_new_job_with_what_follows(folder: FlowFolder) -> None:
    failing(folder, ADD + TOTAL)
    done = folder.headway("run", "flow.yaml", "--arg", "works=false")
    assert done.code == 1
    assert folder.new_calls(4) == ["add#1"]
    assert "runs again: add: 1 unit failed before" in done.err
    assert "runs again: total: it reads found of add, which runs again" in done.err


def test_the_new_job_calls_what_follows_once_the_item_succeeds(folder: FlowFolder) -> None:
    failing(folder, ADD + TOTAL)
    folder.write(
        "tools/sums.py", TOOLS.replace('if given["item"] == 2', 'if len(open("calls.txt").readlines()) < 5')
    )
    folder.headway("run", "flow.yaml", "--arg", "works=false")
    assert folder.latest()["state"]["sum"] == 36


def test_a_failed_item_that_nothing_has_used_is_retried_in_its_job(folder: FlowFolder) -> None:
    failing(folder, ADD)
    fix(folder)
    assert folder.headway("retry", "--failed").code == 0
    assert folder.results()["state"]["found"] == [11, 12, 13]
    assert folder.calls() == ["add#0", "add#1", "add#1", "add#2"]


def test_a_rejected_item_that_others_have_built_upon_is_asked_again_in_a_new_job(folder: FlowFolder) -> None:
    folder.write("tools/sums.py", TOOLS)
    folder.flow(
        "  - {id: ask, kind: human, writes: [found]}\n" + TOTAL,
        pipelines="  - {id: each, items: [1, 2], stages: [ask], concurrency: auto}\n",
        state=STATE,
    )
    assert folder.headway("run", "flow.yaml").code == 4
    folder.headway("approve", "ask#0", "--answer", "5")
    folder.headway("approve", "ask#1", "--reject", "--note", "not good")
    done = folder.headway("resume")
    assert (done.code, folder.results()["state"]["sum"]) == (1, 5)
    assert "ask was rejected: not good, and later nodes have used what the others wrote" in done.err
    assert "'headway run flow.yaml --from ask' asks again in a new job" in done.err
    again = folder.headway("run", "flow.yaml", "--from", "ask")
    assert "ask#0, ask#1 wait for an approval" in again.err
