"""One turn as an exchange with a chat model: what is asked, and what answers mean.

Pure: it neither calls the model nor makes steps. The wire format is that of OpenAI's
chat completions.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pawl._errors import FailTurnError
from pawl._outcomes import Reply
from pawl._requests import dump_json
from pawl._runs import ArtifactSlot
from pawl._turn_view import TurnView
from pawl._values import Json, JsonValue, Message, Part, Usage

LEAVE = "leave_state"
"""Name of the function by which a model leaves a state."""

_PARAMETERS = ("temperature", "top_p", "max_tokens", "seed", "stop", "frequency_penalty")
_REMINDER = f"Call {LEAVE} to go on; text alone does not move the run."


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asks for."""

    id: str
    tool: str
    arguments: Mapping[str, Json]
    key: str


@dataclass(slots=True)
class _Draft:
    """A tool call as its pieces come in."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Answer:
    """An answer of the model as its pieces come in."""

    text: str = ""
    refusal: str = ""
    finish: str = ""
    calls: dict[int, _Draft] = field(default_factory=dict)


class Exchange:
    """The exchange of one turn.

    The model moves the run by calling one function, whose enum is the state's allowed
    events and whose arguments carry the artifacts; nothing else can. `reply` is set
    once the turn is over.
    """

    def __init__(self, turn: TurnView, *, model: str, max_rounds: int) -> None:
        self.reply: Reply | None = None
        self._turn, self._model, self._left = turn, model, max_rounds
        taken = {tool.name for tool in turn.tools}
        self._leave = LEAVE
        while self._leave in taken:
            self._leave += "_"
        self._slots = {s.name: s for s in turn.artifact_slots if _is_text(s) or _is_json(s)}
        self._messages = [{"role": "system", "content": turn.system_prompt}]
        self._messages += [_to_wire(message) for message in turn.messages]
        self._said: list[Message] = []
        self._usage = Usage(model=model)
        self._answer = _Answer()
        self._seen: Counter[str] = Counter()

    def request(self) -> dict[str, Any]:
        """Arguments of the next call. Raises FailTurnError after too many rounds."""
        if self._left == 0:
            raise FailTurnError("MAX_ROUNDS", "the model did not come to an end")
        self._left -= 1
        self._answer = _Answer()
        given = (self._turn.settings or {}).get("parameters") or {}
        request: dict[str, Any] = {k: given[k] for k in _PARAMETERS if given.get(k) is not None}
        request |= {"model": self._model, "messages": list(self._messages), "stream": True}
        request["stream_options"] = {"include_usage": True}
        tools = self._tools()
        if tools:
            request["tools"] = tools
        return request

    def take(self, chunk: Any) -> str:
        """Takes a piece of the stream; returns the text in it."""
        if chunk.usage is not None:
            self._usage += Usage(
                input_tokens=chunk.usage.prompt_tokens, output_tokens=chunk.usage.completion_tokens
            )
        if not chunk.choices:
            return ""
        choice, answer = chunk.choices[0], self._answer
        answer.finish = choice.finish_reason or answer.finish
        answer.refusal += getattr(choice.delta, "refusal", None) or ""
        for piece in choice.delta.tool_calls or ():
            draft = answer.calls.setdefault(piece.index, _Draft())
            draft.id = piece.id or draft.id
            if piece.function is not None:
                draft.name += piece.function.name or ""
                draft.arguments += piece.function.arguments or ""
        text: str = choice.delta.content or ""
        answer.text += text
        return text

    def finish(self) -> list[Call]:
        """Ends an answer; returns the tool calls to make before the next request.

        Raises FailTurnError for an answer that cannot be used at all.
        """
        answer = self._answer
        _check_end(answer)
        if not answer.calls:
            self._end_of_text(answer.text)
            return []
        drafts = [answer.calls[index] for index in sorted(answer.calls)]
        if len(drafts) == 1 and drafts[0].name == self._leave:
            self._try_to_leave(answer.text, drafts[0])
            return []
        self._say(answer.text, drafts)
        return [call for call in map(self._call_of, drafts) if call is not None]

    def answered(self, call: Call, result: Json) -> None:
        """Takes the result of a tool call."""
        self._tell(call.id, dump_json(result), keep=True)

    def refused(self, call: Call, error: Exception) -> None:
        """Takes the error of a tool call; the model is told."""
        self._tell(call.id, dump_json({"error": str(error)}), keep=True)

    # What the model can call

    def _tools(self) -> list[dict[str, Any]]:
        nothing = {"type": "object", "properties": {}}
        tools = [
            _function(t.name, t.description, t.parameters or nothing) for t in self._turn.tools
        ]
        if self._turn.allowed_events:
            tools.append(
                _function(
                    self._leave,
                    "Ends this state. Choose the event that says how it went.",
                    self._leave_schema(),
                )
            )
        return tools

    def _leave_schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "event": {"type": "string", "enum": list(self._turn.allowed_events)}
        }
        if self._slots:
            properties["artifacts"] = {
                "type": "object",
                "properties": {name: _slot_schema(slot) for name, slot in self._slots.items()},
                "additionalProperties": False,
            }
        return {
            "type": "object",
            "properties": properties,
            "required": ["event"],
            "additionalProperties": False,
        }

    # What its answers mean

    def _end_of_text(self, text: str) -> None:
        self._said.append(Message.of("assistant", text))
        if not self._turn.allowed_events:
            self._done(text)
            return
        self._messages.append({"role": "assistant", "content": text})
        self._messages.append({"role": "user", "content": _REMINDER.replace(LEAVE, self._leave)})

    def _try_to_leave(self, text: str, draft: _Draft) -> None:
        fault = self._leave_with(text, draft.arguments)
        if fault:
            self._messages.append(_with_calls(text, [draft]))
            self._tell(draft.id, dump_json({"error": fault}), keep=False)

    def _leave_with(self, text: str, arguments: str) -> str:
        """Leaves the state, or says what is wrong with the arguments."""
        try:
            given = json.loads(arguments)
        except ValueError as error:
            return f"the arguments are no JSON: {error}"
        if not isinstance(given, dict):
            return "the arguments are no object"
        event, writes = given.get("event"), given.get("artifacts") or {}
        if event not in self._turn.allowed_events:
            return f"event: one of {list(self._turn.allowed_events)}, not {event!r}"
        if not isinstance(writes, dict):
            return "artifacts: not an object"
        artifacts: dict[str, Any] = {}
        for name, value in writes.items():
            slot = self._slots.get(name)
            if slot is None:
                return f"artifacts: one of {sorted(self._slots)}, not {name!r}"
            if _is_text(slot) and not isinstance(value, str):
                return f"artifacts.{name}: a string, not {type(value).__name__}"
            artifacts[name] = value if _is_text(slot) else JsonValue(value)
        if text:
            self._said.append(Message.of("assistant", text))
        self._done(text, event, artifacts)
        return ""

    def _done(self, text: str, event: str = "", artifacts: Mapping[str, Any] | None = None) -> None:
        self.reply = Reply(
            event=event,
            artifacts=artifacts or {},
            output=text or None,
            messages=tuple(self._said),
            usage=self._usage,
        )

    def _call_of(self, draft: _Draft) -> Call | None:
        """The call of a draft; None if the model is told what is wrong with it."""
        fault, arguments = "", {}
        try:
            arguments = json.loads(draft.arguments or "{}")
        except ValueError as error:
            fault = f"the arguments are no JSON: {error}"
        names = [tool.name for tool in self._turn.tools]
        if draft.name == self._leave:
            fault = f"call {self._leave} alone, once all other calls are answered"
        elif draft.name not in names:
            fault = f"there is no tool {draft.name!r}, only {names}"
        elif not fault and not isinstance(arguments, dict):
            fault = "the arguments are no object"
        if fault:
            self._tell(draft.id, dump_json({"error": fault}), keep=True)
            return None
        return Call(draft.id, draft.name, arguments, self._key(draft.name, arguments))

    def _key(self, tool: str, arguments: Json) -> str:
        """The same call has the same key in every attempt, whatever else is asked."""
        canonical = json.dumps([tool, arguments], sort_keys=True).encode()
        digest = hashlib.sha256(canonical).hexdigest()[:24]
        self._seen[digest] += 1
        return f"{digest}.{self._seen[digest]}"

    def _say(self, text: str, drafts: list[_Draft]) -> None:
        wire = _with_calls(text, drafts)
        self._messages.append(wire)
        parts = (Part(text=text),) if text else ()
        self._said.append(Message(role="assistant", parts=parts, tool_calls=wire["tool_calls"]))

    def _tell(self, call_id: str, text: str, *, keep: bool) -> None:
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
        if keep:
            part = Part(text=text)
            self._said.append(Message(role="tool", parts=(part,), tool_call_id=call_id))


def _check_end(answer: _Answer) -> None:
    if answer.refusal:
        raise FailTurnError("REFUSED", answer.refusal)
    if answer.finish == "content_filter":
        raise FailTurnError("CONTENT_FILTER", "the answer was filtered")
    if answer.finish == "length":
        raise FailTurnError("TRUNCATED", "the answer was longer than max_tokens")
    if not answer.finish:
        raise FailTurnError("STREAM_TRUNCATED", "the stream ended in the midst of the answer")


def _function(name: str, description: str, parameters: Json) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _is_json(slot: ArtifactSlot) -> bool:
    return slot.media_type == "application/json" or slot.media_type.endswith("+json")


def _is_text(slot: ArtifactSlot) -> bool:
    return slot.media_type.startswith("text/")


def _slot_schema(slot: ArtifactSlot) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": f"{slot.description} ({slot.media_type})".strip()}
    return schema | ({"type": "string"} if _is_text(slot) else {})


def _with_calls(text: str, drafts: list[_Draft]) -> dict[str, Any]:
    calls = [
        {"id": d.id, "type": "function", "function": {"name": d.name, "arguments": d.arguments}}
        for d in drafts
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _to_wire(message: Message) -> dict[str, Any]:
    """A message of the conversation as the model reads it."""
    wire: dict[str, Any] = {"role": message.role, "content": _content(message.parts)}
    if message.tool_calls:
        wire["tool_calls"] = message.tool_calls
        wire["content"] = wire["content"] or None
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _content(parts: tuple[Part, ...]) -> Any:
    texts = [_text(part) for part in parts if not _is_image(part)]
    if not any(_is_image(part) for part in parts):
        return "\n".join(texts)
    return [
        {"type": "image_url", "image_url": {"url": part.uri}}
        if _is_image(part)
        else {"type": "text", "text": _text(part)}
        for part in parts
    ]


def _is_image(part: Part) -> bool:
    return part.uri is not None and part.media_type.startswith("image/")


def _text(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.json is not None:
        return dump_json(part.json.value)
    return part.uri or f"[{len(part.data or b'')} bytes of {part.media_type or 'data'}]"
