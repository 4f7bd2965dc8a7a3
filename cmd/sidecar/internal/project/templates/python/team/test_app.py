"""Runs the agents on a real sidecar, with the recorded model."""

from threading import Thread

import offline
from pawl_client import RunStatus, Worker
from pawl_client.testing import Sidecar


def test_the_lead_asks_both_agents() -> None:
    with (
        Sidecar(packs=["my-agent.pack.yaml"], allow_tools=["*"]) as sidecar,
        sidecar.client() as client,
    ):
        worker = Worker(address=sidecar.address, turns=4)
        worker.prompt("*")(offline.model)
        worker.agent("*")(offline.model)
        thread = Thread(target=worker.run)
        thread.start()
        try:
            run = client.start("my-agent", input="Are ratchets good?")
            assert run.wait(timeout=60).run.status is RunStatus.COMPLETED
            text = run.result().output[0].text
            assert "turns one way" in text
            assert "teeth" in text
        finally:
            worker.stop()
            thread.join()
