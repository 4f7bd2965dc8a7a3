"""Runs the agent on a real sidecar, with the recorded model."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import app
import offline
import pytest
from pawl_client import Client
from pawl_client.testing import Sidecar


@pytest.fixture
def client() -> Iterator[Client]:
    with Sidecar(allow_tools=["*"]) as sidecar, sidecar.client() as connected:
        yield connected


def test_an_answer(client: Client) -> None:
    assert "shipped on Monday" in app.ask(client, "Where is order 17?", "question-1")


def test_the_same_id_asks_the_model_once(client: Client) -> None:
    first = app.ask(client, "Where is order 18?", "question-2")
    asked = offline.asked
    assert app.ask(client, "Where is order 18?", "question-2") == first
    assert offline.asked == asked


def test_a_person_approves_a_large_refund(client: Client) -> None:
    with ThreadPoolExecutor() as executor:
        answer = executor.submit(app.ask, client, "Refund order 17: 150", "refund-1")
        approve_first(client)
        assert "150.00 for order 17" in answer.result()


def approve_first(client: Client) -> None:
    """Plays the person: waits until a call is held, and approves it."""
    for record in client.transitions(kinds=["STEP_REQUESTED"]):
        for held in client.list_approvals(run_id=record.run_id):
            assert held.call is not None and held.call.approval is not None
            run = client.attach(record.run_id)
            run.decide_step(held.call.step, held.call.approval.digest, "APPROVE")
            return
