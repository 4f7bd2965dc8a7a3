"""What a provider wants to have back with an answer, as `ModelAnswer.provider` has it.

The TypeScript client writes and reads the same, so that a turn may move between workers of
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pawl._values import Json, Message


@dataclass(frozen=True, slots=True)
class Own:
    """An item of the provider's own."""

    item: Json


Place: TypeAlias = "Own | str | int"
"""An item of the provider's own, "text" for the text, or the index of a call."""

TEXT = "text"


def placed(provider: str, places: Sequence[Place]) -> Json:
    """Items as they are recorded, by the provider's name; None: there are none. `places`
    says where they are among the text and the calls, unless they all come first.

    >>> placed("p", [Own(1), "text"])
    {'p': [1]}
    >>> placed("p", ["text", Own(1), 0])
    {'p': [1], 'places': ['text', 'own', 0]}
    """
    own = [place.item for place in places if isinstance(place, Own)]
    if not own:
        return None
    if all(isinstance(place, Own) for place in places[: len(own)]):
        return {provider: own}
    order = ["own" if isinstance(place, Own) else place for place in places]
    return {provider: own, "places": order}


def places_of(provider: str, message: Message, calls: int) -> list[Place]:
    """The places of a message; items of another provider are left out."""
    known: dict[str, Any] = message.provider if isinstance(message.provider, dict) else {}
    kept, order = known.get(provider), known.get("places")
    own = [Own(item) for item in kept] if isinstance(kept, list) else []
    if own and isinstance(order, list):
        items = iter(own)
        places = (next(items, None) if place == "own" else place for place in order)
        return [place for place in places if place is not None]
    return [*own, TEXT, *range(calls)]
