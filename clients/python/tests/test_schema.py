"""A schema names the place in the member of a union that is meant."""

from __future__ import annotations

from typing import Any

import pytest

from pawl_client import SchemaError
from pawl_client._schema import check


def member(tag: str, name: str) -> dict[str, Any]:
    properties = {"kind": {"const": tag}, name: {"type": "number"}}
    return {"type": "object", "properties": properties, "required": ["kind", name]}


DEFS = {"circle": member("circle", "r"), "square": member("square", "side")}
REFS = [{"$ref": f"#/$defs/{name}"} for name in DEFS]


@pytest.mark.parametrize("union", ["oneOf", "anyOf"])
@pytest.mark.parametrize("members", [REFS, list(DEFS.values())], ids=["refs", "inline"])
@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ({"kind": "circle", "r": "x"}, "at $.shape.r: 'x' is not of type 'number'"),
        ({"kind": "square", "side": "x"}, "at $.shape.side: 'x' is not of type 'number'"),
        ({"kind": "square"}, "at $.shape: 'side' is a required property"),
        ({"kind": "oval"}, "at $.shape: {'kind': 'oval'} is not valid under any"),
    ],
)
def test_the_member_that_is_meant(union: str, members: Any, shape: Any, says: str) -> None:
    schema = {"$defs": DEFS, "type": "object", "properties": {"shape": {union: members}}}
    with pytest.raises(SchemaError) as caught:
        check({"shape": shape}, schema, "payload")
    assert caught.value.message.startswith(f"payload: {says}")
