"""JSON Schema checks of tool payloads and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError as BadSchema
from jsonschema.validators import validator_for

from pawl_client._errors import SchemaError


def check(value: Any, schema: Any, what: str) -> None:
    """Raises SchemaError, which names the first place where the value does not fit.

    >>> check({"n": 1}, {"type": "object", "required": ["n"]}, "payload")
    >>> check({}, {"type": "object", "required": ["n"]}, "payload")
    Traceback (most recent call last):
    ...
    pawl_client._errors.SchemaError: payload: at $: 'n' is a required property
    """
    cls = examine(schema, what)
    try:
        fault = _meant(jsonschema.exceptions.best_match(_outer(cls(schema).iter_errors(value))))
    except RecursionError as error:
        raise SchemaError(f"{what}: nested too deeply to be checked") from error
    if fault is not None:
        raise SchemaError(
            f"{what}: at {fault.json_path}: {fault.message}", metadata={"field": fault.json_path}
        )


def _outer(errors: Iterable[Any]) -> Iterator[Any]:
    """Yields errors with the alternatives of a union set aside; `_meant` chooses between them."""
    for error in errors:
        error.alternatives = error.context
        error.context = []
        yield error


def _meant(error: Any) -> Any:
    """Returns the error, or that of the only alternative of a union whose constants the value
    has.
    """
    while error is not None and error.validator in ("oneOf", "anyOf"):
        inner: dict[Any, list[Any]] = {}
        for one in getattr(error, "alternatives", error.context):
            inner.setdefault(one.schema_path[0], []).append(one)
        meant = [errors for errors in inner.values() if not any(map(_is_tag, errors))]
        if len(meant) != 1:
            return error
        error = jsonschema.exceptions.best_match(_outer(meant[0]))
    return error


def _is_tag(error: Any) -> bool:
    """Whether the value differs in a constant member, which distinguishes the alternatives."""
    return error.validator in ("const", "enum") and len(error.relative_path) == 1


def examine(schema: Any, what: str) -> type[Any]:
    """Returns the validator class of a schema. Raises SchemaError for an invalid schema."""
    cls: type[Any] = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        cls.check_schema(schema)
    except (BadSchema, RecursionError) as error:
        text = getattr(error, "message", "too deep")
        raise SchemaError(f"{what}: its schema is invalid: {text}") from error
    return cls
