"""Makes agents of the OpenAI Agents SDK durable: a runner whose runs are runs of Pawl."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import re
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    InputGuardrail,
    LocalShellTool,
    Model,
    ModelProvider,
    OpenAIConversationsSession,
    OutputGuardrail,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    ShellTool,
    Tool,
    handoff,
)
from agents.run_config import RunOptions
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext
from pydantic_core import to_jsonable_python
from typing_extensions import Unpack

from pawl_client._durable_errors import DuplicateAgentError, DuplicateToolError, NotDurableError
from pawl_client._durable_openai_models import DurableModel, DurableProvider
from pawl_client._durable_openai_run import AgentRun, Prepared, current_run
from pawl_client._durable_openai_session import SESSION_LABEL, DurableSession
from pawl_client._durable_pack import AgentTool, Bounds, pack_of
from pawl_client._durable_run import AnyClient
from pawl_client._values import Json
from pawl_client.pack import Pack

ContextT = TypeVar("ContextT")

_ORIGINAL = "_pawl_original"
"""Attribute of a durable copy of an agent: the program's own agent."""
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_GUARDRAIL_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"agent": {"type": "string"}},
    "required": ["agent"],
}
_REPEATED: Mapping[str, Json] = {"on_unknown": "retry", "attempts": 3}


class PawlRunner:
    """Runs agents of the OpenAI Agents SDK durably. Its methods are those of `agents.Runner`, with
    a `request_id`.

    Each model call, function tool, hand-off and guardrail is a recorded step of one run, under the
    sidecar's approvals, limits and leases. `client` is a `Client` or an `AsyncClient`. `bounds`
    are limits and approvals; see `bounds`. `name` names the pack (default: the name of the first
    agent). `approvals`: with "sidecar", a call of a tool with `needs_approval=True` waits until a
    person decides it on the page, by the CLI or in code; with "sdk", the run is interrupted, as
    without Pawl.

        runner = PawlRunner(client, bounds=bounds(max_tool_calls=10))
        result = await runner.run(agent, "Order 17, please.", request_id="order-17")

    Needs `pip install 'pawl-client[openai-agents]'`. Raises from a run: the SDK's own errors,
    DurableRunError, RunChangedError, LibraryVersionError, NestedAgentError, DuplicateAgentError,
    DuplicateToolError, NotDurableError, NotSerializableError, and the errors of the client
    (docs/guides/openai-agents.md).
    """

    def __init__(
        self,
        client: AnyClient,
        *,
        bounds: Bounds | None = None,
        name: str = "",
        approvals: Literal["sidecar", "sdk"] = "sidecar",
    ) -> None:
        self.client = client
        """The client that runs are executed with."""
        self.bounds = bounds or Bounds()
        """Limits and approvals of the runs."""
        self.name = name
        """The name of the pack; empty: that of the first agent."""
        self.approvals = approvals

    async def run(
        self,
        starting_agent: Agent[ContextT],
        input: str | list[Any] | RunState[ContextT],
        *,
        request_id: str,
        labels: Mapping[str, str] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> RunResult:
        """Runs an agent as `Runner.run`, or continues the run that began with this `request_id`.

        A program that is executed again with the same id, after a crash or later, gets what was
        recorded and makes only the missing calls. `labels` are those of the run. Raises ValueError
        for an empty id.
        """
        start = _Start(self, starting_agent, input, request_id, labels, options)
        run = start.run
        token = current_run.set(run)
        try:
            result = await Runner.run(start.agent, input, **start.options)
        except BaseException as error:
            raise await run.leave(error) from error.__cause__
        finally:
            current_run.reset(token)
            await start.close()
        await run.complete(result)
        return result

    def run_sync(
        self,
        starting_agent: Agent[ContextT],
        input: str | list[Any] | RunState[ContextT],
        *,
        request_id: str,
        labels: Mapping[str, str] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> RunResult:
        """Runs an agent as `Runner.run_sync`; see `run`."""
        work = self.run(starting_agent, input, request_id=request_id, labels=labels, **options)
        try:
            loop = _default_loop()
        except RuntimeError:
            work.close()
            raise
        task = loop.create_task(work)
        try:
            return loop.run_until_complete(task)
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)

    def run_streamed(
        self,
        starting_agent: Agent[ContextT],
        input: str | list[Any] | RunState[ContextT],
        *,
        request_id: str,
        labels: Mapping[str, str] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> RunResultStreaming:
        """Runs an agent as `Runner.run_streamed`; see `run`.

        The events of a model call arrive as they do without Pawl. A recorded answer is one event,
        its end. A stream that is cancelled leaves the run open; the same `request_id` continues it.
        """
        start = _Start(self, starting_agent, input, request_id, labels, options)
        token = current_run.set(start.run)
        try:
            result = Runner.run_streamed(start.agent, input, **start.options)
        finally:
            current_run.reset(token)
        ended = asyncio.ensure_future(_follow(start, result))
        events = result.stream_events

        async def stream_events() -> AsyncIterator[Any]:
            try:
                async with contextlib.aclosing(cast("Any", events())) as arriving:
                    async for event in arriving:
                        yield event
            except Exception:
                await ended
                raise
            await ended

        cast("Any", result).stream_events = stream_events
        return result

    def agent(self, agent: Agent[ContextT]) -> Agent[ContextT]:
        """Returns the durable copy of an agent and of all that it hands off to.

        The methods of this runner make it themselves. `RunState.from_string` needs it: a state is
        read with the agent that is to continue it. Outside of a durable run the copy acts as the
        agent itself. Raises NotDurableError, DuplicateAgentError, DuplicateToolError.
        """
        return _Copies(self).of(agent)

    def pack(self, agent: Agent[Any]) -> Pack:
        """Returns the pack that the agent's runs have. `Pack.write` writes it to a file.

        The tools of MCP servers are not in it; a run adds them. Raises as `agent`, and ValueError.
        """
        copies = _Copies(self)
        copies.of(agent)
        return self._pack(_original(agent), copies.tools)

    def _pack(self, agent: Agent[Any], tools: Mapping[str, AgentTool]) -> Pack:
        name = self.name or agent.name
        return pack_of(name, tools.values(), self.bounds, library="the OpenAI Agents SDK")


_loops = threading.local()
"""The loop of each thread's `run_sync`."""


def _default_loop() -> asyncio.AbstractEventLoop:
    """Returns the thread's loop, which stays open between runs, as the SDK's does.

    It is kept here: `asyncio.run` takes the thread's loop away without closing it.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("run_sync: an event loop is running already; await run")
    policy = asyncio.get_event_loop_policy()
    loop: asyncio.AbstractEventLoop | None = getattr(_loops, "loop", None)
    if loop is None or loop.is_closed():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                loop = policy.get_event_loop()
            except RuntimeError:
                loop = policy.new_event_loop()
        if loop.is_closed():
            loop = policy.new_event_loop()
        _loops.loop = loop
    policy.set_event_loop(loop)
    return loop


async def _follow(start: _Start, result: RunResultStreaming) -> None:
    """Ends a streamed run once its stream has ended."""
    run, task = start.run, result.run_loop_task
    assert task is not None  # noqa: S101
    try:
        await asyncio.wait({task})
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        error = error or getattr(result, "_stored_exception", None)
        if error is not None:
            left = await run.leave(error)
            if left is not error and not isinstance(error, asyncio.CancelledError):
                raise left
        elif _has_result(result):
            await run.complete(result)
        else:
            await run.leave(asyncio.CancelledError())
    except asyncio.CancelledError as stopped:
        task.cancel()
        await run.leave(stopped)
        raise
    finally:
        await start.close()


def _has_result(result: RunResultStreaming) -> bool:
    """Whether a stream came to the agent's output. A cancelled one is complete without it."""
    has_output = result.final_output is not None or bool(result.interruptions)
    return result.is_complete and (has_output or result._cancel_mode == "none")


class _Start:
    """What the SDK's run is started with: the durable copies of the agents, and the options."""

    def __init__(
        self,
        runner: PawlRunner,
        agent: Agent[Any],
        input: Any,
        request_id: str,
        labels: Mapping[str, str] | None,
        options: Mapping[str, Any],
    ) -> None:
        self._runner, self._original = runner, _original(agent)
        self._labels, self._context = dict(labels or {}), options.get("context")
        self._provider: ModelProvider | None = None
        self._session: DurableSession | None = None
        self._copies = _Copies(runner)
        self.agent: Agent[Any] = self._copies.of(agent)
        """The durable copy of the first agent."""
        self.options: Any = self._options(options)
        """Options of the SDK's run."""
        self.run = AgentRun(
            runner.client,
            self._original,
            runner.name or self._original.name,
            request_id,
            input,
            self._prepare,
        )
        """The run of Pawl."""
        if self._session is not None:
            self._session.use(self.run)
        current = input._current_agent if isinstance(input, RunState) else None
        if isinstance(input, RunState) and current is not None and not hasattr(current, _ORIGINAL):
            # A state that was read with the program's own agents continues with their copies.
            input._current_agent = self._copies.of(current)

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options, copies = dict(given), self._copies
        config = options.get("run_config")
        if isinstance(config, dict):
            config = RunConfig(**config)
        if config is None:
            config = RunConfig()
            self._provider = config.model_provider
        options["run_config"] = replace(
            config,
            model=DurableModel(config.model, type(config.model).__name__)
            if isinstance(config.model, Model)
            else config.model,
            model_provider=DurableProvider(config.model_provider),
            input_guardrails=copies.input_guardrails(config.input_guardrails or ()) or None,
            output_guardrails=copies.output_guardrails(config.output_guardrails or ()) or None,
        )
        if (session := options.get("session")) is not None:
            if isinstance(session, OpenAIConversationsSession):
                raise NotDurableError(
                    "an OpenAIConversationsSession cannot be durable: the provider keeps its items "
                    "and makes its id; use a session with an id of your own",
                    reason="NOT_DURABLE",
                )
            if hasattr(session, "run_compaction"):
                raise NotDurableError(
                    "a session that compacts its items cannot be durable: a later execution "
                    "could not find the same history",
                    reason="NOT_DURABLE",
                )
            options["session"] = self._session = DurableSession(session)
        return options

    async def _prepare(self) -> Prepared:
        copies, labels = self._copies, dict(self._labels)
        for agent in list(copies.agents.values()):
            if agent.mcp_servers:
                for tool in await agent.get_mcp_tools(RunContextWrapper(self._context)):
                    if isinstance(tool, FunctionTool):
                        copies.add_tool(tool, agent.name)
        if self._session is not None:
            labels[SESSION_LABEL] = str(await self._session.count())
        pack = self._runner._pack(self._original, copies.tools)
        return Prepared(pack=pack.json(), tools=copies.tools, labels=labels)

    async def close(self) -> None:
        """Closes the provider that the program did not give."""
        if self._provider is not None:
            await self._provider.aclose()


# Durable copies of agents


def _original(agent: Agent[Any]) -> Agent[Any]:
    """Returns the program's own agent of a durable copy."""
    return cast("Agent[Any]", getattr(agent, _ORIGINAL, agent))


class _Copies:
    """Makes the durable copies of the agents of one run, and collects their tools."""

    def __init__(self, runner: PawlRunner) -> None:
        self._sidecar_approves = runner.approvals == "sidecar"
        self._copies_by_id: dict[int, Agent[Any]] = {}
        self.agents: dict[str, Agent[Any]] = {}
        """The copies by name."""
        self.tools: dict[str, AgentTool] = {}

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Returns the copy of an agent, and makes those of its hand-offs."""
        original = _original(agent)
        if (known := self._copies_by_id.get(id(original))) is not None:
            return known
        _check(original)
        if original.name in self.agents:
            raise DuplicateAgentError(
                f"two agents of one run have the name {original.name!r}, by which the records "
                "know them; give one of them another name",
                reason="DUPLICATE_AGENT",
            )
        made = copy.copy(original)
        self._copies_by_id[id(original)] = self.agents[original.name] = made
        # The SDK takes the tools of each turn from this method.
        vars(made).update({_ORIGINAL: original, "get_all_tools": self._all_tools(original)})
        if isinstance(original.model, Model):
            made.model = DurableModel(original.model, type(original.model).__name__)
        for tool in original.tools:
            if isinstance(tool, FunctionTool):
                self.add_tool(tool, original.name)
        made.handoffs = [self._handoff(item, original.name) for item in original.handoffs]
        made.input_guardrails = self.input_guardrails(original.input_guardrails)
        made.output_guardrails = self.output_guardrails(original.output_guardrails)
        return made

    def add_tool(self, tool: FunctionTool, agent: str) -> None:
        """Adds a function tool of an agent. Raises DuplicateToolError."""
        held = tool.needs_approval is True and self._sidecar_approves
        declared = AgentTool(
            name=tool.name,
            description=tool.description or "",
            parameters=to_jsonable_python(tool.params_json_schema),
            held=held,
        )
        self._add(declared, agent)

    def _add(self, declared: AgentTool, agent: str) -> None:
        known = self.tools.setdefault(declared.name, declared)
        if (known.parameters, known.held) != (declared.parameters, declared.held):
            raise DuplicateToolError(
                f"agent {agent!r} has a tool {declared.name!r} whose parameters or approval "
                "differ from those of another agent's tool of that name; rename one of them",
                reason="DUPLICATE_TOOL",
            )

    def _all_tools(self, original: Agent[Any]) -> Callable[..., Awaitable[list[Tool]]]:
        async def get_all_tools(run_context: RunContextWrapper[Any]) -> list[Tool]:
            tools = await original.get_all_tools(run_context)
            run = current_run.get()
            if run is None:
                return tools
            run.acting = original.name
            return [self._tool(tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

        return get_all_tools

    def _tool(self, original: FunctionTool) -> FunctionTool:
        """Returns a function tool whose calls are steps. Its timeout begins with the step."""

        async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
            run = current_run.get()
            if run is None:
                return await invoke_function_tool(
                    function_tool=original, context=ctx, arguments=arguments
                )
            return await run.tool(original, ctx, arguments)

        made = copy.copy(original)
        made.on_invoke_tool = invoke
        made.timeout_seconds = None
        if original.needs_approval is True and self._sidecar_approves:
            made.needs_approval = False
        return made

    def _handoff(
        self, given: Agent[Any] | Handoff[Any, Any], agent: str
    ) -> Handoff[Any, Agent[Any]]:
        """Returns a hand-off that is a step, to the copy of the other agent."""
        if isinstance(given, Handoff):
            target = (getattr(given, "_agent_ref", None) or (lambda: None))()
            made, options = copy.copy(given), {}
        else:
            target, options = given, dict(_REPEATED)
            made = handoff(self.of(given))
        original = made.on_invoke_handoff
        if target is not None:
            self.of(target)
        self._add(
            AgentTool(
                name=made.tool_name,
                description=made.tool_description,
                parameters=to_jsonable_python(made.input_json_schema) or _NO_PARAMETERS,
                options=options,
            ),
            agent,
        )

        async def invoke(ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            async def next_agent() -> Agent[Any]:
                return self.of(await original(ctx, arguments))

            run = current_run.get()
            if run is None:
                return await next_agent()
            return await run.hand_off(made.tool_name, arguments, next_agent, self.agents)

        made.on_invoke_handoff = invoke
        return made

    def input_guardrails(self, given: Sequence[InputGuardrail[Any]]) -> list[InputGuardrail[Any]]:
        """Returns input guardrails whose runs are steps."""
        return [
            replace(one, name=one.get_name(), guardrail_function=self._guarded("input", one))
            for one in given
        ]

    def output_guardrails(
        self, given: Sequence[OutputGuardrail[Any]]
    ) -> list[OutputGuardrail[Any]]:
        """Returns output guardrails whose runs are steps."""
        return [
            replace(one, name=one.get_name(), guardrail_function=self._guarded("output", one))
            for one in given
        ]

    def _guarded(
        self, kind: str, guardrail: InputGuardrail[Any] | OutputGuardrail[Any]
    ) -> Callable[..., Awaitable[GuardrailFunctionOutput]]:
        function: Callable[..., Any] = guardrail.guardrail_function
        name = guardrail.get_name()
        tool = "guardrail_" + (re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:50] or "check")
        self._add(
            AgentTool(
                name=tool,
                description=f"The {kind} guardrail {name} of the program.",
                parameters=_GUARDRAIL_PARAMETERS,
                options=dict(_REPEATED),
            ),
            name,
        )

        async def check(
            ctx: RunContextWrapper[Any], agent: Agent[Any], checked: Any
        ) -> GuardrailFunctionOutput:
            async def run_guardrail() -> GuardrailFunctionOutput:
                found = function(ctx, agent, checked)
                return cast(
                    "GuardrailFunctionOutput",
                    await found if isinstance(found, Awaitable) else found,
                )

            run = current_run.get()
            if run is None:
                return await run_guardrail()
            return await run.guardrail(tool, f"guardrail/{kind}/{name}", agent.name, run_guardrail)

        return check


def _check(agent: Agent[Any]) -> None:
    """Raises NotDurableError for an agent with a part whose calls cannot be recorded."""
    if type(agent).__name__ == "SandboxAgent":
        raise NotDurableError(
            f"agent {agent.name!r} is a SandboxAgent, whose sandbox is not recorded",
            reason="NOT_DURABLE",
        )
    for tool in agent.tools:
        local = isinstance(tool, (ComputerTool, LocalShellTool, ApplyPatchTool, CustomTool))
        if local or (isinstance(tool, ShellTool) and tool.executor is not None):
            raise NotDurableError(
                f"agent {agent.name!r} has the tool {tool.name!r}, a {type(tool).__name__} that "
                "is executed here and whose calls are not recorded; use a function tool",
                reason="NOT_DURABLE",
            )
