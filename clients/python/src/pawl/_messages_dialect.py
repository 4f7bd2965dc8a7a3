"""The dialect of Anthropic's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pawl._dialect import (
    Ask,
    Dialect,
    Draft,
    base64_of,
    calls_of,
    ended_badly,
    media_of,
    object_of,
    text_of,
)
from pawl._models import ModelAnswer, ModelCall, ModelFailure
from pawl._requests import dump_json
from pawl._values import Json, Message, Part, Usage

_PARAMETERS = {name: name for name in ("temperature", "top_p", "top_k", "max_tokens")}
_MOST_TOKENS = 4096
"""Where the pack says nothing: the provider wants to be told."""
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_TAKES = f"{', '.join(_IMAGES)} and application/pdf, data or an http address"
_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls"}
_FINISH |= {"max_tokens": "length", "model_context_window_exceeded": "length"}
_KEPT = "anthropic"
"""Under which key a message keeps the thinking that the provider wants to have back."""


class MessagesDialect(Dialect):
    """Messages."""

    name = "Anthropic messages"

    def create(self, client: Any) -> Callable[..., Any]:
        """See `Dialect.create`."""
        create: Callable[..., Any] = client.messages.create
        return create

    def draft(self) -> Draft:
        """See `Dialect.draft`."""
        return MessagesDraft()

    def arguments(self, ask: Ask) -> dict[str, Any]:
        """See `Dialect.arguments`."""
        given = self.check(ask.parameters, _PARAMETERS)
        request = {
            "model": ask.model,
            "messages": self._messages(ask.messages),
            "max_tokens": given.pop("max_tokens", _MOST_TOKENS),
            "stream": True,
        }
        if given:
            # Newer versions of the package have no words for them; models that take them do.
            request["extra_body"] = given
        if ask.system:
            request["system"] = ask.system
        tools = [_tool(t["name"], t["description"], t["parameters"]) for t in ask.tools]
        if tools and ask.choice == "required":
            request["tool_choice"] = {"type": "any"}
        if not tools:
            # Calls that were made are not taken without the tools that they were made of.
            names = {call["name"] for message in ask.messages for call in calls_of(message)}
            tools = [_tool(name, "", {"type": "object"}) for name in sorted(names)]
            request |= {"tool_choice": {"type": "none"}} if tools else {}
        if tools:
            request["tools"] = tools
        return request | dict(ask.extra)

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Messages whose roles take turns, as the provider wants them."""
        wired: list[dict[str, Any]] = []
        for message in messages:
            role = "assistant" if message.role == "assistant" else "user"
            blocks = self._blocks(message)
            if wired and wired[-1]["role"] == role:
                wired[-1]["content"] += blocks
            elif blocks:
                wired.append({"role": role, "content": blocks})
        return wired

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "tool":
            return [_result(message)]
        kept = message.provider.get(_KEPT) if isinstance(message.provider, dict) else None
        blocks: list[dict[str, Any]] = list(kept or ())
        blocks += [self._part(part) for part in message.parts if part.text != ""]
        for call in calls_of(message):
            given = object_of(call["arguments"])
            blocks.append(
                {"type": "tool_use", "id": call["id"], "name": call["name"], "input": given}
            )
        return blocks

    def _part(self, part: Part) -> dict[str, Any]:
        text, media = text_of(part), media_of(part)
        if text is not None:
            return {"type": "text", "text": text}
        kind = "image" if media in _IMAGES else "document" if media == "application/pdf" else ""
        if kind and part.data is not None:
            data = base64_of(part.data)
            source = {"type": "base64", "media_type": media, "data": data}
            return {"type": kind, "source": source}
        if kind and str(part.uri).startswith(("http://", "https://")):
            return {"type": kind, "source": {"type": "url", "url": part.uri}}
        raise self.unsupported(part, _TAKES)


class MessagesDraft(Draft):
    """An answer of messages as its events come in."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._finish = ""

    def take(self, piece: Any) -> str:
        """See `Draft.take`."""
        if piece.type == "message_start":
            self.response_id, self.model = piece.message.id, piece.message.model
            self._count(piece.message.usage)
        elif piece.type == "content_block_start":
            block = piece.content_block.model_dump(exclude_none=True)
            self._blocks[piece.index] = block | ({"input": ""} if "input" in block else {})
        elif piece.type == "content_block_delta":
            return self._add(self._blocks[piece.index], piece.delta)
        elif piece.type == "message_delta":
            reason = piece.delta.stop_reason or ""
            self._finish = _FINISH.get(reason, reason)
            self._count(piece.usage)
        return ""

    def _add(self, block: dict[str, Any], delta: Any) -> str:
        if delta.type == "text_delta":
            block["text"] = block.get("text", "") + delta.text
            return str(delta.text)
        if delta.type == "input_json_delta":
            block["input"] = block.get("input", "") + delta.partial_json
        elif delta.type == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta.thinking
        elif delta.type == "signature_delta":
            block["signature"] = delta.signature
        return ""

    def _count(self, usage: Any) -> None:
        """Takes what was consumed so far: each event tells the sum."""
        cached = getattr(usage, "cache_read_input_tokens", None) or 0
        read = (usage.input_tokens or 0) + cached
        read += getattr(usage, "cache_creation_input_tokens", None) or 0
        before = self.usage
        self.usage = Usage(
            input_tokens=max(read, before.input_tokens),
            output_tokens=max(usage.output_tokens or 0, before.output_tokens),
            cached_tokens=max(cached, before.cached_tokens),
        )

    def end(self) -> ModelAnswer | ModelFailure:
        """See `Draft.end`."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        refusal = (text or "no words") if self._finish == "refusal" else ""
        kept = [b for b in blocks if b["type"] in ("thinking", "redacted_thinking")]
        return ended_badly(refusal, self._finish) or ModelAnswer(
            parts=(Part(text=text),) if text else (),
            calls=tuple(
                ModelCall(id=b["id"], name=b["name"], arguments=b["input"] or "{}")
                for b in blocks
                if b["type"] == "tool_use"
            ),
            finish_reason=self._finish,
            model=self.model,
            response_id=self.response_id,
            provider={_KEPT: kept} if kept else None,
        )


def _tool(name: str, description: str, schema: Json) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}


def _result(message: Message) -> dict[str, Any]:
    values = [part.json.value if part.json else text_of(part) for part in message.parts]
    texts = [value if isinstance(value, str) else dump_json(value) for value in values]
    failed = any(isinstance(value, dict) and set(value) == {"error"} for value in values)
    block = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": "\n".join(texts),
    }
    return block | ({"is_error": True} if failed else {})
