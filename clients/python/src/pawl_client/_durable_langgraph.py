"""Makes graphs of LangGraph durable: their model calls and tool calls are steps of runs of Pawl."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from typing import Any, TypeVar, overload

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    merge_configs,
    var_child_runnable_config,
)
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from pawl_client._client import Client
from pawl_client._durable_begin import Beginning
from pawl_client._durable_errors import (
    DuplicateToolError,
    NestedAgentError,
    NotDurableError,
    RunChangedError,
)
from pawl_client._durable_langgraph_messages import jsonable
from pawl_client._durable_langgraph_models import DurableChatModel, inner_model, rebound
from pawl_client._durable_langgraph_run import RUN_KEY, GraphRun, current_run, inside
from pawl_client._durable_langgraph_tools import DurableTool
from pawl_client._durable_pack import AgentTool, Bounds, pack_of
from pawl_client._durable_run import AnyClient
from pawl_client._json_text import dump_json
from pawl_client._outcomes import Reply
from pawl_client._values import Json, JsonValue
from pawl_client.pack import Pack

T = TypeVar("T")
AnyGraph = Pregel[Any, Any, Any, Any]

_MOST_BYTES = 64 * 1024
"""Bytes of an input or output that the run records as it is."""
REQUEST_TAG = "pawl_request_id"
"""Key of the metadata of checkpoints that has the request id of the run that made them."""


class PawlDurability:
    """Makes chat models, tools and compiled graphs of LangGraph durable.

    Within a durable graph, each call of a durable model and of a durable tool is a recorded step of
    one run, under the sidecar's approvals, limits and leases. Outside of it they act as the model
    and the tool themselves. `client` is a `Client`, for graphs that are invoked either way, or an
    `AsyncClient`, for `ainvoke` and `astream`. `bounds` are limits and approvals; see `bounds`.
    `name` names the pack (default: the graph's name).

        durability = PawlDurability(client, bounds=bounds(max_tool_calls=10))
        model, tools = durability.durable(model), [durability.durable(refund)]
        graph = durability.durable(builder.compile())
        graph.invoke({"messages": "Order 17, please."}, request_id="order-17")

    Needs `pip install 'pawl-client[langgraph]'`. Raises from a run: LangGraph's own errors,
    DurableRunError, RunChangedError, LibraryVersionError, NestedAgentError, DuplicateAgentError,
    NotDurableError, NotSerializableError, and the errors of the client (docs/guides/langgraph.md).
    """

    def __init__(self, client: AnyClient, *, bounds: Bounds | None = None, name: str = "") -> None:
        self.client = client
        """The client that runs are executed with."""
        self.bounds = bounds or Bounds()
        """Limits and approvals of the runs."""
        self.name = name
        """The name of the pack; empty: that of the graph."""
        self._tools: dict[str, AgentTool] = {}

    @overload
    def durable(self, given: BaseTool) -> BaseTool: ...
    @overload
    def durable(self, given: BaseChatModel) -> BaseChatModel: ...
    @overload
    def durable(self, given: AnyGraph) -> DurableGraph: ...
    @overload
    def durable(self, given: Runnable[Any, Any]) -> Runnable[Any, Any]: ...

    def durable(self, given: Any) -> Any:
        """Returns the durable form of a tool, of a chat model or of a compiled graph.

        A chat model may have tools or arguments bound already. The tools that a graph uses are made
        durable before its first run begins. What is durable already is returned as it is. Raises
        NotDurableError for any other object, DuplicateToolError for a second tool of one name with
        other parameters.
        """
        if isinstance(given, (DurableTool, DurableChatModel, DurableGraph)):
            return given
        if isinstance(given, BaseTool):
            return self._tool(given)
        if isinstance(given, Pregel):
            return DurableGraph(self, given)
        model = inner_model(given)
        if isinstance(model, DurableChatModel):
            return given
        if model is None:
            raise NotDurableError(
                f"a {type(given).__name__} cannot be durable, only a tool, a chat model and a "
                "compiled graph; make a function a tool with langchain_core.tools.tool",
                reason="NOT_DURABLE",
            )
        return rebound(given, DurableChatModel.of(model))

    def _tool(self, tool: BaseTool) -> BaseTool:
        made = DurableTool.of(tool)
        declared = made.declared
        known = self._tools.setdefault(tool.name, declared)
        if known.parameters != declared.parameters:
            raise DuplicateToolError(
                f"two tools have the name {tool.name!r}, but different parameters; rename one",
                reason="DUPLICATE_TOOL",
            )
        return made

    def pack(self, graph: AnyGraph | DurableGraph) -> Pack:
        """Returns the pack that the graph's runs have. `Pack.write` writes it to a file.

        It has all tools that were made durable. Raises ValueError for bounds of an unknown tool.
        """
        name = self.name or (graph.graph.name if isinstance(graph, DurableGraph) else graph.name)
        return pack_of(name, self._tools.values(), self.bounds, library="LangGraph")


class DurableGraph(Runnable[Any, Any]):
    """A compiled graph whose runs are runs of Pawl. `PawlDurability.durable` makes it.

    Its methods are those of the graph, with a `request_id`. In a node of another durable graph it
    acts as the graph itself: its calls are steps of the outer run.
    """

    def __init__(self, durability: PawlDurability, graph: AnyGraph) -> None:
        self.durability = durability
        self.graph = graph
        """The compiled graph, for `get_state`, `update_state` and other calls that start no run."""
        self.name = graph.name

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        request_id: str = "",
        labels: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Runs the graph as its `invoke`, or continues the run that began with this `request_id`.

        A program that is executed again with the same id, after a crash or later, gets what was
        recorded and makes only the missing calls. `labels` are those of the run. Raises ValueError
        for an empty id.
        """
        if current_run(config) is not None:
            return self.graph.invoke(input, config, **options)
        with _Session(self, input, config, request_id, labels, options) as session:
            if session.done:
                return session.done[0]
            output = self.graph.invoke(session.input, session.config, **options)
            session.end()
            return output

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        request_id: str = "",
        labels: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Runs the graph as its `ainvoke`; see `invoke`."""
        if current_run(config) is not None:
            return await self.graph.ainvoke(input, config, **options)
        async with _Session(self, input, config, request_id, labels, options) as session:
            if session.done:
                return session.done[0]
            output = await self.graph.ainvoke(session.input, session.config, **options)
            await session.aend()
            return output

    def stream(  # type: ignore[override]
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        request_id: str = "",
        labels: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Generator[Any, None, None]:
        """Runs the graph as its `stream`; see `invoke`.

        A stream that is left before its end leaves the run open; the same `request_id` continues
        it.
        """
        if current_run(config) is not None:
            yield from self.graph.stream(input, config, **options)
            return
        with _Session(self, input, config, request_id, labels, options) as session:
            if session.done:
                yield from session.done
                return
            yield from self.graph.stream(session.input, session.config, **options)
            session.end()

    async def astream(  # type: ignore[override]
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        request_id: str = "",
        labels: Mapping[str, str] | None = None,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Runs the graph as its `astream`; see `stream`."""
        if current_run(config) is not None:
            async for part in self.graph.astream(input, config, **options):
                yield part
            return
        async with _Session(self, input, config, request_id, labels, options) as session:
            if session.done:
                yield session.done[0]
                return
            parts: Any = self.graph.astream(session.input, session.config, **options)
            async with contextlib.aclosing(parts) as arriving:
                async for part in arriving:
                    yield part
            await session.aend()


class _Session:
    """One execution of a durable graph, by blocking code or by a coroutine."""

    def __init__(
        self,
        graph: DurableGraph,
        given: Any,
        config: RunnableConfig | None,
        request_id: str,
        labels: Mapping[str, str] | None,
        options: Mapping[str, Any],
    ) -> None:
        if not request_id:
            raise ValueError("request_id: must not be empty; a later execution continues by it")
        if (outer := inside.get()) is not None and outer[0] == request_id:
            raise NestedAgentError(
                f"graph {graph.name!r} runs in the durable tool {outer[1]!r} under the tool's own "
                "request_id; give it another one, for example current_call().idempotency_key",
                reason="NESTED_AGENT",
            )
        self._durable, self._graph, self.input = graph, graph.graph, given
        self._request_id, self._labels = request_id, dict(labels or {})
        self._options = options
        if options.get("interrupt_after") or self._graph.interrupt_after_nodes:
            raise NotDurableError(
                f"graph {graph.name!r} stops by interrupt_after, of which no checkpoint knows; use "
                "interrupt_before, or interrupt in the node",
                reason="NOT_DURABLE",
            )
        self._keeps = isinstance(self._graph.checkpointer, BaseCheckpointSaver)
        """True: the graph has a checkpointer, from which LangGraph itself continues a thread."""
        self.config: RunnableConfig = self._tagged(config)
        """The config to run the graph with."""
        self.done: list[Any] = []
        """The output, if it is known without running the graph: the thread has continued after the
        run, or the graph still stops before a node. Empty: the graph is run.
        """
        self._context: Any = None
        self._run: GraphRun | None = None
        self._thread: _LoopThread | None = None

    def _tagged(self, config: RunnableConfig | None) -> RunnableConfig:
        own: RunnableConfig = {"metadata": {REQUEST_TAG: self._request_id}}
        merged = merge_configs(_without_outer(ensure_config(config)), own)
        if self._keeps and not merged.get("configurable", {}).get("thread_id"):
            merged = merge_configs(merged, {"configurable": {"thread_id": self._request_id}})
        return merged

    # Blocking

    def __enter__(self) -> _Session:
        if not isinstance(self._durable.durability.client, Client):
            raise RuntimeError(
                "a durable graph of an AsyncClient is run by ainvoke and astream; use a Client for "
                "invoke and stream"
            )
        self._thread = _LoopThread()
        try:
            snapshot = earlier = None
            if self._keeps:
                snapshot = self._graph.get_state(self.config)
                earlier = next(self._history(self._graph.get_state_history), None)
            self._plan(snapshot, earlier)
            self._thread.wait(self._begin())
        except BaseException:
            self._thread.close()
            raise
        self._enter()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        assert self._thread is not None  # noqa: S101
        self._leave()
        try:
            if error is not None or self.done:
                self._thread.wait(self._fail(error))
        finally:
            self._thread.close()

    def end(self) -> None:
        """Completes the run, unless the graph waits for a person."""
        assert self._thread is not None  # noqa: S101
        snapshot = self._graph.get_state(self.config) if self._keeps else None
        self._thread.wait(self._end(snapshot))

    # Coroutines

    async def __aenter__(self) -> _Session:
        snapshot = earlier = None
        if self._keeps:
            snapshot = await self._graph.aget_state(self.config)
            earlier = await anext(self._history(self._graph.aget_state_history), None)
        self._plan(snapshot, earlier)
        await self._begin()
        self._enter()
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._leave()
        if error is not None or self.done:
            await self._fail(error)

    async def aend(self) -> None:
        """Completes the run, unless the graph waits for a person."""
        snapshot = await self._graph.aget_state(self.config) if self._keeps else None
        await self._end(snapshot)

    # Both

    def _history(self, read: Callable[..., Any]) -> Any:
        return read(self.config, filter={REQUEST_TAG: self._request_id}, limit=1)

    def _enter(self) -> None:
        assert self._run is not None  # noqa: S101
        if RUN_KEY in ensure_config().get("configurable", {}):
            # This graph runs in a tool of another durable graph. It must not inherit that graph's
            # config.
            self._context = var_child_runnable_config.set(None)
        own: RunnableConfig = {
            "configurable": {RUN_KEY: self._run},
            "callbacks": [self._run.watcher],
        }
        self.config = merge_configs(self.config, own)

    def _leave(self) -> None:
        # A ValueError means that a stream is closed in another context than it was begun in.
        with contextlib.suppress(ValueError):
            if self._context is not None:
                var_child_runnable_config.reset(self._context)

    def _plan(self, newest: StateSnapshot | None, own: StateSnapshot | None) -> None:
        """Decides what LangGraph continues with: the given input, or the thread as it is."""
        given, thread = self.input, self.config.get("configurable", {}).get("thread_id")
        if newest is None:
            return
        tag = (newest.metadata or {}).get(REQUEST_TAG)
        # A checkpoint of `update_state` has no request id.
        edited = tag is None and (newest.metadata or {}).get("source") == "update"
        if own is not None and (tag == self._request_id or (edited and own.next)):
            if given is not None and self._stops_before(newest.next):
                self.done = [newest.values]
            waits = isinstance(given, Command) and bool(newest.interrupts)
            self.input = given if waits else None
        elif own is not None:
            if own.next:
                raise RunChangedError(
                    f"thread {thread!r} went on with the request_id {tag!r} before the run of "
                    f"{self._request_id!r} ended; give the request another thread",
                    run_id="",
                )
            self.done = [own.values]
        elif isinstance(given, Command) and newest.interrupts and tag is not None:
            raise ValueError(
                f"request_id: thread {thread!r} waits in the run of {tag!r}, not "
                f"{self._request_id!r}; continue it with that id"
            )

    def _stops_before(self, nodes: Sequence[str]) -> bool:
        """Whether the graph stops before one of these nodes until it is invoked with None."""
        stops: Any = self._options.get("interrupt_before") or self._graph.interrupt_before_nodes
        return bool(nodes) and (stops == "*" or bool(set(stops) & set(nodes)))

    async def _begin(self) -> None:
        durable = self._durable
        durability, tools = durable.durability, dict(durable.durability._tools)
        self._run = run = GraphRun(self._request_id, durable.name or "graph", tools)
        begun = await Beginning(
            client=durability.client,
            name=durability.name or self._graph.name,
            owner=self._graph,
            pack=durability.pack(durable).json(),
            tools=tools,
            request_id=self._request_id,
            advice="compile(name=…) or PawlDurability(name=…)",
            labels=self._labels,
            input=_text_of(self.input) or None,
        ).open()
        try:
            await run.begin(begun, resumes=self._keeps)
        except BaseException:
            await begun.abandon()
            raise

    async def _end(self, snapshot: StateSnapshot | None) -> None:
        assert self._run is not None  # noqa: S101
        run = self._run
        if run.error is not None:
            raise run.error
        if snapshot is not None and (snapshot.next or snapshot.interrupts):
            await run.run.abandon()
            return
        await run.run.complete(Reply(output=_output_of(run.watcher.output)))

    async def _fail(self, error: BaseException | None) -> None:
        """Ends the run as failed if a later execution would get the same error from the records.
        Otherwise leaves the run open for a later execution.
        """
        assert self._run is not None  # noqa: S101
        run = self._run
        if error is None:
            await run.run.abandon()
            return
        own = isinstance(error, GraphRecursionError)
        recorded = own or (isinstance(error, Exception) and run.has_failed_by(error))
        if recorded and run.error is None:
            await run.run.fail(type(error).__name__, str(error))
        else:
            await run.run.abandon()
        if run.error is not None and error is not run.error and isinstance(error, Exception):
            raise run.error from error


def _without_outer(config: RunnableConfig) -> RunnableConfig:
    """Returns a config without the entries of a durable graph that runs this one in a tool."""
    configurable = config.get("configurable", {})
    if RUN_KEY not in configurable:
        return config
    kept = {
        name: value
        for name, value in configurable.items()
        if not name.startswith(("__", "checkpoint_")) and name != "thread_id"
    }
    made: RunnableConfig = {"configurable": kept, "tags": config.get("tags", [])}
    if limit := config.get("recursion_limit"):
        made["recursion_limit"] = limit
    return made


def _output_of(output: Any) -> str | JsonValue:
    """Returns the output of a run. A long one is only mentioned, as no execution reads it."""
    value: Json = jsonable(output)
    size = len(dump_json(value, "output").encode())
    if size > _MOST_BYTES:
        return f"(an output of {size} bytes, which the program has)"
    return value if isinstance(value, str) else JsonValue(value)


def _text_of(given: Any) -> str:
    """Returns the text of an input that is one message, and any other input as JSON. A long input
    is replaced by its digest, by which an equal input is recognized.
    """
    if given is None or isinstance(given, Command):
        return ""
    if isinstance(given, Mapping) and set(given) == {"messages"}:
        messages = given["messages"]
        one: Any = [messages] if isinstance(messages, (str, BaseMessage, Mapping)) else messages
        with contextlib.suppress(ValueError, TypeError, NotImplementedError):
            if len(converted := convert_to_messages(one)) == 1:
                given = str(converted[0].text)
    text = given if isinstance(given, str) else dump_json(jsonable(given), "input")
    if (size := len(text.encode())) > _MOST_BYTES:
        return f"(an input of {size} bytes, SHA-256 {hashlib.sha256(text.encode()).hexdigest()})"
    return text


class _LoopThread:
    """The event loop that executes the run of blocking code, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pawl-langgraph", daemon=True
        )
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Executes work for blocking code."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Ends the thread, and the calls that still wait for the run."""
        self.wait(_cancel_others())
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    """Cancels the other tasks of the loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
