"""Runs from start to end through the blocking client, against a real sidecar."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from conftest import SELF_CORRECTING
from pawl_client import (
    Client,
    Ended,
    Execution,
    FailTurnError,
    Fault,
    Message,
    NotFoundError,
    OutputPiece,
    Part,
    PawlError,
    Record,
    RecordKind,
    Reply,
    RunFilter,
    RunStatus,
    RunTerminalError,
    StateError,
    StepCall,
    Transition,
    Turn,
    TurnRef,
    UnknownEventError,
    Usage,
)
from pawl_client._convert import from_proto
from pawl_client._turn_requests import output_request
from pawl_client.testing import Script, Sidecar
from scripted import Says, Scripted
from workers import WAIT


def test_completes_after_a_correction(client: Client) -> None:
    script = Script(
        {
            "work": [
                Reply(event="Error", artifacts={"error_summary": "E1: no such file"}),
                Reply(event="Success"),
            ],
            "complete": [Reply(output=["all", {"ok": True}], usage=Usage(output_tokens=7))],
        }
    )
    result = client.run("self-correcting", script, input="go", labels={"k": "v"})
    assert result.status is RunStatus.COMPLETED
    assert result.artifacts == {"error_summary": "E1: no such file"}
    assert result.output[0].text == "all"
    assert result.run.visits == {"work": 2, "complete": 1}
    assert result.run.tokens == 7
    assert result.errors == ()
    first, second, last = script.turns
    assert (first.state, first.visit, second.visit, last.terminal) == ("work", 1, 2, True)
    assert first.allowed_events == ("Error", "Success")
    assert first.messages == (Message.of("user", "go"),)
    assert "E1: no such file" in second.system_prompt


def test_forced_exit(client: Client) -> None:
    script = Script({"work": [Reply(event="Error")], "give_up": [None]})
    result = client.run("self-correcting", script)
    records = list(client.attach(result.run.run_id).transitions())
    assert [r.kind for r in records] == [RecordKind.TRANSITION] * 4 + [RecordKind.ENDED]
    bodies = [r.body for r in records if isinstance(r.body, Transition)]
    assert [b.to_state for b in bodies] == ["work", "work", "work", "give_up"]
    assert bodies[-1].intended_state == "work"
    assert [(r.state, r.guard) for r in bodies[-1].redirects] == [("work", "max_visits:work")]
    assert isinstance(records[-1].body, Ended)
    assert records[-1].body.status is RunStatus.COMPLETED
    assert [r.prev_seq for r in records[1:]] == [r.seq for r in records[:-1]]


def test_a_handler_per_prompt(client: Client) -> None:
    def worker(turn: Turn) -> Reply:
        return Reply() if turn.terminal else Reply(event="Success")

    assert client.run("self-correcting", {"worker": worker}).status is RunStatus.COMPLETED
    run = client.open("self-correcting")
    with pytest.raises(FailTurnError, match="no handler for prompt 'worker'; there are"):
        run.drive({"other": worker})
    assert run.drive({"worker": worker}).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    "bad",
    [
        ValueError("boom"),
        Reply(event="Done", artifacts={"log": "x" * 70_000}),
        Reply(event="Done", artifacts={"log": "x" * 10_000_000}),
    ],
    ids=["raises", "too large", "10 MB"],
)
def test_a_bad_handler_is_told_and_the_turn_is_retried(client: Client, bad: Reply) -> None:
    script = Script({"calc": [bad, Reply(event="Done", artifacts={"sum": 3})], "end": [None]})
    result = client.run("steps", script, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert result.artifacts["sum"] == 3
    assert len(result.errors) == 1
    assert [turn.attempt for turn in script.turns] == [1, 2, 1]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Reply(event="NotDeclared"), "UNKNOWN_EVENT"),
        (Reply(event="Done", artifacts={"nowhere": "x"}), "UNDECLARED_ARTIFACT"),
        (Reply(event="Done", artifacts={"log": b"bytes in a text artifact"}), "ARTIFACT_TYPE"),
        (Reply(event="Done", artifacts={"sum": object()}), "INVALID_JSON"),
    ],
)
def test_a_reply_that_the_pack_does_not_know_is_raised(
    client: Client, bad: Reply, reason: str
) -> None:
    """The error is raised at once: another attempt would not fix the program, so none is used
    up."""
    run = client.open("steps", variables={"n": 1})
    with pytest.raises(PawlError) as caught:
        run.drive(Script({"calc": [bad]}))
    assert caught.value.reason == reason
    script = Script({"calc": [Reply(event="Done", artifacts={"sum": 3})], "end": [None]})
    assert run.drive(script).status is RunStatus.COMPLETED
    assert [turn.attempt for turn in script.turns] == [1, 1]


def test_attempts_are_used_up(client: Client) -> None:
    result = client.run("steps", Script({"calc": [ValueError("no")]}), variables={"n": 1})
    assert (result.status, result.reason) == (RunStatus.ESCALATED, "turn_failed")
    assert [str(error) for error in result.errors] == ["no", "no"]


def test_a_failure_that_is_not_to_be_retried(client: Client) -> None:
    script = Script({"calc": [FailTurnError("NO_QUOTA", "tomorrow", retryable=False)]})
    result = client.run("steps", script, variables={"n": 1})
    assert (result.status, result.reason) == (RunStatus.FAILED, "turn_failed")


def test_the_calls_one_by_one(client: Client) -> None:
    run = client.open("steps", variables={"n": 1}, labels={"one": "by-one"})
    turn = run.turn()
    asked = run.request_steps(turn.turn, [StepCall("add", {"a": 1, "b": 2})])
    step = asked.outcomes[0].step
    assert step is not None
    assert step.payload == {"a": 1, "b": 2}
    answer = run.resolve_step(step.step, "add", 3, attempt=step.attempt, token=turn.turn.token)
    assert answer.disposition == "ACCEPTED"
    again = run.resolve_step(step.step, "add", 3, attempt=step.attempt, token=turn.turn.token)
    assert again.disposition == "IGNORED_DUPLICATE"
    assert run.turn().steps[0].result == 3
    token = run.turn().turn.token
    run.set_artifacts({"log": "a"}, turn_token=token)
    run.set_artifacts({"log": "b"}, turn_token=token)
    assert run.artifacts() == {"log": "a\nb"}
    failed = run.fail(run.turn().turn, Fault(code="X"))
    assert failed.record is not None
    assert failed.record.kind is RecordKind.TURN_FAILED
    assert run.wait(until="TERMINAL", timeout=0.01).timed_out
    moved = run.emit("Ask", turn_token=run.turn().turn.token)
    assert (moved.state, moved.status) == ("ask", RunStatus.WAITING)
    assert run.wait(until="WAITING").run.state == "ask"
    with pytest.raises(UnknownEventError) as caught:
        run.emit("Maybe")
    assert caught.value.allowed == ("No", "Yes")
    run.pause("lunch")
    run.resume()
    assert run.emit("Yes").state == "end"
    assert run.cancel("enough").status is RunStatus.CANCELLED
    with pytest.raises(RunTerminalError):
        run.send_input("late")
    assert run.info(at_seq=1).state == "calc"
    kinds = [record.kind for record in run.records(kinds=["PAUSED", "ENDED"], page_size=1)]
    assert kinds == [RecordKind.PAUSED, RecordKind.ENDED]
    listed = list(client.list_runs(RunFilter(labels={"one": "by-one"}), page_size=1))
    assert [info.run_id for info in listed] == [run.id]
    assert listed[0].execution is Execution.CALLER


def test_an_id_of_the_callers_own(client: Client) -> None:
    first = client.open("steps", variables={"n": 1}, request_id="mine-1")
    assert client.open("steps", variables={"n": 1}, request_id="mine-1").id == first.id
    assert client.open("steps", variables={"n": 1}).id != first.id
    turn = first.turn().turn
    one = first.emit("Again", event_id="e1", turn_token=turn.token)
    two = first.emit("Again", event_id="e1", turn_token=turn.token)
    assert (one.duplicate, two.duplicate) == (False, True)
    assert one.transition == two.transition


def test_what_a_start_answers(client: Client) -> None:
    run = client.open("steps", variables={"n": 1}, request_id="started-1")
    assert run.started is not None
    assert run.started.record is not None
    assert run.started.turn is not None
    assert (run.started.run.run_id, run.started.duplicate) == (run.id, False)
    assert (run.started.record.seq, run.started.turn.state) == (1, "calc")
    again = client.open("steps", variables={"n": 1}, request_id="started-1")
    assert again.started is not None
    assert again.started.duplicate
    assert client.attach(run.id).started is None


def test_the_variables_of_a_run(client: Client) -> None:
    run = client.open("steps", variables={"n": 1})
    assert run.variables() == {"n": 1}
    assert run.snapshot().variables is None
    snapshot = run.snapshot(include_variables=True)
    assert (snapshot.variables, snapshot.run.run_id) == ({"n": 1}, run.id)


def bounded(client: Client) -> str:
    """A pack with budgets; its id."""
    pack: dict[str, Any] = json.loads(SELF_CORRECTING.read_text())
    pack["id"] = "budgeted"
    pack["workflow"]["engine"] = {
        "budget": {"max_total_visits": 10, "max_wall_time_sec": 300},
        "x_pawl": {"max_steps": 5},
    }
    return client.register_pack(json.dumps(pack)).pack.id


def test_what_a_run_was_started_for_and_what_bounds_it(client: Client) -> None:
    own = f"for-{time.time_ns()}"
    run = client.open(bounded(client), input="ship it", request_id=own, max_steps=3)
    told = run.snapshot(include_variables=True)
    assert (told.goal, told.request_id) == ("ship it", own)
    assert told.budgets is not None
    assert (told.budgets.max_steps, told.budgets.max_tokens) == (3, 0)
    assert told.budgets.max_wall_time == timedelta(seconds=300)
    assert run.snapshot().goal == ""


def test_what_is_left_of_the_budgets(client: Client) -> None:
    run = client.open(bounded(client), max_steps=3)
    turn = run.turn()
    left = turn.remaining
    assert left is not None
    assert (left.steps, left.visits, left.tokens) == (3, 9, None)
    assert left.wall_time is not None
    assert timedelta(0) < left.wall_time <= timedelta(seconds=300)
    run.emit("Error", turn_token=turn.turn.token)
    again = run.turn().remaining
    assert again is not None
    assert again.visits == 8


def test_why_a_pack_is_bounded(client: Client) -> None:
    bounded = client.get_pack("self-correcting").termination
    assert bounded is not None
    assert bounded.bounded
    assert "max_visits" in bounded.bounded_by
    loose = client.get_pack("steps").termination
    assert loose is not None
    assert (loose.bounded, loose.bounded_by) == (False, ())
    assert "max_transitions" in loose.also_limited_by
    assert [edge.event for edge in loose.cycle]


def test_a_turn_is_shown_without_taking_it(client: Client) -> None:
    run = client.open("steps", variables={"n": 1})
    turn = run.turn()
    shown = run.show_turn(turn.turn.turn_seq)
    assert (shown.system_prompt, shown.prompt, shown.turn.token) == ("Add 1.", "calc", "")
    run.emit("Done", turn_token=turn.turn.token)  # The token of the turn is still valid.
    assert run.show_turn(turn.turn.turn_seq).turn.state == "calc"
    with pytest.raises(NotFoundError):
        run.show_turn(99)


def test_a_piece_of_output_reads_back_as_it_was_sent() -> None:
    turn = TurnRef(run_id="r", turn_seq=1, state="s", visit=1, attempt=2, token="t")
    piece = OutputPiece(id="a", name="A", parts=(Part(text="x"),), metadata={"k": 1}, last=True)
    request = output_request("", turn, piece, "")
    assert (request.turn_seq, request.attempt, request.turn_token) == (1, 2, "t")
    assert request.request_id
    assert from_proto(request.piece) == piece


def test_counts_and_the_caller(client: Client) -> None:
    before = client.count_runs()
    assert set(before) == set(list(RunStatus)[1:])
    client.open("steps", variables={"n": 1}).cancel()
    assert client.count_runs()[RunStatus.CANCELLED] == before[RunStatus.CANCELLED] + 1
    caller = client.caller()
    assert caller.principal == "anonymous"
    assert "runs:write" in caller.scopes


def test_filters_of_lists(client: Client) -> None:
    run = client.open("steps", variables={"n": 1}, labels={"filters": "yes"})
    run.cancel()
    made = run.info().created_at

    def found(**given: Any) -> list[str]:
        return [i.run_id for i in client.list_runs(RunFilter(labels={"filters": "yes"}, **given))]

    assert found(reason="cancelled", created_after=made) == [run.id]
    assert found(reason="completed") == []
    assert found(created_before=made) == []
    with pytest.raises(ValueError, match="a time must have a time zone"):
        found(created_after=datetime(2026, 1, 1))


def test_from_now_on(client: Client) -> None:
    client.open("self-correcting").cancel()
    watch = client.transitions(RunFilter(labels={"from": "now"}), from_now=True, kinds=["ENDED"])
    seen: list[Record] = []
    first = threading.Thread(target=lambda: seen.append(next(watch)), daemon=True)
    first.start()
    # Runs end until the stream has begun. It may begin after any of them.
    while first.is_alive():
        client.open("steps", variables={"n": 1}, labels={"from": "now"}).cancel()
        first.join(timeout=0.05)
    assert seen[0].kind is RecordKind.ENDED
    watch.close()  # type: ignore[attr-defined]


def test_driving_goes_on_after_the_outside_moved_it(client: Client) -> None:
    script = Script({"calc": [Reply(event="Ask")], "end": [Reply(output="ok")]})
    result = client.run("steps", script, variables={"n": 1})
    run = client.attach(result.run.run_id)
    assert (result.status, result.run.state) == (RunStatus.WAITING, "ask")
    assert run.drive(script).status is RunStatus.WAITING
    run.emit("Yes")
    assert run.drive(script).status is RunStatus.COMPLETED


def test_a_coroutine_function_is_refused(client: Client) -> None:
    async def handler(turn: Turn) -> Reply:
        return Reply(event="Done")

    with pytest.raises(TypeError, match="a coroutine function needs AsyncClient or Worker"):
        client.run("steps", handler, variables={"n": 1})  # type: ignore[arg-type]


def test_an_error_about_another_run_fails_the_turn(client: Client) -> None:
    """An error from a call about another run does not look like a lost turn: it fails the
    attempt."""
    over = client.open("steps", variables={"n": 1})
    over.cancel()
    own = client.open("steps", variables={"n": 1})
    asked: list[Callable[[], object]] = [lambda: over.emit("Done"), own.turn]

    def handler(turn: Turn) -> Reply:
        if asked:
            asked.pop(0)()
        return Reply() if turn.terminal else Reply(event="Done")

    result = own.drive(handler)
    assert result.status is RunStatus.ESCALATED
    assert [getattr(error, "reason", "") for error in result.errors] == [
        "RUN_TERMINAL",
        "TURN_LEASED",
    ]


ANSWER = {
    "id": "answer",
    "name": "Answer",
    "version": "1.0.0",
    "template_engine": {"version": "v1", "syntax": "{{variable}}"},
    "prompts": {
        "say": {"id": "say", "name": "Say", "version": "1.0.0", "system_template": "Say it."}
    },
    "workflow": {
        "version": 2,
        "entry": "say",
        "states": {"say": {"prompt_task": "say", "terminal": True}},
    },
}


def test_a_run_that_the_sidecar_executes(client: Client) -> None:
    with pytest.raises(StateError, match="NO_MODELS"):
        client.start("steps", variables={"n": 1}, execution="SIDECAR")
    with pytest.raises(
        ValueError, match='execution: must be "WORKERS" or "SIDECAR", not \'CALLER\''
    ):
        client.start("steps", variables={"n": 1}, execution="CALLER")
    with (
        Scripted(Says("All done.")) as model,
        Sidecar(flags=[f"--model=gpt={model.url}#gpt-5-mini"]) as own,
        own.client() as other,
    ):
        other.register_pack(json.dumps(ANSWER).encode(), filename="answer.json")
        run = other.start("answer", input="Say it.", execution=Execution.SIDECAR)
        assert run.wait(timeout=WAIT).run.status is RunStatus.COMPLETED
        result = run.result()
    assert (result.output[0].text, result.run.execution) == ("All done.", "SIDECAR")
    assert len(model.requests) == 1


def test_a_sidecar_finishes_and_starts_again(sidecar: Sidecar) -> None:
    with Sidecar(packs=[]) as own:
        before = own.address
        assert own.stop() == 0
        own.start()
        assert own.address == before
        with own.client() as client:
            assert list(client.list_packs()) == []
