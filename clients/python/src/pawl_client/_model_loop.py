"""Executes one turn as a conversation with a model: builds its requests and reads its answers.

Pure and deterministic: each request follows from what is recorded. A turn that is executed again
therefore repeats the same rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pawl_client._enums import Awaiting, StepStatus
from pawl_client._errors import FailTurnError, SchemaError, StepCancelledError
from pawl_client._exit_tools import AskUserTool, ExitTool, arguments_of
from pawl_client._json_text import dump_json
from pawl_client._model_calls import IncludedMessage
from pawl_client._models import (
    ConversationRange,
    ModelAnswer,
    ModelCall,
    ModelMessage,
    ModelRequest,
    ToolCallRef,
    ToolResult,
)
from pawl_client._outcomes import Reply
from pawl_client._output_schema import OutputSchemas
from pawl_client._provider_request import PAUSED, ProviderRequest, calls_of, text_of
from pawl_client._runs import Step, StepOutcome
from pawl_client._turn_requests import StepCall
from pawl_client._turn_view import TurnView
from pawl_client._values import Json, JsonValue, Message, Part, Usage

_BEGIN = "Begin."
_GO_ON = "Go on."
"""User messages for a conversation that has no user message yet, or ends with the model's own
message.
"""


DEFAULT_OUTPUT_TOKENS = 4096
"""Tokens that an answer is assumed to consume at most if the pack sets no max_tokens."""
_BYTES_PER_TOKEN = 4
_MEDIA_TOKENS = 1000
"""Tokens that a part without text is assumed to consume."""

_UNRECORDED = ("extra_headers", "timeout", "request_timeout", "first_event_timeout")
"""Settings that are not part of the request's body and may contain keys."""
_RESERVED_SETTINGS = ("max_retries", "tool_choice")
"""Settings that the handler sets itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Settings of a model handler. `chat` None: True in states that outside events move too.

    Raises ValueError for a value out of range.
    """

    model: str
    max_rounds: int
    chat: bool | None
    output_schemas: OutputSchemas
    extra: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.max_rounds < 1:
            raise ValueError(f"max_rounds: must be at least 1, not {self.max_rounds}")
        for name in _RESERVED_SETTINGS:
            if name in self.extra:
                raise ValueError(f"extra.{name}: the handler sets it itself; remove it from extra")
        for name, value in self.recorded.items():
            dump_json(value, f"extra.{name}")

    @property
    def recorded(self) -> dict[str, Any]:
        """The part of `extra` that is recorded with the request."""
        return {name: value for name, value in self.extra.items() if name not in _UNRECORDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundAnswer:
    """The answer of a round.

    `replayed`: it was recorded before this execution, whose request may have differed.
    """

    step: int
    answer: ModelAnswer
    usage: Usage
    replayed: bool


@dataclass(slots=True)
class _Answers:
    """The answers to the tool calls of one model answer, by their index."""

    calls: tuple[ModelCall, ...]
    messages: dict[int, tuple[ModelMessage, Message]] = field(default_factory=dict)

    def set(self, index: int, message: Message) -> None:
        """Adds an answer that no step records."""
        self.messages[index] = (ModelMessage(message=message), message)


class ModelLoop:
    """The conversation of one turn.

    The model moves the run only by calling the exit function: its enum holds the state's allowed
    events, its arguments hold the artifacts. `reply` is set when the turn is over.
    """

    def __init__(self, turn: TurnView, options: ModelOptions) -> None:
        self.reply: Reply | None = None
        self.round = 0
        self._turn, self._options = turn, options
        self._output_schema = options.output_schemas.of(turn.prompt)
        self._exit_tool, self._ask_user_tool = (
            ExitTool(turn, self._output_schema),
            AskUserTool(turn),
        )
        settings = turn.settings or {}
        self._policy: Mapping[str, Any] = settings.get("tool_policy") or {}
        moved = settings.get("orchestration") in ("hybrid", "external")
        self._chat = (moved if options.chat is None else options.chat) and not turn.terminal
        # In a state that the model can leave, the exit function has the output.
        self._text_schema = None if turn.allowed_events else self._output_schema
        override = (settings.get("model_overrides") or {}).get(options.model) or {}
        self._system = _system(turn.system_prompt, override)
        given = {**(settings.get("parameters") or {}), **(override.get("parameters") or {})}
        self._parameters = {name: value for name, value in given.items() if value is not None}
        self._tools = self._model_tools()
        # The last round allows the model to leave the state. The sidecar holds the turn to the
        # bound of the pack.
        most = options.max_rounds + 1
        self._last_round = min(most, self._policy.get("max_rounds") or most)
        self._last: RoundAnswer | None = None
        self._history = list(turn.messages)
        self._counted = 0
        """How many messages of the history the usage of the last answer includes."""
        self._fresh = [ModelMessage(conversation=ConversationRange())] if turn.messages else []
        if not turn.messages or turn.messages[-1].role == "assistant":
            self._append(Message.of("user", _GO_ON if turn.messages else _BEGIN))
        self._answers = _Answers(())

    def _model_tools(self) -> list[dict[str, Any]]:
        """Returns the functions that the model can call. `tool_choice: none` leaves only the exit
        function.
        """
        nothing = {"type": "object", "properties": {}}
        offered = () if self._policy.get("tool_choice") == "none" else self._turn.tools
        tools = [
            {"name": t.name, "description": t.description, "parameters": t.parameters or nothing}
            for t in offered
        ]
        if self._turn.allowed_events:
            tools.append(self._exit_tool.tool())
        if self._chat:
            tools.append(self._ask_user_tool.tool())
        return tools

    def _append(self, message: Message) -> None:
        self._fresh.append(ModelMessage(message=message))
        self._history.append(message)

    def include(self, included: Sequence[IncludedMessage]) -> None:
        """Adds the messages that the sidecar included in the request of the round."""
        for message in included:
            self._history.append(Message(role="user", parts=(Part.of(message.text),)))

    # Requests

    def request(self) -> ModelRequest:
        """Returns the request of the next round. Raises FailTurnError (MAX_ROUNDS)."""
        if self.round == self._last_round:
            raise FailTurnError("MAX_ROUNDS", "the model did not come to an end")
        self.round += 1
        messages, last = tuple(self._fresh), self._last
        if last is None:
            return ModelRequest(
                model=self._options.model,
                system=self._system or None,
                tools=self._tools or None,
                parameters=self._settings() or None,
                messages=messages,
            )
        follows = ModelRequest(
            model=self._options.model, previous_step=last.step, messages=messages
        )
        if not last.replayed:
            return follows
        # Another version of the program may have made the previous request differently.
        return replace(follows, system=self._system, tools=self._tools, parameters=self._settings())

    def _settings(self) -> dict[str, Any]:
        choice = {} if self._choice() == "auto" else {"tool_choice": self._choice()}
        response_schema = (
            {} if self._text_schema is None else {"response_schema": self._text_schema.schema}
        )
        return {**self._parameters, **choice, **response_schema, **self._options.recorded}

    def _choice(self) -> str:
        required = self._policy.get("tool_choice") == "required" and self._tools
        return "required" if required else "auto"

    def provider_request(self, reserved: int = 0) -> ProviderRequest:
        """Returns the same request with every message, for a provider.

        `reserved` are the tokens of the answer that a budget reserves; 0: no budget does.
        """
        return ProviderRequest(
            system=self._system,
            tools=self._tools,
            parameters=self._parameters,
            choice=self._choice(),
            messages=tuple(self._history),
            schema=None if self._text_schema is None else self._text_schema.schema,
            extra=self._options.extra,
            round=self.round,
            max_output_tokens=reserved or self._max_output_tokens(),
        )

    def bound(self) -> Usage:
        """Returns what the next call may consume, estimated where it is not bounded.

        Its input is the last call's input and output, and the messages since.
        """
        usage = self._last.usage if self._last else Usage()
        if usage.input_tokens and not usage.estimated:
            read = usage.input_tokens + usage.output_tokens
            read += _tokens("", self._history[self._counted :])
        else:
            tools = dump_json(self._tools, "tools") if self._tools else ""
            read = _tokens(self._system + tools, self._history)
        return Usage(
            input_tokens=read, output_tokens=self._max_output_tokens() or DEFAULT_OUTPUT_TOKENS
        )

    def _max_output_tokens(self) -> int:
        """The max_tokens of `extra`, else that of the pack; 0: neither sets it."""
        given = [self._parameters.get("max_tokens"), self._options.extra.get("max_tokens")]
        counts = [
            int(most)
            for most in given
            if isinstance(most, (int, float)) and most >= 1 and int(most) == most
        ]
        return counts[-1] if counts else 0

    # Answers

    def take_answer(self, take_answer: RoundAnswer) -> list[StepCall]:
        """Processes the answer of a round, and returns the tool calls to make before the next
        one.
        """
        self._last, self._fresh, answer = take_answer, [], take_answer.answer
        self._history.append(answer.message)
        self._counted = len(self._history)
        self._answers = _Answers(answer.calls)
        if not answer.calls and answer.finish_reason == PAUSED:
            return []
        if not answer.calls:
            self._end_of_text(answer.text)
            return []
        if len(answer.calls) == 1 and self._handle_exit_call(answer, answer.calls[0]):
            return []
        calls = [self._call_of(i, call) for i, call in enumerate(answer.calls)]
        asked = [call for call in calls if call is not None]
        if not asked:
            self._append_results()
        return asked

    def take_results(self, calls: Sequence[StepCall], outcomes: Sequence[StepOutcome]) -> None:
        """Processes the outcomes of the tool calls."""
        for call, outcome in zip(calls, outcomes, strict=True):
            assert call.call is not None  # noqa: S101
            index = call.call.index
            if outcome.step is not None:
                self._answers.messages[index] = _result(outcome.step, self._id(index))
            elif outcome.denial is not None:
                denial = outcome.denial
                message = _error(self._id(index), denial.code, denial.message)
                self._answers.set(index, message)
        self._append_results()

    def _append_results(self) -> None:
        for _, (entry, message) in sorted(self._answers.messages.items()):
            self._fresh.append(entry)
            self._history.append(message)

    def _id(self, index: int) -> str:
        return self._answers.calls[index].id

    def _end_of_text(self, text: str) -> None:
        if self._turn.allowed_events and not self._chat:
            words = f"Call {self._exit_tool.name} to go on; text alone does not move the run."
            self._append(Message.of("user", words))
            return
        awaiting = Awaiting.INPUT if self._chat else Awaiting.UNSPECIFIED
        if self._text_schema is None:
            self._done(text, awaiting=awaiting)
            return
        value, fault = self._text_schema.read(text)
        if fault:
            words = f"The answer does not fit the schema: {fault}. Answer with JSON that fits."
            self._append(Message.of("user", words))
        else:
            self._done(JsonValue(value), awaiting=awaiting)

    def _handle_exit_call(self, answer: ModelAnswer, call: ModelCall) -> bool:
        """Leaves the state or asks the person, if the call is one of these functions."""
        if call.name == self._ask_user_tool.name and self._has_tool(call.name):
            question, fault = self._ask_user_tool.read(call)
            if not fault:
                text = "\n".join(filter(None, (answer.text, question)))
                self._done(
                    text, message=_tool_message(call.id, {"asked": True}), awaiting=Awaiting.INPUT
                )
        elif call.name == self._exit_tool.name and self._has_tool(call.name):
            exit_call, fault = self._exit_tool.read(call)
            if not fault:
                message = _tool_message(call.id, {"left": exit_call.event})
                output = answer.text if exit_call.output is None else exit_call.output
                self._done(
                    output, message=message, event=exit_call.event, artifacts=exit_call.artifacts
                )
        else:
            return False
        if fault:
            self._append(_error(call.id, "BAD_ARGUMENTS", fault))
        return True

    def _has_tool(self, name: str) -> bool:
        return any(tool["name"] == name for tool in self._tools)

    def _done(
        self,
        output: str | JsonValue,
        *,
        message: Message | None = None,
        event: str = "",
        artifacts: Mapping[str, Any] | None = None,
        awaiting: Awaiting = Awaiting.UNSPECIFIED,
    ) -> None:
        self.reply = Reply(
            event=event,
            artifacts=artifacts or {},
            output=output or None,
            messages=() if message is None else (message,),
            awaiting=awaiting,
            conversation_through_step=self._last.step if self._last else 0,
        )

    def _call_of(self, index: int, call: ModelCall) -> StepCall | None:
        """Returns the step of a call; None if the model receives an error instead."""
        arguments, fault = arguments_of(call)
        code = "BAD_ARGUMENTS"
        names = [tool.name for tool in self._turn.tools]
        if call.name in (self._exit_tool.name, self._ask_user_tool.name) and self._has_tool(
            call.name
        ):
            code, fault = "NOT_ALONE", f"call {call.name} alone, once all other calls are answered"
        elif call.name not in names or not self._has_tool(call.name):
            code, fault = "NO_SUCH_TOOL", f"there is no tool {call.name!r}, only {names}"
        elif not fault:
            try:
                self._turn.check_payload(call.name, arguments)
            except SchemaError as error:
                fault = error.message
        if fault:
            self._answers.set(index, _error(call.id, code, fault))
            return None
        asked = ToolCallRef(model_step=self._last.step if self._last else 0, index=index)
        return StepCall(call.name, arguments, call=asked, text=call.arguments)


def _system(prompt: str, override: Mapping[str, Any]) -> str:
    """Returns the pack's system prompt for the model. Raises FailTurnError."""
    for end in ("", "_prefix", "_suffix"):
        name = f"system_template{end}"
        if "{{" in (override.get(name) or ""):
            raise FailTurnError(
                "OVERRIDE_UNSUPPORTED",
                f"model_overrides.{name}: must be text without variables, which are not rendered",
                retryable=False,
            )
    prefix, suffix = (override.get(f"system_template_{end}") or "" for end in ("prefix", "suffix"))
    return f"{prefix}{override.get('system_template') or prompt}{suffix}"


def _tokens(text: str, messages: Sequence[Message]) -> int:
    """Estimates the tokens of a text and messages."""
    size, media = len(text.encode()), 0
    for message in messages:
        size += sum(len(call["arguments"].encode()) for call in calls_of(message))
        for part in message.parts:
            words = text_of(part)
            size += 0 if words is None else len(words.encode(errors="replace"))
            media += words is None
    return -(-size // _BYTES_PER_TOKEN) + media * _MEDIA_TOKENS


def _result(step: Step, call_id: str) -> tuple[ModelMessage, Message]:
    """Returns the result of an answered step for the model, in the form of the contract."""
    if step.status is StepStatus.CANCELLED:
        raise StepCancelledError(
            f"step {step.step} ({step.tool}) was cancelled: the visit was left"
        )
    value: Json = step.result
    if step.status is StepStatus.ERROR:
        error = step.error
        code, message = (error.code, error.message) if error else ("ERROR", "")
        value = {"error": {"code": code, "message": message}}
    entry = ModelMessage(result=ToolResult(step=step.step, call_id=call_id))
    return entry, _tool_message(call_id, value)


def _tool_message(call_id: str, value: Json) -> Message:
    part = Part(json=JsonValue(value))
    return Message(role="tool", parts=(part,), tool_call_id=call_id)


def _error(call_id: str, code: str, message: str) -> Message:
    return _tool_message(call_id, {"error": {"code": code, "message": message}})
