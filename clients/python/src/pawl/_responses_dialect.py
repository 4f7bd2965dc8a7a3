"""The dialect of OpenAI's responses. Nothing is stored at the provider's: reasoning comes back
encrypted, is kept with the answer, and is told again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pawl._dialect import (
    Ask,
    Dialect,
    Draft,
    base64_of,
    calls_of,
    ended_badly,
    media_of,
    text_of,
    unusable,
)
from pawl._models import ModelAnswer, ModelCall, ModelFailure
from pawl._values import Message, Part, Usage

_PARAMETERS = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
_TAKES = "images and application/pdf, data or an http address"
_KEPT = "openai"
"""Under which key a message keeps the reasoning that the provider wants to have back."""


class ResponsesDialect(Dialect):
    """Responses."""

    name = "OpenAI responses"

    def create(self, client: Any) -> Callable[..., Any]:
        """See `Dialect.create`."""
        create: Callable[..., Any] = client.responses.create
        return create

    def draft(self) -> Draft:
        """See `Dialect.draft`."""
        return ResponsesDraft()

    def arguments(self, ask: Ask) -> dict[str, Any]:
        """See `Dialect.arguments`."""
        request = self.check(ask.parameters, _PARAMETERS)
        request |= {
            "model": ask.model,
            "input": [item for message in ask.messages for item in self._items(message)],
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if ask.system:
            request["instructions"] = ask.system
        if ask.tools:
            kind = {"type": "function", "strict": False}
            request["tools"] = [kind | dict(tool) for tool in ask.tools]
        if ask.choice != "auto":
            request["tool_choice"] = ask.choice
        return request | dict(ask.extra)

    def _items(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "tool":
            output = "\n".join(text_of(part) or "" for part in message.parts)
            kind = "function_call_output"
            return [{"type": kind, "call_id": message.tool_call_id, "output": output}]
        kept = message.provider.get(_KEPT) if isinstance(message.provider, dict) else None
        items: list[dict[str, Any]] = list(kept or ())
        content = [self._part(part, message.role) for part in message.parts]
        if content:
            items.append({"role": message.role, "content": content})
        items += [
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["name"],
                "arguments": call["arguments"],
            }
            for call in calls_of(message)
        ]
        return items

    def _part(self, part: Part, role: str) -> dict[str, Any]:
        text, media = text_of(part), media_of(part)
        if text is not None:
            return {"type": "output_text" if role == "assistant" else "input_text", "text": text}
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


class ResponsesDraft(Draft):
    """An answer of responses as its events come in."""

    def __init__(self) -> None:
        super().__init__()
        self._text = self._refusal = self._finish = ""
        self._calls: list[ModelCall] = []
        self._kept: list[dict[str, Any]] = []
        self._failure: ModelFailure | None = None

    def take(self, piece: Any) -> str:
        """See `Draft.take`."""
        if piece.type == "response.output_text.delta":
            self._text += piece.delta
            return str(piece.delta)
        if piece.type == "response.refusal.delta":
            self._refusal += piece.delta
        elif piece.type == "response.output_item.done":
            self._item(piece.item)
        elif piece.type == "error":
            self._failure = unusable(f"MODEL_{piece.code or 'ERROR'}".upper(), piece.message)
        elif piece.type in ("response.completed", "response.incomplete", "response.failed"):
            self._over(piece.response)
        elif piece.type == "response.created":
            self.response_id, self.model = piece.response.id, str(piece.response.model)
        return ""

    def _item(self, item: Any) -> None:
        if item.type == "function_call":
            call = ModelCall(id=item.call_id, name=item.name, arguments=item.arguments)
            self._calls.append(call)
        elif item.type == "reasoning":
            kept = item.model_dump(exclude_none=True, exclude={"status"})
            self._kept.append(kept)

    def _over(self, response: Any) -> None:
        if response.usage is not None:
            self.usage = _usage(response.usage)
        details, error = response.incomplete_details, response.error
        if error is not None:
            self._failure = unusable(f"MODEL_{error.code}".upper(), error.message)
        reason = "" if details is None else details.reason or ""
        self._finish = "length" if reason == "max_output_tokens" else reason
        self._finish = self._finish or ("tool_calls" if self._calls else "stop")

    def end(self) -> ModelAnswer | ModelFailure:
        """See `Draft.end`."""
        return (
            self._failure
            or ended_badly(self._refusal, self._finish)
            or ModelAnswer(
                parts=(Part(text=self._text),) if self._text else (),
                calls=tuple(self._calls),
                finish_reason=self._finish,
                model=self.model,
                response_id=self.response_id,
                provider={_KEPT: self._kept} if self._kept else None,
            )
        )


def _usage(usage: Any) -> Usage:
    cached = getattr(usage.input_tokens_details, "cached_tokens", None) or 0
    thought = getattr(usage.output_tokens_details, "reasoning_tokens", None) or 0
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=min(cached, usage.input_tokens),
        reasoning_tokens=min(thought, usage.output_tokens),
    )
