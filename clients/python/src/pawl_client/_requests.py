"""Converts values of this package to wire messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from pawl_client import _values
from pawl_client._json_text import dump_json, whole_text
from pawl_client._runs import ArtifactSlot, RunFilter
from pawl_client.v1 import record_pb2, run_pb2


@cache
def number(kind: str, word: str) -> int:
    """Returns the wire number of an enum's value, for example of ("RunStatus", "RUNNING")."""
    for module in (record_pb2, run_pb2):
        descriptor = module.DESCRIPTOR.enum_types_by_name.get(kind)
        if descriptor is not None:
            prefix = "".join("_" + c if c.isupper() else c for c in kind).upper()[1:]
            allowed = descriptor.values_by_name
            try:
                return int(allowed[f"{prefix}_{word}"].number)
            except KeyError:
                names = ", ".join(n.removeprefix(prefix + "_") for n in allowed)
                raise ValueError(f"{kind}: must be one of {names}, not {word!r}") from None
    raise LookupError(kind)


def part(value: _values.PartLike, field: str) -> record_pb2.Part:
    """Converts one part of a message. `field` is its name in errors."""
    given = _values.Part.of(value)
    message = record_pb2.Part(
        media_type=given.media_type,
        filename=given.filename,
        metadata_json=""
        if given.metadata is None
        else dump_json(given.metadata, f"{field}.metadata"),
    )
    if given.text is not None:
        message.text = whole_text(given.text, field)
    elif given.json is not None:
        message.json = dump_json(given.json.value, field)
    elif given.data is not None:
        message.data = given.data
    else:
        message.uri = given.uri or ""
    return message


def parts(content: _values.Content | None) -> list[record_pb2.Part]:
    """The parts of any content."""
    return [part(item, f"parts[{at}]") for at, item in enumerate(_values.parts_of(content))]


def message(value: _values.Message) -> record_pb2.Message:
    """One entry of a conversation."""
    return record_pb2.Message(
        role=value.role,
        parts=parts(value.parts),
        tool_calls_json=""
        if value.tool_calls is None
        else dump_json(value.tool_calls, "tool_calls"),
        provider_json="" if value.provider is None else dump_json(value.provider, "provider"),
        refusal=value.refusal,
        tool_call_id=value.tool_call_id,
    )


def _is_json(media_type: str) -> bool:
    bare = media_type.partition(";")[0].strip().lower()
    return bare == "application/json" or bare.endswith("+json")


def artifact_value(value: Any, media_type: str, field: str) -> record_pb2.ArtifactValue:
    """Converts one value, by its media type or else by its Python type. `field` is its name in
    errors.
    """
    if isinstance(value, _values.JsonValue):
        return record_pb2.ArtifactValue(json=dump_json(value.value, field))
    if isinstance(value, (bytes, bytearray)):
        return record_pb2.ArtifactValue(data=bytes(value))
    if isinstance(value, str) and not _is_json(media_type):
        return record_pb2.ArtifactValue(text=whole_text(value, field))
    return record_pb2.ArtifactValue(json=dump_json(_values.plain(value), field))


def artifacts(
    writes: Mapping[str, Any] | None, slots: Iterable[ArtifactSlot] = ()
) -> list[record_pb2.ArtifactWrite]:
    """Converts artifact writes; `slots` give the declared media types if they are known."""
    types = {slot.name: slot.media_type for slot in slots}
    return [
        record_pb2.ArtifactWrite(
            name=name, value=artifact_value(value, types.get(name, ""), f"artifacts.{name}")
        )
        for name, value in (writes or {}).items()
    ]


def output_piece(value: _values.OutputPiece) -> record_pb2.OutputPiece:
    """A piece of output."""
    return record_pb2.OutputPiece(
        id=value.id,
        name=value.name,
        description=value.description,
        parts=parts(value.parts),
        append=value.append,
        last=value.last,
        metadata_json="" if value.metadata is None else dump_json(dict(value.metadata), "metadata"),
    )


def moment(value: datetime | None) -> Timestamp | None:
    """Converts an aware time. Raises ValueError for a naive one."""
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError(f"a time must have a time zone, which {value.isoformat()} lacks")
    stamp = Timestamp()
    stamp.FromDatetime(value)
    return stamp


def usage(value: _values.Usage | None) -> record_pb2.Usage | None:
    """Converts usage; None stays unset."""
    if value is None:
        return None
    return record_pb2.Usage(
        input_tokens=value.input_tokens,
        output_tokens=value.output_tokens,
        cost_micro_usd=value.cost_micro_usd,
        tool_calls=value.tool_calls,
        cached_tokens=value.cached_tokens,
        reasoning_tokens=value.reasoning_tokens,
        model=value.model,
        estimated=value.estimated,
        counted_before=value.counted_before,
    )


def fault(value: _values.Fault) -> record_pb2.Fault:
    """Converts an error, cut to the lengths that the wire permits."""
    code = value.code.encode(errors="replace")[:128].decode(errors="ignore") or "ERROR"
    text = value.message.encode(errors="replace")[:16384].decode(errors="ignore")
    trace = value.trace.encode(errors="replace")[:16384].decode(errors="ignore")
    return record_pb2.Fault(code=code, message=text, trace=trace)


def run_filter(value: RunFilter | None) -> run_pb2.RunFilter | None:
    """Converts a filter; None stays unset."""
    if value is None:
        return None
    return run_pb2.RunFilter(
        pack=value.pack,
        statuses=[number("RunStatus", str(status)) for status in value.statuses],  # type: ignore[misc]
        state=value.state,
        labels=dict(value.labels),
        parent_run_id=value.parent_run_id,
        unserved=value.unserved,
        reason=value.reason,
        created_after=moment(value.created_after),
        created_before=moment(value.created_before),
        waiting=[number("WaitingKind", str(kind)) for kind in value.waiting],  # type: ignore[misc]
    )
