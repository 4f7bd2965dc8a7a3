"""Converts pydantic-ai's messages to the form of records, and answers in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pydantic_ai
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    FileUrl,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import (
    ModelMessage as LibraryMessage,
)
from pydantic_ai.messages import (
    ModelRequest as LibraryRequest,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import to_jsonable_python

from pawl_client._durable_errors import ModelCallError, unreadable_by
from pawl_client._durable_transcript import RequestRecorder, arguments_of, size_of
from pawl_client._models import ModelAnswer, ModelCall, ModelRequest
from pawl_client._values import Json, JsonValue, Message, Part, Usage

LIBRARY = "pydantic-ai"
unreadable = partial(unreadable_by, LIBRARY, pydantic_ai.__version__)
"""Returns the error of a recorded value that this version of the library cannot read."""
_UNRECORDED = ("extra_headers", "timeout", "request_timeout", "first_event_timeout")
"""Settings that are not part of the request's body and may contain keys."""


@dataclass(slots=True)
class Transcript(RequestRecorder):
    """Builds the recorded form of each request of one run of pydantic-ai."""

    _known: dict[int, tuple[LibraryMessage, int, list[Message], int]] = field(default_factory=dict)
    """The recorded form of each message of the library, by its identity, with its size."""
    _size: int = 0

    def request(
        self,
        model: str,
        messages: Sequence[LibraryMessage],
        settings: Mapping[str, Any] | None,
        parameters: ModelRequestParameters,
    ) -> ModelRequest:
        """Returns the recorded form of a request."""
        system, sent = _system(messages, parameters), self._convert(messages)
        return self.record(model, system, _tools(parameters), _settings(settings), sent)

    def _convert(self, messages: Sequence[LibraryMessage]) -> list[Message]:
        """Returns the recorded form of the messages. A message is converted once."""
        sent: list[Message] = []
        self._size = 0
        for message in messages:
            known = self._known.get(id(message))
            if known is None or known[0] is not message or known[1] != len(message.parts):
                converted = list(_converted([message]))
                known = (message, len(message.parts), converted, size_of(converted))
                self._known[id(message)] = known
            sent += known[2]
            self._size += known[3]
        return sent

    def answered(self, step: int, response: ModelResponse) -> None:
        """Notes the answer of the last request."""
        self.answered_with(step, _converted([response]))

    def bound(self, settings: Mapping[str, Any] | None) -> Usage:
        """Returns what the last request may consume, estimated from its size."""
        return self.bound_of(self._size, int((settings or {}).get("max_tokens") or 0))


def _system(messages: Sequence[LibraryMessage], parameters: ModelRequestParameters) -> str:
    texts = [
        part.content
        for message in messages
        if isinstance(message, LibraryRequest)
        for part in message.parts
        if isinstance(part, SystemPromptPart)
    ]
    last = messages[-1] if messages else None
    if isinstance(last, LibraryRequest) and last.instructions:
        texts.append(last.instructions)
    elif parameters.instruction_parts:
        texts += [part.content for part in parameters.instruction_parts]
    return "\n\n".join(texts)


def _tools(parameters: ModelRequestParameters) -> Json:
    return [
        {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": to_jsonable_python(tool.parameters_json_schema),
        }
        for tool in [*parameters.function_tools, *parameters.output_tools]
    ]


def _settings(settings: Mapping[str, Any] | None) -> Json:
    kept = {name: value for name, value in (settings or {}).items() if name not in _UNRECORDED}
    return to_jsonable_python(kept, fallback=str)


def _converted(messages: Iterable[LibraryMessage]) -> Iterable[Message]:
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = [
                {
                    "id": part.tool_call_id,
                    "name": part.tool_name,
                    "arguments": arguments_of(part.args_as_json_str())[0],
                }
                for part in message.parts
                if isinstance(part, ToolCallPart)
            ]
            yield Message(role="assistant", parts=_parts(message), tool_calls=calls or None)
        else:
            for part in message.parts:
                if (one := _converted_part(part)) is not None:
                    yield one


def _converted_part(part: Any) -> Message | None:
    if isinstance(part, SystemPromptPart):
        return None
    if isinstance(part, UserPromptPart):
        content = [part.content] if isinstance(part.content, str) else part.content
        return Message(role="user", parts=tuple(_user_part(item) for item in content))
    if isinstance(part, ToolReturnPart):
        value = to_jsonable_python(part.content, fallback=str)
        return _tool_message(part.tool_call_id, value)
    if isinstance(part, RetryPromptPart):
        if part.tool_name is None:
            return Message.of("user", part.model_response())
        return _tool_message(part.tool_call_id, {"error": {"message": part.model_response()}})
    return Message(role="user", parts=(Part.of(to_jsonable_python(part, fallback=str)),))


def _tool_message(call_id: str, value: Json) -> Message:
    return Message(role="tool", parts=(Part(json=JsonValue(value)),), tool_call_id=call_id)


def _user_part(item: Any) -> Part:
    if isinstance(item, str):
        return Part(text=item)
    if isinstance(item, BinaryContent):
        return Part(data=item.data, media_type=item.media_type)
    if isinstance(item, FileUrl):
        return Part(uri=item.url)
    return Part.of(to_jsonable_python(item, fallback=str))


def _parts(response: ModelResponse) -> tuple[Part, ...]:
    parts = []
    for part in response.parts:
        if isinstance(part, TextPart) and part.content:
            parts.append(Part(text=part.content))
        elif isinstance(part, FilePart):
            parts.append(Part(data=part.content.data, media_type=part.content.media_type))
    return tuple(parts)


# Answers


def answer_of(response: ModelResponse, message: Json) -> ModelAnswer:
    """Returns the recorded form of an answer; `message` is the library's own form."""
    calls = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            arguments, broken = arguments_of(part.args_as_json_str())
            calls.append(
                ModelCall(
                    id=part.tool_call_id,
                    name=part.tool_name,
                    arguments=arguments,
                    broken_arguments=broken,
                )
            )
    return ModelAnswer(
        parts=_parts(response),
        calls=tuple(calls),
        finish_reason=response.finish_reason or "",
        model=(response.model_name or "")[:64],
        response_id=(response.provider_response_id or "")[:256],
        provider={"library": LIBRARY, "version": pydantic_ai.__version__, "message": message},
        provider_name=(response.provider_name or "")[:64],
    )


def recorded_message(run_id: str, answer: ModelAnswer) -> Json:
    """Returns the library's own form of a recorded answer. Raises LibraryVersionError."""
    envelope = answer.provider
    if isinstance(envelope, dict) and envelope.get("library") == LIBRARY and "message" in envelope:
        return envelope["message"]
    raise unreadable(run_id, envelope, "it has no message of pydantic-ai")


def usage_of(response: ModelResponse) -> Usage:
    """Returns the usage of an answer, as far as the provider reported it."""
    used = response.usage
    read, written = max(used.input_tokens, 0), max(used.output_tokens, 0)
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=min(max(used.cache_read_tokens, 0), read),
        reasoning_tokens=min(max(used.details.get("reasoning_tokens", 0), 0), written),
        estimated=not written,
    )


def library_error(error: ModelCallError, model: str) -> ModelAPIError:
    """Returns the library's error for a recorded failure."""
    status = error.fault.code.removeprefix("MODEL_")
    if status.isdigit():
        return ModelHTTPError(int(status), model, error.fault.message)
    return ModelAPIError(model, str(error))
