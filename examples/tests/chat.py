"""A local endpoint that speaks the wire format of chat completions from recorded answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import turns

ORDER = ("frame 1", "plan 1", "act 1", "reflect 1", "plan 2", "act 2", "reflect 2", "done 1")


def answers() -> Iterator[tuple[str, int, int]]:
    """State, visit and round of each answer, in the order in which they are asked for."""
    for state, visit in map(str.split, ORDER):
        for number in range(2 if state == "act" else 1):
            yield state, int(visit), number


def delta(recorded: dict[str, Any], number: int) -> dict[str, Any]:
    """The message of an answer: a tool call, the way out, or the final text."""
    calls = recorded.get("calls", [])
    if number < len(calls):
        name, arguments = calls[number]["tool"], calls[number]["payload"]
    elif "event" in recorded:
        name = "leave_state"
        arguments = {k: recorded[k] for k in ("event", "artifacts") if k in recorded}
    else:
        return {"role": "assistant", "content": recorded["output"]}
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Chat:
    """Gives the recorded answers of a run in order, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = answers()
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                chat.requests.append(asked)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for chunk in chat.chunks(json.dumps(asked["messages"])):
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def chunks(self, messages: str) -> Iterator[dict[str, Any]]:
        """The pieces of the next answer. The answers of a turn use together what is recorded:
        one token read and one written by each but the last, since an answer without usage would
        count with its bound."""
        state, visit, number = next(self._answers)
        recorded = turns.answer(state, visit, messages)
        last = number == len(recorded.get("calls", []))
        used = {side: tokens - number for side, tokens in recorded["usage"].items()}
        usage = used if last else {"input_tokens": 1, "output_tokens": 1}
        common = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": "recorded",
        }
        choice = {"index": 0, "delta": delta(recorded, number), "finish_reason": "stop"}
        yield common | {"choices": [choice]}
        total = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": sum(usage.values()),
        }
        yield common | {"choices": [], "usage": total}

    def __enter__(self) -> Chat:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
