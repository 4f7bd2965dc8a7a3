"""Every field that the sidecar answers with has a place in this package.

The descriptors of the contract are walked from the answers of each call down: a field
that is new there fails here until it is read, or exempted with a reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

import pawl_client
from pawl_client import ErrorReason, _convert
from pawl_client._errors import error_of
from pawl_client._outcomes import Outcome, Started, StepAnswer, StepOutcomes, Waited
from pawl_client._records import Record
from pawl_client._runs import RunInfo, Snapshot
from pawl_client.v1 import control_pb2, pack_pb2, reason_pb2, run_pb2, worker_pb2

FILES = (pack_pb2, run_pb2, worker_pb2, control_pb2)

BY_HAND: dict[str, tuple[type, ...]] = {
    "StartRunResponse": (Started,),
    "EmitEventResponse": (Outcome,),
    "SendInputResponse": (Outcome,),
    "SetArtifactsResponse": (Outcome,),
    "CompleteTurnResponse": (Outcome,),
    "FailTurnResponse": (Outcome,),
    "SuspendTurnResponse": (Outcome,),
    "PauseRunResponse": (Outcome,),
    "ResumeRunResponse": (Outcome,),
    "CancelRunResponse": (Outcome,),
    "ForkRunResponse": (Started,),
    "WriteOutputResponse": (Outcome,),
    "RequestStepResponse": (StepOutcomes,),
    "ResolveStepResponse": (StepAnswer,),
    "GetRunResponse": (Snapshot,),
    "WaitRunResponse": (Waited,),
    "Snapshot": (Snapshot,),
    "SteerRunResponse": (Outcome,),
    "StopRunResponse": (Outcome,),
    "StreamTransitionsResponse": (Record,),
    "Record": (Record,),
    "Run": (RunInfo,),
}
"""Answers that are read by functions of their own, into these classes."""

EXEMPT: dict[str, str] = {
    "CountRunsResponse.counts": "count_runs makes a mapping of them",
    "ShowTurnResponse.turn": "show_turn returns it",
    "ShowTurnResponse.redacted": "the marks stand in the texts of the turn",
    "ListRunsResponse.runs": "list_runs yields them",
    "ListRunsResponse.next_page_token": "list_runs reads page after page",
    "ListTransitionsResponse.records": "Run.records yields them",
    "ListTransitionsResponse.snapshots": "Record.snapshot",
    "ExportRunResponse.data": "Run.export joins them",
    "ImportRunResponse.run": "import_run returns it",
    "ImportRunResponse.duplicate": "import_run returns it",
    "ListTransitionsResponse.next_page_token": "Run.records reads page after page",
    "DecideStepResponse.decided": "decide_step returns it",
    "DecideStepResponse.status": "decide_step returns the record",
    "DecideStepResponse.seq": "the record has it",
    "DecideStepResponse.duplicate": "decide_step returns the first record again",
    "ListApprovalsResponse.approvals": "list_approvals yields them",
    "ListApprovalsResponse.next_page_token": "list_approvals reads page after page",
    "ListDecisionsResponse.decisions": "list_decisions yields them",
    "ListDecisionsResponse.next_page_token": "list_decisions reads page after page",
    "ListDecisionsResponse.removed_entries": "the audit log has them, as list_decisions says",
    "QueryUsageResponse.groups": "UsageReport.groups",
    "QueryUsageResponse.total": "UsageReport.total",
    "QueryUsageResponse.complete": "UsageReport.complete",
    "QueryUsageResponse.since": "UsageReport.since",
    "QueryUsageResponse.next_page_token": "usage reads page after page",
    "ListBudgetsResponse.accounts": "list_budgets yields them",
    "ListBudgetsResponse.next_page_token": "list_budgets reads page after page",
    "ListLimitsResponse.limits": "list_limits returns them",
    "ListSchedulesResponse.schedules": "list_schedules returns them",
    "ListPacksResponse.packs": "list_packs yields them",
    "ListPacksResponse.next_page_token": "list_packs reads page after page",
    "StreamTransitionsResponse.record": "transitions yields it",
    "StreamTransitionsResponse.heartbeat": "moves the position of a reader",
    "StreamTransitionsResponse.output": "Run.events makes events of it",
    "StreamTransitionsResponse.status": "Run.events tells of waits by it",
    "Heartbeat.cursor": "moves the position of a reader",
    "Heartbeat.at": "a sign of life, and that it came is all that counts",
    "ArtifactValue.text": "one of three forms of a value",
    "ArtifactValue.json": "one of three forms of a value",
    "ArtifactValue.data": "one of three forms of a value",
    "ArtifactValue.media_type": "ArtifactWrite.media_type; that of an Artifact is in its head",
}
"""Fields without a counterpart, and why."""

PROTOCOL = {
    "WorkResponse",
    "WorkerRegistered",
    "WorkReceipt",
    "TurnAssignment",
    "TurnLease",
    "StepAssignment",
    "StepLease",
    "Revocation",
    "RunUnserved",
    "StepAnswers",
    "ServerDrain",
    "LeaseExtension",
    "OutputChunk",
    "OutputProgress",
    "ListWorkersResponse",
    "ConnectedWorker",
    "HeldWork",
    "ReadyWork",
    "WorkCounts",
    "WorkFailure",
}
"""Messages of the protocol of workers, which the Worker and `run` alone speak, and of the list
of workers, which the page and the command line read; `pawl_client.v1` has them all."""


def answers() -> Iterator[Descriptor]:
    """The messages that calls answer with."""
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from (method.output_type for method in service.methods)


def reachable() -> dict[str, Descriptor]:
    """Those and all messages in them, by name."""
    found: dict[str, Descriptor] = {}
    todo = list(answers())
    while todo:
        message = todo.pop()
        if message.full_name.startswith("pawl.") and message.name not in found:
            found[message.name] = message
            todo += [f.message_type for f in message.fields if f.message_type is not None]
    return {n: m for n, m in found.items() if not m.GetOptions().map_entry}


def names_of(cls: type) -> set[str]:
    return {field.metadata.get("proto", field.name) for field in dataclasses.fields(cls)}


def classes_of(name: str) -> tuple[type, ...]:
    if name in BY_HAND:
        return BY_HAND[name]
    cls = _convert._ALIASES.get(name) or _convert._CLASSES.get(name)
    return () if cls is None else (cls,)


def missing(message: Descriptor) -> list[str]:
    have = {name for cls in classes_of(message.name) for name in names_of(cls)}
    body = message.oneofs_by_name.get("body")
    if message.name == "Record" and body is not None:
        # Each kind of body has its own class, in the field `body`.
        have |= {f.name for f in body.fields if f.message_type and classes_of(f.message_type.name)}
    return [
        f"{message.name}.{field.name}"
        for field in message.fields
        if field.name.removesuffix("_json") not in have and field.name not in have
    ]


@pytest.mark.parametrize("name", sorted(set(reachable()) - PROTOCOL))
def test_every_field_of_an_answer_has_a_counterpart(name: str) -> None:
    assert [field for field in missing(reachable()[name]) if field not in EXEMPT] == []


def test_the_classes_are_public() -> None:
    for name in sorted(set(reachable()) - PROTOCOL):
        for cls in classes_of(name):
            assert cls.__name__ in pawl_client.__all__, cls


def test_no_exemption_is_left_over() -> None:
    messages = reachable()
    assert set(messages) >= PROTOCOL
    assert set(BY_HAND) <= set(messages)
    unread = {field for message in messages.values() for field in missing(message)}
    assert set(EXEMPT) <= unread


def test_the_walk_notices_a_field() -> None:
    """A field without a place is reported, so the test above can fail."""

    class Message:
        name = "TurnRef"
        oneofs_by_name: dict[str, Any] = {}  # noqa: RUF012
        fields = (
            *run_pb2.GetTurnResponse.DESCRIPTOR.fields[:1],
            pack_pb2.Pack.DESCRIPTOR.fields[0],
        )

    assert missing(Message) == ["TurnRef.turn", "TurnRef.id"]  # type: ignore[arg-type]


def test_every_reason_of_the_contract_is_a_constant() -> None:
    names = (name.removeprefix("ERROR_REASON_") for name, _ in reason_pb2.ErrorReason.items())
    assert [str(reason) for reason in ErrorReason] == [
        name for name in names if name != "UNSPECIFIED"
    ]


def test_reasons_are_compared_as_strings() -> None:
    known = error_of("NOT_FOUND", "no such run", reason="RUN_NOT_FOUND")
    assert known.reason == ErrorReason.RUN_NOT_FOUND
    assert known.reason == "RUN_NOT_FOUND"
    newer = error_of("NOT_FOUND", "no such thing", reason="THING_NOT_FOUND")
    assert newer.reason == "THING_NOT_FOUND"
    assert newer.reason not in set(ErrorReason)
