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
    count_of,
    ended_badly,
    media_of,
    object_of,
    reported,
    text_of,
    words_of,
)
from pawl._json_text import dump_json, whole_in
from pawl._models import ModelAnswer, ModelCall, ModelFailure
from pawl._own_items import TEXT, Own, Place, placed, places_of
from pawl._values import Json, Message, Part, Usage

_PARAMETERS = {name: name for name in ("temperature", "top_p", "top_k", "max_tokens")}
_MOST_TOKENS = 4096
"""Where the pack says nothing: the provider wants to be told."""
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_TAKES = f"{', '.join(_IMAGES)} and application/pdf, data or an http address"
_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls"}
_FINISH |= {"max_tokens": "length", "model_context_window_exceeded": "length"}
_FINISH |= {"refusal": "content_filter"}
_KEPT = "anthropic"
"""Under which key a message keeps the thinking that the provider wants to have back."""


class MessagesDialect(Dialect):
    """Messages."""

    name = "Anthropic messages"
    formats = "output_config"
    said = ("model", "messages", "system", "stream", "tools")
    limits = ("max_tokens",)

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
        given.pop("max_tokens", None)
        request = {
            "model": ask.model,
            "messages": self._messages(ask.messages),
            "max_tokens": _MOST_TOKENS,
            "stream": True,
        }
        if ask.system:
            request["system"] = ask.system
        tools = [_tool(t["name"], t["description"], t["parameters"]) for t in ask.tools]
        if tools and ask.choice == "required":
            request["tool_choice"] = {"type": "any"}
        if not tools:
            # Calls that were made are not taken without the tools that they were made of.
            names = {c["name"] for message in ask.messages for c in calls_of(message)}
            tools = [_tool(name, "", {"type": "object"}) for name in sorted(names)]
            request |= {"tool_choice": {"type": "none"}} if tools else {}
        if tools:
            request["tools"] = tools
        if ask.schema is not None:
            form = {"type": "json_schema", "schema": dict(ask.schema)}
            given["output_config"] = {"format": form}
        extra = dict(ask.extra)
        if given:
            # Not every version of the package has words for them; models that take them do.
            request["extra_body"] = given | dict(extra.pop("extra_body", None) or {})
        return request | extra | self.bounded(ask)

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
            return [self._result(message)]
        if message.role == "assistant":
            return self._said(message)
        return [self._part(part) for part in message.parts if part.text != ""]

    def _said(self, message: Message) -> list[dict[str, Any]]:
        """What the model said, each block in its place."""
        calls, text = calls_of(message), words_of(self, message.parts)
        blocks: list[dict[str, Any]] = []
        for place in places_of(_KEPT, message, len(calls)):
            if isinstance(place, Own):
                blocks.append(place.item)
            elif place == TEXT:
                blocks += [{"type": "text", "text": text}] if text else []
            elif isinstance(place, int) and place < len(calls):
                call = calls[place]
                said = {"name": call["name"], "input": object_of(call["arguments"])}
                blocks.append({"type": "tool_use", "id": call["id"], **said})
        return blocks

    def _result(self, message: Message) -> dict[str, Any]:
        """What a tool answered. A text in JSON goes as it is."""
        texts = [
            part.json.value
            if part.json is not None and isinstance(part.json.value, str)
            else words_of(self, [part])
            for part in message.parts
        ]
        values = [part.json.value for part in message.parts if part.json is not None]
        failed = any(isinstance(value, dict) and set(value) == {"error"} for value in values)
        block = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": "\n".join(texts),
        }
        return block | ({"is_error": True} if failed else {})

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
            if block["type"] == "tool_use":
                # Some endpoints tell whole arguments at once.
                block["input"] = (
                    dump_json(whole_in(block["input"]), "input") if block.get("input") else ""
                )
            self._blocks[piece.index] = block
        elif piece.type == "content_block_delta":
            return self._add(self._blocks[piece.index], piece.delta)
        elif piece.type == "message_delta":
            reason = piece.delta.stop_reason or ""
            self._finish = _FINISH.get(reason, reason)
            self._count(piece.usage, whole=reported(piece.usage, "output_tokens"))
        return ""

    def _add(self, block: dict[str, Any], delta: Any) -> str:
        field = _FIELDS.get(delta.type)
        if field is None:
            return ""
        name, grown = field
        piece = str(getattr(delta, name))
        self.size += len(piece)
        before = block.get(grown)
        block[grown] = (before if isinstance(before, str) else "") + piece
        return piece if delta.type == "text_delta" else ""

    def _count(self, usage: Any, *, whole: bool = False) -> None:
        """Takes what was consumed so far: each event tells the sum, the last one all of it."""
        cached = count_of(usage, "cache_read_input_tokens")
        read = count_of(usage, "input_tokens") + cached
        read += count_of(usage, "cache_creation_input_tokens")
        before = self.usage
        said = max(count_of(usage, "output_tokens"), before.output_tokens)
        details = getattr(usage, "output_tokens_details", None)
        thought = count_of(details, "thinking_tokens") or before.reasoning_tokens
        self.usage = Usage(
            input_tokens=max(read, before.input_tokens),
            output_tokens=said,
            cached_tokens=max(cached, before.cached_tokens),
            reasoning_tokens=min(thought, said),
            estimated=not whole,
        )

    def end(self) -> ModelAnswer | ModelFailure:
        """See `Draft.end`."""
        places: list[Place] = []
        calls: list[ModelCall] = []
        text = ""
        for block in (self._blocks[index] for index in sorted(self._blocks)):
            if block["type"] == "tool_use":
                places.append(len(calls))
                arguments = block["input"] or "{}"
                calls.append(ModelCall(id=block["id"], name=block["name"], arguments=arguments))
            elif block["type"] == "text":
                # All text is one; it stands where the first of it was.
                places += [TEXT] if TEXT not in places else []
                text += block["text"]
            else:
                places.append(Own(_own(block)))
        return ended_badly("", self._finish) or ModelAnswer(
            parts=(Part(text=text),) if text else (),
            calls=tuple(calls),
            finish_reason=self._finish,
            model=self.model,
            response_id=self.response_id,
            provider=placed(_KEPT, places),
        )


_FIELDS = {
    "text_delta": ("text", "text"),
    "input_json_delta": ("partial_json", "input"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
"""What of a piece adds to which field of its block, by the kind of the piece."""


def _own(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the provider's own. What such a one was called with came as text."""
    given = block.get("input")
    return block | {"input": object_of(given)} if isinstance(given, str) else block


def _tool(name: str, description: str, schema: Json) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}
