"""Functions are compared with the parameters of a pack, and each difference is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from conftest import STEPS
from pawl_client import AsyncClient, Client, NotFoundError, SchemaError, Worker
from pawl_client.testing import Sidecar


@dataclass
class Address:
    street: str
    number: int = 1


def plain(a: float, b: float) -> float:
    return a + b


def other_type(a: int, b: str) -> None: ...


def lacking(a: float) -> None: ...


def more(a: float, b: float, c: str, d: str = "") -> None: ...


def send(to: Address, also: list[Address], when: datetime | None = None) -> None: ...


def choose(kind: Literal["x", "y"], rest: Any = None) -> None: ...


def declared(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


NUMBERS = declared(["a", "b"], a={"type": "number"}, b={"type": "number"})
STREET = declared(["street"], street={"type": "string"}, number={"type": "integer"})
TEXT = {"type": "string"}
CASES: dict[str, tuple[Callable[..., Any], Any, list[tuple[str, str]]]] = {
    "fits": (plain, NUMBERS, []),
    "whole numbers are numbers": (
        plain,
        declared(["a", "b"], a={"type": "integer"}, b={"type": "number"}),
        [],
    ),
    "types": (
        other_type,
        NUMBERS,
        [
            (".a", "the pack admits number, the function takes integer"),
            (".b", "the pack admits number, the function takes string"),
        ],
    ),
    "unknown": (lacking, NUMBERS, [(".b", "the pack declares it, the function does not take it")]),
    "missing": (
        more,
        NUMBERS,
        [(".c", "the function requires it, the pack does not declare it")],
    ),
    "optional": (
        plain,
        NUMBERS | {"required": ["a"]},
        [(".b", "the function requires it, in the pack it is optional")],
    ),
    "nothing declared": (
        lacking,
        None,
        [(".a", "the function requires it, the pack does not declare it")],
    ),
    "any type": (
        lacking,
        declared(["a"], a={}),
        [(".a", "the pack admits anything, the function takes number")],
    ),
    "inner ones": (
        send,
        declared(
            ["to", "also"],
            to={"$ref": "#/$defs/Place"},
            also={"type": "array", "items": declared([], street={"type": ["string", "null"]})},
            when=TEXT,
        )
        | {"$defs": {"Place": STREET}},
        [
            (".also[].street", "the function requires it, in the pack it is optional"),
            (".also[].street", "the pack admits null or string, the function takes string"),
        ],
    ),
    "words": (
        choose,
        declared(["kind"], kind={"enum": ["x", "z"]}),
        [(".kind", 'the pack admits "x", "z", the function takes "x", "y"')],
    ),
    "any word": (
        choose,
        declared(["kind"], kind=TEXT),
        [(".kind", 'the pack admits other values too, the function takes "x", "y"')],
    ),
    "fewer words": (choose, declared(["kind"], kind={"const": "x"}), []),
}


def pack(parameters: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(STEPS.read_text())
    document["id"] = "checked"
    document["tools"]["add"].pop("parameters")
    if parameters is not None:
        document["tools"]["add"]["parameters"] = parameters
    return document


@pytest.mark.parametrize("case", CASES)
def test_differences(case: str) -> None:
    function, parameters, expected = CASES[case]
    worker = Worker()
    worker.tool("add")(function)
    worker.tool("of another pack")(function)
    document = pack(parameters)
    if not expected:
        worker.check(document)
        return
    with pytest.raises(SchemaError) as caught:
        worker.check(json.dumps(document))
    found = [(f"tools.add.parameters{place}", what) for place, what in expected]
    assert list(caught.value.violations) == found
    assert (caught.value.reason, caught.value.field) == ("TOOL_MISMATCH", found[0][0])
    for place, what in found:
        assert f"\n{place}: {what}" in str(caught.value)


def test_a_type_that_holds_itself() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    worker = Worker()
    worker.tool("add", parameters=tree)(lambda payload: payload)
    worker.check(pack(tree))


def test_documents(tmp_path: Path) -> None:
    worker = Worker()
    worker.tool("add")(lacking)
    path = tmp_path / "checked.yaml"
    path.write_text("tools: {add: {parameters: {type: object, properties: {a: {type: string}}}}}")
    with pytest.raises(SchemaError, match=r"add\.parameters\.a: the pack admits string"):
        worker.check(path)
    with pytest.raises(ValueError, match="pack: neither JSON nor YAML"):
        worker.check("{")
    for nothing in ("[]", "tools: 3", "tools: {add: 3, other: }"):
        if "add" in nothing:
            with pytest.raises(SchemaError):
                worker.check(nothing)
        else:
            worker.check(nothing)


async def test_a_pack_that_does_not_fit_is_not_registered(sidecar: Sidecar, client: Client) -> None:
    document = json.dumps(pack(declared(["a"], a=TEXT)))
    worker = Worker()
    worker.tool("add")(lacking)
    with pytest.raises(SchemaError, match=r"add\.parameters\.a"):
        client.register_pack(document, filename="x.json", tools=worker)
    async with AsyncClient(address=sidecar.address) as other:
        with pytest.raises(SchemaError, match=r"add\.parameters\.a"):
            await other.register_pack(document, filename="x.json", tools={"add": lacking})
    with pytest.raises(NotFoundError):
        client.get_pack("checked")
    fits = json.dumps(pack(NUMBERS))
    assert client.register_pack(fits, filename="x.json", tools={"add": plain}).pack.id == "checked"
