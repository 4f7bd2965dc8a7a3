"""A client without settings takes those of the environment, as the command line does."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import pytest

import certificates
from pawl_client import AsyncClient, AuthenticationError, Client, UnavailableError, Worker
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
    words = "address: HOST:PORT or unix:PATH, not 'http://there:1'"
    with pytest.raises(ValueError, match=rf"{words} \(the argument address\)"):
        made(address="http://there:1")
    monkeypatch.setenv("PAWL_ADDR", "http://there:1")
    with pytest.raises(ValueError, match=rf"{words} \(PAWL_ADDR\)"):
        made()


async def test_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = certificates.make(tmp_path, name="localhost")
    flags = [
        f"--tls-cert={files.cert}",
        f"--tls-key={files.key}",
        f"--tls-client-ca={files.ca}",
    ]
    with Sidecar(flags=flags) as own:
        port = own.address.rpartition(":")[2]
        monkeypatch.setenv("PAWL_ADDR", f"localhost:{port}")
        monkeypatch.setenv("PAWL_CA", str(files.ca))
        with Client() as client, pytest.raises(UnavailableError, match="PAWL_CERT and PAWL_KEY"):
            client.caller()
        monkeypatch.setenv("PAWL_CERT", str(files.client_cert))
        with pytest.raises(ValueError, match="must be set together"):
            Client()
        monkeypatch.setenv("PAWL_KEY", str(files.client_key))
        with Client() as client:
            assert client.caller().principal
        async with AsyncClient() as aclient:
            assert (await aclient.caller()).principal
        assert Worker()._settings.tls == client.settings.tls
        monkeypatch.delenv("PAWL_CA")
        with pytest.raises(ValueError, match="PAWL_CERT: needs TLS"):
            Client()
        monkeypatch.delenv("PAWL_CERT")
        monkeypatch.delenv("PAWL_KEY")
        words = "it speaks TLS, or is no sidecar: .* or PAWL_CA"
        with Client(retry_for=0) as client, pytest.raises(UnavailableError, match=words):
            client.caller()


@pytest.mark.parametrize("kind", ["client", "worker"])
async def test_a_certificate_that_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    files, other = certificates.make(tmp_path / "own"), certificates.make(tmp_path / "other")
    with Sidecar(flags=[f"--tls-cert={files.cert}", f"--tls-key={files.key}"]) as own:
        monkeypatch.setenv("PAWL_ADDR", own.address)
        monkeypatch.setenv("PAWL_CA", str(other.ca))
        begun = time.monotonic()
        worker = Worker()
        worker.prompt("calc")(lambda turn: None)
        async with AsyncClient() as client:
            refused = client.caller if kind == "client" else worker.serve
            with pytest.raises(UnavailableError) as caught:
                await refused()
        assert time.monotonic() - begun < 10  # It is not tried again for `retry_for` seconds.
    assert f"its certificate is not trusted: the CA {other.ca} did not sign it" in str(caught.value)


async def test_a_socket_has_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tempfile.mkdtemp(prefix="pawl-")  # A path of a socket is short.
    monkeypatch.setenv("PAWL_CA", "/no/such/file")
    with Sidecar(flags=[f"--socket={directory}/s"]) as own:
        with Client(address=f"unix:{directory}/s") as client:
            assert client.caller().principal == "anonymous"
        with own.client() as client:
            assert client.caller().principal == "anonymous"
    shutil.rmtree(directory)


def test_a_sidecar_of_a_test_ignores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAWL_HTTP", "no port")
    with Sidecar() as own, own.client() as client:
        assert client.caller().principal == "anonymous"
