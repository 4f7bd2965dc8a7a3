"""The address, credentials and connection settings of a client."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc

from pawl_client._errors import AuthenticationError, PawlError

DEFAULT_ADDRESS = "127.0.0.1:7291"
"""The address at which `pawl serve` listens by default."""

_ADDRESS = re.compile(r"unix:.+|([^\s/:@?#\[\]]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")
"""A URL does not match: gRPC would resolve its scheme as a host name."""

TokenSource: TypeAlias = "str | Callable[[], str]"
"""A bearer token, or a function that returns one.

The function is called before each call, and once more if the sidecar refuses its token, so a token
may be rotated. A worker calls it until the sidecar accepts a token, with growing pauses, and logs
each refusal. A worker whose fixed token is refused ends.
"""

KEEPALIVE = 9.0
"""Seconds between keepalive pings.

A ping may take half of that to be answered, so a dead connection is found within 13.5 s, before
calls fail. A sidecar closes connections that send pings every 5 s.
"""

_LEAST_KEEPALIVE = 6.0


def address_of(given: str | None) -> str:
    """Returns the given address, else PAWL_ADDR, else the default, as the command line does."""
    return os.environ.get("PAWL_ADDR", DEFAULT_ADDRESS) if given is None else given


def token_of(given: TokenSource | None) -> TokenSource | None:
    """Returns the given token, else a function that reads the file PAWL_TOKEN_FILE at each call,
    else PAWL_TOKEN, as the command line does.
    """
    if given is not None:
        return given
    if file := os.environ.get("PAWL_TOKEN_FILE"):
        return lambda: Path(file).read_text().strip()
    return os.environ.get("PAWL_TOKEN") or None


_MEBIBYTE = 1 << 20


def version() -> str:
    """Version of this package."""
    return importlib.metadata.version("pawl-client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS settings of a connection. All files are PEM.

    `ca` holds the authorities that sign server certificates (default: those of gRPC). `cert` and
    `key` are the client's own, for mutual TLS; give both or neither. `server_name` replaces the
    address's host in the check of the server's certificate. Raises ValueError for a `cert` without
    a `key`, or the reverse.
    """

    ca: Path | str | None = None
    cert: Path | str | None = None
    key: Path | str | None = field(default=None, repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("tls: cert and key must be given together; give both or neither")

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files and returns the gRPC credentials."""

        def read(path: Path | str | None) -> bytes | None:
            return None if path is None else Path(path).read_bytes()

        return grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a client. Times are in seconds.

    `timeout` bounds each call, its repetitions included (default 30). `retry_for` bounds how long a
    call is repeated while the sidecar cannot be reached or asks to wait (default 20, 0: no
    repetition). `keepalive` is the time between pings, at least 6. `max_message_bytes` bounds one
    message in either direction (default 64 MiB). Raises ValueError for a value out of range.
    """

    address: str = DEFAULT_ADDRESS
    namespace: str = ""
    token: TokenSource | None = field(default=None, repr=False)
    tls: Tls | None = None
    timeout: float = 30.0
    retry_for: float = 20.0
    keepalive: float = KEEPALIVE
    max_message_bytes: int = 64 * _MEBIBYTE

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError(f"address: HOST:PORT or unix:PATH, not {self.address!r}")
        for name in ("timeout", "keepalive", "max_message_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be greater than 0, not {getattr(self, name)}")
        if self.keepalive < _LEAST_KEEPALIVE:
            raise ValueError(
                f"keepalive: must be at least {_LEAST_KEEPALIVE:g} s, not {self.keepalive}"
            )
        if self.retry_for < 0:
            raise ValueError(f"retry_for: must be at least 0 s, not {self.retry_for}")

    def options(self) -> list[tuple[str, str | int]]:
        """Returns the options of the gRPC channel. gRPC's own retries are off: this package repeats
        calls itself, with the same ids.
        """
        options: list[tuple[str, str | int]] = [
            ("grpc.primary_user_agent", f"pawl-python/{version()}"),
            ("grpc.keepalive_time_ms", int(self.keepalive * 1000)),
            # Both are needed: with the first alone, newer versions of gRPC wait for a minute.
            ("grpc.keepalive_timeout_ms", int(self.keepalive * 500)),
            ("grpc.http2.ping_timeout_ms", int(self.keepalive * 500)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 50),
            # The longest time of one attempt to connect, handshakes included.
            ("grpc.min_reconnect_backoff_ms", 5_000),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", self.max_message_bytes),
        ]
        if self.tls is not None and self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        if self.address.startswith("unix:"):
            options.append(("grpc.default_authority", "localhost"))
        return options

    def may_renew(self, error: PawlError) -> bool:
        """Whether a new token may help: a function gives it, and the error is about the token."""
        return isinstance(error, AuthenticationError) and callable(self.token)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of one call: the token, if there is one.

        Raises AuthenticationError if the token's function raises or returns no str.
        """
        if self.token is None:
            return ()
        token = self.token if isinstance(self.token, str) else _given(self.token)
        return (("authorization", f"Bearer {token}"),)


def _given(source: Callable[[], str]) -> str:
    try:
        token: object = source()
    except Exception as error:
        raise AuthenticationError(
            f"token: the function raised {type(error).__name__}: {error}", code="UNAUTHENTICATED"
        ) from error
    if not isinstance(token, str):
        raise AuthenticationError(
            f"token: the function must return a str, not {type(token).__name__}",
            code="UNAUTHENTICATED",
        )
    return token
