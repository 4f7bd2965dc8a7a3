"""The schema of a turn's output: a class that pydantic supports, or a JSON Schema."""

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
"""A mapping with one of these keys is a JSON Schema, not a mapping from prompts."""


_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The schema of an output. `adapter` is pydantic's, None: `schema` is the whole description."""

    schema: dict[str, Any]
    adapter: Any = None

    @staticmethod
    def of(output: Any, what: str = "output") -> OutputSchema:
        """Returns the schema of a class or a JSON Schema. Raises ValueError, ImportError."""
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
            text = f"{what}: a class needs pydantic: pip install 'pawl-client[typed]'"
            raise ImportError(text) from error
        try:
            adapter = TypeAdapter(output)
            return OutputSchema(adapter.json_schema(), adapter)
        except (PydanticUserError, NameError) as error:
            raise ValueError(f"{what}: {output!r} has no schema: {error}") from error

    def value(self, given: Json) -> tuple[Any, str]:
        """Returns the value as the class represents it, or what is wrong with it."""
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
        """Returns the JSON value of a text, or what is wrong with it.

        The text may be in one Markdown fence: models that are asked for JSON often write one.
        """
        fenced = _FENCE.fullmatch(text)
        try:
            given = json.loads(fenced[1] if fenced else text)
        except (ValueError, RecursionError) as error:
            return None, f"it is no JSON: {error}"
        _, fault = self.value(given)
        return given, fault


class OutputSchemas:
    """The output schemas of all prompts."""

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
        """Returns the output schema of a prompt. None means any output."""
        return self._of.get(prompt, self._all)


def embedded(schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a schema for use inside another one, and the definitions to put at that one's
    root.
    """
    part = dict(schema)
    roots: dict[str, Any] = {}
    for name in ("$defs", "definitions"):
        if name in part:
            roots[name] = part.pop(name)
    part.pop("$schema", None)
    return part, roots


def artifact_of(cls: type[T], name: str, value: Any) -> T:
    """Implements `RunResult.artifact`."""
    instance, fault = OutputSchema.of(cls).value(value)
    if fault:
        raise SchemaError(f"artifact {name}: {fault}", reason="ARTIFACT_INVALID")
    return cast("T", instance)


def instance_of(cls: type[T], output: Sequence[Part], incomplete: str) -> T:
    """Implements `RunResult.output_as`. `incomplete` says why the run did not complete; empty:
    it did.
    """
    values = [part.json.value for part in output if part.json is not None]
    if len(values) != 1:
        text = f"output: must have exactly one JSON part, not {len(values)} of {len(output)} parts"
        raise SchemaError(f"{text}{incomplete}", reason="OUTPUT_INVALID")
    value, fault = OutputSchema.of(cls).value(values[0])
    if fault:
        raise SchemaError(f"output: {fault}", reason="OUTPUT_INVALID")
    return cast("T", value)
