"""The result of a run is the same for each way to get it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field

from conftest import STEPS
from pawl_client import (
    Client,
    JsonValue,
    NotFoundError,
    PackInvalidError,
    Part,
    Reply,
    RunResult,
    RunStatus,
    SchemaError,
    Turn,
    Usage,
    Worker,
)
from pawl_client._values import parts_of
from pawl_client.testing import Sidecar
from workers import ended, serving, variant

SUM = {"sum": {"of": [1, 2]}}
OUTPUT = (Part(text="all"), Part(json=JsonValue({"done": 1})))


def handler(turn: Turn) -> Reply:
    if turn.terminal:
        return Reply(output=OUTPUT)
    return Reply(event="Done", artifacts=SUM, output="not the last")


def never(turn: Turn) -> Reply:
    raise AssertionError("it has ended")


def check(result: RunResult) -> None:
    assert (result.status, result.reason) == (RunStatus.COMPLETED, "completed")
    assert (result.artifacts, result.output, result.errors) == (SUM, OUTPUT, ())


def test_after_run(client: Client) -> None:
    result = client.run("steps", handler, variables={"n": 1})
    check(result)
    assert client.attach(result.run.run_id).result() == result


def test_after_a_repeated_request_id(client: Client) -> None:
    """Also if the run had already ended: no handler is called, and the result is complete."""
    name = str(uuid.uuid4())
    first = client.run("steps", handler, variables={"n": 1}, request_id=name)
    check(first)
    assert client.run("steps", never, variables={"n": 1}, request_id=name) == first
    opened = client.open("steps", variables={"n": 1}, request_id=name)
    assert opened.started is not None
    assert opened.started.duplicate
    assert opened.result() == first


async def test_after_start_and_wait(sidecar: Sidecar, client: Client) -> None:
    client.register_pack(variant(STEPS, "result", {}), filename="x.json")
    worker = Worker(address=sidecar.address, packs=["result"])
    worker.prompt("*")(handler)
    name = str(uuid.uuid4())
    async with serving(worker), sidecar.async_client() as other:
        run = client.start("result", variables={"n": 1}, request_id=name)
        assert await ended(run) is RunStatus.COMPLETED
        result = run.result()
        check(result)
        again = await other.start("result", variables={"n": 1}, request_id=name)
        assert await again.result() == result


def test_ended_from_outside(client: Client) -> None:
    """The last output is that of the last turn that was completed."""
    run = client.open("steps", variables={"n": 1})

    def late(turn: Turn) -> Reply:
        if not turn.terminal:
            return Reply(event="Done", artifacts=SUM, output="not the last")
        client.attach(turn.run_id).cancel()
        return Reply(output="too late")

    driven = run.drive(late)
    assert (driven.status, driven.output) == (RunStatus.CANCELLED, (Part(text="not the last"),))
    assert run.result() == replace(driven, errors=())


@pytest.mark.parametrize(
    ("begin", "status"),
    [(lambda run: None, RunStatus.RUNNING), (lambda run: run.cancel(), RunStatus.CANCELLED)],
)
def test_without_output(client: Client, begin: Callable[..., None], status: RunStatus) -> None:
    run = client.open("steps", variables={"n": 1})
    begin(run)
    result = run.result()
    assert (result.status, result.output, result.artifacts) == (status, (), {})


def test_a_last_turn_far_from_the_end(client: Client) -> None:
    run = client.open("steps", variables={"n": 1})
    turn = run.turn()
    run.complete(turn.turn, Reply(event="Again", output="early"))
    for number in range(50):
        run.set_artifacts({"log": f"{number}\n"}, turn_token=run.turn().turn.token)
    assert run.info().seq > 50
    assert run.result().output == (Part(text="early"),)


@pytest.mark.parametrize(
    ("begin", "words"),
    [
        (lambda run: None, "the run has not ended: it is RUNNING"),
        (lambda run: run.cancel(), "the run ended CANCELLED (cancelled)"),
    ],
)
def test_a_run_that_did_not_complete(
    client: Client, begin: Callable[..., None], words: str
) -> None:
    run = client.open("steps", variables={"n": 1})
    begin(run)
    result = run.result()
    with pytest.raises(
        SchemaError, match=r"^output: must have exactly one JSON part, not 0"
    ) as one:
        result.output_as(Sum)
    with pytest.raises(SchemaError, match=r"^artifact sum: it was not written") as other:
        result.artifact("sum", Sum)
    for caught in (one, other):
        assert str(caught.value).endswith(f"; {words}")


def test_an_unknown_run(client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.attach("01J9Z3NDEKTSV4RRFFQ69G5FAV").result()


@dataclass
class Sum:
    """The artifact of the tests, as a class."""

    of: list[int]


class Stock(BaseModel):
    """An output and an artifact of the tests, as a model."""

    sku: str
    day: date
    pieces: int = Field(alias="left")


STOCK = Stock(sku="A-1", day=date(2026, 11, 30), left=12)
STOCK_JSON = {"sku": "A-1", "day": "2026-11-30", "left": 12}


@pytest.mark.parametrize(
    ("value", "json"), [(STOCK, STOCK_JSON), (Sum([1, 2]), SUM["sum"])], ids=["model", "dataclass"]
)
async def test_instances_as_values(sidecar: Sidecar, client: Client, value: Any, json: Any) -> None:
    """As an output, an artifact, a message and a payload."""
    worker = Worker(address=sidecar.address)
    seen: list[Any] = []

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        seen.extend(turn.messages)
        if turn.terminal:
            return Reply(output=value)
        with pytest.raises(SchemaError, match="'a' is a required property"):
            turn.step("add", value)
        return Reply(event="Done", artifacts={"sum": value}, output=[value, "more"])

    async with serving(worker):
        run = client.start("steps", variables={"n": 1}, input=value)
        await ended(run)
    driven = client.run("steps", calc, variables={"n": 1}, input=value)
    for result in (run.result(), driven):
        assert [part.json for part in result.output] == [JsonValue(json)]
        assert result.output_as(type(value)) == value
        assert result.artifact("sum", type(value)) == value
    assert seen[0].parts == (Part(json=JsonValue(json)),)


@pytest.mark.parametrize("value", [{1, 2}, 3, iter("ab"), Usage()])
def test_values_that_are_no_content(client: Client, value: Any) -> None:
    words = f"content: must be a text, bytes, .*, not {type(value).__name__}"
    with pytest.raises(TypeError, match=words):
        client.start("steps", variables={"n": 1}, input=value)
    run = client.open("steps", variables={"n": 1})
    with pytest.raises(TypeError, match=words):
        run.send_input(value)


def test_bytes_that_can_change_are_data() -> None:
    value: Any = bytearray(b"ab")
    assert parts_of(value) == (Part(data=b"ab"),)


def test_values_of_a_result(client: Client) -> None:
    result = client.run("steps", handler, variables={"n": 1})
    assert result.text == "all"
    assert result.artifact("sum", Sum) == Sum([1, 2])
    with pytest.raises(SchemaError, match=r"(?s)^artifact sum: .*integer") as other:
        result.artifact("sum", int)
    assert other.value.reason == "ARTIFACT_INVALID"
    with pytest.raises(SchemaError, match="artifact log: it was not written; written: sum"):
        result.artifact("log", Sum)


@pytest.mark.parametrize("path", ["shop.pack.yaml", "packs/my shop.json", "C:\\packs\\SHOP.YML"])
def test_a_path_as_text_is_no_pack(client: Client, path: str) -> None:
    for call in (client.register_pack, client.validate_pack):
        with pytest.raises(PackInvalidError) as caught:
            call(path)
        assert f"pass Path({path!r}) to read the file" in str(caught.value)
    with pytest.raises(PackInvalidError, match="PACK_INVALID"):
        client.register_pack("id: shop.yaml")
    with pytest.raises(PackInvalidError, match="PACK_INVALID"):
        client.register_pack("{id: shop.yaml}")


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (None, 0.0),
        (Usage(input_tokens=10, output_tokens=5), None),
        (Usage(input_tokens=10, output_tokens=5, cost_micro_usd=2500), 0.0025),
    ],
)
def test_the_cost_of_a_run(client: Client, usage: Usage | None, cost: float | None) -> None:
    def priced(turn: Turn) -> Reply:
        return Reply() if turn.terminal else Reply(event="Done", usage=usage)

    assert client.run("steps", priced, variables={"n": 1}).cost_usd == cost
