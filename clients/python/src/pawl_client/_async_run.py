"""One run, for asynchronous callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
from pawl_client._enums import SteerWhen, StepDecision
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
    """A run by its id. It follows no state: each method is a call.

    Ids (`event_id`, `request_id`, ...) are made afresh where none is given, and kept
    over the repetitions of the call. `expected_seq` is the seq of the last transition
    that the caller has seen (`RunInfo.visit_seq`), 0: not asked.
    """

    def __init__(self, client: AsyncCaller, run_id: str, started: Started | None = None) -> None:
        self._client = client
        self._runs = client._runs
        self.id = run_id
        self.started = started
        """What the call that started it answered; None for one that was attached."""

    def __repr__(self) -> str:
        return f"<AsyncRun {self.id}>"

    async def info(self, *, at_seq: int = 0) -> RunInfo:
        """The run as it is, or as it was at a record. Raises NotFoundError."""
        return (await self._client.call(self._runs.get(self.id, at_seq))).run

    async def snapshot(self, *, at_seq: int = 0, include_variables: bool = False) -> Snapshot:
        """The run with the values of its artifacts and, if asked, its variables."""
        operation = self._runs.get(self.id, at_seq, artifacts=True, variables=include_variables)
        return await self._client.call(operation)

    async def artifacts(self, *, at_seq: int = 0) -> ArtifactsT:
        """The values of its artifacts by name."""
        values: Any = values_of((await self.snapshot(at_seq=at_seq)).artifacts)
        return cast("ArtifactsT", values)

    async def variables(self) -> VariablesT:
        """The variables that it was started with, defaults applied; none once it was erased."""
        operation = self._runs.get(self.id, 0, variables=True)
        variables: Any = (await self._client.call(operation)).variables
        return cast("VariablesT", variables or {})

    async def result(self) -> RunResult[ArtifactsT]:
        """What came out of it: status, reason, output and artifacts, as it is now. The same
        that `Client.run` gives, also after `wait`, for a run that workers executed, and for
        one that an earlier call with its `request_id` started.

        Raises NotFoundError.
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
        on_output: OnOutput | None = None,
    ) -> Driven[RunResult[ArtifactsT]]:
        """Executes its turns until it ends or waits for something from outside.

        As `Client.run`, for a run that was started before, perhaps by another process; events
        begin with the first one of the run.
        """

        async def begin() -> AsyncRun[EventT, ArtifactsT, VariablesT]:
            return self

        served = served_run(handler_of(handler, model, output), tools)
        return driven(begin, served, on_output)

    async def _drive(self, served: ServedRun) -> RunResult[ArtifactsT]:
        served.run_id = self.id
        await self._client._run_server.drive(served)
        return await self._result(tuple(served.errors), served.output)

    async def emit(
        self,
        event: EventT,
        *,
        artifacts: ArtifactsT | None = None,
        event_id: str = "",
        expected_seq: int = 0,
        turn_token: str = "",
    ) -> Outcome:
        """Emits an event of the current state; the graph resolves the successor.

        Raises UnknownEventError, TurnTokenError, SeqMismatchError, RunTerminalError,
        RunPausedError, ArtifactError, LimitError.
        """
        return await self._client.call(
            self._runs.emit(self.id, event, artifacts, event_id, expected_seq, turn_token)
        )

    async def send_input(
        self, content: Content, *, message_id: str = "", expected_seq: int = 0, step: int = 0
    ) -> Outcome:
        """Gives parts to the next turn of the visit; opens it if none is open. With
        `step` they go to the agent of a pending delegation that asks."""
        return await self._client.call(
            self._runs.send_input(self.id, content, message_id, expected_seq, step)
        )

    async def turn(self) -> TurnInfo:
        """The open turn, rendered now, with a new token that fences the one before.

        Raises NoOpenTurnError, RunTerminalError, TurnTokenError.
        """
        return await self._client.call(self._runs.get_turn(self.id))

    async def show_turn(self, turn_seq: int) -> TurnInfo:
        """A turn as it was when the record `turn_seq` opened it; it only reads, and no
        token is made. Raises NotFoundError, NoOpenTurnError (it opened none)."""
        return await self._client.call(self._runs.show_turn(self.id, turn_seq))

    async def write_output(
        self, turn: TurnRef, piece: OutputPiece, *, request_id: str = ""
    ) -> Outcome:
        """Keeps a piece of the output of the open turn, as a record."""
        return await self._client.call(self._runs.write_output(turn, piece, request_id))

    async def complete(
        self,
        turn: TurnRef,
        reply: Reply,
        *,
        slots: Sequence[ArtifactSlot] = (),
        request_id: str = "",
    ) -> Outcome:
        """Ends the open turn. `slots` (TurnInfo.artifact_slots) tell the types of
        artifacts. Raises TurnStaleError, TurnTokenError, UnknownEventError, ..."""
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
        """Reports a failed execution; the run ends FAILED unless it is retryable.
        `reject`: an agent refuses the work; not with `retryable`. `rejected_step`: the MODEL
        step whose answer is rejected; the turn's next attempt asks the model anew."""
        return await self._client.call(
            self._runs.fail(turn, error, retryable, usage, request_id, reject, rejected_step)
        )

    async def suspend(self, turn: TurnRef, *, request_id: str = "") -> Outcome:
        """Releases the turn until its pending steps are answered."""
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
        """Writes artifacts without a transition. Authority as for `emit`."""
        return await self._client.call(
            self._runs.set_artifacts(self.id, artifacts, slots, write_id, expected_seq, turn_token)
        )

    async def request_steps(
        self, turn: TurnRef, calls: Sequence[StepCall], *, request_id: str = ""
    ) -> StepOutcomes:
        """Asks for tool calls of the open turn, in order. A refused call is an outcome
        with a denial, no error."""
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
        """Answers a step with a JSON value or a Fault. `attempt` is the one that is answered
        (`Step.attempt`, from 1): a repeat is known by it. `token` is that of the turn that
        asked. Of a Fault: `non_retryable`, no further attempt can help, or `retry_after`, the next
        one waits at least so many seconds; `unknown`, what the call changes elsewhere may
        have happened. `usage` is what the attempt really consumed (None: what the pack says
        that it costs at most)."""
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
        """Asks for a call of a model in the open turn: PENDING is made by the caller and
        told by `answer_model`, OK has its answer on record. `round` counts from 1."""
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
        """Tells what came of a call of a model, and what it consumed."""
        return await self._client.call(
            self._runs.answer_model(turn, step, attempt, outcome, usage, limits)
        )

    async def update_model_call(
        self, turn: TurnRef, step: int, attempt: int, response_id: str
    ) -> UpdatedModelCall:
        """Keeps the provider's id of a response that is being made."""
        return await self._client.call(
            self._runs.update_model_call(turn, step, attempt, response_id)
        )

    async def model_step(self, step: int) -> ShownModel:
        """A MODEL step of any visit with all that the model was shown."""
        return await self._client.call(self._runs.model_step(self.id, step))

    async def wait(self, *, until: str = "TERMINAL", timeout: float = 30.0) -> Waited:
        """Waits up to `timeout` seconds (at most 600) until the run has ended, or waits
        too (`until="WAITING"`)."""
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
        """Lets the run consume more in all than it may, for a reason that is recorded; 0
        leaves a limit as it is. Scope budgets:write.

            raised = run.raise_budget("the customer agreed", max_cost_micro_usd=2_000_000)
            print(raised.remaining.cost_micro_usd, "are left")

        Raises RunTerminalError, StateError (BUDGET_NOT_RAISED, BUDGET_UNLIMITED,
        BUDGET_LEASED), RequestError (NO_BUDGET).
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
        """Decides about a held call, once: "APPROVE", "EDIT" with the payload that goes out
        instead, "DENY" with a reason that the model is told. `digest` is that of the call
        that was looked at (`Client.list_approvals`, `Step.approval`). Takes steps:approve.

        Raises AlreadyDecidedError (who decided what, and when), StateError
        (DIGEST_MISMATCH, NOTHING_TO_DECIDE), RequestError (EDIT_REFUSED,
        EXPIRES_IN_PAST), PermissionDeniedError (APPROVER_IS_STARTER), RunTerminalError.
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
        """Says something to the run: the next request to a model contains it. "NOW" puts
        away what is under way, and the next turn begins with it; "NEXT_TURN" keeps it for
        that. Raises RunTerminalError, LimitError (INPUT_QUEUE_FULL)."""
        return await self._client.call(self._runs.steer(self.id, text, when, request_id))

    async def stop(self, note: str = "", *, request_id: str = "") -> Outcome:
        """Puts away what is under way, and the run waits: an input or `steer` goes on.
        Raises RunTerminalError."""
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
        """Begins a run as a copy of this one at a record (0: as it is); this one is only
        read. Another `pack`, `variables`, `artifacts` and `labels` are set over its own;
        `execution` is by default its own. `reuse_steps`: the answered steps of the visit
        are answered from the record (None: unless pack or artifacts are changed).

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
        """What differs between this run at a record (0: as it is) and another run, or
        itself, at another record. Raises NotFoundError."""
        operation = self._client._histories.diff(self.id, seq, other, other_seq)
        return await self._client.call(operation)

    async def verify(self) -> Verification:
        """Proves its journal: the chain of hashes, and that its inputs make exactly these
        records. A fault is an answer that names the first bad record, no error."""
        return await self._client.call(self._client._histories.verify(self.id))

    async def delete(self) -> Deletion:
        """Deletes it for ever, if it has ended; again, it says the same. From then on it is
        NotFoundError (RUN_DELETED). Raises StateError (RUN_NOT_ENDED: cancel
        it first, RUN_NEEDED: its parent goes on, AGENT_UNTOLD: an agent is not told
        yet)."""
        return await self._client.call(self._client._histories.delete(self.id))

    async def erase(self, reason: str) -> Erased:
        """Erases its values for ever, if it has ended and its pack says x_pawl.erasable; again,
        it says the same. What is left is read as before, and calls that would tell a value
        raise StateError (RUN_ERASED). Raises StateError (RUN_NOT_ENDED: cancel it first,
        RUN_NEEDED: its parent goes on, RUN_NOT_ERASABLE)."""
        return await self._client.call(self._client._histories.erase(self.id, reason))

    async def export(self, *, timeout: float | None = None) -> bytes:
        """One portable file of it, for `import_run` of any sidecar's client."""
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
        """The records that there are now, read page by page, with `snapshots` each with
        the run as of it."""
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
        """Records from a seq on, each exactly once and in order, until the run ends.

        `kinds` are those of RecordKind (default: TRANSITION and ENDED). A lost connection
        is taken up again from the last record read, for up to `reconnect_for` seconds
        without any progress; then UnavailableError. A record that is missing raises
        StreamGapError. Without `follow` it ends at the last record there is.
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
        """What happens in it, and did: text, calls of tools, transitions, waits, its end. See
        `Event`. The same for a run that is driven here, by others, or has ended; without the
        pieces of reasoning, and with text turn by turn, where it was not under way.

            async for event in run.events():
                if event.kind == "text":
                    print(event.text, end="")

        `after` is the `cursor` of the last event that was worked off: nothing comes twice or is
        left out. It ends with the run; without `follow` at the last record there is now. A lost
        connection is taken up again, as by `transitions`. A slow reader holds nothing up: what it
        has not read stays with the sidecar, the last 256 KiB of text of the open turn at least. A
        reader that missed more gets a ResetEvent.

        Raises NotFoundError, UnavailableError, StreamGapError, RequestError (BAD_CURSOR).
        """
        reader = self._client._events(self.id, after, follow, reconnect_for)
        async with closing(self._client.read(reader)) as stream:
            async for events in stream:
                for event in events:
                    yield event

    async def messages(self) -> list[HistoryMessage]:
        """Its history so far as messages, oldest first: what people said, what models answered
        with their calls, and what these came to. Raises NotFoundError."""
        told = Conversation()
        reader = self._client._events(self.id, follow=False)
        async with closing(self._client.read(reader)) as stream:
            async for events in stream:
                told.take(events)
        return list(told.messages())
