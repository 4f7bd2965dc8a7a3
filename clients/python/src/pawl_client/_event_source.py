"""Converts records and pieces of output to events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pawl_client import _events as e
from pawl_client import _records as r
from pawl_client._enums import Awaiting, RunStatus, StepKind, StepVerdict
from pawl_client._errors import RequestError, StreamGapError
from pawl_client._models import ModelAnswer, ModelCall, ToolCallRef
from pawl_client._runs import OutputChunk, OutputPosition
from pawl_client._values import ArtifactWrite, Fault, Message, Part

_TURNLESS = (e.TransitionEvent, e.ArtifactEvent, e.EndEvent)
_OF_RUN = ("input", "auth", "paused")
KEPT = 256 * 1024
"""Characters of one turn that are kept, to be sent again after a reset."""


@dataclass(slots=True)
class _TurnText:
    """The text of the newest turn that the program has seen.

    `kept` holds the text of finished rounds as (MODEL step, reasoning, text), where step 0 means
    that no step answered it. `partial` holds the text of the current round. `shown_before` and
    `shown_in_round` report whether an earlier reader, whose cursor this one continues, had
    delivered text of the turn and of the current round.
    """

    turn_seq: int = 0
    attempt: int = 0
    state: str = ""
    kept: list[tuple[int, bool, str]] = field(default_factory=list)
    partial: list[tuple[bool, str]] = field(default_factory=list)
    shown_before: bool = False
    shown_in_round: bool = False
    round: int = 0
    """The MODEL step in progress that this execution requested."""
    broken: bool = False
    """The text of this round belongs to a failed call that is repeated. It is discarded at the next
    event, unless its executor retracts it before.
    """

    @property
    def text_of_round(self) -> str:
        """The text of this round, without reasoning."""
        return "".join(text for reasoning, text in self.partial if not reasoning)

    @property
    def any(self) -> bool:
        """Whether any text of the turn is shown."""
        return bool(self.kept or self.partial or self.shown_before or self.shown_in_round)

    def show(self, reasoning: bool, text: str) -> None:
        """Adds a piece that is shown."""
        if self.partial and self.partial[-1][0] is reasoning:
            self.partial[-1] = (reasoning, self.partial[-1][1] + text)
        else:
            self.partial.append((reasoning, text))

    def keep(self, step: int) -> None:
        """Keeps the text of this round."""
        self.kept += [(step, reasoning, text) for reasoning, text in self.partial]
        self.partial, self.shown_before, self.shown_in_round = (
            [],
            self.shown_before or self.shown_in_round,
            False,
        )
        while sum(len(text) for *_, text in self.kept) > KEPT:
            del self.kept[0]

    def forget(self) -> None:
        """Discards all text of the turn."""
        self.kept, self.partial, self.shown_before, self.shown_in_round = [], [], False, False
        self.round, self.broken = 0, False


class EventSource:
    """Converts the stream of one run to events.

    The stream has all records of the known kinds, in order, each with the run's status after its
    commit, and pieces of output. Pure. It begins after the event with the given `cursor`, or with
    the first event if it is empty. Raises RequestError (BAD_CURSOR).
    """

    def __init__(self, run_id: str, cursor: str = "") -> None:
        self.run_id = run_id
        numbers = _numbers(cursor)
        self.after_seq, self._skip, turn_seq, attempt, shown, *output_position = numbers
        self.output_position = OutputPosition(
            turn_seq=output_position[0], delivery=output_position[1], offset=output_position[2]
        )
        self._open = _TurnText(
            turn_seq=turn_seq, attempt=attempt, shown_before=shown > 0, shown_in_round=shown > 1
        )
        self._open.broken = shown > 2
        self._calls: dict[int, tuple[ModelCall, ...]] = {}
        self._tool_calls: dict[int, ToolCallRef | None] = {}
        self._own: set[int] = set()
        """Steps that the sidecar requested itself, to reconcile or compensate another step."""
        self._output: tuple[Part, ...] = ()

    def record(
        self, record: r.Record, status: RunStatus = RunStatus.UNSPECIFIED
    ) -> tuple[e.Event, ...]:
        """Returns the events of the next record."""
        before = self._mark()
        make = _MAKERS.get(type(record.body))
        made = make(self, record.body, record.seq, status) if make else ()
        events = [self._here(event) for event in made]
        self.after_seq = record.seq
        skip, self._skip = self._skip, 0
        last = len(events) - 1
        placed = (
            self._placed(event, self.cursor if i == last else f"{record.seq - 1}.{i + 1}{before}")
            for i, event in enumerate(events)
        )
        return tuple(placed)[skip:]

    def chunk(self, chunk: OutputChunk) -> tuple[e.Event, ...]:
        """Returns the events of a piece of output. Raises StreamGapError if a piece before it is
        missing.
        """
        output_position = self.output_position
        same = (chunk.turn_seq, chunk.delivery) == (
            output_position.turn_seq,
            output_position.delivery,
        )
        if same and not chunk.reset:
            if chunk.offset > output_position.offset:
                raise StreamGapError(
                    f"run {self.run_id}: output of turn {chunk.turn_seq} continues at byte"
                    f" {chunk.offset}, but the last one read was {output_position.offset}"
                )
            if chunk.position.offset <= output_position.offset:
                return ()
        shown, events = self._enter(chunk.turn_seq, chunk.attempt), []
        if (chunk.reset or not same) and shown.any:
            shown.forget()
            self.output_position = replace(chunk.position, offset=chunk.offset)
            events.append(self._placed(self._here(e.ResetEvent()), self.cursor))
        for event in self._broken():
            events.append(self._placed(self._here(event), self.cursor))
        self.output_position = chunk.position
        if chunk.text:
            event = self._here(self._piece(chunk.reasoning, chunk.text))
            events.append(self._placed(event, self.cursor))
        return tuple(events)

    @property
    def cursor(self) -> str:
        """The position after all events so far."""
        return f"{self.after_seq}.0{self._mark()}"

    def _mark(self) -> str:
        o, output_position = self._open, self.output_position
        shown = 2 if o.partial or o.shown_in_round else 1 if o.kept or o.shown_before else 0
        shown = 3 if o.broken else shown
        turn = f".{o.turn_seq}.{o.attempt}.{shown}"
        return (
            f"{turn}.{output_position.turn_seq}.{output_position.delivery}.{output_position.offset}"
        )

    def _here(self, event: e.Event) -> e.Event:
        """Adds the newest turn to an event that belongs to a turn."""
        if isinstance(event, _TURNLESS) or (isinstance(event, e.MessageEvent) and event.seq):
            return event
        if isinstance(event, e.WaitEvent) and not event.step and event.on in _OF_RUN:
            return event
        return replace(event, turn_seq=self._open.turn_seq, attempt=self._open.attempt)

    def _placed(self, event: e.Event, cursor: str) -> e.Event:
        seq = self.after_seq
        return replace(event, run_id=self.run_id, seq=seq, cursor=cursor)

    # Text

    def _enter(self, turn_seq: int, attempt: int, state: str = "") -> _TurnText:
        if self._open.turn_seq != turn_seq:
            self._open = _TurnText(turn_seq=turn_seq, state=state)
        if attempt:
            self._open.attempt = attempt
        return self._open

    def _piece(self, reasoning: bool, text: str) -> e.Event:
        self._open.show(reasoning, text)
        if reasoning:
            return e.ReasoningEvent(text=text)
        return e.TextEvent(text=text)

    def _void(self, kept: list[tuple[int, bool, str]]) -> Iterator[e.Event]:
        """Discards the shown text except `kept`."""
        shown = self._open
        if not shown.partial and kept == shown.kept and not shown.shown_in_round:
            return
        shown.forget()
        yield e.ResetEvent()
        for step, reasoning, text in kept:
            piece = self._piece(reasoning, text)
            shown.keep(step)
            yield piece

    def _broken(self) -> Iterator[e.Event]:
        """Discards the text of a failed call that is repeated, if it is still shown."""
        step = self._open.round
        if self._open.broken:
            yield from self._void(list(self._open.kept))
            self._open.round = step

    def _whole(self, text: str) -> Iterator[e.Event]:
        """Yields the rest of a complete text that was not shown."""
        shown = self._open
        if shown.shown_in_round or not text.startswith(shown.text_of_round):
            return
        if rest := text[len(shown.text_of_round) :]:
            yield self._piece(False, rest)

    # Records

    def _transition(self, body: r.Transition, seq: int, status: RunStatus) -> Iterator[e.Event]:
        yield e.TransitionEvent(
            source=body.from_state, event=body.event, to=body.to_state, visit=body.visit
        )
        yield from self._written(body.artifacts_written)
        self._calls.clear()
        if status is RunStatus.WAITING:
            yield e.WaitEvent(on="input")
        else:
            yield from self._began(seq, 1, body.to_state)

    def _origin(self, body: r.Origin, _: int, status: RunStatus) -> Iterator[e.Event]:
        yield e.TransitionEvent(source="", event="", to=body.state, visit=0)
        yield from self._written(body.artifacts_written)
        if status is RunStatus.WAITING:
            yield e.WaitEvent(on="input")

    def _turn_opened(self, body: r.TurnOpened, seq: int, _: RunStatus) -> Iterator[e.Event]:
        self._calls.clear()
        yield from self._began(seq, 1, body.state)

    def _turn_ready(self, body: r.TurnReady, _: int, __: RunStatus) -> Iterator[e.Event]:
        yield from self._began(body.turn_seq, body.attempt, "")

    def _began(self, turn_seq: int, attempt: int, state: str) -> Iterator[e.Event]:
        turn = self._enter(turn_seq, attempt, state)
        yield e.TurnBeganEvent(state=turn.state)

    def _completed(self, body: r.TurnCompleted, _: int, status: RunStatus) -> Iterator[e.Event]:
        shown = self._enter(body.turn_seq, body.attempt)
        self._output = body.output
        yield from self._broken()
        if not shown.any:
            yield from self._whole(e.text_of(body.output))
        yield from self._written(body.artifacts_written)
        for message in body.messages:
            yield self._message(message)
        if not body.messages and body.output and not body.conversation_through_step:
            yield e.MessageEvent(role="assistant", parts=body.output)
        yield e.TurnEndedEvent(
            outcome="completed", output=body.output, event=body.event, usage=body.usage
        )
        if status is RunStatus.WAITING and not body.event:
            auth = body.awaiting is Awaiting.AUTH
            yield e.WaitEvent(on="auth" if auth else "input")

    def _failed(self, body: r.TurnFailed, _: int, status: RunStatus) -> Iterator[e.Event]:
        shown = self._enter(body.turn_seq, body.attempt)
        rejected = body.rejected_step
        shown.round = 0
        if body.next:
            kept = [k for k in shown.kept if k[0] and not (rejected and k[0] >= rejected)]
            yield from self._void(kept)
        yield e.TurnEndedEvent(
            outcome="failed",
            usage=body.usage,
            error=body.error,
            next=body.next,
            rejected_step=rejected,
        )
        if body.next and body.not_before is None:
            yield from self._began(body.turn_seq, body.next, "")
        elif body.next and status is RunStatus.WAITING:
            yield e.WaitEvent(on="timer", until=body.not_before)

    def _abandoned(self, body: r.TurnAbandoned, _: int, __: RunStatus) -> Iterator[e.Event]:
        self._enter(body.turn_seq, body.attempt)
        yield e.TurnEndedEvent(outcome="abandoned")

    def _suspended(self, body: r.TurnSuspended, _: int, __: RunStatus) -> Iterator[e.Event]:
        self._enter(body.turn_seq, body.attempt)
        yield e.TurnEndedEvent(outcome="suspended")
        yield e.WaitEvent(on="steps", steps=body.pending)

    def _stopped(self, body: r.Stopped, _: int, status: RunStatus) -> Iterator[e.Event]:
        if body.turn_seq:
            self._enter(body.turn_seq, body.attempt)
            yield e.TurnEndedEvent(outcome="abandoned")
        if status is RunStatus.WAITING:
            yield e.WaitEvent(on="input")

    def _step_requested(self, body: r.StepRequested, _: int, __: RunStatus) -> Iterator[e.Event]:
        if body.kind is StepKind.MODEL:
            yield from self._round_began(body)
            return
        if body.about is not None:
            self._own.add(body.step)
            return
        self._tool_calls[body.step] = body.call
        yield e.ToolCallEvent(
            step=body.step,
            tool=body.tool,
            payload=body.payload,
            call=body.call,
            call_id=self._call_id(body.call),
        )
        if body.hold is not None:
            yield e.WaitEvent(
                on="approval",
                step=body.step,
                tool=body.tool,
                digest=body.hold.digest,
                until=body.deadline,
            )

    def _round_began(self, body: r.StepRequested) -> Iterator[e.Event]:
        turn = self._enter(body.turn_seq, 0)
        yield from self._broken()
        if turn.round == body.step or (turn.shown_in_round and body.attempt > 1):
            yield from self._void(list(turn.kept))
        else:
            turn.keep(0)
        turn.round = body.step
        messages = body.model.messages if body.model and body.attempt == 1 else ()
        for message in messages:
            if message.message is not None:
                yield self._message(message.message)
        yield e.RoundBeganEvent(step=body.step, model=body.tool, try_number=body.attempt)

    def _step_resolved(self, body: r.StepResolved, _: int, __: RunStatus) -> Iterator[e.Event]:
        if body.kind is StepKind.MODEL:
            yield from self._round_ended(body)
        elif body.next == 0 and not self._is_own(body.step):
            yield self._result(body.step, body.tool, body.ok, body.result, body.error)
        yield from self._written(body.artifacts_written)

    def _round_ended(self, body: r.StepResolved) -> Iterator[e.Event]:
        answer = body.answer or ModelAnswer()
        shown = self._open
        if not body.ok and body.next:
            shown.broken = bool(shown.partial or shown.shown_in_round)
        if body.ok:
            yield from self._broken()
            self._open.round = 0
            yield from self._whole(answer.text)
            self._open.keep(body.step)
            self._calls[body.step] = answer.calls
            yield e.MessageEvent(
                role="assistant",
                parts=answer.parts,
                calls=answer.calls,
                refusal=answer.refusal,
                step=body.step,
            )
        yield e.RoundEndedEvent(
            step=body.step,
            model=answer.model or body.tool,
            ok=body.ok,
            usage=body.usage,
            finish_reason=answer.finish_reason,
            error=body.error,
            next=body.next,
        )

    def _step_cancelled(self, body: r.StepCancelled, _: int, __: RunStatus) -> Iterator[e.Event]:
        error = Fault(code="CANCELLED", message=body.reason)
        if body.kind is StepKind.MODEL:
            yield e.RoundEndedEvent(
                step=body.step,
                model=body.tool,
                ok=False,
                usage=body.usage,
                finish_reason="",
                error=error,
                next=0,
            )
        elif not self._is_own(body.step):
            yield self._result(body.step, body.tool, False, None, error)

    def _is_own(self, step: int) -> bool:
        """Whether the sidecar itself requested an ended step."""
        own = step in self._own
        self._own.discard(step)
        return own

    def _step_rejected(self, body: r.StepRejected, _: int, __: RunStatus) -> Iterator[e.Event]:
        if body.kind is not StepKind.MODEL and body.denial is not None:
            error = Fault(code=body.denial.code, message=body.denial.message)
            yield self._result(0, body.tool, False, None, error)

    def _step_decided(self, body: r.StepDecided, _: int, __: RunStatus) -> Iterator[e.Event]:
        if body.verdict is StepVerdict.EXPIRED:
            yield e.WaitEvent(
                on="approval",
                step=body.step,
                tool=body.tool,
                digest=body.digest,
                until=body.deadline,
            )

    def _step_delegated(self, body: r.StepDelegated, _: int, __: RunStatus) -> Iterator[e.Event]:
        awaiting = body.remote.awaiting if body.remote else Awaiting.UNSPECIFIED
        if awaiting is not Awaiting.UNSPECIFIED:
            yield e.WaitEvent(
                on="auth" if awaiting is Awaiting.AUTH else "input",
                step=body.step,
                tool=body.tool,
                parts=body.question,
            )

    def _input(self, body: r.InputReceived, seq: int, __: RunStatus) -> Iterator[e.Event]:
        if body.step == 0:
            yield e.MessageEvent(role="user", parts=body.parts, seq=seq)

    def _steered(self, body: r.Steered, seq: int, __: RunStatus) -> Iterator[e.Event]:
        yield e.MessageEvent(role="user", parts=(Part(text=body.text),), seq=seq)

    def _paused(self, _: r.Paused, __: int, ___: RunStatus) -> Iterator[e.Event]:
        yield e.WaitEvent(on="paused")

    def _artifacts_set(self, body: r.ArtifactsSet, _: int, __: RunStatus) -> Iterator[e.Event]:
        yield from self._written(body.artifacts_written)

    def _ended(self, body: r.Ended, _: int, __: RunStatus) -> Iterator[e.Event]:
        yield from self._written(body.artifacts_written)
        yield e.EndEvent(
            status=body.status,
            reason=body.reason,
            output=self._output,
            artifacts={artifact.name: artifact.value for artifact in body.final_artifacts},
        )

    # Parts of them

    def _written(self, writes: tuple[ArtifactWrite, ...]) -> Iterator[e.Event]:
        for write in writes:
            yield e.ArtifactEvent(name=write.name, value=write.value, media_type=write.media_type)

    def _message(self, message: Message) -> e.Event:
        given = message.tool_calls if isinstance(message.tool_calls, list) else []
        calls = [cast("dict[str, Any]", call) for call in given if isinstance(call, dict)]
        return e.MessageEvent(
            role=message.role,
            parts=message.parts,
            calls=tuple(
                ModelCall(**{key: str(call.get(key, "")) for key in ("id", "name", "arguments")})
                for call in calls
            ),
            call_id=message.tool_call_id,
            refusal=message.refusal,
        )

    def _result(self, step: int, tool: str, ok: bool, result: Any, error: Fault | None) -> e.Event:
        call = self._tool_calls.pop(step, None)
        return e.ToolResultEvent(
            step=step,
            tool=tool,
            ok=ok,
            result=result,
            error=error,
            call=call,
            call_id=self._call_id(call),
        )

    def _call_id(self, call: ToolCallRef | None) -> str:
        calls = self._calls.get(call.model_step, ()) if call else ()
        return calls[call.index].id if call and call.index < len(calls) else ""


_MAKERS: dict[type, Callable[..., Iterator[e.Event]]] = {
    r.Transition: EventSource._transition,
    r.Origin: EventSource._origin,
    r.TurnOpened: EventSource._turn_opened,
    r.TurnReady: EventSource._turn_ready,
    r.TurnCompleted: EventSource._completed,
    r.TurnFailed: EventSource._failed,
    r.TurnAbandoned: EventSource._abandoned,
    r.TurnSuspended: EventSource._suspended,
    r.Stopped: EventSource._stopped,
    r.StepRequested: EventSource._step_requested,
    r.StepResolved: EventSource._step_resolved,
    r.StepCancelled: EventSource._step_cancelled,
    r.StepRejected: EventSource._step_rejected,
    r.StepDecided: EventSource._step_decided,
    r.StepDelegated: EventSource._step_delegated,
    r.InputReceived: EventSource._input,
    r.Steered: EventSource._steered,
    r.Paused: EventSource._paused,
    r.ArtifactsSet: EventSource._artifacts_set,
    r.Ended: EventSource._ended,
}


def _numbers(cursor: str) -> list[int]:
    """Returns the numbers of a cursor; an empty cursor is the beginning."""
    words = cursor.split(".") if cursor else ["0"] * 8
    if len(words) != 8 or not all(word.isascii() and word.isdigit() for word in words):
        text = f"after: must be the cursor of an event, not {cursor!r}"
        raise RequestError(text, reason="BAD_CURSOR", metadata={"field": "after"})
    return [int(word) for word in words]
