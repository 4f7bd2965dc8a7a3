"""JSON Schema checks of tool payloads and results."""

from __future__ import annotations

from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError as BadSchema
from jsonschema.validators import validator_for

from pawl._errors import SchemaError


def check(value: Any, schema: Any, what: str) -> None:
    """Raises SchemaError that names the first place where the value does not fit.

    >>> check({"n": 1}, {"type": "object", "required": ["n"]}, "payload")
    >>> check({}, {"type": "object", "required": ["n"]}, "payload")
    Traceback (most recent call last):
    ...
    pawl._errors.SchemaError: payload: at $: 'n' is a required property
    """
    cls = examine(schema, what)
    try:
        fault = jsonschema.exceptions.best_match(cls(schema).iter_errors(value))
    except RecursionError as error:
        raise SchemaError(f"{what}: too deep to be checked") from error
    if fault is not None:
        raise SchemaError(
            f"{what}: at {fault.json_path}: {fault.message}", metadata={"field": fault.json_path}
        )


def examine(schema: Any, what: str) -> type[Any]:
    """What checks values against a schema. Raises SchemaError if it is none."""
    cls: type[Any] = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        cls.check_schema(schema)
    except (BadSchema, RecursionError) as error:
        text = getattr(error, "message", "too deep")
        raise SchemaError(f"{what}: its schema is invalid: {text}") from error
    return cls
