"""One durable run of an agent of the OpenAI Agents SDK: its model calls, tools and guardrails."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast

from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    ModelBehaviorError,
    ModelResponse,
    ModelSettings,
    RunResult,
    RunResultStreaming,
    RunState,
    Tool,
    UserError,
)
from agents.tool import (
    invoke_function_tool,
    maybe_invoke_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext
from openai import APIError
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from pawl_client import _schema
from pawl_client._durable_begin import Beginning
from pawl_client._durable_errors import (
    DurableRunError,
    ModelCallError,
    NestedAgentError,
    NotSerializableError,
)
from pawl_client._durable_openai_messages import (
    ItemTranscript,
    RecordedModelError,
    answer_of,
    calls_of,
    failure_of,
    response_of,
    usage_of,
)
from pawl_client._durable_pack import AgentTool
from pawl_client._durable_run import AnyClient, Asked, DurableRun, Outcome
from pawl_client._durable_transcript import CallPlaces
from pawl_client._errors import FailStepError, PawlError, SchemaError, StepFailedError
from pawl_client._json_text import dump_json
from pawl_client._models import ModelAnswer, ModelFailure
from pawl_client._outcomes import Reply
from pawl_client._provider_errors import final, unusable
from pawl_client._turn_requests import StepCall
from pawl_client._values import Json, JsonValue, Usage

current_run: ContextVar[AgentRun | None] = ContextVar("pawl_openai_run", default=None)
"""The durable run of this task. None means that the task has none, or it executes a tool of one."""
current_tool: ContextVar[tuple[str, str] | None] = ContextVar("pawl_openai_tool", default=None)
"""The request id and the durable tool whose function is being executed. None means no tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a run begins with: the pack's document, its tools by name, and the run's labels."""

    pack: str
    tools: Mapping[str, AgentTool]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelCallRequest:
    """The arguments of a model call of the SDK."""

    system: str | None
    items: str | list[Any]
    settings: ModelSettings
    tools: list[Tool]
    output_schema: Any
    handoffs: list[Handoff[Any, Any]]
    tracing: Any
    conversation: dict[str, Any]

    def arguments(self) -> tuple[Any, ...]:
        return (
            self.system,
            self.items,
            self.settings,
            self.tools,
            self.output_schema,
            self.handoffs,
            self.tracing,
        )


class StreamFailedError(Exception):
    """A stream that ended without a complete answer."""

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(failure.error.message)
        self.failure = failure


_TERMINAL = {
    "response.incomplete": final("TRUNCATED", "response.incomplete"),
    "response.failed": final("MODEL_ERROR", "response.failed"),
}
"""Failures for the events with which a provider ends an answer that it did not complete."""


def stream_failed(kind: str) -> StreamFailedError:
    """Returns the error of a stream whose last event has this type; empty: it has none."""
    truncated = unusable("STREAM_TRUNCATED", kind or "the stream ended without an answer")
    return StreamFailedError(_TERMINAL.get(kind, truncated))


class AgentRun:
    """One durable run of an agent of the SDK."""

    def __init__(
        self,
        client: AnyClient,
        agent: Agent[Any],
        name: str,
        request_id: str,
        input: Any,
        prepare: Callable[[], Awaitable[Prepared]],
    ) -> None:
        if not request_id:
            raise ValueError("request_id: must not be empty; a later execution continues by it")
        if (inside := current_tool.get()) is not None and inside[0] == request_id:
            raise NestedAgentError(
                f"agent {agent.name!r} runs in the durable tool {inside[1]!r} under the tool's own "
                "request_id; give it another one, for example current_call().idempotency_key",
                reason="NESTED_AGENT",
            )
        self._client, self._agent, self._name = client, agent, name
        self._request_id, self._input, self._prepare = request_id, input, prepare
        self.acting = agent.name
        """The agent whose turn it is."""
        self._run: DurableRun | None = None
        self._opening = asyncio.Lock()
        self._transcript = ItemTranscript()
        self._places = CallPlaces()
        self._included: list[tuple[int, str]] = []
        """Messages that the sidecar added, with the place in the conversation."""
        self._error: Exception | None = None
        """The error that ended the run, which the SDK may have wrapped."""
        self._recorded_failure = False
        """A step has failed with an error that ends the run."""

    # Beginning and end

    async def opened(self) -> DurableRun:
        """Returns the run, which the first call begins."""
        async with self._opening:
            if self._run is None:
                with self._keeping_errors():
                    self._run = await self._open()
            return self._run

    @contextlib.contextmanager
    def _keeping_errors(self) -> Iterator[None]:
        """Keeps an error of Pawl, which the SDK may wrap in one of its own."""
        try:
            yield
        except PawlError as error:
            self._error = self._error or error
            raise

    async def _open(self) -> DurableRun:
        prepared = await self._prepare()
        given, answers = self._input, 0
        if isinstance(given, RunState):
            answers = len(given._model_responses)
            given = given._original_input
        run = await Beginning(
            client=self._client,
            name=self._name,
            owner=self._agent,
            pack=prepared.pack,
            tools=prepared.tools,
            request_id=self._request_id,
            advice="Agent(name=…) or PawlRunner(name=…)",
            labels=prepared.labels,
            input=_input_text(given) or None,
        ).open()
        try:
            for answered in await run.skip(answers) if answers else ():
                self._note(answered.step, answered.key, response_of(run.id, answered.answer))
        except BaseException:
            await run.abandon()
            raise
        return run

    async def complete(self, result: RunResult | RunResultStreaming) -> None:
        """Completes the run with the agent's output. An interrupted run stays open."""
        run = await self.opened()
        if result.interruptions:
            await run.abandon()
            return
        value = to_jsonable_python(result.final_output, fallback=str)
        await run.complete(Reply(output=value if isinstance(value, str) else JsonValue(value)))

    async def leave(self, error: BaseException) -> BaseException:
        """Ends the run as failed for an error that is recorded, else leaves it to a later
        execution. Returns the error that the program gets.
        """
        if self._run is None:
            return self._error or error
        own = isinstance(error, AgentsException) and not isinstance(error, UserError)
        recorded = own or isinstance(error, (StepFailedError, APIError)) or self._recorded_failure
        if recorded and self._error is None and not isinstance(error, asyncio.CancelledError):
            await self._run.fail(type(error).__name__, str(error))
        else:
            await self._run.abandon()
        return self._error or error

    # Model calls

    async def model(
        self,
        name: str,
        request: ModelCallRequest,
        make: Callable[[ModelCallRequest], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """Returns the answer of a model call, recorded or made now."""
        run = await self.opened()
        failed: list[Exception] = []

        async def asked(reserved: int) -> tuple[ModelAnswer | ModelFailure, Usage]:
            try:
                response = await make(self._changed(request, reserved))
            except APIError as error:
                failed[:] = [error]
                return failure_of(error), Usage(estimated=True)
            except StreamFailedError as error:
                failed[:] = [error]
                return error.failure, Usage(estimated=True)
            return answer_of(response, name), usage_of(response)

        recorded = self._transcript.request(
            name,
            self.acting,
            request.system,
            request.items,
            request.settings,
            request.tools,
            request.handoffs,
        )
        place = 1 if isinstance(request.items, str) else len(request.items)
        call = Asked(
            request=recorded,
            bound=self._transcript.bound(request.settings),
            make=asked,
            include=lambda words: self._included.append((place, words)),
        )
        try:
            with self._keeping_errors():
                answered = await run.model(call)
                response = response_of(run.id, answered.answer)
        except ModelCallError as error:
            if failed and isinstance(failed[0], APIError):
                raise failed[0] from None
            raise RecordedModelError(error) from None
        self._note(answered.step, answered.key, response)
        return response

    def _changed(self, request: ModelCallRequest, reserved: int) -> ModelCallRequest:
        """Returns the request with the sidecar's messages and bound of the answer."""
        if self._included:
            given = request.items
            items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
            for place, words in reversed(self._included):
                items.insert(place, {"role": "user", "content": words})
            request = replace(request, items=items)
        if reserved:
            settings = request.settings.resolve(ModelSettings(max_tokens=reserved))
            request = replace(request, settings=settings)
        return request

    def _note(self, step: int, key: str, response: ModelResponse) -> None:
        self._transcript.answered(step, response)
        self._places.answered(step, key, [(call.name, call.call_id) for call in calls_of(response)])

    # Tool calls, hand-offs and guardrails

    async def tool(self, tool: FunctionTool, ctx: ToolContext[Any], arguments: str) -> Any:
        """Returns the result of a tool call, recorded or made now."""
        await self.opened()
        payload = _payload(arguments)
        if payload is None:
            return await _unparsable(tool, ctx)
        try:
            _schema.check(payload, tool.params_json_schema, tool.name)
        except SchemaError as error:
            return f"An error occurred while running the tool. Error: {error}"

        async def body(permitted: Json) -> Json:
            same = permitted == payload
            text = arguments or "{}"
            return _plain(
                tool.name,
                await invoke_function_tool(
                    function_tool=tool,
                    context=ctx,
                    arguments=text if same else dump_json(permitted, "arguments"),
                ),
            )

        call, key = self._places.step(tool.name, payload, ctx.tool_call_id)
        outcome = await self._outcome(call, key, body)
        if outcome.for_the_model:
            return ": ".join(outcome.failure)
        if not outcome.ok:
            raise self._refused(f"tool {tool.name}", outcome)
        self._transcript.returned(ctx.tool_call_id, outcome.step, _sent_text(outcome.result))
        return outcome.result

    async def _outcome(
        self, call: StepCall, key: str, body: Callable[[Json], Awaitable[Json]]
    ) -> Outcome:
        """Makes a step. Raises the program's own error if the step failed with one here."""
        run = await self.opened()
        failed: list[Exception] = []

        async def guarded(payload: Json) -> Json:
            outer = current_run.set(None)
            inside = current_tool.set((self._request_id, call.tool))
            failed.clear()
            try:
                return await body(payload)
            except NotSerializableError as error:
                failed[:] = [error]
                raise FailStepError("RESULT_INVALID", error.message, unknown=True) from error
            except Exception as error:
                failed[:] = [error]
                raise
            finally:
                current_tool.reset(inside)
                current_run.reset(outer)

        try:
            with self._keeping_errors():
                outcome = await run.tool(call, key, guarded)
        except DurableRunError:
            if failed and isinstance(failed[0], NotSerializableError):
                self._error = failed[0]
            raise
        if not outcome.ok and failed:
            self._recorded_failure = True
            if isinstance(failed[0], NotSerializableError):
                self._error = failed[0]
            raise failed[0]
        return outcome

    def _refused(self, what: str, outcome: Outcome, refused: str = "") -> StepFailedError:
        """Returns the error of a failed step, which ends the run. `refused` is its reason for an
        answer of the sidecar itself.
        """
        self._recorded_failure = True
        code, text = outcome.failure
        return StepFailedError(
            f"{what}: {code}: {text}", reason=refused if outcome.for_the_model else code
        )

    async def hand_off(
        self,
        tool: str,
        arguments: str,
        next_agent: Callable[[], Awaitable[Agent[Any]]],
        agents: Mapping[str, Agent[Any]],
    ) -> Agent[Any]:
        """Returns the agent that a hand-off leads to, recorded or found now."""
        found: list[Agent[Any]] = []

        async def body(_: Json) -> Json:
            found[:] = [await next_agent()]
            return {"agent": found[0].name}

        await self.opened()
        payload = _payload(arguments)
        call_id = self._places.latest(tool) or tool
        call, key = self._places.step(tool, payload if payload is not None else {}, call_id)
        outcome = await self._outcome(call, key, body)
        if not outcome.ok:
            raise self._refused(f"hand-off {tool}", outcome, "HANDOFF_REFUSED")
        if found:
            return found[0]
        name = outcome.result.get("agent") if isinstance(outcome.result, dict) else None
        return agents[str(name)] if name in agents else await next_agent()

    async def guardrail(
        self,
        tool: str,
        place: str,
        agent: str,
        run_guardrail: Callable[[], Awaitable[GuardrailFunctionOutput]],
    ) -> GuardrailFunctionOutput:
        """Returns the output of a guardrail, recorded or made now."""

        async def body(_: Json) -> Json:
            output = await run_guardrail()
            info: Json = to_jsonable_python(output.output_info, fallback=str)
            return {"output_info": info, "tripwire_triggered": bool(output.tripwire_triggered)}

        key = self._places.key(place, place)
        call = StepCall(tool, {"agent": agent}, key=key)
        outcome = await self._outcome(call, key, body)
        if not outcome.ok or not isinstance(outcome.result, dict):
            raise self._refused(f"guardrail {tool}", outcome, "GUARDRAIL_REFUSED")
        return GuardrailFunctionOutput(
            output_info=outcome.result["output_info"],
            tripwire_triggered=bool(outcome.result["tripwire_triggered"]),
        )


async def _unparsable(tool: FunctionTool, ctx: ToolContext[Any]) -> str:
    """Returns what the SDK tells the model for arguments that are no JSON object. No function is
    called. Raises ModelBehaviorError for a tool without such a text.
    """
    error = ModelBehaviorError(f"Invalid JSON input for tool {tool.name}")
    text = await maybe_invoke_function_tool_failure_error_function(
        function_tool=tool, context=ctx, error=error
    )
    if text is None:
        raise error
    return text


def _payload(arguments: str) -> dict[str, Json] | None:
    """Returns the arguments of a call. None means that their text is no JSON object."""
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _input_text(given: Any) -> str:
    """Returns the text of the newest user message of an input."""
    if isinstance(given, str):
        return given
    for item in reversed(given):
        content = item.get("content") if isinstance(item, Mapping) else None
        if content is not None and item.get("role") == "user":
            return content if isinstance(content, str) else dump_json(content, "input")
    return ""


def _plain(tool: str, value: Any) -> Json:
    """Returns the form of a tool's result that the record has and the SDK gets: a JSON value, or
    the text that the SDK would send to the model. Raises NotSerializableError.
    """
    if _is_output(value):
        return cast("Json", value.model_dump(mode="json", exclude_none=True))
    if isinstance(value, list) and value and all(_is_output(item) for item in value):
        return [item.model_dump(mode="json", exclude_none=True) for item in value]
    with contextlib.suppress(TypeError, ValueError):
        if json.loads(dump_json(value, "result")) == value:
            return cast("Json", value)
    kind = type(value)
    own: Any = (kind.__str__, kind.__repr__)
    if own == (object.__str__, object.__repr__):
        raise NotSerializableError(
            f"tool {tool!r}: its result, a {kind.__name__}, has neither a JSON form nor a text; "
            "return JSON types, dataclasses or pydantic models",
            reason="NOT_SERIALIZABLE",
        )
    return str(value)


def _is_output(value: Any) -> bool:
    return isinstance(value, BaseModel) and type(value).__name__ in (
        "ToolOutputText",
        "ToolOutputImage",
        "ToolOutputFileContent",
    )


def _sent_text(result: Json) -> Json:
    """Returns what the SDK sends to the model for a result."""
    return result if isinstance(result, str) else str(result)
