"""Servers of the peers: how each is started, what its driver has to know, where it stores."""

import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


class Missing(Exception):
    """The peer is not installed here; the text says what is missing."""


class Server:
    """The processes of a peer beside its driver, each a session of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.processes: list[subprocess.Popen[str]] = []

    def begin(self) -> dict[str, str]:
        """Starts it and waits until it serves; the answer is the adapter's `place`."""
        raise NotImplementedError

    def stored(self) -> int:
        """Bytes on disk."""
        return disk(self.home)

    def pids(self) -> list[int]:
        found = []
        for process in self.processes:
            found += [process.pid, *children(process.pid)]
        return found

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it; SIGKILL takes every process at once."""
        # PostgreSQL's children are sessions of their own: all are found before any dies.
        for pid in self.pids() if how == signal.SIGKILL else [p.pid for p in self.processes]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        for process in self.processes:
            process.wait(timeout=60)
        self.processes = []

    def spawn(self, *command: str | Path, **more: object) -> subprocess.Popen[str]:
        log = open(self.home / "log", "a")
        process = subprocess.Popen(  # type: ignore[call-overload]
            [str(part) for part in command], start_new_session=True, text=True,
            **{"stdout": log, "stderr": log, **more},
        )
        self.processes.append(process)
        return process


class Sidecar(Server):
    def begin(self) -> dict[str, str]:
        program = ROOT / "bin" / "sidecar"
        if not program.exists():
            raise Missing("bin/pawl: make build")
        process = self.spawn(program, "serve", "--data", self.home / "store",
                             "--listen", "127.0.0.1:0", stdout=subprocess.PIPE)
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        return {"address": ready["grpc"], "pack": str(HERE / "loop.pack.json")}


class Postgres(Server):
    """Debian's PostgreSQL with the settings that initdb makes (fsync, synchronous_commit and
    full_page_writes on), a cluster of its own."""

    def begin(self) -> dict[str, str]:
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not programs:
            raise Missing("PostgreSQL: apt-get install postgresql")
        # It refuses to run as root.
        user = {"user": "postgres", "group": "postgres", "cwd": self.home} if os.geteuid() == 0 else {}
        data = self.home / "data"
        if not data.exists():
            if user:
                owner = pwd.getpwnam("postgres")
                os.chown(self.home, owner.pw_uid, owner.pw_gid)
            subprocess.run([f"{programs[-1]}/initdb", "-D", str(data), "-U", "bench", "-A", "trust",
                            "--no-locale", "-E", "UTF8"], check=True, capture_output=True, **user)
        port = free_port()
        dsn = f"postgresql://bench@127.0.0.1:{port}/postgres"

        def serves() -> bool:
            return subprocess.run([f"{programs[-1]}/psql", dsn, "-c", "select 1"], capture_output=True).returncode == 0

        def begun() -> bool:
            """Starts it again where it ended: children of the one before may still be there."""
            if not self.processes or self.processes[-1].poll() is not None:
                self.processes = []
                self.spawn(f"{programs[-1]}/postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1",
                           "-c", f"unix_socket_directories={self.home}", "-c", "max_connections=200", **user)
            return serves()

        wait_for(begun)
        return {"dsn": dsn}

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if how != signal.SIGKILL:  # a fast shutdown: connections are closed
            how = signal.SIGINT
        super().end(how)

    def stored(self) -> int:
        """Without its write-ahead log, which is used in turns."""
        return disk(self.home) - disk(self.home / "data" / "pg_wal")


class Restate(Server):
    def begin(self) -> dict[str, str]:
        modules = HERE / "restate" / "node_modules"
        program = modules / ".bin" / "restate-server"
        if not program.exists():
            raise Missing("bench/peers/restate: npm ci")
        if not hasattr(self, "ports"):
            self.ports = [free_port() for _ in range(4)]
        ingress, admin, node, service = self.ports
        self.spawn("node", HERE / "restate" / "service.mjs", str(service))
        env = {
            **os.environ, "RESTATE_BASE_DIR": str(self.home / "store"), "RESTATE_NODE_NAME": "bench",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}", "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}", "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}", "RESTATE_LOG_FILTER": "warn",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}/",
        }
        self.spawn(program, "--no-logo", env=env)
        wait_for(lambda: answers(f"http://127.0.0.1:{admin}/health"))
        wait_for(lambda: answers(f"http://127.0.0.1:{ingress}/restate/health"))
        return {"ingress": f"http://127.0.0.1:{ingress}", "admin": f"http://127.0.0.1:{admin}",
                "service": f"http://127.0.0.1:{service}"}


class NoServer(Server):
    """A library that stores in a file."""

    def begin(self) -> dict[str, str]:
        return {"file": str(self.home / "store.db")}


def wait_for(ready: object, seconds: float = 60.0) -> None:
    """Asks until it is so; raises after the time."""
    until = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        if time.monotonic() > until:
            raise TimeoutError("the server of the peer does not answer")
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return 200 <= answer.status < 300
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def disk(place: Path) -> int:
    """Bytes that the files below a directory take on disk."""
    return sum(entry.lstat().st_blocks * 512 for entry in place.rglob("*") if entry.is_file()
               and entry.name != "log") if place.exists() else 0


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            for child in Path(task).read_text().split():
                found += [int(child), *children(int(child))]
        except OSError:
            continue
    return found


def resident(pids: list[int]) -> int:
    """Bytes of memory that the processes hold together, pages that they share counted once."""
    total = 0
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        except OSError:
            continue
    return total


def remove(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
