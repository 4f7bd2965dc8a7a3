"""Held calls: what waits for a person, and what each answer does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

import pawl_client
from pawl_client import Approval, Client, Run, StepCall, StepDecided, StepVerdict
from pawl_client.testing import Sidecar

PACK = {
    "id": "refunds",
    "name": "Refunds",
    "version": "1.0.0",
    "template_engine": {"version": "v1", "syntax": "{{variable}}"},
    "prompts": {
        "a": {
            "id": "a",
            "name": "A",
            "version": "1.0.0",
            "system_template": "x",
            "tools": ["refund"],
        }
    },
    "tools": {
        "refund": {
            "name": "refund",
            "description": "Pays back.",
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string"}},
                "required": ["order"],
            },
        }
    },
    "workflow": {
        "version": 1,
        "entry": "s",
        "states": {"s": {"prompt_task": "a", "terminal": True}},
        "engine": {"x_pawl": {"tools": {"refund": {"approve": "always"}}}},
    },
}


@pytest.fixture(scope="module")
def refunds() -> Iterator[Client]:
    with Sidecar(allow_tools=["refund"]) as process, process.client() as client:
        client.register_pack(json.dumps(PACK))
        yield client


def held(client: Client) -> tuple[Run, Approval]:
    run = client.open("refunds")
    run.request_steps(run.turn().turn, [StepCall("refund", {"order": "o-17"}, key="k")])
    return run, next(iter(client.list_approvals(run_id=run.id)))


def decided(run: Run) -> StepDecided:
    body = next(r.body for r in run.records(kinds=["STEP_DECIDED"]))
    assert isinstance(body, StepDecided)
    return body


def test_what_waits_is_told_with_its_call(refunds: Client) -> None:
    run, waits = held(refunds)
    assert waits.call is not None
    assert (waits.run_id, waits.pack_id, waits.state) == (run.id, "refunds", "s")
    assert (waits.call.tool, waits.call.payload) == ("refund", {"order": "o-17"})
    assert waits.call.approval is not None
    assert waits.call.approval.held
    assert waits.on_timeout == "DENY"


@pytest.mark.parametrize(
    ("decision", "payload", "verdict"),
    [
        ("APPROVE", None, "APPROVED"),
        ("EDIT", {"order": "o-18"}, "EDITED"),
        ("DENY", None, "DENIED"),
    ],
)
def test_each_answer_is_recorded(
    refunds: Client, decision: str, payload: pawl_client.Json, verdict: str
) -> None:
    run, waits = held(refunds)
    assert waits.call is not None
    assert waits.call.approval is not None
    digest = waits.call.approval.digest
    record = run.decide_step(1, digest, decision, payload=payload, reason="so it is")
    assert record.body == decided(run)
    assert decided(run).verdict == StepVerdict(verdict)
    assert (decided(run).payload, decided(run).reason) == (payload, "so it is")
    assert not list(refunds.list_approvals(run_id=run.id))


def test_the_history_has_each_decision(refunds: Client) -> None:
    run, waits = held(refunds)
    assert waits.call is not None
    assert waits.call.approval is not None
    assert not list(refunds.list_decisions(run_id=run.id))
    record = run.decide_step(1, waits.call.approval.digest, "DENY", reason="too much")
    [made] = refunds.list_decisions(
        run_id=run.id,
        after=waits.since,
        before=record.at + timedelta(seconds=1),
        tool="refund",
        principal=record.principal,
        verdicts=["DENIED"],
        pack="refunds",
    )
    assert (made.run_id, made.pack_id, made.since) == (run.id, "refunds", waits.since)
    assert made.record == record
    assert isinstance(made.record.body, StepDecided)
    assert made.record.body.reason == "too much"
    newest = next(iter(refunds.list_decisions(page_size=1)))
    assert newest.run_id == run.id
    assert not list(refunds.list_decisions(run_id=run.id, before=waits.since))
    assert not list(refunds.list_decisions(run_id=run.id, labels={"team": "none"}))


def test_the_second_is_told_who_was_first(refunds: Client) -> None:
    run, waits = held(refunds)
    assert waits.call is not None
    assert waits.call.approval is not None
    digest = waits.call.approval.digest
    with pytest.raises(pawl_client.StateError) as other:
        run.decide_step(1, "sha256:" + "0" * 64, "APPROVE")
    assert other.value.reason == "DIGEST_MISMATCH"
    with pytest.raises(pawl_client.RequestError) as edit:
        run.decide_step(1, digest, "EDIT", payload={"order": 7})
    assert edit.value.reason == "EDIT_REFUSED"
    run.decide_step(1, digest, "DENY", reason="no")
    with pytest.raises(pawl_client.AlreadyDecidedError) as second:
        run.decide_step(1, digest, "APPROVE")
    assert "denied" in str(second.value)
