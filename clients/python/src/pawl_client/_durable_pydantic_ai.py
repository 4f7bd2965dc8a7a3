"""Makes agents of pydantic-ai durable: a durability capability whose engine are runs of Pawl."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import ValidationError
from pydantic_ai import FunctionToolset
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    BoundDurableOperation,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationBackend,
    DynamicToolsetCallToolParams,
    ModelRequestId,
    ModelRequestParams,
    ToolsetCallToolId,
    ToolsetCallToolParams,
    conversation_id_from_run_id,
    durable_unit_scope,
)
from pydantic_ai.exceptions import AgentRunError, ModelAPIError, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import (
    AgentDepsT,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolDefinition,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from pawl_client import _schema
from pawl_client._durable_begin import Beginning
from pawl_client._durable_errors import (
    DurableRunError,
    ModelCallError,
    NestedAgentError,
    NotSerializableError,
)
from pawl_client._durable_messages import (
    Transcript,
    answer_of,
    library_error,
    recorded_message,
    unreadable,
    usage_of,
)
from pawl_client._durable_pack import AgentTool, Bounds, pack_of
from pawl_client._durable_run import AnyClient, Asked, DurableRun, Outcome
from pawl_client._durable_transcript import CallPlaces
from pawl_client._errors import (
    FailStepError,
    SchemaError,
    StepFailedError,
)
from pawl_client._json_text import dump_json
from pawl_client._models import ModelAnswer, ModelFailure
from pawl_client._outcomes import Reply
from pawl_client._pydantic_ai import failure_of
from pawl_client._values import Json, JsonValue, Usage
from pawl_client.pack import Pack

ParamsT = TypeVar("ParamsT")
WireT = TypeVar("WireT")
ResultT = TypeVar("ResultT")

_RAW = "pydantic_ai"
"""Key of a recorded result that is no plain value: a retry, a deferral, content with metadata."""


@dataclass(slots=True)
class Block:
    """The durable block that the program is in: its id, and how many runs of agents it began."""

    request_id: str
    labels: Mapping[str, str]
    begun: int = 0
    named: int = 0

    def next_id(self) -> str:
        """Returns the request id of the block's next run: that of the block for the first one."""
        self.begun += 1
        return self.request_id if self.begun == 1 else f"{self.request_id}#{self.begun}"


@dataclass(frozen=True, slots=True)
class _Scope:
    block: Block
    tool: str = ""
    """The durable tool whose function is being executed; empty: none."""


_scope: ContextVar[_Scope | None] = ContextVar("pawl_durable_scope", default=None)


class PawlDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent of pydantic-ai durable: a capability for `Agent(capabilities=[...])`.

    Within `run`, each model request of the agent is a recorded step of a run, and each tool call a
    recorded step under the sidecar's approvals, limits and leases. Outside of it the agent is as
    without the capability. `client` is a `Client` or an `AsyncClient`. `bounds` are limits and
    approvals; see `bounds`. `name` names the pack (default: the agent's name). `models` are further
    models by id, and `event_stream_handler` gets the events of models as they arrive, both as in
    the library.

        durability = PawlDurability(client, bounds=bounds(max_tool_calls=10))
        agent = Agent("openai:gpt-5-mini", name="orders", capabilities=[durability])
        with durability.run(request_id="order-17"):
            result = agent.run_sync("Order 17, please.")

    Needs `pip install 'pawl-client[pydantic-ai]'`. Raises from a run: DurableRunError,
    RunChangedError, LibraryVersionError, NestedAgentError, DuplicateAgentError,
    NotSerializableError, and the errors of the client (docs/guides/pydantic-ai.md).
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Pawl",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        journal_discovery=False,
    )

    def __init__(
        self,
        client: AnyClient,
        *,
        bounds: Bounds | None = None,
        name: str = "",
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
    ) -> None:
        super().__init__(
            models=models, name=name or None, event_stream_handler=event_stream_handler
        )
        self.client = client
        """The client that runs are executed with."""
        self.bounds = bounds or Bounds()
        """Limits and approvals of the runs."""
        self._runs: dict[str, AgentRun] = {}

    @contextlib.contextmanager
    def run(self, *, request_id: str, labels: Mapping[str, str] | None = None) -> Iterator[None]:
        """Makes the agent's runs in this block durable.

        The first run of the block has the id `request_id`. A program that is executed again with
        the same id, after a crash or later, gets what was recorded and continues. The second run
        has the id "REQUEST_ID#2", and so on. `labels` are those of the runs.

        Raises ValueError for an empty id.
        """
        if not request_id:
            raise ValueError("request_id: must not be empty; a later execution continues by it")
        token = _scope.set(_Scope(Block(request_id, dict(labels or {}))))
        try:
            yield
        finally:
            _scope.reset(token)

    # What the library asks of an engine

    @property
    def in_durable_context(self) -> bool:
        """Whether the program is in a durable block and not in a durable tool."""
        scope = _scope.get()
        return scope is not None and not scope.tool

    def get_default_run_id(self) -> str | None:
        """Returns the library's id of the next run of the block; None outside of a block."""
        scope = _scope.get()
        if scope is None or scope.tool:
            return None
        scope.block.named += 1
        return f"{scope.block.request_id}:{scope.block.named}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Returns the library's id of the conversation, made of the run's; None outside."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        """Returns the backend that makes steps of model requests and tool calls."""
        return _Backend(self._runs)

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: Callable[[], Any]
    ) -> AgentRunResult[Any]:
        """Executes one run of the agent as a run of Pawl, if the program is in a durable block."""
        scope = _scope.get()
        if scope is None:
            return cast("AgentRunResult[Any]", await handler())
        if scope.tool:
            raise NestedAgentError(
                f"agent {self.name!r} runs in the durable tool {scope.tool!r}, where its calls "
                "would not be recorded; in the tool, use `with durability.run(request_id="
                "current_call().idempotency_key):`",
                reason="NESTED_AGENT",
            )
        run = AgentRun(self, scope.block, ctx)
        self._runs[run.key] = run
        try:
            result = await super().wrap_run(ctx, handler=handler)
        except BaseException as error:
            await run.leave(error)
            raise
        else:
            await run.complete(result.output)
            return result
        finally:
            self._runs.pop(run.key, None)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Approves the calls that the sidecar holds: they wait for a person as steps."""
        run = self._runs.get(str(ctx.run_id)) if self.in_durable_context else None
        if run is None:
            return None
        approved = {
            call.tool_call_id: True for call in requests.approvals if run.holds(call.tool_name)
        }
        return DeferredToolResults(approvals=dict(approved)) if approved else None

    # The pack

    def pack(self, tools: Sequence[ToolDefinition] | None = None) -> Pack:
        """Returns the pack that the agent's runs have. `Pack.write` writes it to a file.

        `tools` are the agent's tools (default: the function tools of the agent). An agent has to
        be constructed with this capability before; see `of`. Raises ValueError.
        """
        found = [*(tools or ()), *_function_tools(self.agent)]
        return pack_of(self.name, _agent_tools(found).values(), self.bounds, library="Pydantic AI")

    @classmethod
    def of(cls, agent: Any) -> PawlDurability[Any]:
        """Returns the capability that an agent was constructed with. Raises ValueError."""
        found = cls.from_agent(agent)
        if found is None:
            raise ValueError(f"agent {agent.name!r} has no PawlDurability in its capabilities")
        return cast("PawlDurability[Any]", found)


def _function_tools(agent: Any) -> list[ToolDefinition]:
    toolsets = agent.toolsets if agent is not None else ()
    return [
        tool.tool_def
        for toolset in toolsets
        if isinstance(toolset, FunctionToolset)
        for tool in toolset.tools.values()
    ]


def _agent_tools(tools: Sequence[ToolDefinition]) -> dict[str, AgentTool]:
    """Returns the tools that the program executes, by name; the first of a name counts."""
    found: dict[str, AgentTool] = {}
    for tool in tools:
        if tool.kind in ("function", "unapproved") and tool.name not in found:
            options = (tool.metadata or {}).get("pawl") or {}
            found[tool.name] = AgentTool(
                name=tool.name,
                description=tool.description or "",
                parameters=to_jsonable_python(tool.parameters_json_schema),
                held=tool.kind == "unapproved",
                options=options,
            )
    return found


# The engine


class _Backend(DurableOperationBackend[Any]):
    """Binds the library's operations to steps of the runs that are executed here."""

    def __init__(self, runs: dict[str, AgentRun]) -> None:
        self._runs = runs

    def bind(
        self, operation: DurableOperation[ParamsT, WireT, ResultT]
    ) -> BoundDurableOperation[ParamsT, WireT, ResultT]:
        return _Bound(operation, self._runs)

    def config_for_tool(
        self,
        operation: DurableOperation[Any, Any, Any],
        *,
        tool: object | None,
        tool_name: str,
    ) -> Any:
        return {}

    def registrations(self) -> Sequence[Callable[..., object]]:
        return ()


class _Bound(BoundDurableOperation[ParamsT, WireT, ResultT], Generic[ParamsT, WireT, ResultT]):
    """An operation that is a step in a durable run. All kinds but model requests and tool calls are
    executed as they are.
    """

    def __init__(
        self, operation: DurableOperation[ParamsT, WireT, ResultT], runs: dict[str, AgentRun]
    ) -> None:
        self._operation, self._runs = operation, runs

    @property
    def operation(self) -> DurableOperation[ParamsT, WireT, ResultT]:
        return self._operation

    async def __call__(self, params: ParamsT, *, config: object | None = None) -> ResultT:
        given, kind = cast("Any", params), self._operation.operation_id
        if isinstance(given, ModelRequestParams) and isinstance(kind, ModelRequestId):
            run = self._runs[str(given.run_context.run_id)]
            return cast("ResultT", await run.model(self._operation, kind.model_name, given))
        if isinstance(kind, ToolsetCallToolId) and isinstance(
            given, (ToolsetCallToolParams, DynamicToolsetCallToolParams)
        ):
            run = self._runs[str(given.ctx.run_id)]
            return cast("ResultT", await run.tool(self._operation, given))
        return await self._operation.handler(params)


class AgentRun:
    """One durable run of an agent."""

    def __init__(self, durability: PawlDurability[Any], block: Block, ctx: RunContext[Any]) -> None:
        self._durability, self._block, self._ctx = durability, block, ctx
        self.key = str(ctx.run_id)
        """The library's id of the run."""
        self._request_id = block.next_id()
        self._run: DurableRun | None = None
        self._opening = asyncio.Lock()
        self._tools: dict[str, AgentTool] = {}
        self._transcript = Transcript()
        self._places = CallPlaces()
        self._calls: dict[str, ToolCallPart] = {}
        """The model's tool calls, by the library's id; the newest of an id counts."""
        self._included: list[tuple[int, str]] = []
        """Messages that the sidecar added, with the place in the conversation."""

    def holds(self, tool: str) -> bool:
        """Whether the sidecar asks for the approval of a tool's calls."""
        found = self._tools.get(tool)
        return found is not None and found.held

    # Beginning and end

    async def _opened(self, tools: Sequence[ToolDefinition]) -> DurableRun:
        async with self._opening:
            if self._run is None:
                self._run = await self._open([*tools, *_function_tools(self._durability.agent)])
            return self._run

    async def _open(self, tools: Sequence[ToolDefinition]) -> DurableRun:
        durability = self._durability
        self._tools = _agent_tools(tools)
        prompt = self._ctx.prompt
        return await Beginning(
            client=durability.client,
            name=durability.name,
            owner=durability.agent,
            pack=durability.pack(tools).json(),
            tools=self._tools,
            request_id=self._request_id,
            advice="Agent(name=…) or PawlDurability(name=…)",
            labels=self._block.labels,
            input=prompt if isinstance(prompt, str) and prompt else None,
        ).open()

    async def complete(self, output: Any) -> None:
        """Completes the run with the agent's output."""
        run = await self._opened(())
        value = to_jsonable_python(output, fallback=str)
        await run.complete(Reply(output=value if isinstance(value, str) else JsonValue(value)))

    async def leave(self, error: BaseException) -> None:
        """Ends the run as failed for an error that is recorded, else leaves it to a later
        execution.
        """
        if self._run is None:
            return
        if isinstance(error, (AgentRunError, StepFailedError)):
            await self._run.fail(type(error).__name__, str(error))
        else:
            await self._run.abandon()

    # Model requests

    async def model(
        self,
        operation: DurableOperation[Any, Any, Any],
        name: str,
        params: ModelRequestParams,
    ) -> Any:
        """Returns the result of a model request, recorded or made now."""
        run = await self._opened(params.model_request_parameters.function_tools)
        failed: list[Exception] = []

        async def make(reserved: int) -> tuple[ModelAnswer | ModelFailure, Usage]:
            try:
                response = await operation.handler(self._request(params, reserved))
            except ModelAPIError as error:
                failed[:] = [error]
                return failure_of(error, started=False), Usage(estimated=True)
            answer = answer_of(response, operation.result_codec.dump(response))
            return answer, usage_of(response)

        asked = Asked(
            request=self._transcript.request(
                name, params.messages, params.model_settings, params.model_request_parameters
            ),
            bound=self._transcript.bound(params.model_settings),
            make=make,
            include=lambda words: self._included.append((len(params.messages), words)),
        )
        try:
            answered = await run.model(asked)
        except ModelCallError as error:
            raise (failed[0] if failed else library_error(error, name)) from None
        message = recorded_message(run.id, answered.answer)
        try:
            response = operation.result_codec.load(message)
        except ValidationError as error:
            raise unreadable(run.id, answered.answer.provider, str(error)) from error
        self._note(answered.step, answered.key, response)
        return response

    def _request(self, params: ModelRequestParams, reserved: int) -> ModelRequestParams:
        """Returns the request with the sidecar's messages and bound of the answer."""
        messages: list[ModelMessage] = list(params.messages)
        for place, words in reversed(self._included):
            messages.insert(place, ModelRequest(parts=[UserPromptPart(words)]))
        settings = params.model_settings
        if reserved:
            settings = ModelSettings(**{**(settings or {}), "max_tokens": reserved})
        return replace(params, messages=messages, model_settings=settings)

    def _note(self, step: int, key: str, response: ModelResponse) -> None:
        self._transcript.answered(step, response)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        self._calls.update((part.tool_call_id, part) for part in calls)
        self._places.answered(step, key, [(part.tool_name, part.tool_call_id) for part in calls])

    # Tool calls

    async def tool(
        self,
        operation: DurableOperation[Any, Any, Any],
        params: ToolsetCallToolParams | DynamicToolsetCallToolParams,
    ) -> Any:
        """Returns the result of a tool call, recorded or made now."""
        tool_def = (
            params.tool.tool_def
            if isinstance(params, ToolsetCallToolParams) and params.tool
            else None
        )
        run = await self._opened([tool_def] if tool_def else [])
        name = params.ctx.tool_name or params.name
        call, key = self._places.step(
            name, self._payload(name, params), str(params.ctx.tool_call_id)
        )
        failed: list[Exception] = []

        async def body(payload: Json) -> Json:
            token = _scope.set(_Scope(self._block, name))
            try:
                with durable_unit_scope():
                    value = await operation.handler(_with_payload(params, call.payload, payload))
                return _recorded(name, operation, value)
            except NotSerializableError as error:
                failed[:] = [error]
                raise FailStepError("RESULT_INVALID", error.message, unknown=True) from error
            except Exception as error:
                failed[:] = [error]
                raise
            finally:
                _scope.reset(token)

        try:
            outcome = await run.tool(call, key, body)
        except DurableRunError as error:
            raise _cause(failed) or error from None
        if not outcome.ok:
            raise _failure(name, outcome) from (failed[0] if failed else None)
        self._transcript.returned(str(params.ctx.tool_call_id), outcome.step, outcome.result)
        try:
            return operation.result_codec.load(_message(outcome.result))
        except ValidationError as error:
            raise unreadable(run.id, None, str(error)) from error

    def _payload(
        self, name: str, params: ToolsetCallToolParams | DynamicToolsetCallToolParams
    ) -> Json:
        """Returns the arguments as the tool's schema has them: those that the model wrote, or the
        validated ones if the library had to convert them.
        """
        known, tool = self._calls.get(str(params.ctx.tool_call_id)), self._tools.get(name)
        validated: Json = to_jsonable_python(params.tool_args, by_alias=True)
        if known is None or tool is None:
            return validated
        try:
            written: Json = known.args_as_dict()
            _schema.check(written, tool.parameters, name)
        except (SchemaError, ValueError):
            return validated
        return written


def _with_payload(params: Any, sent: Json, payload: Json) -> Any:
    """Returns the call with the arguments that the sidecar permits, if an approval edited them."""
    if payload == sent:
        return params
    if isinstance(params, ToolsetCallToolParams) and params.tool is not None:
        context = params.ctx.validation_context
        arguments = params.tool.args_validator.validate_python(payload, context=context)
        return replace(params, tool_args=arguments)
    return replace(params, tool_args=payload)


def _recorded(tool: str, operation: DurableOperation[Any, Any, Any], value: Any) -> Json:
    """Returns the recorded form of a tool's result. Raises NotSerializableError."""
    try:
        message: Any = operation.result_codec.dump(value)
        dump_json(message, "result")
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise NotSerializableError(
            f"tool {tool!r}: its result has no JSON form: {error}; return JSON types, "
            "dataclasses or pydantic models",
            reason="NOT_SERIALIZABLE",
        ) from error
    plain = message.get("result") if message.get("kind") == "tool_return" else None
    marked = isinstance(plain, dict) and (_RAW in plain or plain.get("kind") == "tool-return")
    if message.get("kind") == "tool_return" and not marked:
        return cast("Json", plain)
    return {_RAW: message}


def _message(recorded: Json) -> Json:
    if isinstance(recorded, dict) and set(recorded) == {_RAW}:
        return recorded[_RAW]
    return {"kind": "tool_return", "result": recorded}


def _cause(failed: Sequence[Exception]) -> Exception | None:
    """Returns the program's own mistake that ended the run. None means that it was no mistake."""
    own = isinstance(failed[0], NotSerializableError) if failed else False
    return failed[0] if own else None


def _failure(tool: str, outcome: Outcome) -> Exception:
    """Returns the error of a failed tool call: for the model, or for the program."""
    code, text = outcome.failure
    if outcome.for_the_model:
        return ToolFailed(f"{code}: {text}")
    return StepFailedError(f"tool {tool}: {code}: {text}", reason=code)
