"""The service that is broken: its pool of connections is smaller than what it needs."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WANTED = 9


class Service:
    """`payments`, on a free loopback port. A new configuration counts from its restart."""

    def __init__(self) -> None:
        self.running, self.configured = {"pool_size": 4}, {"pool_size": 4}
        self.changes: list[str] = []
        self._answers: dict[str, Any] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers["Idempotency-Key"]
                answer = json.dumps(service.once(key, self.path, given)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __str__(self) -> str:
        health = "healthy" if self.healthy else "failing"
        return f"{health}, {self.running['pool_size']} connections for {WANTED}"

    @property
    def healthy(self) -> bool:
        """Whether everybody who wants a connection gets one."""
        return self.running["pool_size"] >= WANTED

    def once(self, key: str, path: str, given: dict[str, Any]) -> Any:
        """The answer to a call; one that comes again under its key changes nothing."""
        if key not in self._answers:
            self._answers[key] = self.answer(path, given)
        return self._answers[key]

    def answer(self, path: str, given: dict[str, Any]) -> Any:
        """What a path of its control port does."""
        match path:
            case "/metrics":
                return self.running | {"connections_wanted": WANTED}
            case "/logs":
                return [] if self.healthy else ["timeout: no connection became free in 5 s"]
            case "/config":
                self.configured = given["config"]
                self.changes.append(f"configured {self.configured['pool_size']}")
            case "/restart":
                self.running = self.configured
                self.changes.append("restarted")
        return {"healthy": self.healthy}

    def __enter__(self) -> Service:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
