"""The dialect of OpenAI's responses. Nothing is stored at the provider's, unless responses are
made in the background: reasoning comes back encrypted, is kept with the answer, and is told
again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pawl._dialect import (
    Ask,
    Dialect,
    Draft,
    base64_of,
    calls_of,
    count_of,
    ended_badly,
    failed,
    media_of,
    reported,
    text_of,
    words_of,
)
from pawl._models import ModelAnswer, ModelCall, ModelFailure
from pawl._own_items import TEXT, Own, Place, placed, places_of
from pawl._values import Message, Part, Usage

_PARAMETERS = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
_TAKES = "images and application/pdf, data or an http address"
_INCLUDED = ["reasoning.encrypted_content"]
_KEPT = "openai"
"""Under which key a message keeps the reasoning that the provider wants to have back."""


class ResponsesDialect(Dialect):
    """Responses."""

    name = "OpenAI responses"
    formats = "text"
    said = ("model", "input", "instructions", "stream", "tools")
    limits = ("max_output_tokens",)

    def create(self, client: Any) -> Callable[..., Any]:
        """See `Dialect.create`."""
        create: Callable[..., Any] = client.responses.create
        return create

    def draft(self) -> Draft:
        """See `Dialect.draft`."""
        return ResponsesDraft()

    def fetch(self, client: Any) -> Callable[..., Any] | None:
        """See `Dialect.fetch`: its events from the first one on."""
        retrieve = client.responses.retrieve
        return partial(retrieve, stream=True, include=_INCLUDED)

    def background(self, ask: Ask) -> bool:
        """See `Dialect.background`."""
        return ask.extra.get("background") is True

    def arguments(self, ask: Ask) -> dict[str, Any]:
        """See `Dialect.arguments`."""
        request = self.check(ask.parameters, _PARAMETERS)
        request.pop("max_output_tokens", None)
        request |= {
            "model": ask.model,
            "input": [item for message in ask.messages for item in self._items(message)],
            "stream": True,
            # What is made in the background is fetched from where it is stored.
            "store": self.background(ask),
            "include": _INCLUDED,
        }
        if ask.system:
            request["instructions"] = ask.system
        if ask.tools:
            kind = {"type": "function", "strict": False}
            request["tools"] = [kind | dict(tool) for tool in ask.tools]
        if ask.choice != "auto":
            request["tool_choice"] = ask.choice
        if ask.schema is not None:
            form = {"type": "json_schema", "name": "answer", "strict": True}
            request["text"] = {"format": form | {"schema": dict(ask.schema)}}
        return request | dict(ask.extra) | self.bounded(ask)

    def _items(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "tool":
            output = words_of(self, message.parts)
            kind = "function_call_output"
            return [{"type": kind, "call_id": message.tool_call_id, "output": output}]
        if message.role == "assistant":
            return self._said(message)
        content = [self._part(part) for part in message.parts]
        return [{"role": message.role, "content": content}] if content else []

    def _said(self, message: Message) -> list[dict[str, Any]]:
        """What the model said, each item in its place."""
        calls, text = calls_of(message), words_of(self, message.parts)
        items: list[dict[str, Any]] = []
        for place in places_of(_KEPT, message, len(calls)):
            if isinstance(place, Own):
                items.append(place.item)
            elif place == TEXT:
                items += [{"role": "assistant", "content": text}] if text else []
            elif isinstance(place, int) and place < len(calls):
                call = calls[place]
                said = {"name": call["name"], "arguments": call["arguments"]}
                items.append({"type": "function_call", "call_id": call["id"], **said})
        return items

    def _part(self, part: Part) -> dict[str, Any]:
        text, media = text_of(part), media_of(part)
        if text is not None:
            return {"type": "input_text", "text": text}
        url = part.uri or ""
        if part.data is not None:
            url = f"data:{media};base64,{base64_of(part.data)}"
        if media.startswith("image/") and url.startswith(("http://", "https://", "data:")):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        if media == "application/pdf" and part.data is not None:
            name = part.filename or "document.pdf"
            return {"type": "input_file", "filename": name, "file_data": url}
        if media == "application/pdf" and url.startswith(("http://", "https://")):
            return {"type": "input_file", "file_url": url}
        raise self.unsupported(part, _TAKES)


_DELTAS = (
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
)
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class ResponsesDraft(Draft):
    """An answer of responses as its events come in; the last one holds all of it."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Any] = []
        self._response: Any = None
        self._text = ""
        self._failure: ModelFailure | None = None

    def take(self, piece: Any) -> str:
        """See `Draft.take`."""
        if piece.type == "response.output_text.delta":
            self._text += piece.delta
            self.size += len(piece.delta)
            return str(piece.delta)
        if piece.type in _DELTAS:
            self.size += len(piece.delta)
        elif piece.type == "response.output_item.done":
            self._items.append(piece.item)
        elif piece.type == "error":
            self._failure = failed(piece.code, piece.message)
        elif piece.type in _ENDS:
            self._over(piece.response)
        elif piece.type == "response.created":
            self.response_id, self.model = piece.response.id, str(piece.response.model)
        return ""

    def _over(self, response: Any) -> None:
        self._response, self.over, error = response, True, response.error
        self.response_id, self.model = response.id, str(response.model)
        if response.usage is not None:
            self.usage = _usage(response.usage)
        if error is not None:
            self._failure = failed(error.code, error.message)

    def end(self) -> ModelAnswer | ModelFailure:
        """See `Draft.end`."""
        places: list[Place] = []
        calls: list[ModelCall] = []
        text = refusal = ""
        for item in getattr(self._response, "output", None) or self._items:
            if item.type == "function_call":
                places.append(len(calls))
                calls.append(ModelCall(id=item.call_id, name=item.name, arguments=item.arguments))
            elif item.type == "message":
                # All text is one; it stands where the first of it was.
                places += [TEXT] if TEXT not in places else []
                text += "".join(p.text for p in item.content if p.type == "output_text")
                refusal += "".join(p.refusal for p in item.content if p.type == "refusal")
            elif item.type == "reasoning":
                places.append(Own(item.model_dump(exclude_none=True, exclude={"status"})))
        text = text or self._text
        finish = _finish(self._response, bool(calls))
        return (
            self._failure
            or ended_badly(refusal, finish)
            or ModelAnswer(
                parts=(Part(text=text),) if text else (),
                calls=tuple(calls),
                finish_reason=finish,
                model=self.model,
                response_id=self.response_id,
                provider=placed(_KEPT, places),
            )
        )


def _finish(response: Any, called: bool) -> str:
    """Why it ended; empty: it did not."""
    details = getattr(response, "incomplete_details", None)
    reason = getattr(details, "reason", None)
    if reason in ("max_output_tokens", "content_filter"):
        return "length" if reason == "max_output_tokens" else "content_filter"
    if getattr(response, "status", None) != "completed":
        return ""
    return "tool_calls" if called else "stop"


def _usage(usage: Any) -> Usage:
    read, said = count_of(usage, "input_tokens"), count_of(usage, "output_tokens")
    cached = count_of(getattr(usage, "input_tokens_details", None), "cached_tokens")
    thought = count_of(getattr(usage, "output_tokens_details", None), "reasoning_tokens")
    return Usage(
        input_tokens=read,
        output_tokens=said,
        cached_tokens=min(cached, read),
        reasoning_tokens=min(thought, said),
        estimated=not reported(usage, "output_tokens"),
    )
