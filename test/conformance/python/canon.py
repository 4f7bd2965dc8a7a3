"""Values of the client as the scenarios have them."""

import base64
import dataclasses
import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pawl_client


def canon(value: Any) -> Any:
    """A value as JSON: fields by name, words of enums, artifacts by their value."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, pawl_client.Message):
        return {**_fields(value), "text": value.text}
    if isinstance(value, pawl_client.Part):
        return _part(value)
    if isinstance(value, pawl_client.Record):
        return _record(value)
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: canon(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canon(item) for item in value]
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {
        field.metadata.get("proto", field.name): canon(getattr(value, field.name))
        for field in dataclasses.fields(value)
    }


def _part(part: pawl_client.Part) -> dict[str, Any]:
    """Its content alone."""
    if part.json is not None:
        return {"json": part.json.value}
    contents = {"text": part.text, "data": part.data, "uri": part.uri}
    return {name: canon(item) for name, item in contents.items() if item is not None}


def _record(record: pawl_client.Record) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "prev_seq": record.prev_seq,
        "cause": record.cause.value,
        "principal": record.principal,
        "kind": record.kind.value,
        "body": canon(record.body),
    }


def fault(error: BaseException) -> dict[str, Any]:
    """An error; one that the client made without a reason has the name of its class."""
    if isinstance(error, pawl_client.PawlError):
        return {
            "code": error.code,
            "reason": error.reason or ("" if error.code else type(error).__name__),
            "message": error.message,
            "metadata": error.metadata,
        }
    return {"code": "", "reason": type(error).__name__, "message": str(error), "metadata": {}}
