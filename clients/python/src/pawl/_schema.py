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
    cls = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        cls.check_schema(schema)
    except BadSchema as error:
        raise SchemaError(f"{what}: its schema is invalid: {error.message}") from error
    fault = jsonschema.exceptions.best_match(cls(schema).iter_errors(value))
    if fault is not None:
        raise SchemaError(
            f"{what}: at {fault.json_path}: {fault.message}", metadata={"field": fault.json_path}
        )
