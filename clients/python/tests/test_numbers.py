"""Numbers of JSON as a program sees them, and as they go out again."""

from __future__ import annotations

import pytest

from pawl_client._convert import parse_json
from pawl_client._json_text import dump_json


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("9007199254740993", "9007199254740993"),
        ("-9007199254740993", "-9007199254740993"),
        ("18446744073709551617", "18446744073709551617"),
        ("1152921504606846976", "1152921504606846976"),
        ("1.10", "1.1"),
        ("4.99e1", "49.9"),
        ("5e-324", "5e-324"),
    ],
)
def test_a_number_goes_out_as_it_came(text: str, out: str) -> None:
    value = parse_json(f'{{"n":[{text}]}}')
    assert dump_json(value, "payload").replace(" ", "") == f'{{"n":[{out}]}}'


def test_a_fraction_is_the_nearest_float() -> None:
    """What docs/guides/workers.md says of numbers with more digits than a float has."""
    assert parse_json("0.1234567890123456789012") == 0.12345678901234568
