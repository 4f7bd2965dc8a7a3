"""Generates the Python stubs of proto/pawl/v1 below a directory.

Usage: generate_python.py OUT

The constraints of buf.validate are taken out of the descriptors first: the server
checks them, and the generated modules would otherwise import a package `buf` that
no client needs (docs/dev/adr/0010-python-stubs.md). All other options stay.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Registers google.api.http, so that it is no unknown field below.
import google.api.annotations_pb2  # noqa: F401
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from grpc_tools import protoc

VALIDATE = "buf/validate/validate.proto"
WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def run(*arguments: str) -> None:
    """Runs protoc and leaves with its code if it fails."""
    code = protoc.main(["protoc", *arguments])
    if code != 0:
        sys.exit(code)


def options_of_message(message: DescriptorProto) -> Iterator[Message]:
    """All options in a message type, those of nested types included."""
    yield message.options
    for field in message.field:
        yield field.options
    for oneof in message.oneof_decl:
        yield oneof.options
    for nested in message.nested_type:
        yield from options_of_message(nested)


def strip(file: FileDescriptorProto) -> None:
    """Removes buf.validate from a file: the import and every unknown option."""
    if VALIDATE not in file.dependency:
        return
    kept = [name for name in file.dependency if name != VALIDATE]
    del file.dependency[:]
    file.dependency.extend(kept)
    for message in file.message_type:
        for options in options_of_message(message):
            options.DiscardUnknownFields()  # type: ignore[attr-defined]


def in_package(text: str) -> str:
    """The text of a generated module with `pawl_client.v1` as its package: protoc names the
    package after the directory of the proto files, `pawl.v1`."""
    text = re.sub(r"^from pawl\.v1 import", "from pawl_client.v1 import", text, flags=re.MULTILINE)
    return text.replace("AndMessages(DESCRIPTOR, 'pawl.v1.", "AndMessages(DESCRIPTOR, 'pawl_client.v1.")


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    names = sorted(f"pawl/v1/{path.name}" for path in Path("proto/pawl/v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        image = str(Path(scratch) / "image.binpb")
        run(
            "-Iproto",
            "-Ithird_party/proto",
            f"-I{WELL_KNOWN}",
            "--include_imports",
            "--include_source_info",
            f"--descriptor_set_out={image}",
            *names,
        )
        files = FileDescriptorSet.FromString(Path(image).read_bytes())
        for file in files.file:
            strip(file)
        Path(image).write_bytes(files.SerializeToString(deterministic=True))
        run(
            f"--descriptor_set_in={image}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            *names,
        )
    package = out / "pawl_client" / "v1"
    package.parent.mkdir()
    (out / "pawl" / "v1").rename(package)
    (out / "pawl").rmdir()
    for path in package.iterdir():
        path.write_text(in_package(path.read_text()))
    (package / "__init__.py").write_text(
        '"""The raw protocol buffer messages and gRPC stubs of Pawl, as generated."""\n'
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
