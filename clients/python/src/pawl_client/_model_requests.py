"""The requests of whoever calls models; drivers and workers send the same."""

from __future__ import annotations

from pawl_client import _requests as wire
from pawl_client._json_text import dump_json
from pawl_client._models import (
    ModelAnswer,
    ModelFailure,
    ModelMessage,
    ModelRequest,
    ProviderLimits,
)
from pawl_client._runs import TurnRef
from pawl_client._values import Usage
from pawl_client.v1 import record_pb2, run_pb2


def request_model_request(
    namespace: str, turn: TurnRef, round: int, asked: ModelRequest, bound: Usage | None, key: str
) -> run_pb2.RequestModelRequest:
    """The request for a call of a model."""
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
    """The request that tells what came of a call."""
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
    told = run_pb2.ProviderLimits(requests=limits.requests, tokens=limits.tokens)
    if limits.requests_reset is not None:
        told.requests_reset.FromTimedelta(limits.requests_reset)
    if limits.tokens_reset is not None:
        told.tokens_reset.FromTimedelta(limits.tokens_reset)
    return told


def update_model_call_request(
    namespace: str, turn: TurnRef, step: int, attempt: int, response_id: str
) -> run_pb2.UpdateModelCallRequest:
    """The request that keeps the provider's id of a response."""
    return run_pb2.UpdateModelCallRequest(
        namespace=namespace,
        run_id=turn.run_id,
        step=step,
        attempt=attempt,
        turn_token=turn.token,
        response_id=response_id,
    )


def model_request(asked: ModelRequest) -> record_pb2.ModelRequest:
    """What a model is asked; None is left to the request that it follows."""
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
    """What a model answered."""
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
