"""Tools that are typed functions: called by name, with values that fit."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    FailStepError,
    Fault,
    Reply,
    RunStatus,
    SchemaError,
    StepFailedError,
    StepResolved,
    Turn,
    TurnFailed,
    Worker,
    current_call,
)
from pawl_client._typed_tools import bind
from pawl_client.testing import Sidecar
from workers import ended, serving, variant

OPEN: dict[str, Any] = {"type": "object", "properties": {}}
ZERO = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


class Item(BaseModel):
    name: str
    price: Decimal


@dataclass
class Order:
    number: int
    items: list[Item]
    at: datetime


def loose(pack_id: str, bounds: dict[str, Any] | None = None) -> bytes:
    """A pack whose tools are called with anything."""
    text = variant(
        STEPS, pack_id, {"retry": {"max_attempts": 3, "initial_sec": 1}} | (bounds or {})
    )
    pack = json.loads(text)
    for tool in pack["tools"].values():
        tool["parameters"] = OPEN
    return json.dumps(pack).encode()


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        yield process


@pytest.fixture
def here(shared: Sidecar) -> Iterator[Client]:
    with shared.client() as client:
        client.register_pack(loose("loose"), filename="x.json")
        yield client


async def answers(
    shared: Sidecar, here: Client, function: Any, payloads: list[Any]
) -> list[StepResolved]:
    """What a worker with a function as its tool answers to payloads."""
    worker = Worker(address=shared.address, packs=["loose"])
    worker.tool("add")(function)

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        for payload in payloads:
            with contextlib.suppress(StepFailedError):
                await turn.step("add", payload)
        return Reply(event="Done")

    async with serving(worker):
        run = here.start("loose", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    bodies = [record.body for record in run.records(kinds=["STEP_RESOLVED"])]
    return [body for body in bodies if isinstance(body, StepResolved)]


def buy(order: Order, when: datetime = ZERO, *, express: bool = False) -> Order:
    assert isinstance(order, Order)
    assert isinstance(order.items[0].price, Decimal)
    total = [Item(name=item.name, price=item.price * 2) for item in order.items]
    return Order(order.number + express, total, max(when, order.at))


async def buy_later(order: Order, when: datetime = ZERO, *, express: bool = False) -> Order:
    assert current_call().tool == "add"
    return buy(order, when, express=express)


@pytest.mark.parametrize("function", [buy, buy_later])
async def test_called_by_name_with_values_that_fit(
    shared: Sidecar, here: Client, function: Any
) -> None:
    order = {
        "number": 7.0,
        "items": [{"name": "ink", "price": "0.10"}],
        "at": "2026-01-02T03:04:05Z",
    }
    (first, second) = await answers(
        shared, here, function, [{"order": order}, {"order": order, "express": True}]
    )
    assert first.error is None
    assert first.result == {
        "number": 7,
        "items": [{"name": "ink", "price": "0.20"}],
        "at": "2026-03-01T12:00:00Z",
    }
    assert second.result["number"] == 8


ITEM = {"name": "ink", "price": 1}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({}, "$.order", "Field required"),
    ({"order": []}, "$.order", "should be an object"),
    (
        {"order": {"number": "7", "items": [], "at": "2026-01-02T03:04:05Z"}},
        "$.order.number",
        "valid integer",
    ),
    (
        {"order": {"number": 7, "items": [ITEM, {}], "at": "2026-01-02T03:04:05Z"}},
        "$.order.items[1].name",
        "Field required",
    ),
    ({"order": {"number": 7, "items": [], "at": "when"}}, "$.order.at", "valid datetime"),
    ({"order": {"number": 7, "items": [], "at": "2026-01-02T03:04:05Z"}, "x": 1}, "$.x", "Extra"),
]


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_arguments_that_do_not_fit(shared: Sidecar, here: Client, flavour: str) -> None:
    called: list[Any] = []

    def take(order: Order) -> None:
        called.append(order)

    async def take_later(order: Order) -> None:
        called.append(order)

    function = take if flavour == "sync" else take_later
    told = await answers(shared, here, function, [payload for payload, _, _ in WRONG])
    for (_, place, expected), answer in zip(WRONG, told, strict=True):
        assert answer.error is not None
        assert answer.error.code == "INVALID_ARGUMENTS"
        assert f"at {place}: " in answer.error.message
        assert expected in answer.error.message
        assert answer.error.message.startswith("arguments of tool add: ")
    assert called == []


async def test_what_was_found_is_not_told(shared: Sidecar, here: Client) -> None:
    def take(a: int) -> int:
        return a

    (answer,) = await answers(shared, here, take, [{"a": "hush"}])
    assert answer.error is not None
    assert "hush" not in answer.error.message + answer.error.trace


async def test_a_turn_that_hands_wrong_arguments_is_not_tried_again(
    shared: Sidecar, here: Client
) -> None:
    worker = Worker(address=shared.address, packs=["loose"])
    turns: list[int] = []

    @worker.tool("add")
    def add(a: int, b: int) -> int:
        return a + b

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        turns.append(turn.attempt)
        turn.step("add", {"a": 1})
        return Reply(event="Done")

    async with serving(worker):
        run = here.start("loose", variables={"n": 1})
        assert await ended(run) is RunStatus.FAILED
    assert turns == [1]
    (record,) = run.records(kinds=["TURN_FAILED"])
    assert isinstance(record.body, TurnFailed)
    assert record.body.error is not None
    assert record.body.error.code == "INVALID_ARGUMENTS"
    assert "at $.b: Field required" in record.body.error.message


def untold() -> Any:
    return {"at": ZERO, "price": Decimal("1.50"), "item": Item(name="ink", price=Decimal(2))}


def lies() -> int:
    return "three"  # type: ignore[return-value]


def unheard_of() -> Any:
    return object()


def faulty(a: int = 0) -> int | Fault:
    return Fault(code="NO_STOCK", message="none left")


async def test_results(shared: Sidecar, here: Client) -> None:
    (told,) = await answers(shared, here, untold, [{}])
    assert told.result == {
        "at": "2026-03-01T12:00:00Z",
        "price": "1.50",
        "item": {"name": "ink", "price": "2"},
    }
    (wrong,) = await answers(shared, here, lies, [{}])
    assert wrong.error is not None
    assert (wrong.error.code, wrong.error.message) == (
        "RESULT_INVALID",
        "result of tool add: at $: Input should be a valid integer, "
        "unable to parse string as an integer",
    )
    (none,) = await answers(shared, here, unheard_of, [{}])
    assert none.error is not None
    assert none.error.code == "RESULT_INVALID"
    (fault,) = await answers(shared, here, faulty, [{}])
    assert fault.error == Fault(code="NO_STOCK", message="none left")


class Box:
    def __init__(self) -> None:
        self.got: list[Any] = []

    def whole(self, payload: dict[str, int]) -> None:
        self.got.append(payload)

    def model(self, payload: Item) -> None:
        self.got.append(payload)

    def named(self, name: str) -> None:
        self.got.append(name)

    def bare(self, what, more=3):  # type: ignore[no-untyped-def]
        self.got.append(what)

    def bound(self, extra: int, payload: Any) -> None:
        self.got.append((extra, payload))


async def test_which_functions_get_the_payload_as_it_is(shared: Sidecar, here: Client) -> None:
    payload = {"name": "ink", "price": "1"}
    item = Item(name="ink", price=Decimal(1))
    box = Box()
    for function in (box.whole, box.model, box.bare, partial(box.bound, 5)):
        (answer,) = await answers(shared, here, function, [payload])
        assert answer.error is None
    (answer,) = await answers(shared, here, box.named, [{"name": "ink"}])
    assert answer.error is None
    assert box.got == [payload, item, payload, (5, payload), "ink"]


def test_a_run_that_is_driven_here(here: Client) -> None:
    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        with pytest.raises(StepFailedError, match=r"INVALID_ARGUMENTS: .*at \$.number"):
            turn.step("add", {"number": "x"})
        return Reply(event="Done", artifacts={"sum": turn.step("add", {"number": 2})})

    def half(number: int) -> Decimal:
        return Decimal(number) / 4

    result = here.run("loose", handler, tools={"add": half}, variables={"n": 1})
    assert (result.status, result.artifacts) == (RunStatus.COMPLETED, {"sum": "0.5"})


async def test_a_run_that_coroutines_drive(shared: Sidecar, here: Client) -> None:
    async def handler(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        return Reply(
            event="Done", artifacts={"sum": await turn.step("add", {"at": "2026-01-01T00:00:00"})}
        )

    async def next_year(at: datetime) -> datetime:
        return at.replace(year=at.year + 1)

    async with shared.async_client() as client:
        result = await client.run("loose", handler, tools={"add": next_year}, variables={"n": 1})
    assert result.artifacts == {"sum": "2027-01-01T00:00:00"}


def bare(a: int, b):  # type: ignore[no-untyped-def]
    return a


def starred(*numbers: int) -> int:
    return sum(numbers)


def of_a_lock(a: subprocess.Popen[str]) -> None: ...


def with_default(a: int = Field(default=3)) -> None: ...


REFUSED: list[tuple[Any, str]] = [
    (bare, "tool add: parameter b has no annotation"),
    (starred, r"tool add: parameter \*numbers: 'int' cannot be given by name|\*numbers"),
    (of_a_lock, "tool add: .*Popen"),
    (with_default, "tool add: parameter a: Field.. must be in the annotation"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED)
def test_functions_that_are_refused(here: Client, function: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Worker().tool("add")(function)
    with pytest.raises(ValueError, match=text):
        here.run("loose", lambda turn: None, tools={"add": function})


def test_an_annotation_that_nobody_knows() -> None:
    class Hidden(BaseModel):
        a: int

    def take(hidden: Hidden) -> None: ...

    with pytest.raises(ValueError, match=r"tool add: .*'Hidden' is not defined"):
        Worker().tool("add")(take)


def test_without_pydantic() -> None:
    program = """
import sys
sys.modules["pydantic"] = None
from pawl_client import Worker

def typed(a: int) -> int:
    return a

worker = Worker()
worker.tool("raw")(lambda payload: payload)
try:
    worker.tool("add")(typed)
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == (
        "tool add: a typed function needs pydantic 2: pip install 'pawl-client[typed]'; "
        "or take the payload with one parameter `payload`\n"
    )


def test_schemas() -> None:
    worker = Worker()
    worker.tool("raw")(lambda payload: payload)
    worker.tool("given", parameters={"type": "object"})(lambda payload: payload)

    @worker.tool("find")
    def find(
        query: Annotated[str, Field(min_length=1)],
        order: Literal["new", "old"] = "new",
        limit: int | None = None,
    ) -> list[str]:
        return []

    schemas = worker.schemas()
    assert sorted(schemas) == ["find", "given"]
    properties = schemas["find"]["properties"]
    assert schemas["find"]["required"] == ["query"]
    assert schemas["find"]["additionalProperties"] is False
    assert properties["query"] == {"minLength": 1, "title": "Query", "type": "string"}
    assert properties["order"]["enum"] == ["new", "old"]
    assert properties["limit"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]


async def test_says_whether_and_when_it_is_tried_again(shared: Sidecar, here: Client) -> None:
    """Wrong arguments are final even if the pack allows retries, and so is a failure that the
    tool calls final. After another failure, the next attempt waits as long as the pack and the
    tool say, in a worker and in a client that drives the run."""
    retry = {"max_attempts": 4, "initial_sec": 0.05, "jitter": 0}
    payloads: list[dict[str, Any]] = [{"n": "1"}, {"n": 1}]
    here.register_pack(loose("patient", {"tools": {"add": {"retry": retry}}}), filename="x.json")

    def fresh() -> Any:
        made = iter(
            (
                FailStepError("BUSY", wait=0.2),
                KeyError("lost"),
                FailStepError("GONE", non_retryable=True),
            )
        )

        def add(n: int) -> int:
            raise next(made)

        return add

    async def calc(turn: AsyncTurn) -> Reply:
        for payload in payloads[: 0 if turn.terminal else 2]:
            with contextlib.suppress(StepFailedError):
                await turn.step("add", payload)
        return Reply() if turn.terminal else Reply(event="Done")

    worker = Worker(address=shared.address, packs=["patient"])
    worker.tool("add")(fresh())
    worker.prompt("calc")(calc)
    async with serving(worker):
        run = here.start("patient", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    async with shared.async_client() as client:
        driven = await client.run("patient", calc, variables={"n": 1}, tools={"add": fresh()})
    for one in (run, here.attach(driven.run.run_id)):
        told = [
            (record.at, record.body)
            for record in one.records(kinds=["STEP_RESOLVED"])
            if isinstance(record.body, StepResolved) and record.body.error
        ]
        codes = [(body.error.code, body.next) for _, body in told if body.error]
        assert codes == [("INVALID_ARGUMENTS", 0), ("BUSY", 2), ("KeyError", 3), ("GONE", 0)]
        waits = [(body.not_before - at).total_seconds() for at, body in told if body.not_before]
        assert waits == pytest.approx([0.2, 0.1], abs=1e-6)
        # No attempt began before the pause was over.
        for (_, body), (after, _) in itertools.pairwise(told):
            assert body.not_before is None or after >= body.not_before


async def test_an_answer_given_by_hand(here: Client) -> None:
    run = here.open("loose", variables={"n": 1})
    fault = Fault(code="X")
    for answer, final, after in ((1, True, None), (1, False, 1.0), (fault, True, 1.0)):
        with pytest.raises(ValueError, match="only a Fault takes them"):
            run.resolve_step(1, "add", answer, attempt=1, non_retryable=final, retry_after=after)


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float = Field(alias="r")


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Drawing(BaseModel):
    title: str = Field(alias="drawingTitle")
    shapes: list[Annotated[Circle | Square, Field(discriminator="kind")]]


DRAWN: Any = {"drawingTitle": "d", "shapes": [{"kind": "square", "side": 2.0}]}
ROUND: Any = {"drawingTitle": "d", "shapes": [{"kind": "circle", "r": 1.0}]}


def copied(payload: Drawing) -> Drawing:
    return payload


def stretched(payload: Drawing) -> Drawing:
    """Pydantic does not check what is assigned."""
    shape = payload.shapes[0]
    if isinstance(shape, Circle):
        shape.radius = "a secret"  # type: ignore[assignment]
    return payload


def drawn(drawing: dict[str, Any]) -> Drawing:
    return drawing  # type: ignore[return-value]


def test_results_have_the_aliases_of_arguments() -> None:
    for payload in (DRAWN, ROUND):
        assert bind("draw", copied).function(payload) == payload


def bad(shape: dict[str, Any]) -> Any:
    return {"drawingTitle": "d", "shapes": [DRAWN["shapes"][0], shape]}


@pytest.mark.parametrize(
    ("function", "payload", "place", "said"),
    [
        (copied, bad({"kind": "circle", "r": "x"}), "$.shapes[1].r", "of circle: "),
        (copied, bad({"kind": "circle"}), "$.shapes[1].r", "of circle: Field required"),
        (copied, bad({"kind": "oval"}), "$.shapes[1]", "Input tag 'oval' found using 'kind'"),
        (copied, bad({"r": 1}), "$.shapes[1]", "Unable to extract tag"),
        (stretched, ROUND, "$.shapes[0].r", "of circle: Input should be a valid number"),
        (
            drawn,
            {"drawing": bad({"kind": "square", "side": "x"})},
            "$.shapes[1].side",
            "of square: ",
        ),
    ],
)
def test_a_faulty_member_of_a_union_is_named(
    function: Any, payload: Any, place: str, said: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        bind("draw", function).function(payload)
    assert caught.value.field == place
    assert f"at {place}: {said}" in caught.value.message
    assert "secret" not in caught.value.message
