"""A client without settings takes those of the environment, as the command line does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pawl_client import AsyncClient, AuthenticationError, Client, Worker
from pawl_client.testing import Sidecar
from test_connections import words


def test_address_and_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = words(tmp_path / "tokens", "the-first-secret-0123")
    with Sidecar(flags=[f"--tokens-file={tmp_path / 'tokens'}"]) as own:
        monkeypatch.setenv("PAWL_ADDR", own.address)
        with Client() as client, pytest.raises(AuthenticationError):
            client.caller()
        monkeypatch.setenv("PAWL_TOKEN", secret)
        with Client() as client:
            assert client.caller().principal == "app"
        # The file goes before the variable, what is given before both.
        (tmp_path / "token").write_text("wrong-token-0123456789\n")
        monkeypatch.setenv("PAWL_TOKEN_FILE", str(tmp_path / "token"))
        with Client() as client, pytest.raises(AuthenticationError):
            client.caller()
        with Client(token=secret) as client:
            assert client.caller().principal == "app"
        (tmp_path / "token").write_text(f"{secret}\n")
        with Client() as client:
            assert client.caller().principal == "app"


@pytest.mark.parametrize("made", [Client, AsyncClient, Worker])
def test_a_bad_address(made: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAWL_ADDR", "http://there:1")
    with pytest.raises(ValueError, match="address: HOST:PORT or unix:PATH, not 'http://there:1'"):
        made()
