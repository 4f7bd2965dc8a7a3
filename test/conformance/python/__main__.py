"""Executes the verbs of conformance scenarios with the package pawl.

Reads one request a line and writes one answer a line; what is to be expected of an
answer it does not know.
"""

import json
import sys
import threading
from typing import Any

from calls import Driver
from canon import fault
from lines import write


def answer(driver: Driver, request: dict[str, Any]) -> None:
    """Performs one verb."""
    try:
        result = getattr(driver, request["op"])(request.get("args") or {})
        write({"id": request["id"], "result": {} if result is None else result})
    except Exception as error:
        write({"id": request["id"], "error": fault(error)})


def main() -> None:
    """Answers requests until the input ends."""
    driver = Driver()
    for line in sys.stdin:
        threading.Thread(target=answer, args=(driver, json.loads(line)), daemon=True).start()


main()
