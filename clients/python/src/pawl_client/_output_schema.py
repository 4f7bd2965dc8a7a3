"""What the output of a turn has to be: a class that pydantic knows, or a JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pawl_client import _schema
from pawl_client._errors import SchemaError
from pawl_client._json_text import dump_json
from pawl_client._values import Json, Part

T = TypeVar("T")

_KEYWORDS = frozenset(
    [
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "title",
        "description",
        "format",
    ]
)
"""A mapping with one of these names is a JSON Schema, and no mapping from prompts."""


_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """What an output has to be. `adapter` is pydantic's, None: the schema says all."""

    schema: dict[str, Any]
    adapter: Any = None

    @staticmethod
    def of(output: Any, what: str = "output") -> OutputSchema:
        """The form of a class or a schema. Raises ValueError, ImportError."""
        if isinstance(output, Mapping):
            schema = dict(output)
            try:
                _schema.examine(schema, what)
            except SchemaError as error:
                raise ValueError(str(error)) from error
            dump_json(schema, what)
            return OutputSchema(schema)
        try:
            from pydantic import TypeAdapter
            from pydantic.errors import PydanticUserError
        except ImportError as error:
            raise ImportError(f"{what}: a class needs pip install 'pawl-client[typed]'") from error
        try:
            adapter = TypeAdapter(output)
            return OutputSchema(adapter.json_schema(), adapter)
        except (PydanticUserError, NameError) as error:
            raise ValueError(f"{what}: {output!r} has no schema: {error}") from error

    def value(self, given: Json) -> tuple[Any, str]:
        """The value as the class has it, or what is wrong with it."""
        try:
            text = dump_json(given, "output")
            if self.adapter is not None:
                return self.adapter.validate_json(text), ""
            _schema.check(given, self.schema, "output")
        except SchemaError as error:
            return None, error.message
        except ValueError as error:
            return None, str(error)
        return given, ""

    def read(self, text: str) -> tuple[Json, str]:
        """The JSON value of a text that fits, or what is wrong with it. The text may be in one
        fence, as models write it that were asked for JSON in words alone."""
        fenced = _FENCE.fullmatch(text)
        try:
            given = json.loads(fenced[1] if fenced else text)
        except (ValueError, RecursionError) as error:
            return None, f"it is no JSON: {error}"
        _, fault = self.value(given)
        return given, fault


class OutputSchemas:
    """The forms of all prompts."""

    def __init__(self, output: Any) -> None:
        self._all: OutputSchema | None = None
        self._of: dict[str, OutputSchema] = {}
        if output is None:
            return
        if isinstance(output, Mapping) and not _KEYWORDS & set(output):
            self._of = {
                name: OutputSchema.of(one, f"output[{name!r}]") for name, one in output.items()
            }
        else:
            self._all = OutputSchema.of(output)

    def of(self, prompt: str) -> OutputSchema | None:
        """The form of the output of a prompt's turns; None: any."""
        return self._of.get(prompt, self._all)


def embedded(schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema as a part of another one, and the definitions that belong at the root of that."""
    part = dict(schema)
    roots: dict[str, Any] = {}
    for name in ("$defs", "definitions"):
        if name in part:
            roots[name] = part.pop(name)
    part.pop("$schema", None)
    return part, roots


def instance_of(cls: type[T], output: Sequence[Part]) -> T:
    """What `RunResult.output_as` gives."""
    values = [part.json.value for part in output if part.json is not None]
    if len(values) != 1:
        text = f"output: {len(values)} parts in JSON of {len(output)}, not one"
        raise SchemaError(text, reason="OUTPUT_INVALID")
    value, fault = OutputSchema.of(cls).value(values[0])
    if fault:
        raise SchemaError(f"output: {fault}", reason="OUTPUT_INVALID")
    return cast("T", value)
