"""A local HTTP server that speaks the wire format of chat completions, from recordings."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

RECORDINGS: dict[str, Any] = json.loads((Path(__file__).parent / "recordings.json").read_text())


class Endpoint:
    """Answers each request with the next recording by name, and keeps the requests."""

    def __init__(self, *names: str) -> None:
        self.requests: list[dict[str, Any]] = []
        self._names = list(names)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                endpoint.requests.append(json.loads(self.rfile.read(length)))
                endpoint.answer(self)

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Endpoint:
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

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Plays the next recording; the last one again and again."""
        name = self._names.pop(0) if len(self._names) > 1 else self._names[0]
        recording = RECORDINGS[name]
        if "status" in recording:
            body = json.dumps(recording["body"]).encode()
            request.send_response(recording["status"])
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
            return
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for chunk in recording["chunks"]:
            self._piece(request, f"data: {json.dumps(chunk)}\n\n")
        if recording.get("broken"):
            request.close_connection = True
            return
        self._piece(request, "data: [DONE]\n\n")
        request.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def _piece(request: BaseHTTPRequestHandler, text: str) -> None:
        data = text.encode()
        request.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        request.wfile.flush()
