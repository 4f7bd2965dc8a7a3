"""`pawl codegen`: what it writes is right, and a misspelt name is an error of mypy."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "internal/codegen/testdata"
EXAMPLE = ROOT / "examples/evaluator-optimizer/evaluator_optimizer.py"
PACKS = sorted((ROOT / "testdata/packs").iterdir())
AWKWARD = GOLDEN / "awkward.pack.yaml"

RIGHT = """
import asyncio

import pawl_client
import agentic_loop as loop
import awkward
import evaluator_optimizer as evaluator


def act(turn: loop.ActorTurn) -> loop.ActorReply:
    page = turn.step("fetch", {"url": turn.variables["tone"].upper()}, timeout=3)
    turn.step("critique", {"page": page["page"]}, key="2")
    turn.set_artifacts({"memory": "read"})
    if page:
        return pawl_client.Reply(event="Acted", artifacts={"plan": "b", "page": {"a": 1}})
    return loop.ActorReply(event="Acted")


def report(turn: loop.ReporterTurn) -> loop.ReporterReply | None:
    return loop.ReporterReply(output=turn.variables.get("tone"))


async def judge(turn: evaluator.AsyncJudgeTurn) -> evaluator.JudgeReply:
    answers = await asyncio.gather(
        turn.step("accepts", {"message": "x"}), turn.step("rejects", {"message": "x"})
    )
    passed = all(answer["output"] for answer in answers)
    return evaluator.JudgeReply(event="Accepted" if passed else "Retry")


def any_turn(turn: loop.Turn) -> loop.Reply:
    turn.step("fetch", {"url": "x"})
    return loop.Reply(event="Done", artifacts={"critique": "x"})


def untyped(turn: pawl_client.Turn) -> pawl_client.Reply:
    turn.step("anything", {"a": 1})
    return pawl_client.Reply(event="Anything", artifacts={"x": turn.variables["y"]})


def use(client: pawl_client.Client, worker: pawl_client.Worker) -> None:
    run: loop.Run = client.start(loop.PACK, variables={"tone": "x"})
    run.emit("Done", artifacts={"plan": "x"})
    run.set_artifacts({"frame": "x"})
    run.artifacts()["plan"].upper()
    run.result().artifacts["plan"].upper()
    run.variables().get("tone")
    given: evaluator.Variables = {"task": "x"}
    result: evaluator.Result = client.run(evaluator.PACK, untyped, variables=given)
    result.artifacts["draft"].upper()
    client.run(loop.PACK, {"actor": act, "reporter": report, "*": any_turn})
    client.run(loop.PACK, act)
    client.run(loop.PACK, lambda turn: pawl_client.Reply(event="Acted"))
    agent: evaluator.AcceptsAgentRun = client.start(
        evaluator.PACK, agent="accepts", variables={"draft": "x"}
    )
    attached: loop.Run = client.attach(agent.id)
    attached.emit("Done")
    loose = client.start("other", variables={"n": 1})
    loose.emit("Any", artifacts={"n": loose.artifacts()["m"]})
    keep(run)
    keep(loose)

    @worker.tool("fetch")
    def fetch(payload: loop.FetchArguments) -> dict[str, str]:
        return {"page": payload["url"]}

    worker.prompt("actor")(act)


def keep(run: pawl_client.Run) -> str:
    return run.id


async def use_async(client: pawl_client.AsyncClient) -> None:
    run: evaluator.AsyncRun = await client.start(evaluator.PACK, variables={"task": "x"})
    await run.emit("Retry", artifacts={"draft": "x"})
    (await run.artifacts())["draft"].upper()
    await client.run(evaluator.PACK, {"judge": judge})


def choose(turn: awkward.ClassTurn) -> awkward.ClassReply:
    turn.step("choose", {"mode": "a", "the-key": None, "either": {"x": 1}, "both": {"a": ""}})
    turn.step("tree", {"root": {"name": "a", "children": [{"name": "b"}]}, "words": [["a"]]})
    turn.step("shapes", {"circle": 1})
    turn.step("free")
    turn.step("free", {"any": 1})
    turn.step("helper", {"message": "x", "variables": {"plain": "x"}})["status"].upper()
    turn.step("été", {"température": 20})
    turn.set_artifacts({"class": "x", "the-list": [1], "picture": b""})
    return awkward.ClassReply(event="Go On!" if turn.variables["from"] else "import")
"""

# Each line with a mark is an error of that kind, and no other line is one.
WRONG = """
import pawl_client
import agentic_loop as loop
import awkward
import evaluator_optimizer as evaluator


def act(turn: loop.ActorTurn) -> loop.ActorReply:
    turn.step("fecth", {"url": "x"})  # call-overload: the tool
    turn.step("fetch", {"ulr": "x"})  # call-overload: its argument
    turn.step("fetch", {"url": "x", "page": "y"})  # call-overload: one too many
    turn.step("fetch", {"url": 1})  # call-overload: of another type
    turn.step("fetch")  # call-overload: missing
    turn.set_artifacts({"memroy": "x"})  # typeddict-unknown-key: the artifact
    turn.set_artifacts({"memory": 1})  # typeddict-item: its type
    turn.variables["tnoe"]  # typeddict-item: the variable
    loop.ActorReply(event="Actde")  # arg-type: the event
    loop.ActorReply(event="Done")  # arg-type: one of another state
    loop.ActorReply(artifacts={"paln": "x"})  # typeddict-unknown-key: the artifact
    if turn.visit:
        return pawl_client.Reply(event="Actde")  # arg-type: the event
    artifacts = {"paln": "x"}
    return pawl_client.Reply(event="Acted", artifacts=artifacts)  # arg-type: the artifact


def frame(turn: loop.FramerTurn) -> loop.FramerReply:
    turn.step("fetch", {"url": "x"})  # call-arg arg-type: not this prompt's
    return loop.FramerReply(event="Framed")


def report(turn: loop.ReporterTurn) -> loop.ReporterReply:
    return loop.ReporterReply(event="Done")  # arg-type: it has none


async def judge(turn: evaluator.AsyncJudgeTurn) -> evaluator.JudgeReply:
    await turn.step("acepts", {"message": "x"})  # call-overload: the agent
    await turn.step("accepts", {"massage": "x"})  # call-overload: its argument
    (await turn.step("accepts", {"message": "x"}))["outptu"]  # typeddict-item: its answer
    return evaluator.JudgeReply(event="Rety")  # arg-type: the event


def use(client: pawl_client.Client) -> None:
    run: loop.Run = client.start(loop.PACK, variables={"tnoe": "x"})  # arg-type: the variable
    run.emit("Dnoe")  # arg-type: the event
    run.emit("Done", artifacts={"paln": "x"})  # arg-type: the artifact
    run.set_artifacts({"frmae": "x"})  # typeddict-unknown-key: the artifact
    run.artifacts()["paln"]  # typeddict-item: the artifact
    run.result().artifacts["paln"]  # typeddict-item: the artifact
    run.variables()["tnoe"]  # typeddict-item: the variable
    one: evaluator.Run = client.start("x", variables={})  # arg-type: it is missing
    two: evaluator.Variables = {"tsak": "x"}  # typeddict-unknown-key typeddict-item: the variable
    evaluator.Variables(task=1)  # typeddict-item: of another type


def fetch(payload: loop.FetchArguments) -> str:
    return payload["ulr"]  # typeddict-item: the argument


def choose(turn: awkward.ClassTurn) -> None:
    turn.step("choose", {"mode": "b", "the-key": None})  # call-overload: none of the values
    turn.step("choose", {"mode": "a"})  # call-overload: missing
    turn.step("tree", {"root": {"name": "a", "children": [{"mane": "b"}]}})  # call-overload: deep
    turn.step("shapes", {"cirlce": 1})  # call-overload: in a choice
    turn.step("blocked")  # call-overload: the prompt's blocklist names it
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the modules of the examples' packs, and of the awkward one."""
    directory = tmp_path_factory.mktemp("modules")
    for golden in (*GOLDEN.glob("*.py"), EXAMPLE):
        (directory / golden.name).write_bytes(golden.read_bytes())
    return directory


def checked(directory: Path, *paths: Path) -> tuple[str, int]:
    """What mypy says of some files, and its exit code."""
    flags = ["--strict", "--no-error-summary", "--python-version=3.10", "--config-file="]
    cache = f"--cache-dir={ROOT / 'clients/python/.mypy_cache/codegen'}"
    out, error, code = api.run([*flags, cache, *map(str, (*directory.glob("*.py"), *paths))])
    assert not error
    return out, code


def written(pack: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """What the command `pawl` of this package does."""
    command = [str(Path(sys.executable).with_name("pawl")), "codegen", *flags, str(pack)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_right_use_passes_and_each_misspelling_fails(modules: Path, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text(WRONG)
    out, _ = checked(modules, right, wrong)
    lines = WRONG.splitlines()
    expected = {}
    for number, line in enumerate(lines, 1):
        mark = re.search(r"  # ([a-z -]+): ", line)
        if mark:
            expected[number] = set(mark[1].split())
    found: dict[int, set[str]] = {}
    for line in out.splitlines():
        match = re.fullmatch(r".*wrong\.py:(\d+): error: .*\[([a-z-]+)\]", line)
        assert match or (" note: " in line and "wrong.py" in line), line
        if match:
            found.setdefault(int(match[1]), set()).add(match[2])
    assert set(found) == set(expected), out
    assert {n: codes for n, codes in found.items() if not codes & expected[n]} == {}, out


def test_each_pack_is_written_and_passes(tmp_path: Path) -> None:
    for pack in [*PACKS, AWKWARD]:
        name = re.sub(r"\W", "_", pack.name)
        done = written(pack, f"--out={tmp_path / name}.py")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert checked(tmp_path) == ("", 0)
    for path in tmp_path.glob("*.py"):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.Reply(artifacts={"a": 1}).artifacts == {"a": 1}


def test_the_command_tells_what_the_sidecar_does(tmp_path: Path) -> None:
    out = tmp_path / "types.py"
    assert written(AWKWARD, f"--out={out}").returncode == 0
    assert out.read_bytes() == (GOLDEN / "awkward.py").read_bytes()
    assert written(AWKWARD, f"--out={out}", "--check").returncode == 0
    out.write_text("# changed\n")
    stale = written(AWKWARD, f"--out={out}", "--check")
    assert (stale.returncode, stale.stdout) == (1, "")
    assert "not up to date" in stale.stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("id: bad\n")
    refused = written(bad)
    assert refused.returncode == 1
    assert "bad.yaml:1:1: error" in refused.stderr


def test_without_a_sidecar_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAWL_SIDECAR", "/nowhere/sidecar")
    done = written(AWKWARD)
    assert done.returncode == 1
    assert done.stderr == (
        "pawl: PAWL_SIDECAR=/nowhere/sidecar is no executable file; "
        "set it to the sidecar's program\n"
    )
