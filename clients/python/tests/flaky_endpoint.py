"""A chat endpoint and a payment service that kill the processes which call them.

Each answer has a different text; some are errors 503 or break off. At some requests the calling
process is killed: before the answer, during it, after it, or when the tool has had its effect and
the process has not received the result.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

WORDS = ("Order {}", "order #{}", "no. {}", "ORDER-{}", "the order {}")


LAST = 3
"""The round of the last state, from 0."""


class Round:
    """A round of a run: the answers that were requested, and the history in each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Ids of its answers, in the order of the requests."""
        self.heard: list[list[str]] = []
        """For each request, the earlier answers of the model that the request contained."""


class FlakyEndpoint:
    """The endpoint and the service of this module. `kills` is the highest number of kills. At
    every fifth kill, `restart` is called too, for the sidecar."""

    def __init__(self, seed: int, kills: int, restart: Callable[[], None]) -> None:
        self.rounds: dict[tuple[int, int], Round] = {}
        self.effects: dict[str, str] = {}
        """What was charged, by the key of the call."""
        self.charges: Counter[str] = Counter()
        """How often the tool was called, by key."""
        self.left = kills
        self._kills = 0
        self._random, self._lock, self._restart = random.Random(seed), threading.Lock(), restart
        self._answers = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    if self.path == "/charge":
                        endpoint.charge(self, body)
                    else:
                        endpoint.answer(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # The process that sent the request was killed.

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FlakyEndpoint:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _dies(self, pid: int) -> bool:
        """Kills the calling process at random. Returns whether it killed it."""
        with self._lock:
            if not self.left or self._random.random() > 0.3:
                return False
            self.left -= 1
            self._kills += 1
            if self._kills % 5 == 0:
                self._restart()
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False  # It died meanwhile, at another request.
            return True

    def charge(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """The effect of the tool."""
        with self._lock:
            self.effects.setdefault(body["key"], body["order"])
            self.charges[body["key"]] += 1
        if not self._dies(body["pid"]):
            _whole(request, 200, {"charged": "".join(filter(str.isdigit, body["order"]))})

    def answer(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """One call of the model."""
        messages, pid = body["messages"], int(request.headers["X-Pid"])
        run = int("".join(filter(str.isdigit, messages[0]["content"])))
        said = [m["content"] for m in messages if m["role"] == "assistant"]
        with self._lock:
            self._answers += 1
            number = self._answers
            turn = self.rounds.setdefault((run, len(said) if "tools" in body else LAST), Round())
            turn.asked.append(f"chatcmpl-{number}")
            turn.heard.append(said)
            mishap = self._random.random() if len(turn.asked) < 3 else 1.0
        if self._dies(pid):
            return
        if mishap < 0.1:
            _whole(request, 503, {"error": {"message": "overloaded"}})
            return
        tools = [tool["function"]["name"] for tool in body.get("tools", ())]
        chunks = _chunks(number, run, said, tools)
        self._stream(request, chunks, pid, broken=mishap < 0.2)

    def _stream(
        self, request: BaseHTTPRequestHandler, chunks: list[Any], pid: int, *, broken: bool
    ) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for i, chunk in enumerate(chunks):
            if i == len(chunks) // 2 and (broken or self._dies(pid)):
                request.close_connection = True
                return
            _piece(request, f"data: {json.dumps(chunk)}\n\n")
        _piece(request, "data: [DONE]\n\n")
        request.wfile.write(b"0\r\n\r\n")
        self._dies(pid)


def _chunks(number: int, run: int, said: list[str], tools: list[str]) -> list[Any]:
    """The answer of a round, in the words of its number."""
    text = f"Answer {number}: "
    word = WORDS[number % len(WORDS)]
    calls: list[tuple[str, Any]] = []
    if "leave_state" not in tools:
        text += "all done"
    elif len(said) == 0:
        calls = [("charge", {"order": word.format(f"{run}1")}), ("charge", {"order": f"{run}2"})]
    elif len(said) == 1:
        calls = [("charge", {"order": word.format(f"{run}3")})]
    else:
        calls = [("leave_state", {"event": "Done", "artifacts": {"note": f"run {run}"}})]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": text}]
    deltas += [
        {
            "tool_calls": [
                {
                    "index": i,
                    "id": f"call_{number}_{i}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
            ]
        }
        for i, (name, arguments) in enumerate(calls)
    ]
    finish = "tool_calls" if calls else "stop"
    chunks = [_chunk(number, delta, None) for delta in deltas] + [_chunk(number, {}, finish)]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return [*chunks, _chunk(number, None, None) | {"choices": [], "usage": usage}]


def _chunk(number: int, delta: Any, finish: str | None) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "gpt-5-mini",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        "usage": None,
    }


def _whole(request: BaseHTTPRequestHandler, status: int, body: Any) -> None:
    data = json.dumps(body).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)


def _piece(request: BaseHTTPRequestHandler, text: str) -> None:
    data = text.encode()
    request.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    request.wfile.flush()
