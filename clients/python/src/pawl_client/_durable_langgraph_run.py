"""One durable run of a graph of LangGraph: the places of its calls, its model calls and tools."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import re
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp

from pawl_client._durable_errors import (
    DurableRunError,
    ModelCallError,
    NotDurableError,
    NotSerializableError,
    RunChangedError,
)
from pawl_client._durable_langgraph_messages import (
    Conversations,
    answer_of,
    calls_of,
    digest_of,
    failure_of,
    message_of,
    usage_of,
)
from pawl_client._durable_pack import AgentTool
from pawl_client._durable_run import Asked, DurableRun, Outcome
from pawl_client._errors import FailStepError, PawlError, StepFailedError
from pawl_client._json_text import dump_json
from pawl_client._models import ModelAnswer, ModelFailure, ToolCallRef
from pawl_client._tool_call import ToolCall, current_call, within
from pawl_client._turn_requests import StepCall
from pawl_client._values import Fault, Json, Usage

RUN_KEY = "__pawl_run"
"""Key of `configurable` that has the durable run of a graph."""
DURABLE = "pawl_durable"
"""Key of the metadata of a durable model."""
_INTERRUPTED = "INTERRUPTED"
"""Code of a tool's step that LangGraph's `interrupt` ended."""
_TASK = "graph:step:"
"""The beginning of the tag that LangGraph gives to the runnable of a task."""
_MAX_PLACE = 160
"""Most bytes of a place (the name of a task within a run); a longer one is shortened."""
_KEY = re.compile(r"(.*)#(\d+)\.([0-9a-f]{12})(?:~\d+)?", re.DOTALL)
"""Matches the key of a call that the program made itself, not an answer of a model."""

inside: ContextVar[tuple[str, str] | None] = ContextVar("pawl_langgraph_step", default=None)
"""The request id and the durable tool whose function is being executed. None means no tool."""


class NotDurableWarning(UserWarning):
    """A node calls a model or a tool that is not durable: a later execution calls it again."""


def current_run(config: RunnableConfig | None = None) -> tuple[GraphRun, RunnableConfig] | None:
    """Returns the durable run of the task and its config. None: the task has none, or it executes a
    durable tool.
    """
    config = ensure_config(config)
    run = config.get("configurable", {}).get(RUN_KEY)
    return (run, config) if isinstance(run, GraphRun) and not run.in_tool() else None


@dataclass(slots=True)
class _Task:
    """A task of the graph, as far as its calls were seen."""

    place: str
    node: str
    thread: int = 0
    coroutine: asyncio.Task[Any] | None = None
    """The task of asyncio in which it began. None means that it began in blocking code."""

    def awaits(self) -> bool:
        """Whether the task awaits the code that is being executed, perhaps through other tasks.

        LangGraph and LangChain execute a coroutine in a task of asyncio, which they await.
        """
        if threading.get_ident() != self.thread:
            return False
        current, waiting = _coroutine(), self.coroutine
        while waiting is not None and waiting is not current:
            # asyncio.gather with a single call: the task waits for its only child.
            children: list[Any] = getattr(waiting, "_children", [])
            waiting = children[0] if len(children) == 1 else getattr(waiting, "_fut_waiter", None)
        return waiting is current


@dataclass(slots=True)
class _ModelsCall:
    """A tool call of a model's answer."""

    step: int
    key: str
    index: int
    tool: str
    arguments: str
    place: str = ""
    """The place of the task that made the call; empty: it was not made yet."""


class Places:
    """The keys of the calls of one run, which are the same in each execution.

    A key is made of the task, by its steps and nodes, of the call's number in the task, and of a
    digest of its content. The digest tells apart calls that a node makes at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, _Task] = {}
        self._used: dict[str, set[tuple[int, str]]] = {}
        """The numbers and digests of the calls that were made, by task and name."""
        self._known: dict[str, dict[tuple[int, str], Json]] = {}
        """The payloads of the calls that were requested, by number and digest."""
        self._failed: dict[str, int] = {}
        """How often each call has failed. The next attempt has a key of its own."""
        self._calls: dict[str, list[_ModelsCall]] = {}

    # Tasks

    def started(self, metadata: Mapping[str, Any]) -> None:
        """Notes that a task begins. A task that begins again repeats its calls."""
        namespace = str(metadata.get("langgraph_checkpoint_ns") or "")
        with self._lock:
            task = self._task(namespace, metadata)
            task.thread, task.coroutine = threading.get_ident(), _coroutine()
            for name in [name for name in self._used if name.startswith(f"{task.place}/")]:
                del self._used[name]
            for calls in self._calls.values():
                for call in calls:
                    if call.place == task.place:
                        call.place = ""

    def _task(self, namespace: str, metadata: Mapping[str, Any]) -> _Task:
        task = self._tasks.get(namespace)
        if task is None:
            node = str(metadata.get("langgraph_node") or "graph")
            own = f"{metadata.get('langgraph_step', 0)}:{node}{_number(metadata)}"
            place = f"{self._parent(namespace)}{own}"
            if len(place.encode()) > _MAX_PLACE:
                place = f"{own[:40]}~{hashlib.sha256(place.encode()).hexdigest()[:24]}"
            task = self._tasks[namespace] = _Task(place, node)
        return task

    def _parent(self, namespace: str) -> str:
        """Returns the beginning of the places of a namespace: the tasks around it."""
        outer, _, _ = namespace.rpartition("|")
        counters = ""
        while outer:
            if (task := self._tasks.get(outer)) is not None:
                return f"{task.place}|{counters}"
            rest, _, last = outer.rpartition("|")
            # If a node calls a graph again, the namespace contains the number of the call.
            counters = f"{last.partition(':')[0]}|{counters}"
            outer = rest
        return counters

    def task(self, config: RunnableConfig) -> _Task:
        """Returns the task that a call belongs to."""
        metadata = config.get("metadata") or {}
        namespace = str(metadata.get("langgraph_checkpoint_ns") or "")
        with self._lock:
            return self._task(namespace, metadata)

    # Calls

    def recorded(self, key: str, payload: Json) -> None:
        """Notes a call that an earlier execution requested."""
        if found := _KEY.fullmatch(key):
            self._known.setdefault(found[1], {}).setdefault((int(found[2]), found[3]), payload)

    def claim(
        self, task: _Task, what: str, digest: str, payload: Json = None, *, ordered: bool
    ) -> tuple[str, Json]:
        """Returns the key of a call, and the payload of the first execution of this call.

        The call is the recorded one with the same content. If there is none and the calls of the
        task are `ordered`, it is the recorded one with the same number.
        """
        name = f"{task.place}/{what}"
        with self._lock:
            used = self._used.setdefault(name, set())
            known = self._known.setdefault(name, {})
            left = sorted(one for one in known if one not in used)
            same = [one for one in left if one[1] == digest]
            if ordered:
                same += [one for one in left if one[0] == len(used)]
            taken = {number for number, _ in (*used, *known)}
            new = (next(n for n in range(len(taken) + 1) if n not in taken), digest)
            call = same[0] if same else new
            used.add(call)
            # The call stays known, so that a task that begins again in this execution finds it.
            return f"{name}#{call[0]}.{call[1]}", known.setdefault(call, payload)

    def failed(self, key: str) -> None:
        """Notes that a call has failed."""
        with self._lock:
            self._failed[key] = self._failed.get(key, 0) + 1

    def attempt(self, key: str) -> str:
        """Returns the key of the next attempt of a call."""
        failed = self._failed.get(key, 0)
        return f"{key}~{failed + 1}" if failed else key

    # Tool calls of answers

    def answered(self, step: int, key: str, message: AIMessage) -> None:
        """Notes the tool calls of an answer; those of the newest answer are found first."""
        with self._lock:
            for index, call in enumerate(calls_of(message)):
                calls = self._calls.setdefault(call.id, [])
                calls[:] = [one for one in calls if (one.key, one.index) != (key, index)]
                calls.append(_ModelsCall(step, key, index, call.name, call.arguments))

    def call_of(self, task: _Task, call_id: str, tool: str, arguments: str) -> _ModelsCall | None:
        """Returns the newest call of an answer that was not made yet. None means that there is
        none.
        """
        with self._lock:
            for call in reversed(self._calls.get(call_id, ())):
                if not call.place and (call.tool, call.arguments) == (tool, arguments):
                    call.place = task.place
                    return call
        return None


def _number(metadata: Mapping[str, Any]) -> str:
    """Returns the number that distinguishes tasks of one node in one step."""
    path: Any = metadata.get("langgraph_path") or ()
    numbers = [part for part in path[1:3] if isinstance(part, int) and not isinstance(part, bool)]
    return f".{numbers[0]}" if numbers else ""


class Watcher(BaseCallbackHandler):
    """Follows the tasks of a run, its output, and the calls that are not durable."""

    run_inline = True

    def __init__(self, run: GraphRun) -> None:
        self._run = run
        self._root: UUID | None = None
        self.output: Any = None
        """The output of the graph."""

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Notes the beginning of a task, which is the runnable that has LangGraph's tag."""
        self._root = self._root or run_id
        if any(tag.startswith(_TASK) for tag in tags or ()):
            self._run.places.started(metadata or {})

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        """Notes the output of the graph."""
        if run_id == self._root:
            self.output = outputs

    def on_tool_start(
        self, serialized: Any, input_str: str, *, metadata: Any = None, **more: Any
    ) -> None:
        """Warns of a tool that is not durable."""
        self._warn("tool", (serialized or {}).get("name") or more.get("name"), metadata)

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, metadata: Any = None, **more: Any
    ) -> None:
        """Warns of a model that is not durable."""
        if not (metadata or {}).get(DURABLE):
            self._warn("model", more.get("name") or (serialized or {}).get("name"), metadata)

    def on_llm_start(
        self, serialized: Any, prompts: Any, *, metadata: Any = None, **more: Any
    ) -> None:
        """Warns of a model that is not durable."""
        self._warn("model", more.get("name") or (serialized or {}).get("name"), metadata)

    def _warn(self, kind: str, name: Any, metadata: Any) -> None:
        if not self._run.in_tool():
            node = (metadata or {}).get("langgraph_node", "")
            self._run.warn(f"node {node!r} calls the {kind} {str(name)!r}, which is not durable")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallRequest:
    """A call of a durable model."""

    model: str
    messages: list[BaseMessage]
    stop: list[str] | None
    options: dict[str, Any]
    most: int
    """Tokens of the longest answer; 0: no limit is set."""


Make = Callable[[ModelCallRequest], Awaitable[AIMessage]]


class GraphRun:
    """One durable run of a graph. Its coroutines belong to the event loop that opened it."""

    def __init__(self, request_id: str, name: str, tools: Mapping[str, AgentTool]) -> None:
        self.request_id, self.name, self._tools = request_id, name, tools
        self.loop = asyncio.get_running_loop()
        self.places = Places()
        self.watcher = Watcher(self)
        self._conversations = Conversations()
        self._run: DurableRun | None = None
        self._warned: set[str] = set()
        self.error: PawlError | None = None
        """The error of Pawl that ended the execution; a node may have caught it."""
        self._failed_models: dict[str, Fault] = {}
        """The errors of the model calls that failed in an earlier execution, by key."""
        self._failures: list[BaseException] = []
        """The errors of steps that have failed. One that leaves the graph ends the run."""

    @property
    def run(self) -> DurableRun:
        """The run of Pawl."""
        assert self._run is not None  # noqa: S101
        return self._run

    def in_tool(self) -> bool:
        """Whether a durable tool of this run is being executed here."""
        tool = inside.get()
        return tool is not None and tool[0] == self.request_id

    async def begin(self, run: DurableRun, *, resumes: bool) -> None:
        """Executes the calls in this run. `resumes`: LangGraph skips tasks that are done."""
        self._run = run
        requested, answers, self._failed_models = await run.steps()
        for step in requested:
            self.places.recorded(step.key, step.payload)
        if resumes:
            for answered in answers:
                message = message_of(run.id, answered.answer)
                self.places.answered(answered.step, answered.key, message)

    def warn(self, words: str) -> None:
        """Warns once of a call that is not durable."""
        if words not in self._warned:
            self._warned.add(words)
            warnings.warn(
                f"graph {self.name!r}: {words}: a later execution makes the call again; give the "
                "node the object that PawlDurability.durable returns",
                NotDurableWarning,
                stacklevel=2,
            )

    @contextlib.contextmanager
    def _keeping_errors(self) -> Iterator[None]:
        """Keeps an error of Pawl, which a node may catch. The execution makes no further call."""
        if self.error is not None:
            raise self.error
        try:
            yield
        except (StepFailedError, NotDurableError):
            raise
        except PawlError as error:
            self.error = self.error or error
            raise

    def failing(self, error: Exception) -> Exception:
        """Notes and returns the error of a step that has failed."""
        self._failures.append(error)
        return error

    def has_failed_by(self, error: BaseException | None) -> bool:
        """Whether an error is that of a step that has failed, or was raised for it."""
        left, seen = [error], set[int]()
        while left:
            one = left.pop()
            if one is None or id(one) in seen:
                continue
            if any(one is failure for failure in self._failures):
                return True
            seen.add(id(one))
            left += [one.__cause__, one.__context__]
            grouped = getattr(one, "exceptions", ())
            if isinstance(grouped, tuple):
                left += [part for part in grouped if isinstance(part, BaseException)]
        return False

    def ordered(self, config: RunnableConfig) -> bool:
        """Whether the calls of a task that are made here come one after the other."""
        return self.places.task(config).awaits()

    # Model calls

    async def model(
        self, request: ModelCallRequest, config: RunnableConfig, make: Make, *, ordered: bool
    ) -> AIMessage:
        """Returns the answer of a model call, recorded or made now. Raises StepFailedError."""
        task = self.places.task(config)
        failed: list[Exception] = []
        sent = self._conversations.request(
            request.model, task.node, request.messages, request.stop, request.options, request.most
        )
        place, included = len(request.messages), sent.conversation.included

        def include(words: str) -> None:
            if (place, words) not in included:
                included.append((place, words))

        key, _ = self.places.claim(task, "model", sent.digest, ordered=ordered)

        async def asked(reserved: int) -> tuple[ModelAnswer | ModelFailure, Usage]:
            changed = _changed(request, included, reserved)
            try:
                message = await make(changed)
            except StreamBrokenError as broken:
                raise broken.error from None
            except Exception as error:
                failure = failure_of(error)
                if failure is None:
                    raise
                failed[:] = [error]
                return failure, Usage(estimated=True)
            return answer_of(message, request.model), usage_of(message)

        asking = Asked(
            request=sent.request,
            bound=sent.bound,
            make=asked,
            include=include,
            key=self.places.attempt(key),
        )
        try:
            with self._keeping_errors():
                if (fault := self._failed_models.get(asking.key)) is not None:
                    raise ModelCallError(fault)
                answered = await self.run.model(asking)
                message = message_of(self.run.id, answered.answer)
        except ModelCallError as error:
            self.places.failed(key)
            words = f"model {request.model}: {error}"
            cause = failed[0] if failed else None
            raise self.failing(StepFailedError(words, reason=error.fault.code)) from cause
        finally:
            sent.conversation.asking = False
        self._conversations.answered(sent, answered.step, message)
        self.places.answered(answered.step, answered.key, message)
        return message

    # Tool calls

    async def tool(
        self,
        name: str,
        payload: dict[str, Json],
        call_id: str,
        config: RunnableConfig,
        body: Callable[[Json], Awaitable[Json]],
        *,
        ordered: bool,
    ) -> tuple[Outcome, BaseException | None]:
        """Returns the outcome of a tool call, recorded or made now, and the error that it raised
        here.

        Raises what LangGraph's `interrupt` raised in the tool, and the errors of Pawl.
        """
        if name not in self._tools:
            raise NotDurableError(
                f"tool {name!r} is not in the pack of run {self.run.id}: make it durable with the "
                "same PawlDurability as the graph, before the run begins",
                reason="NOT_DURABLE",
            )
        task = self.places.task(config)
        found = self.places.call_of(task, call_id, name, _text(payload)) if call_id else None
        if found is not None:
            key = f"{found.key}/{found.index}"
        else:
            digest = digest_of(payload)
            key, before = self.places.claim(task, name, digest, payload, ordered=ordered)
            if not key.endswith(f".{digest}"):
                with self._keeping_errors():
                    raise RunChangedError(
                        f"run {self.run.id}: node {task.node!r} calls the tool {name!r} with "
                        f"{_text(payload)}, where it called it with {dump_json(before, 'payload')} "
                        "before; nothing was called. Let the node make the same calls in each "
                        "execution, for example of what another tool returned, or give another "
                        "request_id",
                        run_id=self.run.id,
                    )
        while True:
            own = self.places.attempt(key)
            call = StepCall(name, payload, key=own)
            if found is not None and own == key:
                ref = ToolCallRef(model_step=found.step, index=found.index)
                call = StepCall(name, payload, call=ref)
            outcome, error = await self._outcome(call, own, body)
            if outcome.ok:
                if call_id:
                    self._conversations.results[call_id] = (outcome.step, outcome.result)
                return outcome, None
            self.places.failed(key)
            if isinstance(error, GraphBubbleUp):
                raise error
            if outcome.failure[0] != _INTERRUPTED:
                return outcome, error

    async def _outcome(
        self, call: StepCall, key: str, body: Callable[[Json], Awaitable[Json]]
    ) -> tuple[Outcome, BaseException | None]:
        """Makes a step. Returns its outcome, and the error that it raised here."""
        failed: list[Exception] = []

        async def guarded(payload: Json) -> Json:
            failed.clear()
            token = inside.set((self.request_id, call.tool))
            try:
                return await body(payload)
            except NotSerializableError as error:
                failed[:] = [error]
                raise FailStepError("RESULT_INVALID", error.message, unknown=True) from error
            except GraphBubbleUp as error:
                failed[:] = [error]
                raise FailStepError(_INTERRUPTED, "interrupted", non_retryable=True) from error
            except Exception as error:
                failed[:] = [error]
                raise
            finally:
                inside.reset(token)

        try:
            with self._keeping_errors():
                outcome = await self.run.tool(call, key, guarded)
        except DurableRunError:
            if failed and isinstance(own := failed[0], NotSerializableError):
                self.error = own
                raise own from None
            raise
        error = failed[0] if failed and not outcome.ok else None
        if isinstance(error, NotSerializableError):
            raise error
        return outcome, error


class StreamBrokenError(Exception):
    """A stream that failed after its first chunk was used. The call is not repeated here."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _text(payload: Mapping[str, Json]) -> str:
    return dump_json(payload, "arguments")


def _changed(
    request: ModelCallRequest, included: Sequence[tuple[int, str]], reserved: int
) -> ModelCallRequest:
    """Returns the request with the sidecar's messages and bound of the answer."""
    messages, options = list(request.messages), dict(request.options)
    for place, words in reversed(included):
        messages.insert(place, HumanMessage(words))
    if reserved:
        options["max_tokens"] = reserved
    return replace(request, messages=messages, options=options)


# Blocking callers


@dataclass(slots=True)
class Wanted:
    """Work that the run wants its blocking caller to do: a call of the model or of the tool."""

    argument: Any
    call: ToolCall | None
    done: asyncio.Future[Any]

    def do(self, function: Callable[[Any], Any]) -> None:
        """Does the work in this thread and hands over its result or its error."""
        try:
            made = within(self.call, function) if self.call is not None else function
            self.give(made(self.argument))
        except Exception as error:
            self.fail(error)
        except BaseException as error:
            self.fail(FailStepError("CALL_STOPPED", "the program was stopped", unknown=True))
            raise error from None

    def give(self, result: Any) -> None:
        """Hands over the result."""
        self._settle(self.done.set_result, result)

    def fail(self, error: Exception) -> None:
        """Hands over the error."""
        if isinstance(error, StopIteration):  # No future can hold it.
            error = RuntimeError(f"StopIteration: {error}")
        self._settle(self.done.set_exception, error)

    def _settle(self, settle: Callable[[Any], None], value: Any) -> None:
        def settled() -> None:
            if not self.done.done():
                settle(value)

        self.done.get_loop().call_soon_threadsafe(settled)


class Blocking:
    """A call of a run that a thread waits for. It is iterated for the work that the thread does."""

    def __init__(
        self, run: GraphRun, start: Callable[[Callable[[Any], Awaitable[Any]]], Awaitable[Any]]
    ) -> None:
        if _running() is run.loop:
            raise NotDurableError(
                "a coroutine calls a durable tool or model by invoke, which would block the event "
                "loop: await ainvoke",
                reason="NOT_DURABLE",
            )
        self._wanted: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()

        async def work() -> Any:
            return await start(self._body)

        self._result = asyncio.run_coroutine_threadsafe(work(), run.loop)
        self._result.add_done_callback(lambda _: self._wanted.put(None))

    async def _body(self, argument: Any) -> Any:
        call = None
        with contextlib.suppress(LookupError):
            call = current_call()
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._wanted.put(Wanted(argument, call, done))
        return await done

    def __iter__(self) -> Iterator[Wanted]:
        """Yields the work until the call has its result."""
        while (wanted := self._wanted.get()) is not None:
            yield wanted

    def result(self) -> Any:
        """Returns the result of the call."""
        return self._result.result()

    def cancel(self) -> None:
        """Leaves the call to a later execution."""
        self._result.cancel()


def _coroutine() -> asyncio.Task[Any] | None:
    return None if _running() is None else asyncio.current_task()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def check_loop(run: GraphRun) -> None:
    """Raises NotDurableError in an event loop that is not the run's own."""
    if _running() is not run.loop:
        raise NotDurableError(
            "a durable tool or model is awaited in another event loop than that of the graph: use "
            "invoke in a graph that runs by invoke, and ainvoke in one that runs by ainvoke",
            reason="NOT_DURABLE",
        )
