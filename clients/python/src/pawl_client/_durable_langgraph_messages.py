"""Converts LangChain's messages to the form of records, and answers in both directions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core import __version__
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from pydantic_core import to_json

from pawl_client._durable_errors import unreadable_by
from pawl_client._durable_transcript import RequestRecorder, arguments_of, size_of
from pawl_client._json_text import dump_json
from pawl_client._models import ModelAnswer, ModelCall, ModelFailure, ModelRequest
from pawl_client._provider_errors import error_text, of_http, unusable
from pawl_client._values import Json, JsonValue, Message, Part, Usage

LIBRARY = "langchain-core"
_UNRECORDED = ("extra_headers", "extra_query", "timeout", "headers", "run_manager")
"""Arguments of a call that are not part of the request's body, or may contain keys."""
_CONVERSATIONS = 64
"""Most conversations of a run that are kept, so that a request can refer to an earlier one."""
_UNREACHABLE = ("APIConnectionError", "APITimeoutError", "TransportError", "RemoteProtocolError")
unreadable = partial(unreadable_by, LIBRARY, __version__)
"""Returns the error of a recorded value that this version of LangChain cannot read."""


@dataclass(slots=True)
class Conversation(RequestRecorder):
    """A conversation of a run: each request continues the one before."""

    asking: bool = False
    """True: the last request of the conversation has no answer yet."""
    included: list[tuple[int, str]] = field(default_factory=list)
    """Messages that the sidecar added, each with its index in the conversation."""

    def continues(self, sent: Sequence[Message]) -> int:
        """Returns how many messages of a request are known; 0: it is another conversation."""
        known = self._sent
        return len(known) if not self.asking and sent[: len(known)] == known else 0

    def refer_to(self, results: dict[str, tuple[int, Json]]) -> None:
        """Uses the results of tool calls that all conversations of the run share."""
        self._results = results


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request in the form of records, its conversation, and what it may consume."""

    request: ModelRequest
    conversation: Conversation
    bound: Usage
    digest: str


class Conversations:
    """The conversations of one run. Nodes that run at once have conversations of their own."""

    def __init__(self) -> None:
        self._known: list[Conversation] = []
        self.results: dict[str, tuple[int, Json]] = {}
        """The recorded results of tool calls, by the id of the call."""

    def request(
        self,
        model: str,
        node: str,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        options: Mapping[str, Any],
        most: int,
    ) -> Sent:
        """Returns the recorded form of a request; `most` are the tokens of the longest answer."""
        system, sent = converted(messages)
        tools = jsonable(options.get("tools") or [])
        kept = {
            name: value
            for name, value in options.items()
            if name not in (*_UNRECORDED, "tools") and value is not None
        }
        if stop:
            kept["stop"] = list(stop)
        given: dict[str, Json] = jsonable(kept)
        parameters: Json = {"node": node, **given}
        conversation = Conversation()
        conversation.refer_to(self.results)
        for known in self._known:
            if known.continues(sent) > conversation.continues(sent):
                conversation = known
        others = [known for known in self._known if known is not conversation]
        self._known = [conversation, *others[: _CONVERSATIONS - 1]]
        request = conversation.record(model, system, tools, parameters, sent)
        conversation.asking = True
        content = [[system], tools, parameters, [_digestible(message) for message in sent]]
        return Sent(
            request=request,
            conversation=conversation,
            bound=conversation.bound_of(size_of(sent), most),
            digest=digest_of(content),
        )

    def answered(self, sent: Sent, step: int, answer: AIMessage) -> None:
        """Notes the answer of a request."""
        sent.conversation.answered_with(step, converted([answer])[1])
        sent.conversation.asking = False


def jsonable(value: Any) -> Any:
    """Returns the JSON form of a value, the same in each execution. An object without one is the
    name of its class.

    >>> jsonable({"n": float("nan"), "o": object()})
    {'n': 'NaN', 'o': '<object>'}
    """
    try:
        text = to_json(
            value,
            fallback=lambda other: f"<{type(other).__name__}>",
            bytes_mode="base64",
            inf_nan_mode="strings",
        )
        return json.loads(text)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def digest_of(content: Any) -> str:
    """Returns a short digest of a JSON value, which tells the calls of one node apart."""
    return hashlib.sha256(dump_json(content, "request").encode()).hexdigest()[:12]


def _digestible(message: Message) -> Json:
    parts: list[Json] = [
        part.text
        if part.text is not None
        else part.json.value
        if part.json is not None
        else repr((part.uri, part.data))
        for part in message.parts
    ]
    calls: Any = message.tool_calls
    return [message.role, message.tool_call_id, parts, calls]


def converted(messages: Iterable[BaseMessage]) -> tuple[str, list[Message]]:
    """Returns the text of the system messages, and the recorded form of the other messages.

    >>> system, sent = converted([SystemMessage("Be brief."), AIMessage("Hi.")])
    >>> system, sent[0].role, sent[0].text
    ('Be brief.', 'assistant', 'Hi.')
    """
    system: list[str] = []
    sent: list[Message] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(str(message.text))
        elif isinstance(message, ToolMessage):
            value: Json = jsonable(message.content)
            call_id = message.tool_call_id
            part = Part(json=JsonValue(value))
            sent.append(Message(role="tool", parts=(part,), tool_call_id=call_id))
        elif isinstance(message, AIMessage):
            calls: list[Json] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in calls_of(message)
            ]
            parts = _parts(message.content)
            sent.append(Message(role="assistant", parts=parts, tool_calls=calls or None))
        else:
            sent.append(Message(role="user", parts=_parts(message.content)))
    return "\n\n".join(system), sent


def _parts(content: Any) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Part(text=content),) if content else ()
    return tuple(
        Part(text=block)
        if isinstance(block, str)
        else Part(text=str(block["text"]))
        if isinstance(block, Mapping) and block.get("type") == "text"
        else Part.of(jsonable(block))
        for block in content
    )


# Answers


def calls_of(message: AIMessage) -> list[ModelCall]:
    """Returns the tool calls of an answer, in order; those with broken arguments come last."""
    calls = [
        ModelCall(
            id=str(call.get("id") or ""),
            name=call["name"],
            arguments=dump_json(jsonable(call["args"]), "arguments"),
        )
        for call in message.tool_calls
    ]
    for broken in message.invalid_tool_calls:
        arguments, text = arguments_of(str(broken.get("args") or ""))
        name, call_id = str(broken.get("name") or ""), str(broken.get("id") or "")
        calls.append(ModelCall(id=call_id, name=name, arguments=arguments, broken_arguments=text))
    return calls


def answer_of(message: AIMessage, model: str) -> ModelAnswer:
    """Returns the recorded form of an answer."""
    about = message.response_metadata
    calls = calls_of(message)
    reason = about.get("finish_reason") or about.get("stop_reason")
    return ModelAnswer(
        parts=tuple(part for part in _parts(message.content) if part.text is not None),
        calls=tuple(calls),
        finish_reason=str(reason or ("tool_calls" if calls else "stop"))[:64],
        model=str(about.get("model_name") or model)[:64],
        response_id=str(about.get("id") or "")[:256],
        provider={
            "library": LIBRARY,
            "version": __version__,
            "message": jsonable(message_to_dict(message)),
        },
        provider_name=str(about.get("model_provider") or "")[:64],
    )


def message_of(run_id: str, answer: ModelAnswer) -> AIMessage:
    """Returns LangChain's own form of a recorded answer. Raises LibraryVersionError."""
    envelope = answer.provider
    if not isinstance(envelope, dict) or envelope.get("library") != LIBRARY:
        raise unreadable(run_id, envelope, "it has no message of LangChain")
    recorded: Any = envelope.get("message")
    try:
        (message,) = messages_from_dict([recorded])
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(run_id, envelope, str(error)) from error
    if not isinstance(message, AIMessage):
        raise unreadable(run_id, envelope, f"it is a {type(message).__name__}")
    return message


def usage_of(message: AIMessage) -> Usage:
    """Returns the usage of an answer, as far as the provider reported it."""
    used: Any = message.usage_metadata or {}
    read, written = (max(int(used.get(name) or 0), 0) for name in ("input_tokens", "output_tokens"))
    cached = int((used.get("input_token_details") or {}).get("cache_read") or 0)
    reasoning = int((used.get("output_token_details") or {}).get("reasoning") or 0)
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=min(max(cached, 0), read),
        reasoning_tokens=min(max(reasoning, 0), written),
        estimated=not written,
    )


def failure_of(error: Exception) -> ModelFailure | None:
    """Returns the failure for an error of the model's endpoint. None means that it is another
    error.
    """
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if status is None:
        status = getattr(response, "status_code", None)
    if isinstance(status, int) and status >= 400:
        words = error_text(getattr(error, "body", None)) or str(error)
        return of_http(status, words, getattr(response, "headers", None))
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, (ConnectionError, TimeoutError)) or names & set(_UNREACHABLE):
        return unusable("MODEL_UNREACHABLE", f"{type(error).__name__}: {error}")
    return None
