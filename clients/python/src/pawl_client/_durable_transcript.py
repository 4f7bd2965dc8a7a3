"""Builds the recorded form of a run's model requests; adapters of agent libraries share it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pawl_client._json_text import dump_json
from pawl_client._models import ModelMessage, ModelRequest, ToolCallRef, ToolResult
from pawl_client._turn_requests import StepCall
from pawl_client._values import Json, Message, Usage

_BYTES_PER_TOKEN = 4
_OUTPUT_TOKENS = 4096
"""Tokens of an answer that a budget reserves if the settings have no maximum."""


@dataclass(slots=True)
class RequestRecorder:
    """Builds the recorded form of each request of one run.

    A request whose messages continue the previous one has only the new messages.
    """

    _previous: int = 0
    _sent: list[Message] = field(default_factory=list)
    _fixed: tuple[str, Json, Json] = ("", None, None)
    _asked: tuple[list[Message], tuple[str, Json, Json]] = field(
        default_factory=lambda: ([], ("", None, None))
    )
    """The messages of the last request, and what else it has. It may remain without an answer."""
    _results: dict[str, tuple[int, Json]] = field(default_factory=dict)

    def record(
        self, model: str, system: str, tools: Json, parameters: Json, sent: list[Message]
    ) -> ModelRequest:
        """Returns the recorded form of a request with these messages."""
        fixed = (system, tools, parameters)
        follows = bool(self._previous) and sent[: len(self._sent)] == self._sent
        new = sent[len(self._sent) :] if follows else sent
        same = follows and fixed == self._fixed
        request = ModelRequest(
            model=model,
            previous_step=self._previous if follows else 0,
            system=None if same else system,
            tools=None if same else tools,
            parameters=None if same else parameters,
            messages=tuple(self._entry(message) for message in new),
        )
        self._asked = (sent, fixed)
        return request

    def answered_with(self, step: int, messages: Iterable[Message]) -> None:
        """Notes the answer of the last request."""
        self._previous = step
        sent, self._fixed = self._asked
        self._sent = [*sent, *messages]
        self._asked = (self._sent, self._fixed)

    def returned(self, call_id: str, step: int, result: Json) -> None:
        """Notes the recorded result of a tool call."""
        self._results[call_id] = (step, result)

    def _entry(self, message: Message) -> ModelMessage:
        """Returns a message, or the reference to the step whose result it is."""
        if message.role == "tool" and message.tool_call_id in self._results:
            step, result = self._results[message.tool_call_id]
            value = message.parts[0].json
            if value is not None and value.value == result:
                return ModelMessage(result=ToolResult(step=step, call_id=message.tool_call_id))
        return ModelMessage(message=message)

    def bound_of(self, size: int, output: int) -> Usage:
        """Returns what the last request may consume, estimated from the bytes of its messages.

        `output` are the tokens of the longest answer; 0: no limit is set.
        """
        system, tools, _ = self._asked[1]
        fixed = len(system.encode()) + len(dump_json(tools, "request").encode())
        return Usage(
            input_tokens=-(-(size + fixed) // _BYTES_PER_TOKEN),
            output_tokens=output or _OUTPUT_TOKENS,
        )


@dataclass(frozen=True, slots=True)
class CallPlace:
    """A tool call of an answer: the answer's step and key, and its place, its tool and its id."""

    step: int
    answer: str
    index: int
    tool: str
    call_id: str

    @property
    def key(self) -> str:
        """The key of the call's step."""
        return f"{self.answer}/{self.index}"


class CallPlaces:
    """The places of one run's tool calls, which are the same in each execution (ADR 0101)."""

    def __init__(self) -> None:
        self._places: dict[str, CallPlace] = {}
        """The model's calls, by the library's id; the newest of an id counts."""
        self._times: dict[str, int] = {}
        """How often each call was executed: an approved one is called a second time."""
        self._latest: list[CallPlace] = []

    def answered(self, step: int, answer: str, calls: Iterable[tuple[str, str]]) -> None:
        """Notes the calls of an answer: the tool and the id of each."""
        self._latest = [
            CallPlace(step, answer, index, tool, call_id)
            for index, (tool, call_id) in enumerate(calls)
        ]
        for place in self._latest:
            self._places[place.call_id] = place
            self._times.pop(place.call_id, None)

    def latest(self, tool: str) -> str | None:
        """Returns the id of the first call of a tool in the newest answer. None means that it has
        none.
        """
        return next((place.call_id for place in self._latest if place.tool == tool), None)

    def step(self, tool: str, payload: Json, call_id: str) -> tuple[StepCall, str]:
        """Returns the step of a call, and its key."""
        known = self._places.get(call_id)
        key = self.key(call_id, known.key if known else f"history/{call_id}")
        if known is not None and key == known.key:
            ref = ToolCallRef(model_step=known.step, index=known.index)
            return StepCall(tool, payload, call=ref), key
        return StepCall(tool, payload, key=key), key

    def key(self, what: str, first: str) -> str:
        """Returns the key of the next execution of something: `first`, "first~2", and so on."""
        before = self._times.get(what, 0)
        self._times[what] = before + 1
        return f"{first}~{before + 1}" if before else first


def arguments_of(text: str) -> tuple[str, str]:
    """Returns the arguments as the text of a JSON object. If the text is no object: "{}" and the
    text.

    >>> arguments_of('{"city": "Rome"}'), arguments_of("Rome")
    (('{"city": "Rome"}', ''), ('{}', 'Rome'))
    """
    try:
        whole = isinstance(json.loads(text), dict)
    except ValueError:
        whole = False
    return (text, "") if whole else ("{}", text)


def size_of(messages: Sequence[Message]) -> int:
    """Returns the bytes of messages, with 1000 for a part that is neither text nor JSON."""
    return sum(
        len(part.text.encode())
        if part.text is not None
        else len(dump_json(part.json.value, "messages").encode())
        if part.json is not None
        else 1000
        for message in messages
        for part in message.parts
    )
