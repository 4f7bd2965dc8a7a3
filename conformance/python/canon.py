"""Values of the client as the scenarios have them."""

import base64
import dataclasses
import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pawl


def canon(value: Any) -> Any:
    """A value as JSON: fields by name, words of enums, artifacts by their value."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, pawl.Message):
        return {"role": value.role, "text": value.text}
    if isinstance(value, pawl.Record):
        return _record(value)
    if dataclasses.is_dataclass(value):
        return {
            field.metadata.get("proto", field.name): canon(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {key: canon(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canon(item) for item in value]
    return value


def _record(record: pawl.Record) -> dict[str, Any]:
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
    if isinstance(error, pawl.PawlError):
        return {
            "code": error.code,
            "reason": error.reason or ("" if error.code else type(error).__name__),
            "message": error.message,
            "metadata": error.metadata,
        }
    return {"code": "", "reason": type(error).__name__, "message": str(error), "metadata": {}}
