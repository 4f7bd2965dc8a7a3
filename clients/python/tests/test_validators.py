"""Validators of a prompt, which the sidecar enforces for every executor."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pawl_client import (
    Client,
    Reply,
    Run,
    RunResult,
    RunStatus,
    Turn,
    TurnFailed,
    ValidatorError,
    Violation,
    Worker,
)
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import awaiting, blocking
from workers import ended, serving

BANNED = {
    "id": "no-foo",
    "type": "banned_words",
    "message": "Be polite",
    "params": {"words": ["foo"]},
}
WHY = "Be polite: the text contains"


def registered(client: Client, name: str, *validators: dict[str, Any]) -> str:
    prompt = {
        "id": "p",
        "name": "P",
        "version": "1.0.0",
        "system_template": "Be polite.",
        "validators": validators,
    }
    retry = {"max_attempts": 3, "initial_sec": 0.01}
    pack = {
        "id": name,
        "name": name,
        "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {"p": prompt},
        "workflow": {
            "version": 2,
            "entry": "a",
            "engine": {"x_pawl": {"retry": retry}},
            "states": {"a": {"prompt_task": "p", "terminal": True}},
        },
    }
    client.register_pack(json.dumps(pack), filename="x.json")
    return name


def violations(run: Run) -> list[Violation | None]:
    found = []
    for record in run.records(kinds=["TURN_FAILED"]):
        assert isinstance(record.body, TurnFailed)
        found.append(record.body.violation)
    return found


def checked(client: Client, result: RunResult, endpoint: Scripted) -> None:
    assert (result.status, result.text) == (RunStatus.COMPLETED, "bar")
    asked = [json.dumps(body) for body in endpoint.requests]
    assert [WHY in body for body in asked] == [False, True]
    assert "a foo" not in asked[1]
    [violation] = violations(client.attach(result.run.run_id))
    assert violation
    assert (violation.id, violation.type) == ("no-foo", "banned_words")
    assert violation.place == "answer of step 1, characters 3 to 5"


def test_a_model_is_asked_again(client: Client, vendor: str) -> None:
    pack = registered(client, f"validated-{vendor}", BANNED)
    with Scripted(Says("a foo"), Says("bar")) as endpoint:
        result = client.run(pack, blocking(vendor, endpoint.url))
        checked(client, result, endpoint)
    assert [type(error) for error in result.errors] == [ValidatorError]


async def test_a_model_is_asked_again_where_a_handler_awaits(
    sidecar: Sidecar, client: Client, vendor: str
) -> None:
    pack = registered(client, f"validated-async-{vendor}", BANNED)
    with Scripted(Says("a foo"), Says("bar")) as endpoint:
        async with sidecar.async_client() as other:
            result = await other.run(pack, awaiting(vendor, endpoint.url))
        checked(client, result, endpoint)


async def test_a_worker_asks_again(sidecar: Sidecar, client: Client, vendor: str) -> None:
    pack = registered(client, f"validated-worker-{vendor}", BANNED)
    worker = Worker(address=sidecar.address)
    with Scripted(Says("a foo"), Says("bar")) as endpoint:
        worker.prompt("p")(awaiting(vendor, endpoint.url))
        async with serving(worker):
            run = client.start(pack)
            assert await ended(run) is RunStatus.COMPLETED
        checked(client, await asyncio.to_thread(run.result), endpoint)


def test_a_handler_without_a_model_is_held_too(client: Client) -> None:
    pack = registered(client, "validated-plain", BANNED)

    def handler(turn: Turn) -> Reply:
        return Reply(output="a foo" if turn.attempt < 3 else "bar")

    result = client.run(pack, handler)
    assert (result.status, result.text) == (RunStatus.COMPLETED, "bar")
    assert [type(error) for error in result.errors] == [ValidatorError, ValidatorError]
    assert "no-foo: Be polite" in str(result.errors[0])
    run = client.attach(result.run.run_id)
    assert [v and v.place for v in violations(run)] == ["output, characters 3 to 5"] * 2


def test_nothing_else_is_said_after_the_last_attempt(client: Client) -> None:
    short = {"type": "max_length", "params": {"max": 3}}
    pack = registered(client, "validated-never", short)
    result = client.run(pack, lambda _: Reply(output="Too long."))
    assert (result.status, result.reason) == (RunStatus.ESCALATED, "validator:max_length")
    assert len(violations(client.attach(result.run.run_id))) == 3


def test_a_type_that_nothing_enforces_refuses_the_start(client: Client) -> None:
    pack = registered(client, "validated-other", {"type": "toxicity"})
    with pytest.raises(Exception, match=r'"toxicity" of the prompt "p" is not enforced here'):
        client.run(pack, lambda _: Reply())
