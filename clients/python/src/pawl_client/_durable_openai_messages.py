"""Converts the OpenAI Agents SDK's items to the form of records, and answers both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import agents
from agents import Handoff, ModelResponse, ModelSettings, Tool
from openai import APIError
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
)
from openai.types.responses.response_usage import ResponseUsage
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from pawl_client._durable_errors import ModelCallError, unreadable_by
from pawl_client._durable_transcript import RequestRecorder, arguments_of, size_of
from pawl_client._errors import StepFailedError
from pawl_client._models import ModelAnswer, ModelCall, ModelFailure, ModelRequest
from pawl_client._provider_errors import error_text, of_http, unusable
from pawl_client._values import Json, JsonValue, Message, Part, Usage

LIBRARY = "openai-agents"
_UNRECORDED = ("extra_headers", "extra_args", "extra_body", "extra_query", "retry")
"""Settings that are not part of the request's body, or may contain keys."""
unreadable = partial(unreadable_by, LIBRARY, agents.__version__)
"""Returns the error of a recorded value that this version of the SDK cannot read."""
_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)


@dataclass(slots=True)
class ItemTranscript(RequestRecorder):
    """Builds the recorded form of each request of one run of an agent of the SDK."""

    _size: int = 0

    def request(
        self,
        model: str,
        agent: str,
        system: str | None,
        items: str | Sequence[Any],
        settings: ModelSettings,
        tools: Sequence[Tool],
        handoffs: Sequence[Handoff[Any, Any]],
    ) -> ModelRequest:
        """Returns the recorded form of a request; `agent` is the name of the acting agent."""
        sent = converted(items)
        self._size = size_of(sent)
        parameters = {"agent": agent, **_settings(settings)}
        return self.record(model, system or "", _tools(tools, handoffs), parameters, sent)

    def answered(self, step: int, response: ModelResponse) -> None:
        """Notes the answer of the last request."""
        self.answered_with(step, converted(response.to_input_items()))

    def bound(self, settings: ModelSettings) -> Usage:
        """Returns what the last request may consume, estimated from its size."""
        return self.bound_of(self._size, settings.max_tokens or 0)


def _settings(settings: ModelSettings) -> dict[str, Json]:
    given = {
        setting.name: value
        for setting in fields(settings)
        if setting.name not in _UNRECORDED
        and (value := getattr(settings, setting.name)) is not None
    }
    kept: dict[str, Json] = to_jsonable_python(given, fallback=str)
    return kept


def _tools(tools: Sequence[Tool], handoffs: Sequence[Handoff[Any, Any]]) -> Json:
    declared: list[Json] = [
        {
            "name": tool.name,
            "description": getattr(tool, "description", "") or "",
            "parameters": to_jsonable_python(getattr(tool, "params_json_schema", {})),
        }
        for tool in tools
    ]
    declared += [
        {
            "name": handoff.tool_name,
            "description": handoff.tool_description,
            "parameters": to_jsonable_python(handoff.input_json_schema),
        }
        for handoff in handoffs
    ]
    return declared


def converted(items: str | Sequence[Any]) -> list[Message]:
    """Returns the recorded form of items. Items of one answer are one message.

    >>> converted("hi")[0].text
    'hi'
    >>> call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    >>> [m.role for m in converted([{"role": "user", "content": "hi"}, call])]
    ['user', 'assistant']
    """
    if isinstance(items, str):
        return [Message.of("user", items)]
    found: list[Message] = []
    parts: list[Part] = []
    calls: list[Json] = []

    def close() -> None:
        if parts or calls:
            found.append(
                Message(role="assistant", parts=tuple(parts), tool_calls=list(calls) or None)
            )
            parts.clear()
            calls.clear()

    for item in items:
        plain = item if isinstance(item, Mapping) else to_jsonable_python(item, fallback=str)
        kind, role = plain.get("type", "message"), plain.get("role", "")
        if kind == "function_call":
            arguments, _ = arguments_of(str(plain.get("arguments", "")))
            calls.append({"id": plain["call_id"], "name": plain["name"], "arguments": arguments})
        elif role == "assistant":
            parts += _content(plain.get("content"))
        elif role:
            close()
            found.append(Message(role="user", parts=tuple(_content(plain.get("content")))))
        elif kind == "function_call_output":
            close()
            value = to_jsonable_python(plain.get("output"), fallback=str)
            found.append(
                Message(
                    role="tool",
                    parts=(Part(json=JsonValue(value)),),
                    tool_call_id=str(plain.get("call_id", "")),
                )
            )
        elif kind != "reasoning":
            parts.append(Part.of(to_jsonable_python(plain, fallback=str)))
    close()
    return found


def _content(content: Any) -> Iterable[Part]:
    if isinstance(content, str):
        return [Part(text=content)] if content else []
    return [
        Part(text=str(part.get("text", part.get("refusal", ""))))
        if part.get("type") in ("input_text", "output_text", "text", "refusal")
        else Part.of(to_jsonable_python(part, fallback=str))
        for part in content or ()
    ]


# Answers


def calls_of(response: ModelResponse) -> list[ResponseFunctionToolCall]:
    """Returns the function calls of an answer, in order; hand-offs are among them."""
    return [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]


def answer_of(response: ModelResponse, model: str) -> ModelAnswer:
    """Returns the recorded form of an answer."""
    calls = []
    for call in calls_of(response):
        arguments, broken = arguments_of(call.arguments)
        calls.append(
            ModelCall(id=call.call_id, name=call.name, arguments=arguments, broken_arguments=broken)
        )
    return ModelAnswer(
        parts=tuple(
            Part(text=part.text if isinstance(part, ResponseOutputText) else part.refusal)
            for item in response.output
            if isinstance(item, ResponseOutputMessage)
            for part in item.content
            if isinstance(part, (ResponseOutputText, ResponseOutputRefusal))
        ),
        calls=tuple(calls),
        finish_reason="tool_calls" if calls else "stop",
        model=model[:64],
        response_id=(response.response_id or "")[:256],
        provider={
            "library": LIBRARY,
            "version": agents.__version__,
            "message": _RESPONSE.dump_python(response, mode="json", exclude_unset=True),
        },
    )


def response_of(run_id: str, answer: ModelAnswer) -> ModelResponse:
    """Returns the SDK's own form of a recorded answer. Raises LibraryVersionError."""
    envelope = answer.provider
    if not isinstance(envelope, dict) or envelope.get("library") != LIBRARY:
        raise unreadable(run_id, envelope, "it has no message of the SDK")
    try:
        return _RESPONSE.validate_python(envelope.get("message"))
    except ValidationError as error:
        raise unreadable(run_id, envelope, str(error)) from error


def usage_of(response: ModelResponse) -> Usage:
    """Returns the usage of an answer, as far as the provider reported it."""
    used = response.usage
    read, written = max(used.input_tokens, 0), max(used.output_tokens, 0)
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=min(max(used.input_tokens_details.cached_tokens or 0, 0), read),
        reasoning_tokens=min(max(used.output_tokens_details.reasoning_tokens or 0, 0), written),
        estimated=not written,
    )


def streamed(model: str, response: ModelResponse) -> Response:
    """Returns an answer as the response that ends a stream."""
    used = response.usage
    return Response(
        id=response.response_id or "recorded",
        created_at=0,
        model=model,
        object="response",
        output=list(response.output),
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
        usage=ResponseUsage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            input_tokens_details=used.input_tokens_details,
            output_tokens_details=used.output_tokens_details,
        ),
    )


def completed(response: Response) -> ResponseCompletedEvent:
    """Returns the event that ends a stream."""
    return ResponseCompletedEvent(type="response.completed", sequence_number=0, response=response)


# Failures


def failure_of(error: APIError) -> ModelFailure:
    """Returns the failure for an error of the model's endpoint."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:
        headers = getattr(getattr(error, "response", None), "headers", None)
        return of_http(status, error_text(error.body) or str(error), headers)
    return unusable("MODEL_UNREACHABLE", f"{type(error).__name__}: {error}")


class RecordedModelError(StepFailedError):
    """A model call that has finally failed, given again from its record.

    `status_code` is the HTTP status, where retry policies of the SDK look for it; None: no status.
    """

    def __init__(self, error: ModelCallError) -> None:
        super().__init__(str(error), reason=error.fault.code)
        status = error.fault.code.removeprefix("MODEL_")
        self.status_code = (
            int(status)
            if status.isdigit()
            else 429
            if error.fault.code == "MODEL_RATE_LIMITED"
            else None
        )
