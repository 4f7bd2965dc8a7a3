"""Events: the table that both clients share, and what comes of real runs."""

from __future__ import annotations

import dataclasses
import json
import os
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from pawl_client._event_reader import EventReader
from pawl_client._event_source import EventSource
from pawl_client._events import Event
from pawl_client._values import JsonValue
from pawl_client.v1 import run_pb2

TABLE = Path(__file__).parents[3] / "testdata" / "events" / "table.json"


def plain(value: Any) -> Any:
    """A value as the table writes it: without what is empty, names in camel case."""
    if isinstance(value, JsonValue):
        return value.value
    if dataclasses.is_dataclass(value):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        empty: tuple[Any, ...] = ("", 0, None, [], {})
        return {_camel(k): v for k, v in fields.items() if v is True or v not in empty}
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def events_of(scenario: dict[str, Any]) -> list[Any]:
    source = EventSource("R", scenario.get("after", ""))
    reader = EventReader(namespace="", source=source)
    events: list[Event] = []
    for item in scenario["items"]:
        read = reader.read(json_format.ParseDict(item, run_pb2.StreamTransitionsResponse()))
        events += read or ()
    return [plain(event) for event in events]


@pytest.mark.parametrize("scenario", json.loads(TABLE.read_text()), ids=lambda each: each["name"])
def test_table(scenario: dict[str, Any]) -> None:
    assert events_of(scenario) == scenario["events"]


if os.environ.get("PAWL_REWRITE"):
    table = json.loads(TABLE.read_text())
    for each in table:
        each["events"] = events_of(each)
    TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
