"""Calls of models as scenarios have them, and the rounds that handlers make."""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from canon import canon
from lines import event
from loops import ready

import pawl_client

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Host:
    """What rounds need of the player: to hold, to wait, to come to a point, to write down."""

    hold: Callable[[str], Awaitable[None]]
    pause: Callable[[float], Awaitable[None]]
    at: Callable[[str], Awaitable[None]]
    enter: Callable[..., None]


def usage(given: Fields | None) -> pawl_client.Usage | None:
    """What was consumed."""
    return pawl_client.Usage(**given) if given else None


def asked(given: Fields) -> pawl_client.ModelRequest:
    """What a model is asked."""
    messages = tuple(_message(item) for item in given.get("messages", ()))
    return pawl_client.ModelRequest(**{**given, "messages": messages})


def _message(given: Fields) -> pawl_client.ModelMessage:
    if "conversation" in given:
        return pawl_client.ModelMessage(
            conversation=pawl_client.ConversationRange(**given["conversation"])
        )
    if "result" in given:
        return pawl_client.ModelMessage(result=pawl_client.ToolResult(**given["result"]))
    if "answer" in given:
        return pawl_client.ModelMessage(answer=given["answer"])
    new = given["message"]
    content = pawl_client.JsonValue(new["json"]) if "json" in new else new["text"]
    return pawl_client.ModelMessage(
        message=pawl_client.Message(
            role=new["role"],
            parts=pawl_client.Message.of(new["role"], content).parts,
            tool_call_id=new.get("tool_call_id", ""),
        )
    )


def came(given: Fields) -> pawl_client.ModelAnswer | pawl_client.ModelFailure:
    """What came of the call."""
    if "failure" in given:
        failure = given["failure"]
        wait = failure.get("retry_after")
        return pawl_client.ModelFailure(
            error=pawl_client.Fault(code=failure["code"], message=failure.get("message", "")),
            non_retryable=failure.get("non_retryable", False),
            retry_after=None if wait is None else timedelta(seconds=wait),
        )
    answer = dict(given["answer"])
    text = answer.pop("text", None)
    calls = tuple(pawl_client.ModelCall(**call) for call in answer.pop("calls", ()))
    parts = () if text is None else (pawl_client.Part.of(text),)
    return pawl_client.ModelAnswer(parts=parts, calls=calls, **answer)


async def make(turn: Any, rounds: list[Fields], host: Host) -> None:
    """Makes the rounds of a turn, from 1, and the tool calls of their answers."""
    for number, act in enumerate(rounds, 1):
        step = await _round(turn, number, act, host)
        calls = [
            pawl_client.StepCall(
                call["tool"],
                call.get("payload", {}),
                call=pawl_client.ToolCallRef(model_step=step, index=index),
            )
            for index, call in enumerate(act.get("calls", ()))
        ]
        if calls:
            await host.at("call")
        for index, outcome in enumerate(await ready(turn.calls(calls))):
            _called(index, calls[index].tool, outcome)


def _called(index: int, tool: str, outcome: pawl_client.StepOutcome) -> None:
    step = outcome.step
    event(
        "called",
        index=index,
        tool=tool,
        denial=outcome.denial.code if outcome.denial else "",
        replayed=outcome.replayed,
        step=step.step if step else 0,
        result=step.result if step else None,
        error=step.error.code if step and step.error else "",
    )


async def _round(turn: Any, number: int, act: Fields, host: Host) -> int:
    """Asks for a call, makes it if it is open, and gives its step."""
    asking = turn.request_model(number, asked(act["ask"]), bound=usage(act.get("bound")))
    got: pawl_client.RequestedModel = await ready(asking)
    step = got.step
    model = step.model if step else None
    event(
        "asked",
        round=number,
        step=step.step if step else 0,
        attempt=step.attempt if step else 0,
        replayed=got.replayed,
        status=canon(step.status) if step else "UNSPECIFIED",
        denial=got.denial.code if got.denial else "",
        response_id=model.response_id if model else "",
        text=model.answer.text if model and model.answer else "",
    )
    if got.denial is not None:
        raise pawl_client.FailTurnError(got.denial.code)
    assert step is not None
    if step.status is pawl_client.StepStatus.ERROR:
        raise pawl_client.FailTurnError(step.error.code if step.error else "ERROR")
    if step.status is pawl_client.StepStatus.PENDING:
        if "stream" in act:
            await _stream(turn, number, act["stream"], host)
        await _answer(turn, step, act, host)
    return step.step


async def _stream(turn: Any, number: int, pieces: list[str], host: Host) -> None:
    """Writes down that the model is asked, and shows its answer piece by piece."""
    host.enter(tool="model", key=f"{turn.run_id}/{number}")
    for piece in pieces:
        await ready(turn.output(piece))
        await host.at(f"stream/{number}")


async def _answer(turn: Any, step: pawl_client.Step, act: Fields, host: Host) -> None:
    """Tells what the model said, attempt by attempt."""
    if "note" in act:
        await ready(turn.update_model_call(step.step, step.attempt, act["note"]))
    if "hold" in act:
        await host.hold(act["hold"])
    attempt, told = step.attempt, act["told"]
    for number in itertools.count():
        entry = told[min(number, len(told) - 1)]
        outcome = came(entry)
        telling = turn.answer_model(step.step, attempt, outcome, usage=usage(entry.get("usage")))
        got: pawl_client.AnsweredModel = await ready(telling)
        wait = got.wait.total_seconds() if got.wait else 0
        event(
            "told",
            step=step.step,
            attempt=attempt,
            next=got.next,
            wait=wait,
            disposition=canon(got.disposition),
        )
        if isinstance(outcome, pawl_client.ModelAnswer):
            return
        if got.next == 0:
            raise pawl_client.FailTurnError(outcome.error.code)
        attempt = got.next
        await host.pause(wait)
