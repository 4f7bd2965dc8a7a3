"""What the driver writes: one JSON value a line."""

import json
import sys
import threading
from typing import Any

_lock = threading.Lock()


def write(line: dict[str, Any]) -> None:
    """Writes a line at once."""
    text = json.dumps(line)
    with _lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def event(kind: str, **fields: Any) -> None:
    """Reports what a handler does."""
    write({"event": {"kind": kind, **fields}})
