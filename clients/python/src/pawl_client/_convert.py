"""Converts wire messages to the dataclasses of this package, field by field.

Each dataclass has the field names of its message, with two exceptions. A field `payload` is read
from `payload_json`. A field whose name is a keyword, or that is read from a nested message, names
its origin in its metadata. Tests compare every dataclass with its descriptor.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import cache
from keyword import iskeyword
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from pawl_client import (
    _control,
    _enums,
    _history,
    _model_calls,
    _models,
    _packs,
    _records,
    _runs,
    _values,
)
from pawl_client._json_text import whole_in
from pawl_client.v1 import record_pb2

T = TypeVar("T")
Getter = Callable[[Any], Any]


def _named(*modules: Any) -> dict[str, type]:
    return {
        name: item
        for module in modules
        for name, item in vars(module).items()
        if isinstance(item, type) and item.__module__ == module.__name__
    }


_CLASSES = _named(_values, _models, _runs, _packs, _records, _history, _control)
_ALIASES = {
    "Run": _runs.RunInfo,
    "GetTurnResponse": _runs.TurnInfo,
    "ValidatePackResponse": _packs.PackReport,
    "RegisterPackResponse": _packs.RegisteredPack,
    "GetPackResponse": _packs.PackDetails,
    "GetPackGraphResponse": _packs.PackGraph,
    "GetCallerResponse": _runs.Identity,
    "DiffRunsResponse": _history.RunDiff,
    "VerifyRunResponse": _history.Verification,
    "DeleteRunResponse": _history.Deletion,
    "EraseRunResponse": _history.Erased,
    "Erasure": _runs.Erasure,
    "RequestModelResponse": _model_calls.RequestedModel,
    "AnswerModelResponse": _model_calls.AnsweredModel,
    "UpdateModelCallResponse": _model_calls.UpdatedModelCall,
    "IncludedMessage": _model_calls.IncludedMessage,
    "GetModelStepResponse": _model_calls.ShownModel,
    "PutBlobResponse": _values.BlobHead,
    "GetBlobResponse": _values.BlobPiece,
    "RaiseBudgetResponse": _control.RaisedBudget,
}
_ENUMS: dict[str, type] = _named(_enums)


_HALVES = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
"""Escapes of surrogates, which may be unpaired: journals of earlier programs contain them."""


def parse_json(text: str) -> Any:
    """Parses JSON text; None if it is empty."""
    if not text:
        return None
    value = json.loads(text)
    return whole_in(value) if _HALVES.search(text) else value


def instant(value: Any) -> datetime:
    """Converts a wire time to an aware one, in UTC."""
    moment: datetime = value.ToDatetime(tzinfo=timezone.utc)
    return moment


def duration(value: Any) -> timedelta:
    """A wire duration."""
    length: timedelta = value.ToTimedelta()
    return length


def seconds(value: Any) -> float:
    """A wire duration in seconds."""
    length: float = value.seconds + value.nanos * 1e-9
    return length


def _part(value: record_pb2.Part) -> _values.Part:
    form = value.WhichOneof("content")
    common: dict[str, Any] = {
        "media_type": value.media_type,
        "filename": value.filename,
        "metadata": parse_json(value.metadata_json),
    }
    if form == "json":
        return _values.Part(json=_values.JsonValue(parse_json(value.json)), **common)
    if form is None:  # A form that only a newer server knows.
        return _values.Part(data=b"", **common)
    return _values.Part(**{form: getattr(value, form)}, **common)


def _artifact_value(value: record_pb2.ArtifactValue) -> Any:
    form = value.WhichOneof("value")
    if form == "json":
        return parse_json(value.json)
    return getattr(value, form) if form else None


_SPECIAL: dict[str, Getter] = {
    "google.protobuf.Timestamp": instant,
    "google.protobuf.Duration": duration,
    "pawl.v1.Part": _part,
    "pawl.v1.ArtifactValue": _artifact_value,
    "pawl.v1.Record": lambda value: record_from_proto(value),
}


@cache
def _enum(full_name: str) -> Callable[[Any], Enum]:
    name = full_name.rpartition(".")[2]
    cls = _ENUMS[name]
    words: list[Any] = list(cls)  # type: ignore[call-overload]
    prefix = "".join("_" + c if c.isupper() else c for c in name).upper()[1:] + "_"
    file: Any = _enum_descriptors()[full_name]
    by_number = {
        number: word
        for number, value in file.values_by_number.items()
        for word in words
        if prefix + word.value == value.name
    }
    unspecified = words[0]
    return lambda number: by_number.get(number, unspecified)


@cache
def _enum_descriptors() -> dict[str, Any]:
    from pawl_client.v1 import control_pb2, pack_pb2, run_pb2

    return {
        descriptor.full_name: descriptor
        for module in (record_pb2, run_pb2, pack_pb2, control_pb2)
        for descriptor in module.DESCRIPTOR.enum_types_by_name.values()
    }


def _of_one(field: FieldDescriptor) -> Getter | None:
    """Returns the converter of one value of the field. None means that it needs none."""
    if field.message_type is not None:
        name = field.message_type.full_name
        return _SPECIAL.get(name) or from_proto
    if field.enum_type is not None:
        return _enum(field.enum_type.full_name)
    return None


def _expression(field: Any, convert: str) -> str:
    """Returns the Python expression that reads a field of `m`.

    `convert` names the converter of one value, empty: it needs none.
    """
    word = iskeyword(field.name)
    value = f"getattr(m, {field.name!r})" if word else f"m.{field.name}"
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return f"dict({value})"
    if field.is_repeated:
        return f"tuple([{convert}(item) for item in {value}])" if convert else f"tuple({value})"
    one = f"{convert}({value})" if convert else value
    # An unset field is None if it is a message or `optional`.
    unset = field.message_type is not None
    unset = unset or (not convert and field.has_presence and field.containing_oneof is not None)
    return f"{one} if m.HasField({field.name!r}) else None" if unset else one


def _class_of(name: str) -> type:
    return _ALIASES.get(name) or _CLASSES[name]


@cache
def plan(message_type: Any) -> tuple[type, Callable[[Any], Any]]:
    """Returns the dataclass of a message type, and its reader.

    The reader is generated like an __init__ of `dataclasses`: one expression for all fields, from
    the names in the descriptor. Turns are read thousands of times a second.
    """
    descriptor = message_type.DESCRIPTOR
    cls = _class_of(descriptor.name)
    known: dict[str, Any] = {"cls": cls, "parse_json": parse_json}
    arguments = []
    for item in dataclasses.fields(cls):
        name = item.metadata.get("proto", item.name)
        field = descriptor.fields_by_name.get(name)
        if "." in name:
            value = f"m.{name}"
        elif field is not None:
            convert = _of_one(field)
            known[f"of_{name}"] = convert
            value = _expression(field, "" if convert is None else f"of_{name}")
        else:
            value = f"parse_json(m.{descriptor.fields_by_name[name + '_json'].name})"
        arguments.append(f"{item.name}={value}")
    read: Callable[[Any], Any] = eval(f"lambda m: cls({', '.join(arguments)})", known)  # noqa: S307
    return cls, read


def from_proto(message: Any) -> Any:
    """Converts a message to its dataclass."""
    return plan(message.__class__)[1](message)


def record_from_proto(
    message: record_pb2.Record, snapshot: _runs.Snapshot | None = None
) -> _records.Record:
    """Converts a record with its body; the body is None for an unknown kind."""
    form = message.WhichOneof("body")
    kind = _enums.RecordKind[form.upper()] if form else _enums.RecordKind.UNSPECIFIED
    return _records.Record(
        run_id=message.run_id,
        seq=message.seq,
        prev_seq=message.prev_seq,
        cursor=message.cursor,
        at=instant(message.at),
        cause=_enums.Cause(_enum("pawl.v1.Cause")(message.cause)),
        principal=message.principal,
        prev_hash=message.prev_hash,
        hash=message.hash,
        kind=kind,
        body=from_proto(getattr(message, form)) if form else None,
        snapshot=snapshot,
        redacted=message.redacted,
        erased=message.erased,
    )


def optional_record(message: Any, name: str) -> _records.Record | None:
    """The record in a field of a message, or None if it is unset."""
    return record_from_proto(getattr(message, name)) if message.HasField(name) else None


def optional(message: Any, name: str) -> Any:
    """The dataclass of a field of a message, or None if it is unset."""
    return from_proto(getattr(message, name)) if message.HasField(name) else None


def enum_of(full_name: str, number: int) -> Any:
    """Returns the value of a wire enum."""
    return _enum(full_name)(number)
