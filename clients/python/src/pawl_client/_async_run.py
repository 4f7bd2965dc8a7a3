"""One run, for asynchronous callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeAlias, cast

from pawl_client._async_caller import AsyncCaller
from pawl_client._async_drive import Driven, OnOutput, driven
from pawl_client._async_io import closing
from pawl_client._async_model_handler import handler_of
from pawl_client._async_serve import served_run
from pawl_client._async_turn import AsyncTurn
from pawl_client._control import RaisedBudget
from pawl_client._conversation import Conversation
from pawl_client._enums import RunStatus, SteerWhen, StepDecision
from pawl_client._events import Event, HistoryMessage
from pawl_client._fault import with_retry_advice
from pawl_client._flow import Flow, Operation, attempt
from pawl_client._history import Deletion, Erased, RunDiff, Verification
from pawl_client._history_operations import Fork
from pawl_client._model_calls import AnsweredModel, RequestedModel, ShownModel, UpdatedModelCall
from pawl_client._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
from pawl_client._operations import read_result
from pawl_client._outcomes import (
    Outcome,
    Reply,
    RunResult,
    Started,
    StepAnswer,
    StepOutcomes,
    Waited,
    values_of,
)
from pawl_client._records import Record
from pawl_client._runs import (
    ArtifactSlot,
    RunInfo,
    Snapshot,
    TurnInfo,
    TurnRef,
)
from pawl_client._served_run import ServedRun
from pawl_client._turn_requests import StepCall
from pawl_client._types import ArtifactsT, EventT, GivenT, VariablesT
from pawl_client._values import Content, Fault, Json, OutputPiece, Part, Usage

AnyReply: TypeAlias = Reply[Any, Any]
AsyncHandler: TypeAlias = "Callable[[AsyncTurn], Awaitable[AnyReply | None] | AnyReply | None]"
AsyncHandlers: TypeAlias = "AsyncHandler | Mapping[str, AsyncHandler]"
AsyncTool: TypeAlias = Callable[..., Any]


class AsyncRun(Generic[EventT, ArtifactsT, VariablesT]):
    """A run by its id. It keeps no state of the run: each method makes a call.

    An id that is not given (`event_id`, `request_id`, ...) is generated, and the repetitions of the
    call keep it: the call takes effect once. A call with the id of an earlier one returns the
    answer of that call. `expected_seq` is the seq of the last transition that the caller has seen
    (`RunInfo.visit_seq`); 0 skips the check. Each method raises NotFoundError for an unknown run.
    """

    def __init__(self, client: AsyncCaller, run_id: str, started: Started | None = None) -> None:
        self._client = client
        self._runs = client._runs
        self.id = run_id
        self.started = started
        """Answer of the call that started the run; None for an attached run."""

    def __repr__(self) -> str:
        return f"<AsyncRun {self.id}>"

    async def info(self, *, at_seq: int = 0) -> RunInfo:
        """Returns the run as it is now, or as it was at the record `at_seq`."""
        return (await self._client.call(self._runs.get(self.id, at_seq))).run

    async def snapshot(self, *, at_seq: int = 0, include_variables: bool = False) -> Snapshot:
        """Returns the run with the values of its artifacts, and its variables on request.

        `at_seq` is the record to read it at (0: now).
        """
        operation = self._runs.get(self.id, at_seq, artifacts=True, variables=include_variables)
        return await self._client.call(operation)

    async def artifacts(self, *, at_seq: int = 0) -> ArtifactsT:
        """Returns the values of its artifacts by name, at the record `at_seq` (0: now)."""
        values: Any = values_of((await self.snapshot(at_seq=at_seq)).artifacts)
        return cast("ArtifactsT", values)

    async def variables(self) -> VariablesT:
        """Returns the variables of its start, defaults applied; empty for an erased run."""
        operation = self._runs.get(self.id, 0, variables=True)
        variables: Any = (await self._client.call(operation)).variables
        return cast("VariablesT", variables or {})

    async def result(self) -> RunResult[ArtifactsT]:
        """Returns the current status, reason, output and artifacts of the run.

        This is the result of `Client.run`. It is the same after `wait`, for a run that workers
        executed, and for a run that an earlier call with its `request_id` started. Raises
        NotFoundError.
        """
        return await self._result()

    async def _result(
        self,
        errors: tuple[BaseException, ...] = (),
        output: tuple[Part, ...] | None = None,
    ) -> RunResult[ArtifactsT]:
        settings = self._client.settings

        def call(operation: Operation[Any]) -> Flow[Any]:
            return attempt(operation, timeout=settings.timeout, retry_for=settings.retry_for)

        return await self._client.perform(read_result(self._runs, self.id, call, errors, output))

    def drive(
        self,
        handler: AsyncHandlers | None = None,
        *,
        model: Any = None,
        output: Any = None,
        tools: Mapping[str, AsyncTool] | None = None,
        worker_tools: Iterable[str] = (),
        on_output: OnOutput | None = None,
    ) -> Driven[RunResult[ArtifactsT]]:
        """Executes its turns until the run ends or waits for an outside input.

        Arguments and errors are those of `Client.run`. The run was started before, perhaps by
        another process; its events begin with the first one of the run.
        """

        async def begin() -> AsyncRun[EventT, ArtifactsT, VariablesT]:
            return self

        served = served_run(handler_of(handler, model, output), tools, worker_tools)
        return driven(begin, served, on_output)

    async def _drive(self, served: ServedRun) -> RunResult[ArtifactsT]:
        served.run_id = self.id
        await self._client._run_server.drive(served)
        result = await self._result(tuple(served.errors), served.output)
        if served.mistake is not None and result.status in (RunStatus.ESCALATED, RunStatus.FAILED):
            raise served.mistake
        return result

    async def emit(
        self,
        event: EventT,
        *,
        artifacts: ArtifactsT | None = None,
        event_id: str = "",
        expected_seq: int = 0,
        turn_token: str = "",
    ) -> Outcome:
        """Emits an event of the current state; the workflow decides the next state.

        `artifacts` are written in the same commit. `turn_token` is that of the open turn, if its
        executor emits the event; empty (default) for an event from outside.

        Raises UnknownEventError, TurnTokenError, SeqMismatchError, RunTerminalError,
        RunPausedError, ArtifactError, LimitError.
        """
        return await self._client.call(
            self._runs.emit(self.id, event, artifacts, event_id, expected_seq, turn_token)
        )

    async def send_input(
        self, content: Content, *, message_id: str = "", expected_seq: int = 0, step: int = 0
    ) -> Outcome:
        """Sends a message to the next turn of the visit, and opens that turn if none is open.

        With `step` the message goes to the agent of the pending delegation that asked for it.
        """
        return await self._client.call(
            self._runs.send_input(self.id, content, message_id, expected_seq, step)
        )

    async def turn(self) -> TurnInfo:
        """Returns the open turn, rendered now, with a new token that fences the previous one.

        Raises NoOpenTurnError, RunTerminalError, TurnTokenError.
        """
        return await self._client.call(self._runs.get_turn(self.id))

    async def show_turn(self, turn_seq: int) -> TurnInfo:
        """Returns a turn as it was when the record `turn_seq` opened it, without a token.

        Raises NotFoundError, and NoOpenTurnError if that record opened no turn.
        """
        return await self._client.call(self._runs.show_turn(self.id, turn_seq))

    async def write_output(
        self, turn: TurnRef, piece: OutputPiece, *, request_id: str = ""
    ) -> Outcome:
        """Stores a piece of the open turn's output as a record."""
        return await self._client.call(self._runs.write_output(turn, piece, request_id))

    async def complete(
        self,
        turn: TurnRef,
        reply: Reply,
        *,
        slots: Sequence[ArtifactSlot] = (),
        request_id: str = "",
    ) -> Outcome:
        """Completes the open turn with a reply.

        `slots` (`TurnInfo.artifact_slots`) give the media types of the artifacts. Raises
        TurnStaleError, TurnTokenError, UnknownEventError, ArtifactError, LimitError.
        """
        return await self._client.call(self._runs.complete(turn, reply, slots, request_id))

    async def fail(
        self,
        turn: TurnRef,
        error: Fault,
        *,
        retryable: bool = True,
        usage: Usage | None = None,
        reject: bool = False,
        rejected_step: int = 0,
        request_id: str = "",
    ) -> Outcome:
        """Reports a failed execution of the open turn.

        `retryable` (default True) permits another attempt; without it the run ends FAILED.
        `reject`: an agent refuses the work; give `retryable=False` with it. `rejected_step`: the
        MODEL step with the rejected answer; the next attempt asks the model again.
        """
        return await self._client.call(
            self._runs.fail(turn, error, retryable, usage, request_id, reject, rejected_step)
        )

    async def suspend(self, turn: TurnRef, *, request_id: str = "") -> Outcome:
        """Releases the open turn until its pending steps are answered."""
        return await self._client.call(self._runs.suspend(turn, request_id))

    async def set_artifacts(
        self,
        artifacts: ArtifactsT,
        *,
        slots: Sequence[ArtifactSlot] = (),
        write_id: str = "",
        expected_seq: int = 0,
        turn_token: str = "",
    ) -> Outcome:
        """Writes artifacts without a transition. The required rights are those of `emit`.

        `slots` give the media types of the artifacts.
        """
        return await self._client.call(
            self._runs.set_artifacts(self.id, artifacts, slots, write_id, expected_seq, turn_token)
        )

    async def request_steps(
        self, turn: TurnRef, calls: Sequence[StepCall], *, request_id: str = ""
    ) -> StepOutcomes:
        """Requests tool calls of the open turn, in order.

        A refused call is an outcome with a denial, not an error.
        """
        return await self._client.call(self._runs.request_steps(turn, calls, request_id))

    async def resolve_step(
        self,
        step: int,
        tool: str,
        answer: Json | Fault,
        *,
        attempt: int,
        token: str = "",
        non_retryable: bool = False,
        retry_after: float | None = None,
        unknown: bool = False,
        usage: Usage | None = None,
    ) -> StepAnswer:
        """Answers a step with a JSON value or a Fault.

        `attempt` is the attempt that is answered (`Step.attempt`, from 1); a repeated answer to the
        same attempt changes no record. `token` is that of the turn that requested the step. For a
        Fault: `non_retryable` permits no further attempt, `retry_after` is the least number of
        seconds before the next one, and `unknown` says that the effect of the call may have
        happened. `usage` is what the attempt consumed (None: the pack's highest cost of an
        attempt).
        """
        told = with_retry_advice(answer, non_retryable, retry_after, unknown)
        return await self._client.call(
            self._runs.resolve_step(self.id, step, tool, attempt, told, token, usage)
        )

    async def request_model(
        self,
        turn: TurnRef,
        round: int,
        asked: ModelRequest,
        *,
        bound: Usage | None = None,
        key: str = "",
    ) -> RequestedModel:
        """Requests a model call in the open turn.

        A PENDING step is for the caller to execute and to report with `answer_model`; an OK step
        has its recorded answer. `round` counts from 1.
        """
        return await self._client.call(self._runs.request_model(turn, round, asked, bound, key))

    async def answer_model(
        self,
        turn: TurnRef,
        step: int,
        attempt: int,
        outcome: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        """Reports the answer or the failure of a model call, and its usage."""
        return await self._client.call(
            self._runs.answer_model(turn, step, attempt, outcome, usage, limits)
        )

    async def update_model_call(
        self, turn: TurnRef, step: int, attempt: int, response_id: str
    ) -> UpdatedModelCall:
        """Stores the provider's id of a response that is still in progress."""
        return await self._client.call(
            self._runs.update_model_call(turn, step, attempt, response_id)
        )

    async def model_step(self, step: int) -> ShownModel:
        """Returns a MODEL step of any visit, with the whole request that the model received."""
        return await self._client.call(self._runs.model_step(self.id, step))

    async def wait(self, *, until: str = "TERMINAL", timeout: float = 30.0) -> Waited:
        """Waits up to `timeout` seconds (default 30, at most 600) for a status of the run.

        `until` is "TERMINAL" (default: the run has ended) or "WAITING" (it has ended or waits).
        """
        limit = timeout + self._client.settings.timeout
        return await self._client.call(self._runs.wait(self.id, until, timeout), timeout=limit)

    async def pause(self, note: str = "", *, request_id: str = "") -> Outcome:
        """Pauses the run. Raises RunTerminalError."""
        return await self._client.call(self._runs.pause(self.id, note, request_id))

    async def raise_budget(
        self,
        reason: str,
        *,
        max_cost_micro_usd: int = 0,
        max_tokens: int = 0,
        request_id: str = "",
    ) -> RaisedBudget:
        """Raises the run's budgets of tokens and cost, for a `reason` that is recorded.

        0 leaves a limit as it is. `max_cost_micro_usd` is in millionths of a US dollar. Scope
        budgets:write.

            raised = run.raise_budget("the customer agreed", max_cost_micro_usd=2_000_000)
            print(raised.remaining.cost_micro_usd, "are left")

        Raises RunTerminalError, StateError (BUDGET_NOT_RAISED, BUDGET_UNLIMITED, BUDGET_LEASED),
        RequestError (NO_BUDGET).
        """
        return await self._client.call(
            self._client._controls.raise_budget(
                self.id, max_tokens, max_cost_micro_usd, reason, request_id
            )
        )

    async def decide_step(
        self,
        step: int,
        digest: str,
        decision: StepDecision | str,
        *,
        payload: Json = None,
        reason: str = "",
        expires: datetime | None = None,
        request_id: str = "",
    ) -> Record:
        """Decides about a held call, once.

        `decision` is "APPROVE", "EDIT" with the `payload` that replaces the call's, or "DENY" with
        a `reason` that the model receives. `digest` identifies the call that the approver saw
        (`Client.list_approvals`, `Step.approval`). Scope steps:approve.

        Raises AlreadyDecidedError (with the principal, the decision and the time), StateError
        (DIGEST_MISMATCH, NOTHING_TO_DECIDE), RequestError (EDIT_REFUSED, EXPIRES_IN_PAST),
        PermissionDeniedError (APPROVER_IS_STARTER), RunTerminalError.
        """
        call = self._runs.decide_step(
            self.id, step, digest, decision, payload, reason, expires, request_id
        )
        return await self._client.call(call)

    async def steer(
        self,
        text: str,
        *,
        when: SteerWhen | str = SteerWhen.NEXT_MODEL_CALL,
        request_id: str = "",
    ) -> Outcome:
        """Sends a message to an active run; the next request to a model contains it.

        `when` is "NEXT_MODEL_CALL" (default), "NOW", which abandons the open turn and begins the
        next turn with the message, or "NEXT_TURN", which keeps the message for that turn. Raises
        RunTerminalError, LimitError (INPUT_QUEUE_FULL).
        """
        return await self._client.call(self._runs.steer(self.id, text, when, request_id))

    async def stop(self, note: str = "", *, request_id: str = "") -> Outcome:
        """Abandons the open turn; the run then waits for an input or `steer`. Raises
        RunTerminalError.
        """
        return await self._client.call(self._runs.stop(self.id, note, request_id))

    async def resume(self, note: str = "", *, request_id: str = "") -> Outcome:
        """Ends a pause. Raises RunTerminalError."""
        return await self._client.call(self._runs.resume(self.id, note, request_id))

    async def cancel(self, note: str = "", *, request_id: str = "") -> Outcome:
        """Ends the run CANCELLED. Raises RunTerminalError."""
        return await self._client.call(self._runs.cancel(self.id, note, request_id))

    async def fork(
        self,
        *,
        at_seq: int = 0,
        pack: str = "",
        variables: GivenT | None = None,
        artifacts: ArtifactsT | None = None,
        labels: Mapping[str, str] | None = None,
        execution: str = "UNSPECIFIED",
        max_steps: int = 0,
        max_wall_time_sec: int = 0,
        reuse_steps: bool | None = None,
        request_id: str = "",
    ) -> AsyncRun[EventT, ArtifactsT, GivenT]:
        """Starts a run as a copy of this one at the record `at_seq` (0: now). This run stays
        unchanged.

        `pack`, `variables`, `artifacts` and `labels` replace those of this run. `execution` is by
        default that of this run. `reuse_steps`: the answered steps of the visit keep their recorded
        answers (None: unless `pack` or `artifacts` are given). `max_steps` and `max_wall_time_sec`
        (seconds) lower the pack's budgets; 0 keeps them.

        Raises NotFoundError, StateError (FORK_TERMINAL, ...), RequestError, LimitError.
        """
        how = Fork(
            at_seq=at_seq,
            pack=pack,
            variables=variables,
            artifacts=artifacts,
            labels=labels,
            execution=execution,
            max_steps=max_steps,
            max_wall_time_sec=max_wall_time_sec,
            reuse_steps=reuse_steps,
            request_id=request_id,
        )
        begun = await self._client.call(self._client._histories.fork(self.id, how))
        return AsyncRun(self._client, begun.run.run_id, begun)

    async def diff(self, other: str = "", *, seq: int = 0, other_seq: int = 0) -> RunDiff:
        """Compares this run at the record `seq` with another run, or with itself, at `other_seq`.

        0 is the current record; an empty `other` is this run. Raises NotFoundError.
        """
        operation = self._client._histories.diff(self.id, seq, other, other_seq)
        return await self._client.call(operation)

    async def verify(self) -> Verification:
        """Verifies the run's journal: its hash chain, and that its inputs produce exactly its
        records.

        A fault is an answer that names the first bad record, not an error.
        """
        return await self._client.call(self._client._histories.verify(self.id))

    async def delete(self) -> Deletion:
        """Deletes an ended run for ever. A repeated call returns the same answer.

        Later calls raise NotFoundError (RUN_DELETED). Raises StateError (RUN_NOT_ENDED: cancel it
        first; RUN_NEEDED: its parent is still active; AGENT_UNTOLD: an agent still has to be
        notified).
        """
        return await self._client.call(self._client._histories.delete(self.id))

    async def erase(self, reason: str) -> Erased:
        """Erases the values of an ended run for ever. A repeated call returns the same answer.

        The pack must have x_pawl.erasable. The remaining data is read as before; calls that would
        return an erased value raise StateError (RUN_ERASED). Raises StateError (RUN_NOT_ENDED:
        cancel it first; RUN_NEEDED: its parent is still active; RUN_NOT_ERASABLE).
        """
        return await self._client.call(self._client._histories.erase(self.id, reason))

    async def export(self, *, timeout: float | None = None) -> bytes:
        """Returns the run as one portable file, for `import_run` of any sidecar's client.

        `timeout` is in seconds (default: that of the client).
        """
        limit = self._client.settings.timeout if timeout is None else timeout
        reader = self._client._file(self.id)
        pieces = [piece async for piece in self._client.read(reader, timeout=limit)]
        return reader.whole(b"".join(pieces), limit)

    async def records(
        self,
        *,
        kinds: Sequence[str] = (),
        after_seq: int = 0,
        page_size: int = 100,
        snapshots: bool = False,
    ) -> AsyncIterator[Record]:
        """Iterates over the records that exist now, `page_size` of them per call.

        `kinds` are those of RecordKind. `snapshots` adds to each record the run as of that record.
        """
        token = ""
        while True:
            page, token = await self._client.call(
                self._runs.list_transitions(self.id, kinds, after_seq, page_size, token, snapshots)
            )
            for item in page:
                yield item
            if not token:
                return

    def transitions(
        self,
        *,
        kinds: Sequence[str] = (),
        after_seq: int = 0,
        follow: bool = True,
        snapshots: bool = False,
        reconnect_for: float = 60.0,
    ) -> AsyncIterator[Record]:
        """Iterates over records after `after_seq`, each exactly once and in order, until the run
        ends.

        `kinds` are those of RecordKind (default: TRANSITION and ENDED). After a lost connection it
        continues from the last record read. It raises UnavailableError after `reconnect_for`
        seconds without progress, and StreamGapError for a missing record. Without `follow` it ends
        at the last existing record.
        """
        return self._client.read(
            self._client._tail(
                self.id,
                after_seq,
                "",
                runs=None,
                kinds=kinds,
                follow=follow,
                snapshots=snapshots,
                reconnect_for=reconnect_for,
            )
        )

    async def events(
        self, *, after: str = "", follow: bool = True, reconnect_for: float = 60.0
    ) -> AsyncIterator[Event]:
        """Iterates over the events of the run: text, tool calls, transitions, waits, the end.

        See `Event`. The events are the same for a run that this client drives, one that other
        executors drive, and an ended one. For a run that is not in progress they have no reasoning,
        and one text per turn.

            async for event in run.events():
                if event.kind == "text":
                    print(event.text, end="")

        `after` is the `cursor` of the last event that was processed: no event repeats or is
        missing. The iteration ends with the run; without `follow` it ends at the last existing
        record. It reconnects as `transitions` does. A slow reader delays no other part: the sidecar
        keeps what it has not read, of the open turn's text at least the last 256 KiB. A reader that
        missed more gets a ResetEvent.

        Raises NotFoundError, UnavailableError, StreamGapError, RequestError (BAD_CURSOR).
        """
        reader = self._client._events(self.id, after, follow, reconnect_for)
        async with closing(self._client.read(reader)) as stream:
            async for events in stream:
                for event in events:
                    yield event

    async def messages(self) -> list[HistoryMessage]:
        """Returns the run's history so far as messages, oldest first.

        They hold the inputs, the answers of models with their calls, and the results of these
        calls. Raises NotFoundError.
        """
        told = Conversation()
        reader = self._client._events(self.id, follow=False)
        async with closing(self._client.read(reader)) as stream:
            async for events in stream:
                told.take(events)
        return list(told.messages())
