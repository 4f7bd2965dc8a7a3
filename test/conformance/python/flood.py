"""Heartbeats as fast as they go, which no worker of the client sends: by the stubs."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from pawl_client.v1 import worker_pb2, worker_pb2_grpc

_RESOURCE_EXHAUSTED = 8


def flood(address: str, args: dict[str, Any]) -> dict[str, int]:
    """Sends them, and counts the receipts that took or refused them."""
    beats, over = args["beats"], threading.Event()
    counts = {"ok": 0, "refused": 0, "other": 0}
    with grpc.insecure_channel(address) as channel:
        stub = worker_pb2_grpc.WorkerServiceStub(channel)  # type: ignore[no-untyped-call]
        responses = stub.Work(_requests(args.get("packs", []), beats, over), timeout=50)
        for response in responses:
            if response.HasField("receipt"):
                counts[_word(response.receipt)] += 1
                if sum(counts.values()) == beats:
                    break
        over.set()
        responses.cancel()
    return counts


def _requests(
    packs: list[str], beats: int, over: threading.Event
) -> Iterator[worker_pb2.WorkRequest]:
    yield worker_pb2.WorkRequest(
        register=worker_pb2.WorkerRegistration(
            worker_id="flood", packs=packs, prompts=["*"], turn_capacity=1
        )
    )
    for number in range(1, beats + 1):
        yield worker_pb2.WorkRequest(id=number, heartbeat=worker_pb2.WorkerHeartbeat())
    over.wait(50)  # The stream stays open until all receipts have come.


def _word(receipt: worker_pb2.WorkReceipt) -> str:
    if not receipt.HasField("error"):
        return "ok"
    return "refused" if receipt.error.code == _RESOURCE_EXHAUSTED else "other"
