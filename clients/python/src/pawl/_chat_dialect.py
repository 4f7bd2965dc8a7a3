"""The dialect of OpenAI's chat completions, which many other endpoints speak as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pawl._dialect import (
    Ask,
    Dialect,
    Draft,
    base64_of,
    calls_of,
    count_of,
    ended_badly,
    media_of,
    reported,
    text_of,
)
from pawl._models import ModelAnswer, ModelCall, ModelFailure
from pawl._values import Message, Part, Usage

_PARAMETERS = {
    name: name
    for name in ("temperature", "top_p", "max_tokens", "frequency_penalty", "presence_penalty")
}
_NEWER = "max_completion_tokens"
"""OpenAI's own newer models refuse max_tokens, which is all that many other endpoints know."""
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_TAKES = "images (data or an http address), audio/wav and audio/mpeg data, and application/pdf data"


class ChatDialect(Dialect):
    """Chat completions."""

    name = "chat completions"
    formats = "response_format"
    said = ("model", "messages", "stream", "tools")
    limits = ("max_tokens", _NEWER)

    def create(self, client: Any) -> Callable[..., Any]:
        """See `Dialect.create`."""
        host = str(getattr(getattr(client, "base_url", None), "host", ""))
        if host == "api.openai.com" or host.endswith(".api.openai.com"):
            self.limits = (_NEWER, "max_tokens")
        create: Callable[..., Any] = client.chat.completions.create
        return create

    def another(self, error: Exception, ask: Ask) -> bool:
        """See `Dialect.another`: the provider names the newer word for the bound. Nothing else is
        taken for that: who knows the older one alone would pass over the newer."""
        said = any(name in ask.extra for name in self.limits)
        refused = getattr(error, "status_code", None) == 400 and _NEWER in str(error)
        if not refused or said or not ask.most or self.limits[0] == _NEWER:
            return False
        self.limits = (_NEWER, "max_tokens")
        return True

    def draft(self) -> Draft:
        """See `Dialect.draft`."""
        return ChatDraft()

    def arguments(self, ask: Ask) -> dict[str, Any]:
        """See `Dialect.arguments`."""
        request = self.check(ask.parameters, _PARAMETERS)
        request.pop("max_tokens", None)
        system = [{"role": "system", "content": ask.system}] if ask.system else []
        request |= {
            "model": ask.model,
            "messages": system + [self._message(message) for message in ask.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if ask.tools:
            request["tools"] = [{"type": "function", "function": dict(t)} for t in ask.tools]
        if ask.choice != "auto":
            request["tool_choice"] = ask.choice
        if ask.schema is not None:
            form = {"name": "answer", "schema": dict(ask.schema), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return request | dict(ask.extra) | self.bounded(ask)

    def _message(self, message: Message) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message.role, "content": self._content(message.parts)}
        calls = calls_of(message)
        if calls:
            wire["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": _function(c)} for c in calls
            ]
            wire["content"] = wire["content"] or None
        if message.tool_call_id:
            wire["tool_call_id"] = message.tool_call_id
        return wire

    def _content(self, parts: Sequence[Part]) -> Any:
        texts = [text_of(part) for part in parts]
        if None not in texts:
            return "\n".join(text for text in texts if text is not None)
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> dict[str, Any]:
        text, media = text_of(part), media_of(part)
        if text is not None:
            return {"type": "text", "text": text}
        if media.startswith("image/"):
            if part.data is not None:
                return _image(f"data:{media};base64,{base64_of(part.data)}")
            if str(part.uri).startswith(("http://", "https://", "data:")):
                return _image(str(part.uri))
        if media in _AUDIO and part.data is not None:
            audio = {"data": base64_of(part.data), "format": _AUDIO[media]}
            return {"type": "input_audio", "input_audio": audio}
        if media == "application/pdf" and part.data is not None:
            name = part.filename or "document.pdf"
            data = f"data:{media};base64,{base64_of(part.data)}"
            return {"type": "file", "file": {"filename": name, "file_data": data}}
        raise self.unsupported(part, _TAKES)


class ChatDraft(Draft):
    """An answer of chat completions as its chunks come in."""

    def __init__(self) -> None:
        super().__init__()
        self._text = self._refusal = self._finish = ""
        self._calls: dict[int, ModelCall] = {}

    def take(self, piece: Any) -> str:
        """See `Draft.take`."""
        self.response_id, self.model = piece.id or self.response_id, piece.model or self.model
        if piece.usage is not None:
            self.usage = usage_of(piece.usage)
        if not piece.choices:
            return ""
        choice = piece.choices[0]
        self._finish = choice.finish_reason or self._finish
        return "" if choice.delta is None else self._take(choice.delta)

    def _take(self, delta: Any) -> str:
        refusal = getattr(delta, "refusal", None) or ""
        self._refusal += refusal
        for call in delta.tool_calls or ():
            self._call(call)
        text: str = delta.content or ""
        self._text += text
        self.size += len(text) + len(refusal)
        return text

    def _call(self, piece: Any) -> None:
        # Some endpoints tell whole calls, without their place.
        index = len(self._calls) if piece.index is None else piece.index
        before, said = self._calls.get(index, ModelCall()), piece.function
        arguments = (said and said.arguments) or ""
        self._calls[index] = ModelCall(
            id=piece.id or before.id,
            name=before.name + ((said and said.name) or ""),
            arguments=before.arguments + arguments,
        )
        self.size += len(arguments)

    def end(self) -> ModelAnswer | ModelFailure:
        """See `Draft.end`."""
        calls = [(index, self._calls[index]) for index in sorted(self._calls)]
        return ended_badly(self._refusal, self._finish) or ModelAnswer(
            parts=(Part(text=self._text),) if self._text else (),
            # What is answered is found by the id: a call without one gets one.
            calls=tuple(replace(call, id=call.id or f"call_{index}") for index, call in calls),
            finish_reason=self._finish,
            model=self.model,
            response_id=self.response_id,
        )


def usage_of(usage: Any) -> Usage:
    """What a call consumed, in the words of chat completions."""
    read, said = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
    cached = count_of(getattr(usage, "prompt_tokens_details", None), "cached_tokens")
    thought = count_of(getattr(usage, "completion_tokens_details", None), "reasoning_tokens")
    return Usage(
        input_tokens=read,
        output_tokens=said,
        cached_tokens=min(cached, read),
        reasoning_tokens=min(thought, said),
        estimated=not reported(usage, "completion_tokens"),
    )


def _function(call: dict[str, str]) -> dict[str, str]:
    return {"name": call["name"], "arguments": call["arguments"]}


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}
