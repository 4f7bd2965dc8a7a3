import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pawl_client.v1 import record_pb2 as _record_pb2
from pawl_client.v1 import run_pb2 as _run_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliveryKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_KIND_UNSPECIFIED: _ClassVar[DeliveryKind]
    DELIVERY_KIND_PUSH: _ClassVar[DeliveryKind]
    DELIVERY_KIND_WEBHOOK: _ClassVar[DeliveryKind]

class WebhookFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WEBHOOK_FORMAT_UNSPECIFIED: _ClassVar[WebhookFormat]
    WEBHOOK_FORMAT_SLACK: _ClassVar[WebhookFormat]
    WEBHOOK_FORMAT_TEAMS: _ClassVar[WebhookFormat]
    WEBHOOK_FORMAT_TEXT: _ClassVar[WebhookFormat]
DELIVERY_KIND_UNSPECIFIED: DeliveryKind
DELIVERY_KIND_PUSH: DeliveryKind
DELIVERY_KIND_WEBHOOK: DeliveryKind
WEBHOOK_FORMAT_UNSPECIFIED: WebhookFormat
WEBHOOK_FORMAT_SLACK: WebhookFormat
WEBHOOK_FORMAT_TEAMS: WebhookFormat
WEBHOOK_FORMAT_TEXT: WebhookFormat

class Consumer(_message.Message):
    __slots__ = ("consumer", "owner", "cursor", "created_at", "connected")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    owner: str
    cursor: str
    created_at: _timestamp_pb2.Timestamp
    connected: bool
    def __init__(self, consumer: _Optional[str] = ..., owner: _Optional[str] = ..., cursor: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., connected: bool = ...) -> None: ...

class ListConsumersRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListConsumersResponse(_message.Message):
    __slots__ = ("consumers",)
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    consumers: _containers.RepeatedCompositeFieldContainer[Consumer]
    def __init__(self, consumers: _Optional[_Iterable[_Union[Consumer, _Mapping]]] = ...) -> None: ...

class AckConsumerRequest(_message.Message):
    __slots__ = ("namespace", "consumer", "cursor")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    consumer: str
    cursor: str
    def __init__(self, namespace: _Optional[str] = ..., consumer: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class AckConsumerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteConsumerRequest(_message.Message):
    __slots__ = ("namespace", "consumer")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    consumer: str
    def __init__(self, namespace: _Optional[str] = ..., consumer: _Optional[str] = ...) -> None: ...

class DeleteConsumerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Webhook(_message.Message):
    __slots__ = ("webhook_id", "owner", "url", "filter", "kinds", "cursor", "attempts", "next_at", "last_error", "dead_letters", "created_at", "link_for", "format")
    WEBHOOK_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LINK_FOR_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    webhook_id: str
    owner: str
    url: str
    filter: _run_pb2.RunFilter
    kinds: _containers.RepeatedScalarFieldContainer[_record_pb2.RecordKind]
    cursor: str
    attempts: int
    next_at: _timestamp_pb2.Timestamp
    last_error: str
    dead_letters: int
    created_at: _timestamp_pb2.Timestamp
    link_for: str
    format: WebhookFormat
    def __init__(self, webhook_id: _Optional[str] = ..., owner: _Optional[str] = ..., url: _Optional[str] = ..., filter: _Optional[_Union[_run_pb2.RunFilter, _Mapping]] = ..., kinds: _Optional[_Iterable[_Union[_record_pb2.RecordKind, str]]] = ..., cursor: _Optional[str] = ..., attempts: _Optional[int] = ..., next_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., dead_letters: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., link_for: _Optional[str] = ..., format: _Optional[_Union[WebhookFormat, str]] = ...) -> None: ...

class PutWebhookRequest(_message.Message):
    __slots__ = ("namespace", "webhook_id", "url", "secret", "filter", "kinds", "from_beginning", "link_for", "format")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_ID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    FROM_BEGINNING_FIELD_NUMBER: _ClassVar[int]
    LINK_FOR_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    webhook_id: str
    url: str
    secret: str
    filter: _run_pb2.RunFilter
    kinds: _containers.RepeatedScalarFieldContainer[_record_pb2.RecordKind]
    from_beginning: bool
    link_for: str
    format: WebhookFormat
    def __init__(self, namespace: _Optional[str] = ..., webhook_id: _Optional[str] = ..., url: _Optional[str] = ..., secret: _Optional[str] = ..., filter: _Optional[_Union[_run_pb2.RunFilter, _Mapping]] = ..., kinds: _Optional[_Iterable[_Union[_record_pb2.RecordKind, str]]] = ..., from_beginning: bool = ..., link_for: _Optional[str] = ..., format: _Optional[_Union[WebhookFormat, str]] = ...) -> None: ...

class PutWebhookResponse(_message.Message):
    __slots__ = ("webhook", "created")
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    webhook: Webhook
    created: bool
    def __init__(self, webhook: _Optional[_Union[Webhook, _Mapping]] = ..., created: bool = ...) -> None: ...

class GetWebhookRequest(_message.Message):
    __slots__ = ("namespace", "webhook_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    webhook_id: str
    def __init__(self, namespace: _Optional[str] = ..., webhook_id: _Optional[str] = ...) -> None: ...

class GetWebhookResponse(_message.Message):
    __slots__ = ("webhook",)
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    webhook: Webhook
    def __init__(self, webhook: _Optional[_Union[Webhook, _Mapping]] = ...) -> None: ...

class ListWebhooksRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListWebhooksResponse(_message.Message):
    __slots__ = ("webhooks",)
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    webhooks: _containers.RepeatedCompositeFieldContainer[Webhook]
    def __init__(self, webhooks: _Optional[_Iterable[_Union[Webhook, _Mapping]]] = ...) -> None: ...

class DeleteWebhookRequest(_message.Message):
    __slots__ = ("namespace", "webhook_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    webhook_id: str
    def __init__(self, namespace: _Optional[str] = ..., webhook_id: _Optional[str] = ...) -> None: ...

class DeleteWebhookResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeliveryRef(_message.Message):
    __slots__ = ("kind", "run_id", "id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    kind: DeliveryKind
    run_id: str
    id: str
    def __init__(self, kind: _Optional[_Union[DeliveryKind, str]] = ..., run_id: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("delivery_ref", "owner", "url", "attempts", "next_at", "last_error", "dead_letters", "done")
    DELIVERY_REF_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    delivery_ref: DeliveryRef
    owner: str
    url: str
    attempts: int
    next_at: _timestamp_pb2.Timestamp
    last_error: str
    dead_letters: int
    done: bool
    def __init__(self, delivery_ref: _Optional[_Union[DeliveryRef, _Mapping]] = ..., owner: _Optional[str] = ..., url: _Optional[str] = ..., attempts: _Optional[int] = ..., next_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., dead_letters: _Optional[int] = ..., done: bool = ...) -> None: ...

class ListDeliveriesRequest(_message.Message):
    __slots__ = ("namespace", "kind", "troubled", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TROUBLED_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    kind: DeliveryKind
    troubled: bool
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., kind: _Optional[_Union[DeliveryKind, str]] = ..., troubled: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeliveriesResponse(_message.Message):
    __slots__ = ("deliveries", "next_page_token")
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    next_page_token: str
    def __init__(self, deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("n", "at", "event_id", "media_type", "error", "size", "body", "withheld")
    N_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    n: int
    at: _timestamp_pb2.Timestamp
    event_id: str
    media_type: str
    error: str
    size: int
    body: bytes
    withheld: bool
    def __init__(self, n: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., event_id: _Optional[str] = ..., media_type: _Optional[str] = ..., error: _Optional[str] = ..., size: _Optional[int] = ..., body: _Optional[bytes] = ..., withheld: bool = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("namespace", "delivery_ref", "include_body", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_REF_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BODY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    delivery_ref: DeliveryRef
    include_body: bool
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., delivery_ref: _Optional[_Union[DeliveryRef, _Mapping]] = ..., include_body: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("dead_letters", "next_page_token")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResendDeadLetterRequest(_message.Message):
    __slots__ = ("namespace", "delivery_ref", "n")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_REF_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    delivery_ref: DeliveryRef
    n: int
    def __init__(self, namespace: _Optional[str] = ..., delivery_ref: _Optional[_Union[DeliveryRef, _Mapping]] = ..., n: _Optional[int] = ...) -> None: ...

class ResendDeadLetterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DiscardDeadLetterRequest(_message.Message):
    __slots__ = ("namespace", "delivery_ref", "n")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_REF_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    delivery_ref: DeliveryRef
    n: int
    def __init__(self, namespace: _Optional[str] = ..., delivery_ref: _Optional[_Union[DeliveryRef, _Mapping]] = ..., n: _Optional[int] = ...) -> None: ...

class DiscardDeadLetterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
