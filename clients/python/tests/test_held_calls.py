"""A caller that drives a run itself makes a call that needs an approval only after the approval:
the tool's own ledger contains exactly what was decided."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from pawl_client import (
    Client,
    FailStepError,
    Run,
    RunStatus,
    Step,
    StepDecided,
    StepRequested,
    current_call,
)
from pawl_client.models import AsyncModelHandler, ModelHandler
from pawl_client.testing import Sidecar
from paying import Ledger, refunds, refunds_soon
from scripted import Says, Scripted
from workers import WAIT, workers_of

HERE = Path(__file__).parent
DENIED = "StepDeniedError DENIED"


def pack(name: str, timeout: int = 3600) -> bytes:
    """The pack whose refunds above 100 wait for a person, for `timeout` seconds at most."""
    document = json.loads((HERE / "held.pack.json").read_text())
    document["id"] = name
    tool = document["workflow"]["engine"]["x_pawl"]["tools"]["refund"]
    tool["approval"] = {"timeout_sec": timeout}
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def held() -> Iterator[Sidecar]:
    with Sidecar(allow_tools=["refund"]) as process:
        with process.client() as client:
            client.register_pack(pack("held"), filename="x.json")
            client.register_pack(pack("held-shortly", 1), filename="x.json")
        yield process


@dataclass
class Scene:
    """A run whose turn pays `amounts`, and a person who decides. `told` has the results that the
    turn receives."""

    sidecar: Sidecar
    ledger: Ledger
    name: str
    amounts: tuple[int, ...]
    pack: str = "held"
    told: list[str] = field(default_factory=list)

    def tools(self) -> dict[str, Callable[[Any], Any]]:
        """The tool, for callers that execute it themselves."""
        return {"refund": self.ledger.pay}

    @contextmanager
    def person(self) -> Iterator[Person]:
        """Opens the run, and yields the person who decides about its calls."""
        with self.sidecar.client(retry_for=60, timeout=60) as client:
            yield Person(client, client.open(self.pack, request_id=self.name), self.ledger)


class Person:
    """A person who decides about the calls of a run."""

    def __init__(self, client: Client, run: Run, ledger: Ledger) -> None:
        self.client, self.run, self._ledger = client, run, ledger

    def waiting(self) -> list[Step]:
        """The calls that wait, once there are some."""
        assert not self.run.wait(until="WAITING", timeout=WAIT).timed_out
        waits = self.client.list_approvals(run_id=self.run.id)
        return sorted((w.call for w in waits if w.call), key=lambda step: step.step)

    def decide(self, decision: str, **words: Any) -> None:
        """Decides about the first call that waits, after a check that it was not paid."""
        call = self.waiting()[0]
        assert call.idempotency_key not in self._ledger.used()
        assert call.approval is not None
        self.run.decide_step(call.step, call.approval.digest, decision, **words)


def run_blocking(scene: Scene) -> RunStatus:
    with scene.sidecar.client() as client:
        handler = refunds(scene.told, *scene.amounts)
        done = client.run(scene.pack, handler, tools=scene.tools(), request_id=scene.name)
    return done.status


def drive_blocking(scene: Scene) -> RunStatus:
    with scene.sidecar.client() as client:
        run = client.open(scene.pack, request_id=scene.name)
        handler = {"*": refunds(scene.told, *scene.amounts)}
        return run.drive(handler, tools={"*": scene.ledger.pay}).status


def run_async(scene: Scene) -> RunStatus:
    async def main() -> RunStatus:
        async with scene.sidecar.async_client() as client:
            handler = refunds_soon(scene.told, *scene.amounts)
            name = scene.name
            done = await client.run(scene.pack, handler, tools=scene.tools(), request_id=name)
            return done.status

    return asyncio.run(main())


def drive_async(scene: Scene) -> RunStatus:
    async def main() -> RunStatus:
        async with scene.sidecar.async_client() as client:
            run = await client.open(scene.pack, request_id=scene.name)
            handler = refunds_soon(scene.told, *scene.amounts)
            return (await run.drive(handler, tools={"*": scene.ledger.pay_soon})).status

    return asyncio.run(main())


def script(scene: Scene) -> Scripted:
    """A model that asks for all payments at once, and leaves when they are answered."""
    calls = [("refund", {"amount": amount}) for amount in scene.amounts]
    return Scripted(
        Says(calls=calls), Says(calls=[("leave_state", {"event": "Done"})]), Says("Bye.")
    )


def heard(scene: Scene, model: Scripted) -> None:
    """Adds the results that a model received to `told`, in the form that handlers use."""
    for message in model.requests[1]["messages"]:
        if message["role"] == "tool":
            text = message["content"]
            scene.told.append(DENIED if "DENIED" in text else str(json.loads(text)))


def endpoint_of(url: str) -> OpenAIChatModel:
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    return OpenAIChatModel("gpt-5-mini", provider=provider)


def chat_blocking(scene: Scene) -> RunStatus:
    with script(scene) as model, scene.sidecar.client() as client:
        handler = ModelHandler(endpoint_of(model.url))
        done = client.run(scene.pack, handler, tools=scene.tools(), request_id=scene.name)
        heard(scene, model)
    return done.status


def chat_async(scene: Scene) -> RunStatus:
    async def main(url: str) -> RunStatus:
        async with scene.sidecar.async_client() as client:
            handler = AsyncModelHandler(endpoint_of(url))
            name = scene.name
            done = await client.run(scene.pack, handler, tools=scene.tools(), request_id=name)
            return done.status

    with script(scene) as model:
        status = asyncio.run(main(model.url))
        heard(scene, model)
    return status


MODES = [run_blocking, drive_blocking, run_async, drive_async, chat_blocking, chat_async]
Mode = Callable[[Scene], RunStatus]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def scene(held: Sidecar, ledger: Ledger, request: pytest.FixtureRequest) -> Scene:
    return Scene(held, ledger, request.node.name[-128:], (250,))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("decision", "words", "paid", "told"),
    [
        ("APPROVE", {}, [250], "{'paid': 250}"),
        ("EDIT", {"payload": {"amount": 110}}, [110], "{'paid': 110}"),
        ("DENY", {"reason": "no"}, [], DENIED),
    ],
)
def test_a_person_decides(
    scene: Scene, mode: Mode, decision: str, words: dict[str, Any], paid: list[int], told: str
) -> None:
    with scene.person() as person, ThreadPoolExecutor() as threads:
        driving = threads.submit(mode, scene)
        person.decide(decision, **words)
        assert driving.result(WAIT) is RunStatus.COMPLETED
    assert scene.ledger.amounts() == paid
    assert scene.told == [told]


@pytest.mark.parametrize("mode", MODES)
def test_nobody_decides_in_time(scene: Scene, mode: Mode) -> None:
    scene.pack = "held-shortly"
    assert mode(scene) is RunStatus.COMPLETED
    assert scene.ledger.amounts() == []
    assert scene.told == [DENIED]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_held_is_not_kept_waiting(scene: Scene, mode: Mode) -> None:
    """Two of four calls wait: a model asks for all at once, a handler for one after another."""
    scene.amounts = (7, 250, 8, 300)
    with scene.person() as person, ThreadPoolExecutor() as threads:
        driving = threads.submit(mode, scene)
        person.decide("DENY")
        if mode in (chat_blocking, chat_async):
            assert [call.payload for call in person.waiting()] == [{"amount": 300}]
        person.decide("APPROVE")
        assert driving.result(WAIT) is RunStatus.COMPLETED
    assert sorted(scene.ledger.amounts()) == [7, 8, 300]
    assert scene.told == ["{'paid': 7}", DENIED, "{'paid': 8}", "{'paid': 300}"]


@pytest.mark.parametrize("mode", MODES[:4])
def test_a_call_that_waits_leaves_the_keys_of_those_after_it(scene: Scene, mode: Mode) -> None:
    """Otherwise the next execution would use other keys for them, and make them again."""
    scene.amounts = (250, 7, 300, 8)
    with scene.person() as person, ThreadPoolExecutor() as threads:
        driving = threads.submit(mode, scene)
        person.decide("APPROVE")
        person.decide("EDIT", payload={"amount": 110})
        assert driving.result(WAIT) is RunStatus.COMPLETED
        bodies = [record.body for record in person.run.records(kinds=["STEP_REQUESTED"])]
        keys = [body.key for body in bodies if isinstance(body, StepRequested)]
    assert keys == ["1", "2", "3", "4"]
    assert scene.ledger.amounts() == [250, 7, 110, 8]


def past(moment: datetime) -> None:
    """Waits until a moment has passed."""
    while (left := (moment - datetime.now(timezone.utc)).total_seconds()) >= 0:
        threading.Event().wait(left + 0.001)


class Slow(Ledger):
    """A tool that fails after its approval has expired, and pays in the next attempt."""

    over: datetime

    def pay(self, payload: Any) -> dict[str, Any]:
        if current_call().attempt == 1:
            past(self.over)
            raise FailStepError("LATE", "too late")
        return super().pay(payload)


def verdicts(run: Run) -> list[str]:
    """What was decided, in order."""
    bodies = [record.body for record in run.records(kinds=["STEP_DECIDED"])]
    return [str(body.verdict) for body in bodies if isinstance(body, StepDecided)]


@pytest.mark.parametrize("mode", MODES)
def test_an_approval_that_is_over_is_asked_for_again(scene: Scene, mode: Mode) -> None:
    scene.ledger = ledger = Slow(scene.ledger.path)
    with scene.person() as person, ThreadPoolExecutor() as threads:
        driving = threads.submit(mode, scene)
        person.waiting()
        ledger.over = datetime.now(timezone.utc) + timedelta(seconds=1)
        person.decide("APPROVE", expires=ledger.over)
        past(ledger.over)
        person.decide("EDIT", payload={"amount": 120})
        assert driving.result(WAIT) is RunStatus.COMPLETED
        assert verdicts(person.run) == ["APPROVED", "EXPIRED", "EDITED"]
    assert [(line["amount"], line["attempt"]) for line in ledger.lines()] == [(120, 2)]
    assert scene.told == ["{'paid': 120}"]


@contextmanager
def program(scene: Scene) -> Iterator[subprocess.Popen[bytes]]:
    """The program that pays, in a process of its own."""
    path = str(scene.ledger.path)
    command = [sys.executable, str(HERE / "paying.py"), scene.sidecar.address, scene.name, path]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def serves(sidecar: Sidecar) -> None:
    """Waits until a program drives the run, whose turn continues after the decision."""
    end = time.monotonic() + WAIT
    while [(each.served_runs, each.held_turns) for each in workers_of(sidecar)] != [(1, 0)]:
        assert time.monotonic() < end, "no program drives the run"
        time.sleep(0.02)  # The sidecar does not announce its workers.


@pytest.mark.parametrize("killed", ["sidecar", "program", "both"])
@pytest.mark.parametrize("decision", ["APPROVE", "DENY"])
def test_killed_while_a_call_waits(scene: Scene, killed: str, decision: str) -> None:
    with Sidecar(packs=[HERE / "held.pack.json"], allow_tools=["refund"]) as own:
        scene.sidecar = own
        with scene.person() as person, program(scene) as first:
            person.waiting()
            if killed != "program":
                own.restart()
            if killed == "sidecar":
                person.decide(decision)
                assert first.wait(WAIT) == 0
            else:
                first.kill()
                with program(scene) as again:
                    serves(own)
                    person.decide(decision)
                    assert again.wait(WAIT) == 0
            assert person.run.info().status is RunStatus.COMPLETED
    assert scene.ledger.amounts() == ([250] if decision == "APPROVE" else [])


def test_decided_while_no_program_runs(scene: Scene) -> None:
    """The first approval expires before a program starts again. The second does not."""
    with scene.person() as person:
        with program(scene):
            person.waiting()
        soon = datetime.now(timezone.utc) + timedelta(milliseconds=200)
        person.decide("APPROVE", expires=soon)
        past(soon)
        with program(scene):
            person.waiting()
        person.decide("APPROVE", expires=soon + timedelta(hours=1))
        with program(scene) as last:
            assert last.wait(WAIT) == 0
        assert verdicts(person.run) == ["APPROVED", "EXPIRED", "APPROVED"]
    assert scene.ledger.amounts() == [250]
