"""Executes a program's own agent loop as the turn of a run: adapters of agent libraries use it.

The program calls its library. Each model request and each tool call of the library becomes a step
of the run, by its place in the run. A later execution under the same `request_id` gets the recorded
results of these steps and makes only the missing ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from pawl_client._async_client import AsyncClient
from pawl_client._async_serve import served_run
from pawl_client._async_turn import AsyncTurn
from pawl_client._client import Client
from pawl_client._durable_errors import (
    DurableRunError,
    ModelCallError,
    RunChangedError,
    ended_error,
)
from pawl_client._enums import Disposition, RunStatus, StepKind, StepStatus
from pawl_client._errors import (
    CallCancelledError,
    FailStepError,
    FailTurnError,
    PawlError,
    StepRefusedError,
    TurnStaleError,
)
from pawl_client._model_calls import RequestedModel
from pawl_client._models import ModelAnswer, ModelFailure, ModelRequest
from pawl_client._outcomes import Reply
from pawl_client._records import Record, StepRequested, StepResolved, TurnFailed
from pawl_client._runs import RunFilter, RunInfo, Step, StepOutcome
from pawl_client._tool_call import ToolCall, current_call, within
from pawl_client._turn_requests import StepCall
from pawl_client._values import Fault, Json, Usage
from pawl_client._worker_turn import WorkerTurn

T = TypeVar("T")
AnyClient: TypeAlias = "AsyncClient | Client"

_ENDED = (
    RunStatus.COMPLETED,
    RunStatus.BUDGET_EXHAUSTED,
    RunStatus.ESCALATED,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
)
_MAX_PENDING = 8
"""Tool calls that a run has pending at once: the default of `x_pawl.max_pending_steps`."""
_KINDS = ("STEP_REQUESTED", "STEP_RESOLVED")
_FOR_THE_MODEL = frozenset(
    {
        "DENIED",
        "WORKER_LOST",
        "DEADLINE_EXCEEDED",
        "NOT_DONE",
        "OUTCOME_UNKNOWN",
        "DUPLICATE_EFFECT",
    }
)
"""Codes of the sidecar's own answers to a tool call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A recorded model answer: the step's number and key, and the answer."""

    step: int
    key: str
    answer: ModelAnswer
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A model call to make: its request as the sidecar records it, and what it may consume.

    `make` calls the model. It receives the tokens that a budget reserves for the answer (0: none)
    and returns the answer, or the failure, and the usage. `include` receives each message that the
    sidecar adds to the request: steering, or a notice about the budget. `key` is the step's key for
    calls that have no order; empty: the call is the next round of the run.
    """

    request: ModelRequest
    bound: Usage
    make: Callable[[int], Awaitable[tuple[ModelAnswer | ModelFailure, Usage]]]
    include: Callable[[str], None]
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer of a tool's step. `ok`: it has a result; otherwise it has an error."""

    step: int
    ok: bool
    result: Json = None
    error: Fault | None = None

    @property
    def failure(self) -> tuple[str, str]:
        """The code and the message of the error."""
        return (self.error.code, self.error.message) if self.error else ("ERROR", "")

    @property
    def for_the_model(self) -> bool:
        """Whether the sidecar itself answered the call: the model gets the failure."""
        return self.failure[0] in _FOR_THE_MODEL


Body: TypeAlias = "Callable[[Json], Awaitable[Json]]"


@dataclass(slots=True)
class _Slot:
    """A tool call of the program that waits until the sidecar permits it."""

    loop: asyncio.AbstractEventLoop
    calls: asyncio.Queue[tuple[Json, ToolCall, Future[Json]]] = field(default_factory=asyncio.Queue)


class DurableRun:
    """One run whose turn the program executes. `begin` opens it, and `complete`, `fail` or
    `abandon` ends it here.

    It belongs to the event loop of the program. The steps are executed in the event loop of the
    client: the same one for an AsyncClient, the client's own one for a Client.
    """

    def __init__(self, client: AnyClient) -> None:
        self._client = client
        self.labels: dict[str, str] = {}
        """Labels of the run, as its first execution set them; empty before `begin`."""
        self._run: Any = None
        self._driving: asyncio.Future[Any] | None = None
        self._served: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the sidecar's work arrives. None means that no turn has arrived."""
        self._arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._program = asyncio.get_running_loop()
        self._turn: AsyncTurn | None = None
        self._newer: asyncio.Event | None = None
        self._reply: asyncio.Future[Reply] | None = None
        self._recorded: _Recorded | None = None
        self._slots: dict[str, asyncio.Future[_Slot]] = {}
        self._pending = asyncio.Semaphore(_MAX_PENDING)
        self._round = 0
        self._included: set[int] = set()
        """Records of the messages that the sidecar added."""

    @property
    def id(self) -> str:
        """The id of the run; empty before `begin`."""
        return self._run.id if self._run is not None else ""

    async def begin(self, pack: str, **what: Any) -> str:
        """Starts the run, or continues the run that was started under the same `request_id`.

        `what` are arguments of `Client.open`. Returns the digest of the run's pack. Raises
        DurableRunError if the run has ended without a result.
        """
        self._run = await self._call(self._client.open, pack, **what)
        return await self._check()

    async def _check(self) -> str:
        info = await self._call(self._run.info)
        self.labels = dict(info.labels)
        if info.status is RunStatus.COMPLETED:
            self._recorded = _Recorded.of(await self._records(_KINDS))
        elif info.status in _ENDED:
            raise await self._ended(info)
        return str(info.pack.digest)

    async def find(self, label: str, value: str) -> str | None:
        """Returns the id of the newest run with this label. None means that there is none."""
        runs = self._client.list_runs(RunFilter(labels={label: value}), page_size=1)
        if isinstance(runs, AsyncIterator):
            async for info in runs:
                return info.run_id
            return None
        first = await _in_thread(next, iter(runs), None)
        return None if first is None else first.run_id

    async def attach(self, run_id: str) -> str:
        """Continues a run by its id. Returns and raises as `begin`."""
        self._run = self._client.attach(run_id)
        return await self._check()

    async def first_input(self) -> str:
        """Returns the text of the first message of the run; empty if it has none."""
        messages = await self._call(self._run.messages)
        return str(messages[0].text) if messages else ""

    async def serve(self) -> None:
        """Executes the run's turn here, unless the run is completed. Releases it if this fails."""
        if self._recorded is not None:
            return
        self._served = served_run(self._handle, {"*": self._handle_tool}, ())
        if isinstance(self._client, AsyncClient):
            self._driving = asyncio.ensure_future(self._run._drive(self._served))
        else:
            self._driving = _in_thread(self._run._drive, self._served)
        first: set[asyncio.Future[Any]] = {self._arrived, self._driving}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if self._driving.done():
                self._raise_end()
        except BaseException:
            await self.abandon()
            raise

    async def skip(self, rounds: int) -> list[Answered]:
        """Returns the first recorded answers, and continues after them: a library that kept its
        state does not make these model calls again. Raises RunChangedError if they are missing.
        """
        recorded = self._recorded or _Recorded.of(await self._records(_KINDS))
        self._round = rounds
        return [recorded.answer(self.id, f"model/{number}") for number in range(1, rounds + 1)]

    async def steps(self) -> tuple[list[StepRequested], list[Answered], dict[str, Fault]]:
        """Returns the requested steps of the run and its answered model calls, in order, and the
        errors of the model calls that have finally failed, by key.
        """
        records = await self._records(_KINDS)
        requested = [record.body for record in records if isinstance(record.body, StepRequested)]
        recorded = _Recorded.of(records)
        return requested, recorded.answers(self.id), recorded.failures()

    async def _records(self, kinds: Sequence[str]) -> list[Record]:
        if isinstance(self._client, AsyncClient):
            return [record async for record in self._run.records(kinds=kinds)]
        return await _in_thread(lambda: list(self._run.records(kinds=kinds)))

    async def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if isinstance(self._client, AsyncClient):
            return await method(*arguments, **named)
        return await _in_thread(method, *arguments, **named)

    async def get_pack(self, pack: str) -> bytes:
        """Returns the document of a registered pack."""
        found = await self._call(self._client.get_pack, pack, include_content=True)
        return bytes(found.content)

    async def register_pack(self, text: str) -> str:
        """Registers a pack document and returns its digest."""
        done = await self._call(
            self._client.register_pack, text, filename="agent.pack.json", move_version=True
        )
        return str(done.pack.digest)

    # The ends

    async def complete(self, reply: Reply) -> None:
        """Completes the run with the program's result."""
        if self._driving is None:
            return
        await self._reply_with(lambda waiting: waiting.set_result(reply))
        result = await self._driving
        if result.status is not RunStatus.COMPLETED:
            raise ended_error(self.id, result.status, result.reason, result.errors)

    async def fail(self, code: str, message: str) -> None:
        """Ends the run as failed, for an error that the same program meets again."""
        if self._driving is None or self._driving.done():
            return
        error = FailTurnError(code, message, retryable=False)
        await self._reply_with(lambda waiting: waiting.set_exception(error))
        with contextlib.suppress(PawlError):
            await self._driving

    async def abandon(self) -> None:
        """Releases the run, so that a later execution continues it."""
        driving, self._driving = self._driving, None
        if driving is None:
            return
        error = CallCancelledError("the program left the run; call it again to continue it")
        if isinstance(self._client, Client):
            self._client._run_server.give_up(self._served, error)
        else:
            driving.cancel()
        with contextlib.suppress(asyncio.CancelledError, PawlError):
            await driving

    async def _reply_with(self, reply: Callable[[asyncio.Future[Reply]], None]) -> None:
        async def answer() -> None:
            assert self._reply is not None  # noqa: S101
            if not self._reply.done():
                reply(self._reply)

        await self._there(answer())

    def _raise_end(self) -> None:
        """Raises the error of a run that ended while the program was executing it."""
        assert self._driving is not None  # noqa: S101
        result = self._driving.result()
        raise ended_error(self.id, result.status, result.reason, result.errors)

    async def _raise_if_ended(self) -> None:
        """Raises DurableRunError if the run has ended, and stops executing its turn."""
        info = await self._call(self._run.info)
        if info.status not in _ENDED:
            return

        async def stop() -> None:
            if isinstance(self._turn, WorkerTurn):
                self._turn._leased.revoke()

        await self._there(stop())
        raise await self._ended(info)

    async def _ended(self, info: RunInfo) -> DurableRunError:
        """Returns the error of a run that has ended, with the failure that its turn reported."""
        failures = [record.body for record in await self._records(["TURN_FAILED"])]
        last = failures[-1] if failures else None
        error = last.error if isinstance(last, TurnFailed) else None
        text = f"{error.code}: {error.message}" if error else ""
        return ended_error(self.id, info.status, info.reason, text=text)

    # The loop of the client

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits a coroutine in the loop in which the sidecar's work arrives."""
        if self._loop is None or self._loop is self._program:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _handle(self, turn: AsyncTurn) -> Reply:
        """Executes the turn: hands it to the program and waits for the program's end."""
        if self._loop is None or self._newer is None or self._reply is None:
            self._loop = asyncio.get_running_loop()
            self._newer, self._reply = asyncio.Event(), self._loop.create_future()
        self._turn = turn
        self._newer.set()
        self._program.call_soon_threadsafe(_settle, self._arrived)
        return await asyncio.shield(self._reply)

    async def _handle_tool(self, payload: Json) -> Json:
        """Executes a step: the program makes the call that waits for it."""
        call = current_call()
        slot = await asyncio.shield(self._slot(call.key))
        done: Future[Json] = Future()
        slot.loop.call_soon_threadsafe(slot.calls.put_nowait, (payload, call, done))
        return await asyncio.wrap_future(done)

    def _slot(self, key: str) -> asyncio.Future[_Slot]:
        """Returns the place of a tool call. The sidecar may send the call before the program, which
        repeats its earlier steps, comes to it.
        """
        if key not in self._slots:
            self._slots[key] = asyncio.get_running_loop().create_future()
        return self._slots[key]

    async def _with_turn(self, work: Callable[[AsyncTurn], Awaitable[T]]) -> T:
        """Makes requests under the newest lease of the turn; repeats them if the lease was lost."""
        while True:
            turn, newer = self._turn, self._newer
            assert turn is not None and newer is not None  # noqa: S101, PT018
            newer.clear()
            try:
                return await work(turn)
            except TurnStaleError:
                if self._turn is turn:
                    await newer.wait()

    async def _step(self, work: Callable[[AsyncTurn], Awaitable[T]]) -> T:
        """Awaits requests of the turn. Raises DurableRunError if the run ends meanwhile."""
        driving = self._driving
        if driving is None:
            raise CallCancelledError("the program has left the run")
        request = asyncio.ensure_future(self._there(self._with_turn(work)))
        try:
            await asyncio.wait({request, driving}, return_when=asyncio.FIRST_COMPLETED)
            if not request.done():
                self._raise_end()
            try:
                return request.result()
            except PawlError:
                # The end of the run says more than the error of a request that it cut off.
                await self._raise_if_ended()
                raise
        finally:
            request.cancel()

    # Model calls

    async def model(self, asked: Asked) -> Answered:
        """Returns the next recorded model answer, or calls the model and records its answer.

        Raises ModelCallError for a call that has finally failed.
        """
        if asked.key:
            if self._recorded is not None:
                return self._recorded.answer(self.id, asked.key)
            async with self._pending:
                return await self._answered(asked, 1)
        self._round += 1
        number = self._round
        if self._recorded is not None:
            return self._recorded.answer(self.id, f"model/{number}")
        try:
            return await self._answered(asked, number)
        except asyncio.CancelledError:
            # A library that repeats a call after a timeout asks for the same round.
            self._round = number - 1
            raise

    async def _answered(self, asked: Asked, number: int) -> Answered:
        while True:
            opened = await self._step(
                lambda turn: turn.request_model(
                    number, asked.request, bound=asked.bound, key=asked.key
                )
            )
            self._include(asked, opened)
            step = await self._pending_step(opened)
            if step.model is not None and step.model.answer is not None:
                return Answered(
                    step=step.step, key=opened.key, answer=step.model.answer, replayed=True
                )
            answer = await self._ask(asked, opened, step, number)
            if answer is not None:
                return Answered(step=step.step, key=opened.key, answer=answer, replayed=False)

    def _include(self, asked: Asked, opened: RequestedModel) -> None:
        for message in opened.included_messages:
            # Calls without an order are in several conversations, each of which gets the message.
            if asked.key or message.seq not in self._included:
                self._included.add(message.seq)
                asked.include(message.text)

    async def _pending_step(self, opened: RequestedModel) -> Step:
        if opened.step is None:
            await self._raise_if_ended()
            denial = opened.denial
            code, text = (denial.code, denial.message) if denial else ("DENIED", "")
            raise StepRefusedError(f"the model call was refused: {code}: {text}", reason=code)
        step = opened.step
        if step.status not in (StepStatus.PENDING, StepStatus.OK):
            raise ModelCallError(step.error or Fault(code="MODEL_ERROR", message="no answer"))
        return step

    async def _ask(
        self, asked: Asked, opened: RequestedModel, step: Step, number: int
    ) -> ModelAnswer | None:
        """Calls the model until it answers. None means that the round is to be requested again."""
        reserved = step.model.max_output_tokens if step.model else 0
        attempt = step.attempt
        while True:
            outcome, usage = await asked.make(reserved)
            made = (step.step, attempt, outcome)
            settled = await self._step(lambda turn: turn.answer_model(*made, usage=usage))  # noqa: B023
            if settled.disposition is Disposition.IGNORED_STALE:
                # The turn has another lease, whose execution has to request the round itself.
                again = await self._step(
                    lambda turn: turn.request_model(
                        number, asked.request, bound=asked.bound, key=asked.key
                    )
                )
                if again.step is None or again.step.status is not StepStatus.PENDING:
                    return None
                made = (again.step.step, again.step.attempt, outcome)
                counted = Usage(counted_before=True)
                settled = await self._step(lambda turn: turn.answer_model(*made, usage=counted))  # noqa: B023
            if isinstance(outcome, ModelAnswer):
                return outcome
            if not settled.next:
                raise ModelCallError(outcome.error)
            attempt = settled.next
            await asyncio.sleep(settled.wait.total_seconds() if settled.wait else 0.0)

    # Tool calls

    async def tool(self, call: StepCall, key: str, body: Body) -> Outcome:
        """Returns the recorded result of a tool call, or makes the call as a step.

        `key` is the step's key. `body` makes the call in this task, once the sidecar permits it; it
        receives the payload, which an approval may have edited. Raises StepRefusedError.
        """
        if self._recorded is not None:
            return self._recorded.result(self.id, key, call.tool)
        async with self._pending:
            slot = _Slot(self._program)
            await self._there(self._register(key, slot))
            request = asyncio.ensure_future(self._step(lambda turn: turn.calls([call])))
            try:
                (outcome,) = await self._serve_slot(slot, body, request)
            finally:
                request.cancel()
        if (step := outcome.step) is not None:
            ok = step.status is StepStatus.OK
            return Outcome(step=step.step, ok=ok, result=step.result, error=step.error)
        denial = outcome.denial
        code, text = (denial.code, denial.message) if denial else ("DENIED", "")
        await self._raise_if_ended()
        raise StepRefusedError(f"tool {call.tool}: {code}: {text}", reason=code)

    async def _register(self, key: str, slot: _Slot) -> None:
        place = self._slot(key)
        if place.done():
            self._slots[key] = place = asyncio.get_running_loop().create_future()
        place.set_result(slot)

    async def _serve_slot(
        self, slot: _Slot, body: Body, request: asyncio.Future[tuple[StepOutcome, ...]]
    ) -> tuple[StepOutcome, ...]:
        """Makes the attempts that the sidecar sends until the step is answered."""
        while not request.done():
            following = asyncio.ensure_future(slot.calls.get())
            either: set[asyncio.Future[Any]] = {request, following}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    break
            finally:
                following.cancel()
            payload, call, done = following.result()
            # The sidecar revokes the step of a run that ends; then nothing waits for the result.
            with contextlib.suppress(InvalidStateError):
                try:
                    result = await _within(call, body, payload)
                except Exception as error:
                    done.set_exception(error)
                except BaseException:
                    words = "the program was stopped in the call"
                    done.set_exception(FailStepError("CALL_STOPPED", words, unknown=True))
                    raise
                else:
                    done.set_result(result)
        return await request


def _in_thread(method: Callable[..., T], *arguments: Any, **named: Any) -> asyncio.Future[T]:
    """Executes blocking code in a thread of its own. The threads of the loop's executor are few:
    runs that are executed at once would take all of them, and wait for each other.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    context = copy_context()

    def execute() -> None:
        try:
            done.set_result(context.run(method, *arguments, **named))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=execute, name="pawl-run", daemon=True).start()
    return asyncio.wrap_future(done)


def _settle(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


async def _within(call: ToolCall, body: Body, payload: Json) -> Json:
    result: Json = await within(call, body)(payload)
    return result


class _Recorded:
    """The recorded steps of a completed run, by key."""

    def __init__(
        self, answers: dict[str, tuple[int, ModelAnswer]], results: dict[str, StepResolved]
    ) -> None:
        self._answers, self._results = answers, results

    @staticmethod
    def of(records: Sequence[Record]) -> _Recorded:
        """Returns the steps of these records. The last resolution of a step counts."""
        keys: dict[int, str] = {}
        answers: dict[str, tuple[int, ModelAnswer]] = {}
        results: dict[str, StepResolved] = {}
        for record in records:
            body = record.body
            if isinstance(body, StepRequested):
                keys[body.step] = body.key
            elif isinstance(body, StepResolved):
                results[keys[body.step]] = body
                if body.answer is not None:
                    answers[keys[body.step]] = (body.step, body.answer)
        return _Recorded(answers, results)

    def answers(self, run_id: str) -> list[Answered]:
        """Returns all answers, in the order of their steps."""
        keys = sorted(self._answers, key=lambda key: self._answers[key][0])
        return [self.answer(run_id, key) for key in keys]

    def failures(self) -> dict[str, Fault]:
        """Returns the errors of the model calls that have failed, by key. A call with an unknown
        outcome has not failed: its execution died, and it is made again.
        """
        return {
            key: found.error
            for key, found in self._results.items()
            if found.kind is StepKind.MODEL
            and found.error is not None
            and not found.unknown
            and not found.next
        }

    def answer(self, run_id: str, key: str) -> Answered:
        """Returns the answer of a model call. Raises RunChangedError, ModelCallError."""
        found = self._answers.get(key)
        if found is None:
            failed = self._results.get(key)
            if failed is not None and failed.error is not None:
                raise ModelCallError(failed.error)
            raise _diverged(run_id, f"model call {key.removeprefix('model/')}")
        return Answered(step=found[0], key=key, answer=found[1], replayed=True)

    def result(self, run_id: str, key: str, tool: str) -> Outcome:
        """Returns the result of a tool call. Raises RunChangedError."""
        found = self._results.get(key)
        if found is None or found.tool != tool:
            raise _diverged(run_id, f"call {key} of tool {tool}")
        return Outcome(step=found.step, result=found.result, error=found.error, ok=found.ok)


def _diverged(run_id: str, what: str) -> RunChangedError:
    return RunChangedError(
        f"run {run_id} has no record of {what}: the program has changed since; give another "
        "request_id",
        run_id=run_id,
    )
