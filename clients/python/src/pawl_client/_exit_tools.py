"""The functions by which a model leaves a state or asks the person. They are no tools of the
pack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pawl_client._json_text import dump_json
from pawl_client._models import ModelCall
from pawl_client._output_schema import OutputSchema, embedded
from pawl_client._runs import ArtifactSlot
from pawl_client._turn_view import TurnView
from pawl_client._values import Json, JsonValue

LEAVE_STATE = "leave_state"
"""Name of the function by which a model leaves a state."""
ASK_USER = "ask_user"
"""Name of the function by which a model asks the person."""


def unused_name(name: str, turn: TurnView) -> str:
    """Returns the name, with underscores added while a tool of the prompt has it."""
    while name in {tool.name for tool in turn.tools}:
        name += "_"
    return name


def arguments_of(call: ModelCall) -> tuple[dict[str, Any], str]:
    """Returns the arguments of a call, or what is wrong with them."""
    if call.broken_arguments:
        return {}, f"the arguments are no JSON object: {call.broken_arguments[:256]}"
    try:
        given = json.loads(call.arguments or "{}")
        # Python also parses values that are not JSON: NaN, and lone surrogates.
        dump_json(given, "arguments")
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are no JSON: {error}"
    if not isinstance(given, dict):
        return {}, "the arguments are no object"
    return given, ""


@dataclass(frozen=True, slots=True)
class ExitCall:
    """The event, artifacts and output with which a model leaves a state."""

    event: str = ""
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    output: JsonValue | None = None


class ExitTool:
    """The function that leaves a state: its enum is the state's events, its arguments hold
    artifacts.
    """

    def __init__(self, turn: TurnView, output_schema: OutputSchema | None = None) -> None:
        self.name = unused_name(LEAVE_STATE, turn)
        self._events = list(turn.allowed_events)
        self._slots = {s.name: s for s in turn.artifact_slots if _is_text(s) or _is_json(s)}
        self._output_schema = output_schema

    def tool(self) -> dict[str, Any]:
        """The function as the model receives it."""
        properties: dict[str, Any] = {"event": {"type": "string", "enum": self._events}}
        if self._slots:
            properties["artifacts"] = {
                "type": "object",
                "properties": {name: _slot_schema(slot) for name, slot in self._slots.items()},
                "additionalProperties": False,
            }
        required = ["event"]
        roots: dict[str, Any] = {}
        if self._output_schema is not None:
            properties["output"], roots = embedded(self._output_schema.schema)
            required.append("output")
        return {
            "name": self.name,
            "description": "Ends this state. Choose the event that says how it went.",
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
                **roots,
            },
        }

    def read(self, call: ModelCall) -> tuple[ExitCall, str]:
        """Returns the content of a call, or what is wrong with it."""
        given, fault = arguments_of(call)
        fault = fault or self._fault(given)
        if fault:
            return ExitCall(), fault
        artifacts: dict[str, Any] = {}
        for name, value in (given.get("artifacts") or {}).items():
            artifacts[name] = value if _is_text(self._slots[name]) else JsonValue(value)
        output = None if self._output_schema is None else JsonValue(given["output"])
        return ExitCall(given["event"], artifacts, output), ""

    def _fault(self, given: Mapping[str, Json]) -> str:
        accepted = ["event", "artifacts"] + ["output"] * (self._output_schema is not None)
        for name in given:
            if name not in accepted:
                place = "; it belongs under artifacts" if name in self._slots else ""
                return f"{name}: no property of {self.name}, only {' and '.join(accepted)}{place}"
        if given.get("event") not in self._events:
            return f"event: one of {self._events}, not {given.get('event')!r}"
        if self._output_schema is not None:
            fault = (
                self._output_schema.value(given["output"])[1]
                if "output" in given
                else "it is missing"
            )
            if fault:
                return f"output: {fault}"
        writes = given.get("artifacts")
        if writes is None:
            return ""
        if not isinstance(writes, dict):
            return "artifacts: not an object"
        for name, value in writes.items():
            slot = self._slots.get(name)
            if slot is None:
                return f"artifacts: one of {sorted(self._slots)}, not {name!r}"
            if _is_text(slot) and not isinstance(value, str):
                return f"artifacts.{name}: a string, not {type(value).__name__}"
        return ""


class AskUserTool:
    """The function by which a model asks the person and waits for the answer."""

    def __init__(self, turn: TurnView) -> None:
        self.name = unused_name(ASK_USER, turn)

    def tool(self) -> dict[str, Any]:
        """The function as the model receives it."""
        return {
            "name": self.name,
            "description": "Asks the person a question; the answer is their next message.",
            "parameters": {
                "type": "object",
                "properties": {"question": {"type": "string", "minLength": 1}},
                "required": ["question"],
                "additionalProperties": False,
            },
        }

    def read(self, call: ModelCall) -> tuple[str, str]:
        """Returns the question of a call, or what is wrong with it."""
        given, fault = arguments_of(call)
        if fault:
            return "", fault
        unknown = [name for name in given if name != "question"]
        if unknown:
            return "", f"{unknown[0]}: no property of {self.name}, only question"
        question = given.get("question")
        if not isinstance(question, str) or not question:
            return "", f"question: a string, not empty, not {type(question).__name__}"
        return question, ""


def _is_json(slot: ArtifactSlot) -> bool:
    return slot.media_type == "application/json" or slot.media_type.endswith("+json")


def _is_text(slot: ArtifactSlot) -> bool:
    return slot.media_type.startswith("text/")


def _slot_schema(slot: ArtifactSlot) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": f"{slot.description} ({slot.media_type})".strip()}
    return schema | ({"type": "string"} if _is_text(slot) else {})
