"""Consumers go on where they acknowledged, over SIGKILLs of the sidecar."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Callable
from itertools import islice

import pytest

from conftest import ROOT, STEPS
from pawl_client import Client, ConflictError, NotFoundError, PositionError, Record, Run
from pawl_client.testing import Sidecar


def write(run: Run, transitions: int) -> None:
    token = run.turn().turn.token
    for _ in range(transitions):
        moved = run.emit("Again", turn_token=token)
        assert moved.turn is not None
        token = moved.turn.token


def place(record: Record) -> tuple[str, int]:
    return record.run_id, record.seq


def test_a_consumer_goes_on_over_kills() -> None:
    with Sidecar(packs=[STEPS]) as own, own.client() as writer:
        run = writer.open("steps", variables={"n": 1})
        write(run, 29)
        acknowledged: list[tuple[str, int]] = []
        for _ in range(6):
            with own.client() as client:
                for record in islice(client.consume("billing"), 5):
                    client.ack("billing", record)
                    acknowledged.append(place(record))
            own.restart()
            run.turn()
        with own.client() as client:
            whole = [place(record) for record in client.transitions(follow=False)]
            assert list(client.consume("billing", follow=False)) == []
            assert acknowledged == whole
            assert len(whole) == 30
            (consumer,) = client.list_consumers()
            assert (consumer.name, consumer.owner) == ("billing", "anonymous")


def test_what_was_not_acknowledged_comes_again() -> None:
    with Sidecar(packs=[STEPS]) as own, own.client() as client:
        run = client.open("steps", variables={"n": 1})
        write(run, 9)
        records = client.consume("again")
        first = [next(records) for _ in range(4)]
        client.ack("again", first[1])
        own.restart()
        # This process goes on where it had read, the next one where it acknowledged.
        assert next(records).seq > first[3].seq
        with own.client() as other:
            again = list(islice(other.consume("again"), 3))
            assert [place(record) for record in again[:2]] == [place(r) for r in first[2:]]


def test_what_is_refused(client: Client) -> None:
    run = client.open("steps", variables={"n": 1})
    write(run, 3)
    records = client.consume("refused")
    first, second, third = next(records), next(records), next(records)
    client.ack("refused", second)
    client.ack("refused", second.cursor)
    with pytest.raises(PositionError) as behind:
        client.ack("refused", first)
    assert behind.value.reason == "CURSOR_BEHIND"
    newer = client.consume("refused")
    assert next(newer).cursor == third.cursor
    with pytest.raises(ConflictError) as replaced:
        list(records)
    assert replaced.value.reason == "CONSUMER_REPLACED"
    client.delete_consumer("refused")
    with pytest.raises(NotFoundError):
        list(newer)
    with pytest.raises(NotFoundError):
        client.ack("refused", second)


def test_asynchronously(sidecar: Sidecar) -> None:
    async def main() -> None:
        async with sidecar.async_client() as client:
            await client.open("steps", variables={"n": 1})
            async for record in client.consume("async", follow=False):
                await client.ack("async", record)
            assert [r async for r in client.consume("async", follow=False)] == []
            assert "async" in [consumer.name for consumer in await client.list_consumers()]
            await client.delete_consumer("async")

    asyncio.run(main())


def snippet() -> Callable[..., None]:
    """`verify` of docs/guides/webhooks.md."""
    page = (ROOT / "docs" / "guides" / "webhooks.md").read_text()
    (source,) = re.findall(r"```python\n(import base64.*?)```", page, re.DOTALL)
    names: dict[str, Callable[..., None]] = {}
    exec(source, names)
    return names["verify"]


def test_the_documented_verification() -> None:
    # The example of Standard Webhooks, whose time is of 2021.
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    verify, ever = snippet(), time.time()
    verify(secret, headers, body, ever)
    for faulty in (
        (secret, headers, body),
        (secret, headers, body + b" ", ever),
        (secret, headers | {"webhook-id": "msg_2"}, body, ever),
        ("whsec_" + base64.b64encode(b"another key").decode(), headers, body, ever),
    ):
        with pytest.raises(ValueError, match=r"old|wrong signature"):
            verify(*faulty)
