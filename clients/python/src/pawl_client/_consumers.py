"""Consumers: named readers of all runs whose cursor the sidecar keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pawl_client._convert import instant
from pawl_client._flow import Operation
from pawl_client._records import Record
from pawl_client._streams import Tail
from pawl_client.v1 import delivery_pb2, run_pb2

_DELIVERY = "/pawl.v1.DeliveryService/"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A named reader of all runs. `cursor` is the last acknowledged position."""

    name: str
    owner: str
    cursor: str
    created_at: datetime
    connected: bool


@dataclass(slots=True, kw_only=True)
class ConsumerTail(Tail):
    """A reader of records that begins at the consumer's acknowledged position."""

    consumer: str

    def request(self) -> run_pb2.StreamTransitionsRequest:
        """See `Reader.request`. After a lost connection it continues from the last record read."""
        request = Tail.request(self)
        request.consumer = self.consumer
        return request


@dataclass(frozen=True, slots=True)
class Consumers:
    """Calls about consumers in one namespace."""

    namespace: str

    def ack(self, consumer: str, to: Record | str) -> Operation[None]:
        request = delivery_pb2.AckConsumerRequest(
            namespace=self.namespace,
            consumer=consumer,
            cursor=to if isinstance(to, str) else to.cursor,
        )
        return Operation(
            _DELIVERY + "AckConsumer", request, delivery_pb2.AckConsumerResponse, _nothing
        )

    def delete(self, consumer: str) -> Operation[None]:
        request = delivery_pb2.DeleteConsumerRequest(namespace=self.namespace, consumer=consumer)
        return Operation(
            _DELIVERY + "DeleteConsumer", request, delivery_pb2.DeleteConsumerResponse, _nothing
        )

    def list(self) -> Operation[tuple[Consumer, ...]]:
        request = delivery_pb2.ListConsumersRequest(namespace=self.namespace)

        def read(answer: Any) -> tuple[Consumer, ...]:
            return tuple(_consumer(item) for item in answer.consumers)

        return Operation(
            _DELIVERY + "ListConsumers", request, delivery_pb2.ListConsumersResponse, read
        )


def _nothing(_: Any) -> None:
    return None


def _consumer(item: delivery_pb2.Consumer) -> Consumer:
    return Consumer(
        name=item.consumer,
        owner=item.owner,
        cursor=item.cursor,
        created_at=instant(item.created_at),
        connected=item.connected,
    )
