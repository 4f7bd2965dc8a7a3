"""Typed functions with pydantic. Imported only if pydantic is installed."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError
from typing_extensions import NotRequired, TypedDict

from pawl_client._errors import INVALID_ARGUMENTS, RESULT_INVALID, SchemaError
from pawl_client._values import Json

_EXACT = 2**53
"""Up to this number, floats represent every integer."""


@dataclass(frozen=True, slots=True)
class PydanticAdapter:
    """A `ToolAdapter` with pydantic. `whole`: the payload is one argument."""

    tool: str
    taken: TypeAdapter[Any]
    returned: TypeAdapter[Any]
    parameters: Json
    whole: bool

    def arguments(self, payload: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """See `ToolAdapter.arguments`."""
        try:
            # Strict JSON mode: a text may become a date, but not a number.
            value = self.taken.validate_json(json.dumps(_integral(payload)), strict=True)
        except ValidationError as error:
            what = f"arguments of tool {self.tool}"
            raise _misfit(INVALID_ARGUMENTS, what, error, payload) from None
        return ((value,), {}) if self.whole else ((), value)

    def result(self, value: Any) -> Json:
        """See `ToolAdapter.result`."""
        what = f"result of tool {self.tool}"
        try:
            fitting = self.returned.validate_python(value)
            dumped: Json = self.returned.dump_python(
                fitting, mode="json", by_alias=True, warnings="error"
            )
        except ValidationError as error:
            raise _misfit(RESULT_INVALID, what, error, _plain(value)) from None
        except PydanticSerializationError as error:
            self._check(what, fitting)
            text = str(error).partition("[")[0].strip()
            raise SchemaError(f"{what}: {text}", reason=RESULT_INVALID) from None
        return dumped

    def _check(self, what: str, value: Any) -> None:
        """Raises SchemaError for a member of an instance that does not fit.

        Pydantic does not check the members of a given instance, which may have been made without a
        check or changed since.
        """
        try:
            plain = self.returned.dump_python(value, mode="json", by_alias=True, warnings="none")
        except PydanticSerializationError:
            return
        try:
            self.returned.validate_json(json.dumps(plain))
        except ValidationError as error:
            raise _misfit(RESULT_INVALID, what, error, plain) from None


def adapter(
    tool: str, signature: inspect.Signature, whole: inspect.Parameter | None
) -> PydanticAdapter:
    """Returns the adapter of a function.

    `whole` is the parameter that takes the payload, None: it takes named arguments. Raises
    ValueError for an annotation without a JSON form.
    """
    result = signature.return_annotation
    try:
        taken = TypeAdapter(whole.annotation if whole else _arguments(tool, signature))
        returned = TypeAdapter(Any if result is inspect.Signature.empty else result)
        parameters = taken.json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise ValueError(f"tool {tool}: {error.message}") from error
    return PydanticAdapter(tool, taken, returned, parameters, whole is not None)


def _arguments(tool: str, signature: inspect.Signature) -> Any:
    """Returns the type of the arguments: an object with exactly the parameters.

    Arguments that are not given have the function's own defaults.
    """
    fields: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if isinstance(parameter.default, FieldInfo):
            raise ValueError(
                f"tool {tool}: parameter {name}: Field() must be in the annotation: "
                "Annotated[..., Field(...)]"
            )
        optional = parameter.default is not inspect.Parameter.empty
        fields[name] = NotRequired[parameter.annotation] if optional else parameter.annotation
    make: Any = TypedDict
    made = make("Arguments", fields)
    made.__pydantic_config__ = ConfigDict(extra="forbid")
    return made


def _integral(value: Json) -> Json:
    """Converts whole floats to ints: to JSON Schema, 1.0 is an integer."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, dict):
        return {name: _integral(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    """Returns a value in the form that pydantic's error locations refer to: an instance by its
    fields.
    """
    try:
        return TypeAdapter(Any).dump_python(value, mode="json", by_alias=True, warnings="none")
    except PydanticSerializationError:
        return None


def _misfit(reason: str, what: str, error: ValidationError, value: Any) -> SchemaError:
    """Returns the error that names each place, the union member meant there, and the expected type.

    It leaves out the found values, which may be confidential. `value` is the value that did not
    fit.
    """
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    violations = tuple(
        _violation_of(fault["loc"], fault["type"], fault["msg"], value) for fault in faults
    )
    text = "; ".join(f"at {place}: {message}" for place, message in violations)
    return SchemaError(
        f"{what}: {text}",
        reason=reason,
        metadata={"field": violations[0][0]},
        violations=violations,
    )


def _violation_of(
    location: tuple[int | str, ...], kind: str, message: str, value: Any
) -> tuple[str, str]:
    """Returns a place in the value and its error.

    Pydantic's locations contain the tags of unions among the names; the value tells them apart.
    """
    path: list[int | str] = []
    tags: list[str] = []
    for index, word in enumerate(location):
        if _has(value, word):
            path.append(word)
            value = value[word]
        elif kind == "missing" and index == len(location) - 1:
            path.append(word)
        elif isinstance(word, str) and isinstance(value, (dict, list)):
            tags.append(word)
        else:
            path.append(word)
    member = f"of {' of '.join(reversed(tags))}: " if tags else ""
    return _place(tuple(path)), f"{member}{message}"


def _has(value: Any, word: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(word, int) and word < len(value)
    return isinstance(value, dict) and word in value


def _place(location: tuple[int | str, ...]) -> str:
    """Returns a location as a JSON path: $.items[2].name"""
    return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in location)
