"""What runs may spend and really spent, and what operators allow, from a real sidecar."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import pawl_client
from conftest import STEPS
from pawl_client import (
    Account,
    BudgetRaised,
    Client,
    FailStepError,
    Reply,
    Run,
    RunStatus,
    StepResolved,
    Turn,
    Usage,
    Worker,
    current_call,
)
from pawl_client.testing import Sidecar
from workers import ended, serving

COST = 20_000
"""What the pack says that a call costs at most, in millionths of a US dollar."""
BUDGETS = """
accounts:
  - {label: tenant, window: day, max_cost_usd: 0.03}
  - {window: ever, max_tokens: 1000}
"""
LIMITS = """
limits:
  - {id: adds, key: 'tool == "add" ? tool : ""', per_minute: 600, concurrent: 9}
"""
SCHEDULES = """
nightly: {cron: "30 2 * * *", time_zone: Europe/Rome, pack: priced, catch_up: last, jitter_sec: 9}
"""


def priced() -> bytes:
    pack = json.loads(STEPS.read_text())
    pack["id"] = "priced"
    tool = {"cost": COST / 1e6, "attempts": 2, "on_error": "return"}
    pack["workflow"]["engine"] = {
        "x_pawl": {"max_cost_usd": 0.5, "max_tokens": 1000, "tools": {"add": tool}}
    }
    return json.dumps(pack).encode()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    where: Path = tmp_path_factory.mktemp("operator")
    flags = []
    for name, text in (("budgets", BUDGETS), ("limits", LIMITS), ("schedules", SCHEDULES)):
        (where / name).write_text(text)
        flags.append(f"--{name}={where / name}")
    with Sidecar(allow_tools=["*"], flags=flags) as process:
        with process.client() as client:
            client.register_pack(priced())
        yield process


@pytest.fixture
def here(shared: Sidecar) -> Iterator[Client]:
    with shared.client() as client:
        yield client


def asks(turn: Turn) -> Reply:
    """A turn that calls the tool once and ignores a failure of the call."""
    if turn.terminal:
        return Reply()
    with contextlib.suppress(pawl_client.StepFailedError):
        turn.step("add", {"a": 1, "b": 2})
    return Reply(event="Done")


def consumed(run: Run) -> list[int]:
    """What each attempt of a tool settled."""
    records = run.records(kinds=["STEP_RESOLVED"])
    bodies = [r.body for r in records if isinstance(r.body, StepResolved)]
    return [0 if b.usage is None else b.usage.cost_micro_usd for b in bodies]


def tells(payload: dict[str, Any]) -> float:
    current_call().spent(Usage(cost_micro_usd=1_000))
    current_call().spent(Usage(cost_micro_usd=7_000, input_tokens=3))
    assert current_call().usage == Usage(cost_micro_usd=7_000, input_tokens=3)
    return float(payload["a"])


async def tells_later(payload: dict[str, Any]) -> float:
    return tells(payload)


def fails(payload: dict[str, Any]) -> float:
    tells(payload)
    raise FailStepError("SOLD_OUT", "there are none", non_retryable=current_call().attempt == 2)


def silent(payload: dict[str, Any]) -> float:
    assert current_call().usage is None
    return float(payload["a"])


TOOLS = [(tells, [7_000]), (tells_later, [7_000]), (fails, [7_000, 7_000]), (silent, [COST])]


@pytest.mark.parametrize(("tool", "settled"), TOOLS)
async def test_what_a_worker_says_that_a_call_cost_is_settled(
    shared: Sidecar, here: Client, tool: Any, settled: list[int]
) -> None:
    worker = Worker(address=shared.address, packs=["priced"])
    worker.prompt("calc")(asks)
    worker.tool("add")(tool)
    async with serving(worker):
        run = here.start("priced", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    assert consumed(run) == settled
    info = run.info()
    assert info.cost_micro_usd == sum(settled)
    assert info.reserved_cost_micro_usd == 0
    assert info.tokens == (0 if tool is silent else 3 * len(settled))


@pytest.mark.parametrize(("tool", "settled"), [TOOLS[0], TOOLS[2], TOOLS[3]])
def test_so_is_that_of_a_run_that_is_driven_here(
    here: Client, tool: Any, settled: list[int]
) -> None:
    result = here.run("priced", asks, tools={"add": tool}, variables={"n": 1})
    assert result.errors == ()
    assert consumed(here.attach(result.run.run_id)) == settled
    assert result.run.cost_micro_usd == sum(settled)


async def test_and_of_one_that_coroutines_drive(shared: Sidecar) -> None:
    async def handler(turn: pawl_client.AsyncTurn) -> Reply:
        if not turn.terminal:
            await turn.step("add", {"a": 1, "b": 2})
        return Reply(event="" if turn.terminal else "Done")

    async with shared.async_client() as client:
        result = await client.run("priced", handler, tools={"add": tells_later}, variables={"n": 1})
    assert result.run.cost_micro_usd == 7_000


def test_a_step_that_is_answered_by_hand(here: Client) -> None:
    run = here.open("priced", variables={"n": 1})
    turn = run.turn().turn
    run.request_steps(turn, [pawl_client.StepCall("add", {"a": 1, "b": 2})])
    assert run.info().reserved_cost_micro_usd == COST
    run.resolve_step(1, "add", 3, attempt=1, token=turn.token, usage=Usage(cost_micro_usd=11))
    assert consumed(run) == [11]


@pytest.mark.parametrize(
    ("usage", "says"),
    [
        (Usage(cost_micro_usd=-1), "cost_micro_usd: must be a whole number from 0"),
        (Usage(cost_micro_usd=0.5), "cost_micro_usd"),  # type: ignore[arg-type]
        (Usage(tool_calls=1_000_001), "tool_calls"),
        (Usage(input_tokens=1, cached_tokens=2), "cached_tokens: must be from 0 to input_tokens"),
        (Usage(model="m" * 257), "model: must have at most 256 bytes, not 257"),
        (7, "usage: must be a pawl_client.Usage, not int"),
    ],
)
def test_what_nobody_can_have_consumed_is_told_to_who_says_it(
    here: Client, usage: Any, says: str
) -> None:
    def tool(payload: dict[str, Any]) -> float:
        with pytest.raises((ValueError, TypeError), match=says):
            current_call().spent(usage)
        return float(payload["a"])

    result = here.run("priced", asks, tools={"add": tool}, variables={"n": 1})
    assert result.run.cost_micro_usd == COST


def account(accounts: Iterator[Account], name: str) -> Account:
    return next(one for one in accounts if one.name == name)


async def test_accounts_over_runs(shared: Sidecar, here: Client) -> None:
    labels = {"tenant": "acme"}
    run = here.open("priced", variables={"n": 1}, labels=labels)
    turn = run.turn().turn
    [first] = run.request_steps(turn, [pawl_client.StepCall("add", {"a": 1, "b": 2})]).outcomes
    assert first.step is not None
    day = account(here.list_budgets(), "tenant=acme/day")
    assert (day.reserved_cost_micro_usd, day.left_cost_micro_usd) == (COST, 10_000)
    shares = {share.name: share.reserved_cost_micro_usd for share in run.info().accounts}
    assert shares == {"/ever": COST, "tenant=acme/day": COST}

    run.resolve_step(1, "add", 3, attempt=1, token=turn.token, usage=Usage(cost_micro_usd=12_000))
    [refused] = run.request_steps(
        turn, [pawl_client.StepCall("add", {"a": 1, "b": 2}, key="again")]
    ).outcomes
    assert refused.denial is not None
    assert refused.denial.code == "ACCOUNT_EXHAUSTED"
    [day] = here.list_budgets(name_prefix="tenant=acme/", page_size=1)
    assert (day.settled_cost_micro_usd, day.reserved_cost_micro_usd) == (12_000, 0)
    assert (day.max_cost_micro_usd, day.left_cost_micro_usd, day.left_tokens) == (
        30_000,
        18_000,
        None,
    )
    assert day.refused == 1
    now = datetime.now(timezone.utc)
    assert day.window_start is not None
    assert day.window_end is not None
    assert day.window_start <= now < day.window_end
    assert day.window_end - day.window_start == timedelta(days=1)

    report = here.usage(["day", "state", "tool"], pack="priced")
    assert report.complete
    assert report.since is None
    assert report.total.cost_micro_usd == sum(group.cost_micro_usd for group in report.groups)
    today = now.date().isoformat()
    assert any(group.values[0] <= today and group.values[2] == "add" for group in report.groups)
    assert here.usage(["tool"], tool="").groups == ()
    assert here.usage([], from_day="2001-01-01", to_day=date(2001, 1, 2)).total.reports == 0
    with pytest.raises(pawl_client.PawlError) as caught:
        here.usage(["colour"])
    assert caught.value.reason == "BAD_DIMENSION"

    ever = account(here.list_budgets(page_size=1), "/ever")
    assert (ever.window_end, ever.max_tokens) == (None, 1000)
    async with shared.async_client() as client:
        assert [a.name async for a in client.list_budgets(name_prefix="tenant=acme")] == [day.name]


async def test_limits(shared: Sidecar, here: Client) -> None:
    [limit] = here.list_limits()
    assert (limit.id, limit.per_minute, limit.concurrent) == ("adds", 600, 9)
    async with shared.async_client() as client:
        assert [one.id for one in await client.list_limits()] == ["adds"]


async def test_schedules(shared: Sidecar, here: Client) -> None:
    [nightly] = here.list_schedules()
    assert (nightly.schedule_id, nightly.pack, nightly.catch_up) == ("nightly", "priced", "last")
    assert (nightly.jitter_sec, nightly.fired, nightly.last_at) == (9, 0, None)
    assert (len(nightly.next), nightly.fault) == (5, None)
    assert nightly.next[0] > datetime.now(timezone.utc)
    async with shared.async_client() as client:
        assert [one.schedule_id for one in await client.list_schedules()] == ["nightly"]


async def test_a_raise_tells_what_is_left(shared: Sidecar, here: Client) -> None:
    run = here.open("priced", variables={"n": 1})
    raised = run.raise_budget("more of it", max_cost_micro_usd=800_000, request_id="r")
    body = raised.record.body
    assert isinstance(body, BudgetRaised)
    assert (body.reason, body.max_cost_micro_usd) == ("more of it", 800_000)
    assert (raised.remaining.cost_micro_usd, raised.remaining.tokens) == (800_000, 1000)
    assert (raised.status, raised.duplicate) == (RunStatus.RUNNING, False)
    assert run.raise_budget("more of it", max_cost_micro_usd=800_000, request_id="r").duplicate
    with pytest.raises(pawl_client.StateError) as lower:
        run.raise_budget("less", max_cost_micro_usd=1)
    assert lower.value.reason == "BUDGET_NOT_RAISED"
    async with shared.async_client() as client:
        again = await client.attach(run.id).raise_budget("and more", max_tokens=2000)
        assert again.remaining.tokens == 2000
