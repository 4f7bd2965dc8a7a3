"""What is public, and what is built."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import subprocess
import sys
import tarfile
import typing
import zipfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message as ProtoMessage

import pawl_client
import pawl_client.langgraph
import pawl_client.models
import pawl_client.openai_agents
import pawl_client.pydantic_ai
import pawl_client.testing
from pawl_client import _convert, _enums
from pawl_client._convert import from_proto, record_from_proto
from pawl_client.v1 import control_pb2, pack_pb2, record_pb2, run_pb2, worker_pb2

ROOT = Path(__file__).resolve().parents[3]
PROJECT = Path(__file__).resolve().parents[1]
MODULES = (record_pb2, run_pb2, pack_pb2, control_pb2)


@pytest.mark.parametrize(
    "module",
    [
        pawl_client,
        pawl_client.langgraph,
        pawl_client.models,
        pawl_client.openai_agents,
        pawl_client.pydantic_ai,
        pawl_client.testing,
    ],
)
def test_all(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert sorted(set(names)) == sorted(names)
    for name in names:
        item = getattr(module, name)
        assert not name.startswith("_")
        # An alias such as Callable[[Any], Any] says that it is a class, in Python 3.10.
        alias = typing.get_origin(item) is not None
        if not alias and (isinstance(item, type) or inspect.isfunction(item)):
            assert item.__doc__, name
    public = {n for n, v in vars(module).items() if isinstance(v, type) and not n.startswith("_")}
    if module is pawl_client:
        assert public <= set(names)


def test_every_public_method_is_documented() -> None:
    for name in pawl_client.__all__:
        item = getattr(pawl_client, name)
        if isinstance(item, type) and item.__module__.startswith("pawl_client"):
            for member, value in vars(item).items():
                if callable(value) and not member.startswith("_"):
                    assert value.__doc__, f"{name}.{member}"


@pytest.mark.parametrize("name", ["pack", "record", "run", "worker", "delivery"])
def test_stubs(name: str) -> None:
    importlib.import_module(f"pawl_client.v1.{name}_pb2")
    importlib.import_module(f"pawl_client.v1.{name}_pb2_grpc")
    assert "buf" not in sys.modules


def all_messages() -> list[tuple[str, object]]:
    found = []
    for module in MODULES:
        for name in module.DESCRIPTOR.message_types_by_name:
            if name in _convert._CLASSES or name in _convert._ALIASES:
                found.append((name, getattr(module, name)))
    return found


@pytest.mark.parametrize(("name", "message"), all_messages(), ids=[m[0] for m in all_messages()])
def test_a_dataclass_has_the_fields_of_its_message(name: str, message: type[ProtoMessage]) -> None:
    if name in ("Part", "Record", "RunFilter", "Snapshot"):
        return  # Read or written by code of their own.
    plan: Any = _convert.plan
    cls, _ = plan(message)
    have = {f.metadata.get("proto", f.name).split(".")[0] for f in dataclasses.fields(cls)}
    want = {field.removesuffix("_json") for field in message.DESCRIPTOR.fields_by_name}
    assert have == want
    if name not in ("Assignment", "Run", "Pack", "Artifact"):
        assert isinstance(from_proto(message()), cls)
    assert cls.__dataclass_params__.frozen


def test_the_words_of_every_enum() -> None:
    for module in MODULES:
        for name, descriptor in module.DESCRIPTOR.enum_types_by_name.items():
            words = [str(word) for word in getattr(_enums, name)]
            prefix = "".join("_" + c if c.isupper() else c for c in name).upper()[1:] + "_"
            assert sorted(words) == sorted(
                v.removeprefix(prefix) for v in descriptor.values_by_name
            )


def test_every_kind_of_record_has_a_body() -> None:
    oneof = record_pb2.Record.DESCRIPTOR.oneofs_by_name["body"]
    for field in oneof.fields:
        message = record_pb2.Record(run_id="r", seq=1)
        getattr(message, field.name).SetInParent()
        record = record_from_proto(message)
        assert record.kind == field.name.upper()
        assert type(record.body).__name__ == getattr(field.message_type, "name", None)


def test_what_a_newer_server_says() -> None:
    """Unknown kinds, words and fields are read as such, not refused."""
    newer = record_pb2.Record(run_id="r", seq=1).SerializeToString() + bytes([6 << 3, 99])
    unknown_field = bytes([(60 << 3 | 2) & 0x7F | 0x80, 60 >> 4, 2, 8, 1])
    record = record_from_proto(record_pb2.Record.FromString(newer + unknown_field))
    assert (record.kind, record.body, record.cause) == ("UNSPECIFIED", None, "UNSPECIFIED")
    part = from_proto(record_pb2.Message(role="user", parts=[record_pb2.Part()])).parts[0]
    assert part.data == b""


def test_values_that_were_not_set() -> None:
    artifact = record_pb2.ArtifactWrite(
        name="a", value=record_pb2.ArtifactValue(json='{"n":1.0}', media_type="application/json")
    )
    assert from_proto(artifact).value == {"n": 1.0}
    assert from_proto(artifact).media_type == "application/json"
    assert from_proto(run_pb2.Step(step=1)).payload is None
    assert worker_pb2.WorkRequest().WhichOneof("item") is None


def test_wheel_and_sdist(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(PROJECT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in ("__init__.py", "py.typed", "v1/run_pb2.py", "v1/run_pb2.pyi", "testing.py"):
        assert f"pawl_client/{name}" in names
    assert {name.split("/")[0] for name in names} == {"pawl_client", "pawl_client-0.1.0.dist-info"}
    about = zipfile.ZipFile(wheel).read("pawl_client-0.1.0.dist-info/METADATA").decode()
    for line in ("Name: pawl-client", "License-File: LICENSE", "Project-URL: Repository, https:"):
        assert f"\n{line}" in about
    licence = zipfile.ZipFile(wheel).read("pawl_client-0.1.0.dist-info/licenses/LICENSE")
    assert licence == (ROOT / "LICENSE").read_bytes()
    # The command `sidecar` is that of wheels that carry the program: .ci/platform_wheel.py.
    assert [name for name in names if "scripts/" in name] == []
    commands = zipfile.ZipFile(wheel).read("pawl_client-0.1.0.dist-info/entry_points.txt")
    assert commands.decode().split() == [
        "[console_scripts]",
        "pawl",
        "=",
        "pawl_client._command:main",
    ]
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = archive.getnames()
    assert "pawl_client-0.1.0/src/pawl_client/v1/run_pb2.py" in inside
    assert "pawl_client-0.1.0/LICENSE" in inside
