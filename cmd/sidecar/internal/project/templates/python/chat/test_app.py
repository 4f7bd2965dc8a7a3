"""Talks with the agent on a real sidecar, with the recorded model."""

from threading import Thread

import offline
from pawl_client import RunStatus, Worker
from pawl_client.testing import Sidecar


def test_a_conversation() -> None:
    with Sidecar(packs=["my-agent.pack.yaml"]) as sidecar, sidecar.client() as client:
        worker = Worker(address=sidecar.address)
        worker.prompt("*")(offline.model)
        thread = Thread(target=worker.run)
        thread.start()
        try:
            run = client.start("my-agent", input="Hello")
            assert run.wait(timeout=30).run.status is RunStatus.WAITING
            run.send_input("Bye")
            assert run.wait(timeout=30).run.status is RunStatus.COMPLETED
            assert run.result().output[0].text == "Goodbye!"
        finally:
            worker.stop()
            thread.join()
