"""Requests of the executor of a turn or a step; clients and workers send the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pawl_client import _requests as wire
from pawl_client._fault import StepFault
from pawl_client._flow import new_id
from pawl_client._json_text import dump_json
from pawl_client._models import (
    ModelAnswer,
    ModelFailure,
    ModelMessage,
    ModelRequest,
    ProviderLimits,
    ToolCallRef,
)
from pawl_client._outcomes import Reply
from pawl_client._runs import ArtifactSlot, TurnRef
from pawl_client._values import Fault, Json, OutputPiece, Usage
from pawl_client.v1 import record_pb2, run_pb2


@dataclass(frozen=True, slots=True)
class StepCall:
    """One tool call to request; an empty key is the ordinal of the request."""

    tool: str
    payload: Json
    key: str = ""
    reframe: bool = False
    call: ToolCallRef | None = None
    """The model's tool call that it executes; the key is then derived from it."""
    by_caller: bool = False
    """The caller offers to make the call itself. It must make it if the answer's step has
    `by_caller` too; otherwise a worker makes it.
    """
    text: str = ""
    """The payload as JSON text with the digits that a model wrote; empty: the JSON of `payload`."""


def complete_request(
    namespace: str, turn: TurnRef, reply: Reply, slots: Sequence[ArtifactSlot], request_id: str
) -> run_pb2.CompleteTurnRequest:
    """The request that ends a turn."""
    return run_pb2.CompleteTurnRequest(
        namespace=namespace,
        run_id=turn.run_id,
        turn_seq=turn.turn_seq,
        attempt=turn.attempt,
        turn_token=turn.token,
        output=wire.parts(reply.output),
        messages=[wire.message(item) for item in reply.messages],
        usage=wire.usage(reply.usage),
        event=reply.event,
        artifacts=wire.artifacts(reply.artifacts, slots),
        reply=reply.reply,
        conversation_through_step=reply.conversation_through_step,
        awaiting=wire.number("Awaiting", reply.awaiting),  # type: ignore[arg-type]
        request_id=request_id or new_id(),
    )


def fail_request(
    namespace: str,
    turn: TurnRef,
    error: Fault,
    retryable: bool,
    usage: Usage | None,
    request_id: str,
    reject: bool = False,
    rejected_step: int = 0,
) -> run_pb2.FailTurnRequest:
    """The request that ends an execution as failed."""
    return run_pb2.FailTurnRequest(
        namespace=namespace,
        run_id=turn.run_id,
        turn_seq=turn.turn_seq,
        attempt=turn.attempt,
        turn_token=turn.token,
        error=wire.fault(error),
        retryable=retryable,
        reject=reject,
        rejected_step=rejected_step,
        usage=wire.usage(usage),
        request_id=request_id or new_id(),
    )


def suspend_request(namespace: str, turn: TurnRef, request_id: str) -> run_pb2.SuspendTurnRequest:
    """The request that releases a turn until its steps are answered."""
    return run_pb2.SuspendTurnRequest(
        namespace=namespace,
        run_id=turn.run_id,
        turn_seq=turn.turn_seq,
        attempt=turn.attempt,
        turn_token=turn.token,
        request_id=request_id or new_id(),
    )


def step_request(
    namespace: str, turn: TurnRef, calls: Sequence[StepCall], request_id: str
) -> run_pb2.RequestStepRequest:
    """The request for tool calls."""
    return run_pb2.RequestStepRequest(
        namespace=namespace,
        run_id=turn.run_id,
        turn_seq=turn.turn_seq,
        attempt=turn.attempt,
        turn_token=turn.token,
        requests=[
            run_pb2.StepRequest(
                key=call.key,
                tool=call.tool,
                payload_json=call.text or dump_json(call.payload, "payload"),
                reframe=call.reframe,
                by_caller=call.by_caller,
                call=None
                if call.call is None
                else record_pb2.ToolCallRef(model_step=call.call.model_step, index=call.call.index),
            )
            for call in calls
        ],
        request_id=request_id or new_id(),
    )


def wait_of(seconds: float) -> timedelta:
    """Returns a wait within the bounds of the contract: 0 to one day."""
    return timedelta(seconds=min(seconds, 86400.0) if seconds > 0 else 0.0)


def resolve_request(
    namespace: str,
    run_id: str,
    step: int,
    tool: str,
    attempt: int,
    answer: Json | Fault,
    token: str,
    usage: Usage | None = None,
) -> run_pb2.ResolveStepRequest:
    """The request that answers a step and reports the attempt's usage."""
    request = run_pb2.ResolveStepRequest(
        namespace=namespace,
        run_id=run_id,
        step=step,
        tool=tool,
        attempt=attempt,
        turn_token=token,
        usage=wire.usage(usage),
    )
    if isinstance(answer, Fault):
        request.error.CopyFrom(wire.fault(answer))
        if isinstance(answer, StepFault):
            request.non_retryable = answer.non_retryable
            request.unknown = answer.unknown
            if answer.retry_after is not None:
                request.retry_after.FromTimedelta(wait_of(answer.retry_after))
    else:
        request.result_json = dump_json(answer, "result")
    return request


def output_request(
    namespace: str, turn: TurnRef, piece: OutputPiece, request_id: str
) -> run_pb2.WriteOutputRequest:
    """The request that stores a piece of output."""
    return run_pb2.WriteOutputRequest(
        namespace=namespace,
        run_id=turn.run_id,
        turn_seq=turn.turn_seq,
        attempt=turn.attempt,
        turn_token=turn.token,
        piece=wire.output_piece(piece),
        request_id=request_id or new_id(),
    )


def request_model_request(
    namespace: str, turn: TurnRef, round: int, asked: ModelRequest, bound: Usage | None, key: str
) -> run_pb2.RequestModelRequest:
    """The request for a model call."""
    return run_pb2.RequestModelRequest(
        namespace=namespace,
        run_id=turn.run_id,
        turn_seq=turn.turn_seq,
        attempt=turn.attempt,
        turn_token=turn.token,
        round=round,
        key=key,
        request=model_request(asked),
        bound=wire.usage(bound),
        include_required=True,
    )


def answer_model_request(
    namespace: str,
    turn: TurnRef,
    step: int,
    attempt: int,
    outcome: ModelAnswer | ModelFailure,
    usage: Usage | None,
    limits: ProviderLimits | None = None,
) -> run_pb2.AnswerModelRequest:
    """The request that reports the outcome of a model call."""
    request = run_pb2.AnswerModelRequest(
        namespace=namespace,
        run_id=turn.run_id,
        step=step,
        attempt=attempt,
        turn_token=turn.token,
        usage=wire.usage(usage),
    )
    if limits is not None:
        request.provider_limits.CopyFrom(_provider_limits(limits))
    if isinstance(outcome, ModelAnswer):
        request.answer.CopyFrom(model_answer(outcome))
        return request
    request.failure.error.CopyFrom(wire.fault(outcome.error))
    request.failure.non_retryable = outcome.non_retryable
    if outcome.retry_after is not None:
        request.failure.retry_after.FromTimedelta(outcome.retry_after)
    return request


def _provider_limits(limits: ProviderLimits) -> run_pb2.ProviderLimits:
    message = run_pb2.ProviderLimits(requests=limits.requests, tokens=limits.tokens)
    if limits.requests_reset is not None:
        message.requests_reset.FromTimedelta(limits.requests_reset)
    if limits.tokens_reset is not None:
        message.tokens_reset.FromTimedelta(limits.tokens_reset)
    return message


def update_model_call_request(
    namespace: str, turn: TurnRef, step: int, attempt: int, response_id: str
) -> run_pb2.UpdateModelCallRequest:
    """The request that stores the provider's id of a response."""
    return run_pb2.UpdateModelCallRequest(
        namespace=namespace,
        run_id=turn.run_id,
        step=step,
        attempt=attempt,
        turn_token=turn.token,
        response_id=response_id,
    )


def model_request(asked: ModelRequest) -> record_pb2.ModelRequest:
    """A model request on the wire; fields that are None stay unset and keep those of the previous
    step.
    """
    request = record_pb2.ModelRequest(
        model=asked.model,
        previous_step=asked.previous_step,
        messages=[_model_message(item) for item in asked.messages],
    )
    if asked.system is not None:
        request.system = asked.system
    if asked.tools is not None:
        request.tools_json = dump_json(asked.tools, "tools")
    if asked.parameters is not None:
        request.parameters_json = dump_json(asked.parameters, "parameters")
    return request


def _model_message(item: ModelMessage) -> record_pb2.ModelMessage:
    message = record_pb2.ModelMessage()
    if item.message is not None:
        message.message.CopyFrom(wire.message(item.message))
    elif item.conversation is not None:
        message.conversation.SetInParent()
        message.conversation.first = item.conversation.first
        message.conversation.count = item.conversation.count
    elif item.answer is not None:
        message.answer = item.answer
    elif item.result is not None:
        message.result.step = item.result.step
        message.result.call_id = item.result.call_id
    elif item.included_seq is not None:
        message.included_seq = item.included_seq
    return message


def model_answer(answer: ModelAnswer) -> record_pb2.ModelAnswer:
    """A model answer on the wire."""
    return record_pb2.ModelAnswer(
        parts=wire.parts(answer.parts),
        calls=[
            record_pb2.ModelCall(
                id=call.id,
                name=call.name,
                arguments=call.arguments,
                broken_arguments=call.broken_arguments,
            )
            for call in answer.calls
        ],
        refusal=answer.refusal,
        finish_reason=answer.finish_reason,
        model=answer.model,
        response_id=answer.response_id,
        provider_json="" if answer.provider is None else dump_json(answer.provider, "provider"),
        provider_name=answer.provider_name,
    )
