"""What the words of a fault mean, alike in every language."""

import json
from pathlib import Path
from typing import Any

import pytest

from pawl_client._provider_errors import failure_of_error

TABLE = Path(__file__).parents[3] / "testdata" / "model" / "faults.json"


@pytest.mark.parametrize("row", json.loads(TABLE.read_text()), ids=lambda row: row["word"])
@pytest.mark.parametrize("field", ["type", "code"])
def test_words_of_a_fault(row: dict[str, Any], field: str) -> None:
    failure = failure_of_error({field: row["word"], "message": "said so"})
    assert (failure.non_retryable, failure.error.message) == (row["non_retryable"], "said so")
