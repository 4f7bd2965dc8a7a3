"""What a typed function takes and gives, by pydantic; imported where there is one only."""

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

from pawl._errors import INVALID_ARGUMENTS, RESULT_INVALID, SchemaError
from pawl._values import Json

_EXACT = 2**53
"""Above it a float has no neighbours that differ by one."""


@dataclass(frozen=True, slots=True)
class PydanticForm:
    """A `Form` by pydantic. `whole`: the payload is one argument."""

    tool: str
    taken: TypeAdapter[Any]
    given: TypeAdapter[Any]
    parameters: Json
    whole: bool

    def arguments(self, payload: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with."""
        try:
            # As JSON and strictly: a date is a text, but no number is.
            value = self.taken.validate_json(json.dumps(_integral(payload)), strict=True)
        except ValidationError as error:
            raise _misfit(INVALID_ARGUMENTS, f"arguments of tool {self.tool}", error) from None
        return ((value,), {}) if self.whole else ((), value)

    def result(self, value: Any) -> Json:
        """What the function gave as JSON."""
        what = f"result of tool {self.tool}"
        try:
            fitting = self.given.validate_python(value)
            told: Json = self.given.dump_python(fitting, mode="json", warnings="error")
        except ValidationError as error:
            raise _misfit(RESULT_INVALID, what, error) from None
        except PydanticSerializationError as error:
            raise SchemaError(f"{what}: {error}", reason=RESULT_INVALID) from None
        return told


def form(tool: str, signature: inspect.Signature, whole: inspect.Parameter | None) -> PydanticForm:
    """The form of a function. `whole` is the parameter that takes the payload, None: it is
    called by name. Raises ValueError: an annotation is no type that JSON has values of."""
    result = signature.return_annotation
    try:
        taken = TypeAdapter(whole.annotation if whole else _arguments(tool, signature))
        given = TypeAdapter(Any if result is inspect.Signature.empty else result)
        parameters = taken.json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise ValueError(f"tool {tool}: {error.message}") from error
    return PydanticForm(tool, taken, given, parameters, whole is not None)


def _arguments(tool: str, signature: inspect.Signature) -> Any:
    """The type of the arguments: an object with the parameters and nothing else. Those that
    are not given have the function's own defaults."""
    fields: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if isinstance(parameter.default, FieldInfo):
            raise ValueError(
                f"tool {tool}: parameter {name}: Field() belongs into the annotation: "
                "Annotated[..., Field(...)]"
            )
        optional = parameter.default is not inspect.Parameter.empty
        fields[name] = NotRequired[parameter.annotation] if optional else parameter.annotation
    make: Any = TypedDict
    made = make("Arguments", fields)
    made.__pydantic_config__ = ConfigDict(extra="forbid")
    return made


def _integral(value: Json) -> Json:
    """The same JSON, whole numbers as ints: 1.0 is an integer to JSON Schema."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, dict):
        return {name: _integral(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return value


def _misfit(reason: str, what: str, error: ValidationError) -> SchemaError:
    """Names each place, and what was expected there; not what was found, which may be
    nobody's to read."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    places = tuple((_place(fault["loc"]), fault["msg"]) for fault in faults)
    text = "; ".join(f"at {place}: {said}" for place, said in places)
    return SchemaError(
        f"{what}: {text}", reason=reason, metadata={"field": places[0][0]}, violations=places
    )


def _place(location: tuple[int | str, ...]) -> str:
    """Where it is, in the words of JSON paths: $.items[2].name"""
    return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in location)
