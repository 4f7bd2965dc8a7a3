"""The unary calls of RunService as `Operation`s."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from google.protobuf.duration_pb2 import Duration

from pawl_client import _outcomes as outcomes
from pawl_client import _requests as wire
from pawl_client._control import Approval, Decision
from pawl_client._convert import from_proto, optional, parse_json, record_from_proto
from pawl_client._enums import RecordKind, SteerWhen, StepDecision, StepVerdict
from pawl_client._flow import Flow, Operation, new_id
from pawl_client._json_text import dump_json
from pawl_client._model_calls import AnsweredModel, RequestedModel, ShownModel, UpdatedModelCall
from pawl_client._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
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
from pawl_client._records import Record, TurnCompleted
from pawl_client._runs import (
    ArtifactSlot,
    Identity,
    RunFilter,
    RunInfo,
    Snapshot,
    StatusCount,
    TurnInfo,
    TurnRef,
)
from pawl_client._turn_requests import (
    StepCall,
    answer_model_request,
    complete_request,
    fail_request,
    output_request,
    request_model_request,
    resolve_request,
    step_request,
    suspend_request,
    update_model_call_request,
)
from pawl_client._values import ArtifactLike, Content, Fault, Json, OutputPiece, Usage
from pawl_client.v1 import control_pb2, run_pb2

T = TypeVar("T")
_RUN = "/pawl.v1.RunService/"
_CONTROL = "/pawl.v1.ControlService/"


def _snapshot(message: Any) -> Snapshot:
    return dataclasses.replace(
        outcomes.snapshot(message),
        variables=parse_json(message.variables_json),
        goal=message.goal,
        request_id=message.request_id,
        budgets=optional(message, "budgets"),
        redacted=message.redacted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Arguments of starting a run."""

    pack: str
    agent: str = ""
    state: str = ""
    variables: Mapping[str, Json] | None = None
    input: Content | None = None
    labels: Mapping[str, str] | None = None
    request_id: str = ""
    max_steps: int = 0
    conversation: bool = False


@dataclass(frozen=True, slots=True)
class Runs:
    """Calls of RunService in one namespace. An empty id is replaced by a new one."""

    namespace: str

    def start(self, what: Start, execution: str) -> Operation[Started]:
        request = run_pb2.StartRunRequest(
            namespace=self.namespace,
            pack=what.pack,
            variables_json=""
            if what.variables is None
            else dump_json(dict(what.variables), "variables"),
            input=wire.parts(what.input),
            execution=wire.number("Execution", execution),  # type: ignore[arg-type]
            labels=dict(what.labels or {}),
            request_id=what.request_id or new_id(),
            max_steps=what.max_steps,
            conversation=what.conversation,
        )
        if what.agent and what.state:
            raise ValueError("agent and state exclude each other; give at most one of them")
        if what.agent:
            request.agent = what.agent
        if what.state:
            request.state = what.state
        response = run_pb2.StartRunResponse
        return Operation(_RUN + "StartRun", request, response, outcomes.started)

    def emit(
        self,
        run_id: str,
        event: str,
        artifacts: Mapping[str, ArtifactLike] | None,
        event_id: str,
        expected_seq: int,
        turn_token: str,
    ) -> Operation[Outcome]:
        request = run_pb2.EmitEventRequest(
            namespace=self.namespace,
            run_id=run_id,
            event=event,
            artifacts=wire.artifacts(artifacts),
            event_id=event_id or new_id(),
            expected_seq=expected_seq,
            turn_token=turn_token,
        )
        return Operation(_RUN + "EmitEvent", request, run_pb2.EmitEventResponse, outcomes.outcome)

    def send_input(
        self, run_id: str, content: Content, message_id: str, expected_seq: int, step: int
    ) -> Operation[Outcome]:
        request = run_pb2.SendInputRequest(
            namespace=self.namespace,
            run_id=run_id,
            parts=wire.parts(content),
            message_id=message_id or new_id(),
            expected_seq=expected_seq,
            step=step,
        )
        return Operation(_RUN + "SendInput", request, run_pb2.SendInputResponse, outcomes.outcome)

    def show_turn(self, run_id: str, turn_seq: int) -> Operation[TurnInfo]:
        request = run_pb2.ShowTurnRequest(
            namespace=self.namespace, run_id=run_id, turn_seq=turn_seq
        )
        response = run_pb2.ShowTurnResponse
        return Operation(_RUN + "ShowTurn", request, response, lambda m: from_proto(m.turn))

    def write_output(
        self, turn: TurnRef, piece: OutputPiece, request_id: str
    ) -> Operation[Outcome]:
        request = output_request(self.namespace, turn, piece, request_id)
        return Operation(
            _RUN + "WriteOutput", request, run_pb2.WriteOutputResponse, outcomes.outcome
        )

    def count(self) -> Operation[tuple[StatusCount, ...]]:
        request = run_pb2.CountRunsRequest(namespace=self.namespace)

        def read(answer: Any) -> tuple[StatusCount, ...]:
            return tuple(from_proto(item) for item in answer.counts)

        return Operation(_RUN + "CountRuns", request, run_pb2.CountRunsResponse, read)

    def caller(self) -> Operation[Identity]:
        request = run_pb2.GetCallerRequest(namespace=self.namespace)
        return Operation(_RUN + "GetCaller", request, run_pb2.GetCallerResponse, from_proto)

    def get_turn(self, run_id: str) -> Operation[TurnInfo]:
        request = run_pb2.GetTurnRequest(namespace=self.namespace, run_id=run_id)
        return Operation(_RUN + "GetTurn", request, run_pb2.GetTurnResponse, from_proto)

    def set_artifacts(
        self,
        run_id: str,
        artifacts: Mapping[str, ArtifactLike],
        slots: Sequence[ArtifactSlot],
        write_id: str,
        expected_seq: int,
        turn_token: str,
    ) -> Operation[Outcome]:
        request = run_pb2.SetArtifactsRequest(
            namespace=self.namespace,
            run_id=run_id,
            artifacts=wire.artifacts(artifacts, slots),
            write_id=write_id or new_id(),
            expected_seq=expected_seq,
            turn_token=turn_token,
        )
        return Operation(
            _RUN + "SetArtifacts", request, run_pb2.SetArtifactsResponse, outcomes.outcome
        )

    def complete(
        self, turn: TurnRef, reply: Reply, slots: Sequence[ArtifactSlot], request_id: str
    ) -> Operation[Outcome]:
        request = complete_request(self.namespace, turn, reply, slots, request_id)
        return Operation(
            _RUN + "CompleteTurn", request, run_pb2.CompleteTurnResponse, outcomes.outcome
        )

    def fail(
        self,
        turn: TurnRef,
        error: Fault,
        retryable: bool,
        usage: Usage | None,
        request_id: str,
        reject: bool = False,
        rejected_step: int = 0,
    ) -> Operation[Outcome]:
        request = fail_request(
            self.namespace, turn, error, retryable, usage, request_id, reject, rejected_step
        )
        return Operation(_RUN + "FailTurn", request, run_pb2.FailTurnResponse, outcomes.outcome)

    def suspend(self, turn: TurnRef, request_id: str) -> Operation[Outcome]:
        request = suspend_request(self.namespace, turn, request_id)
        return Operation(
            _RUN + "SuspendTurn", request, run_pb2.SuspendTurnResponse, outcomes.outcome
        )

    def request_steps(
        self, turn: TurnRef, calls: Sequence[StepCall], request_id: str
    ) -> Operation[StepOutcomes]:
        request = step_request(self.namespace, turn, calls, request_id)
        return Operation(
            _RUN + "RequestStep", request, run_pb2.RequestStepResponse, outcomes.step_outcomes
        )

    def resolve_step(
        self,
        run_id: str,
        step: int,
        tool: str,
        attempt: int,
        answer: Json | Fault,
        token: str,
        usage: Usage | None = None,
    ) -> Operation[StepAnswer]:
        request = resolve_request(self.namespace, run_id, step, tool, attempt, answer, token, usage)
        return Operation(
            _RUN + "ResolveStep", request, run_pb2.ResolveStepResponse, outcomes.step_answer
        )

    def request_model(
        self, turn: TurnRef, round: int, asked: ModelRequest, bound: Usage | None, key: str
    ) -> Operation[RequestedModel]:
        request = request_model_request(self.namespace, turn, round, asked, bound, key)
        return Operation(_RUN + "RequestModel", request, run_pb2.RequestModelResponse, from_proto)

    def answer_model(
        self,
        turn: TurnRef,
        step: int,
        attempt: int,
        outcome: ModelAnswer | ModelFailure,
        usage: Usage | None,
        limits: ProviderLimits | None = None,
    ) -> Operation[AnsweredModel]:
        request = answer_model_request(self.namespace, turn, step, attempt, outcome, usage, limits)
        return Operation(_RUN + "AnswerModel", request, run_pb2.AnswerModelResponse, from_proto)

    def update_model_call(
        self, turn: TurnRef, step: int, attempt: int, response_id: str
    ) -> Operation[UpdatedModelCall]:
        request = update_model_call_request(self.namespace, turn, step, attempt, response_id)
        return Operation(
            _RUN + "UpdateModelCall", request, run_pb2.UpdateModelCallResponse, from_proto
        )

    def model_step(self, run_id: str, step: int) -> Operation[ShownModel]:
        request = run_pb2.GetModelStepRequest(namespace=self.namespace, run_id=run_id, step=step)
        return Operation(_RUN + "GetModelStep", request, run_pb2.GetModelStepResponse, from_proto)

    def list_transitions(
        self,
        run_id: str,
        kinds: Sequence[str],
        after_seq: int,
        page_size: int,
        token: str,
        snapshots: bool,
    ) -> Operation[tuple[tuple[Record, ...], str]]:
        request = run_pb2.ListTransitionsRequest(
            namespace=self.namespace,
            run_id=run_id,
            kinds=[wire.number("RecordKind", str(kind)) for kind in kinds],  # type: ignore[misc]
            after_seq=after_seq,
            page_size=page_size,
            page_token=token,
            snapshots=snapshots,
        )

        def read(answer: Any) -> tuple[tuple[Record, ...], str]:
            seen: Sequence[Any] = answer.snapshots or [None] * len(answer.records)
            records = (
                record_from_proto(m, None if shot is None else outcomes.snapshot(shot))
                for m, shot in zip(answer.records, seen, strict=True)
            )
            return tuple(records), answer.next_page_token

        return Operation(_RUN + "ListTransitions", request, run_pb2.ListTransitionsResponse, read)

    def get(
        self, run_id: str, at_seq: int, *, artifacts: bool = False, variables: bool = False
    ) -> Operation[Snapshot]:
        request = run_pb2.GetRunRequest(
            namespace=self.namespace,
            run_id=run_id,
            at_seq=at_seq,
            include_artifacts=artifacts,
            include_variables=variables,
        )
        return Operation(_RUN + "GetRun", request, run_pb2.GetRunResponse, _snapshot)

    def list(
        self, runs: RunFilter | None, order: str, page_size: int, token: str
    ) -> Operation[tuple[tuple[RunInfo, ...], str]]:
        request = run_pb2.ListRunsRequest(
            namespace=self.namespace,
            filter=wire.run_filter(runs),
            order=wire.number("RunOrder", order),  # type: ignore[arg-type]
            page_size=page_size,
            page_token=token,
        )

        def read(answer: Any) -> tuple[tuple[RunInfo, ...], str]:
            return tuple(from_proto(item) for item in answer.runs), answer.next_page_token

        return Operation(_RUN + "ListRuns", request, run_pb2.ListRunsResponse, read)

    def wait(self, run_id: str, until: str, timeout: float) -> Operation[Waited]:
        duration = Duration()
        duration.FromMilliseconds(int(timeout * 1000))
        request = run_pb2.WaitRunRequest(
            namespace=self.namespace,
            run_id=run_id,
            until=wire.number("WaitUntil", until),  # type: ignore[arg-type]
            timeout=duration,
        )

        def read(answer: Any) -> Waited:
            return Waited(run=from_proto(answer.run), timed_out=answer.timed_out)

        return Operation(_RUN + "WaitRun", request, run_pb2.WaitRunResponse, read)

    def pause(self, run_id: str, note: str, request_id: str) -> Operation[Outcome]:
        request = run_pb2.PauseRunRequest(
            namespace=self.namespace, run_id=run_id, note=note, request_id=request_id or new_id()
        )
        return Operation(_RUN + "PauseRun", request, run_pb2.PauseRunResponse, outcomes.outcome)

    def decide_step(
        self,
        run_id: str,
        step: int,
        digest: str,
        decision: StepDecision | str,
        payload: Json,
        reason: str,
        expires: datetime | None,
        request_id: str,
    ) -> Operation[Record]:
        word = StepDecision(str(decision).upper())
        request = control_pb2.DecideStepRequest(
            namespace=self.namespace,
            run_id=run_id,
            step=step,
            digest=digest,
            decision="STEP_DECISION_" + word,
            payload_json=dump_json(payload, "payload") if word == StepDecision.EDIT else "",
            reason=reason,
            request_id=request_id or new_id(),
        )
        if expires is not None:
            request.expires.FromDatetime(expires)
        return Operation(
            _CONTROL + "DecideStep",
            request,
            control_pb2.DecideStepResponse,
            lambda answer: record_from_proto(answer.decided),
        )

    def list_approvals(
        self, run_id: str, order: str, page_size: int, token: str, link_for: str
    ) -> Operation[tuple[tuple[Approval, ...], str]]:
        request = control_pb2.ListApprovalsRequest(
            namespace=self.namespace,
            run_id=run_id,
            link_for=link_for,
            order=wire.number("RunOrder", order),  # type: ignore[arg-type]
            page_size=page_size,
            page_token=token,
        )

        def read(answer: Any) -> tuple[tuple[Approval, ...], str]:
            return tuple(from_proto(item) for item in answer.approvals), answer.next_page_token

        return Operation(
            _CONTROL + "ListApprovals", request, control_pb2.ListApprovalsResponse, read
        )

    def list_decisions(
        self,
        run_id: str,
        after: datetime | None,
        before: datetime | None,
        tool: str,
        principal: str,
        verdicts: Sequence[StepVerdict | str],
        pack: str,
        labels: Mapping[str, str] | None,
        page_size: int,
        token: str,
    ) -> Operation[tuple[tuple[Decision, ...], str]]:
        request = control_pb2.ListDecisionsRequest(
            namespace=self.namespace,
            run_id=run_id,
            tool=tool,
            principal=principal,
            verdicts=["STEP_VERDICT_" + StepVerdict(str(v).upper()) for v in verdicts],
            pack=pack,
            labels=labels or {},
            page_size=page_size,
            page_token=token,
        )
        if after is not None:
            getattr(request, "from").FromDatetime(after)
        if before is not None:
            request.to.FromDatetime(before)

        def read(answer: Any) -> tuple[tuple[Decision, ...], str]:
            return tuple(from_proto(item) for item in answer.decisions), answer.next_page_token

        return Operation(
            _CONTROL + "ListDecisions", request, control_pb2.ListDecisionsResponse, read
        )

    def steer(
        self, run_id: str, text: str, when: SteerWhen | str, request_id: str
    ) -> Operation[Outcome]:
        request = control_pb2.SteerRunRequest(
            namespace=self.namespace,
            run_id=run_id,
            text=text,
            when=wire.number("SteerWhen", when),  # type: ignore[arg-type]
            request_id=request_id or new_id(),
        )
        return Operation(
            _CONTROL + "SteerRun", request, control_pb2.SteerRunResponse, outcomes.outcome
        )

    def stop(self, run_id: str, note: str, request_id: str) -> Operation[Outcome]:
        request = control_pb2.StopRunRequest(
            namespace=self.namespace, run_id=run_id, note=note, request_id=request_id or new_id()
        )
        return Operation(
            _CONTROL + "StopRun", request, control_pb2.StopRunResponse, outcomes.outcome
        )

    def resume(self, run_id: str, note: str, request_id: str) -> Operation[Outcome]:
        request = run_pb2.ResumeRunRequest(
            namespace=self.namespace, run_id=run_id, note=note, request_id=request_id or new_id()
        )
        return Operation(_RUN + "ResumeRun", request, run_pb2.ResumeRunResponse, outcomes.outcome)

    def cancel(self, run_id: str, note: str, request_id: str) -> Operation[Outcome]:
        request = run_pb2.CancelRunRequest(
            namespace=self.namespace, run_id=run_id, note=note, request_id=request_id or new_id()
        )
        return Operation(_RUN + "CancelRun", request, run_pb2.CancelRunResponse, outcomes.outcome)


Call: TypeAlias = Callable[[Operation[Any]], Flow[Any]]

_WINDOW, _GROWTH = 32, 8
"""Records that are searched first, from the end, and the factor for each further search."""
_PAGE = 1000


def read_result(
    runs: Runs,
    run_id: str,
    call: Call,
    errors: tuple[BaseException, ...] = (),
    output: tuple[Any, ...] | None = None,
) -> Flow[RunResult[Any]]:
    """Returns the result of the run as it is now. With `output` None it is read from the
    records.
    """
    snapshot: Snapshot = yield from call(runs.get(run_id, 0, artifacts=True))
    if output is None:
        output = yield from _last_output(runs, snapshot.run, call)
    artifacts = values_of(snapshot.artifacts)
    return RunResult(run=snapshot.run, artifacts=artifacts, output=output, errors=errors)


def _last_output(runs: Runs, run: RunInfo, call: Call) -> Flow[tuple[Any, ...]]:
    """Returns the output of the last completed turn, as of the run's seq."""
    until, window = run.seq, _WINDOW
    while until > 0:
        after = max(0, until - window)
        completed = yield from _last_between(runs, run.run_id, after, until, call)
        if completed is not None:
            return completed.output
        until, window = after, window * _GROWTH
    return ()


def _last_between(
    runs: Runs, run_id: str, after: int, until: int, call: Call
) -> Flow[TurnCompleted | None]:
    found: TurnCompleted | None = None
    token = ""
    while True:
        kinds = [RecordKind.TURN_COMPLETED]
        page, token = yield from call(
            runs.list_transitions(run_id, kinds, after, _PAGE, token, False)
        )
        for record in page:
            if record.seq > until:
                return found
            found = record.body
        if not token:
            return found
