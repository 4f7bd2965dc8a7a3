"""RFC 0009's example 4: an agent that repairs a service, and asks a person first.

The person rejects one proposal. While the second one waits, the sidecar and the agent are
killed and started again; then somebody without the right to approves, and then the person
does, with a double click.

Usage: incident.py [--ask]     with --ask you are the person, in another terminal
"""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pawl_client import Client, Ended, Record, RecordKind, Run, RunInfo, Transition
from pawl_client.testing import Sidecar

from agent import TOOLS
from service import Service

HERE = Path(__file__).resolve().parent
PACK = HERE.parents[1] / "testdata/packs/rfc0009-4-ops-remediation.yaml"
SCOPES = {
    "app": "packs:write,runs:write,runs:read",
    "agent": "work",
    "oncall": "runs:read,events:external",
    "intern": "runs:read",
}
ALL = [kind.name for kind in RecordKind if kind is not RecordKind.UNSPECIFIED]
GRACE_SECONDS = 20.0


def digest(token: str) -> str:
    """A token as a tokens file has it."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


class Office:
    """The broken service, and a sidecar that knows who is who."""

    def __init__(self, directory: Path) -> None:
        self.tokens = {name: secrets.token_hex(16) for name in SCOPES}
        file = directory / "tokens"
        file.touch(mode=0o600)
        file.write_text("".join(f"{n} {SCOPES[n]} {digest(t)}\n" for n, t in self.tokens.items()))
        self.service = Service()
        self.sidecar = Sidecar(
            packs=[PACK], allow_tools=list(TOOLS), flags=[f"--tokens-file={file}"]
        )

    def client(self, name: str) -> Client:
        """A client of somebody."""
        return self.sidecar.client(token=self.tokens[name])

    def environment(self, name: str) -> dict[str, str]:
        """Tells a program where the sidecar is and who runs it."""
        return {"PAWL_ADDR": self.sidecar.address, "PAWL_TOKEN": self.tokens[name]}

    @contextmanager
    def agent(self) -> Iterator[subprocess.Popen[bytes]]:
        """The agent's process, as long as the block; it drains when it is told to end."""
        command = [sys.executable, str(HERE / "agent.py"), self.sidecar.address, self.service.url]
        process = subprocess.Popen(command, env=os.environ | self.environment("agent"))
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def clicks(self, name: str, *arguments: str, times: int = 1) -> list[tuple[int, str]]:
        """Somebody runs human.py, several times at once: exit codes and output, in order."""
        command = [sys.executable, str(HERE / "human.py"), *arguments]
        people = [
            subprocess.Popen(
                command, env=os.environ | self.environment(name), stdout=subprocess.PIPE, text=True
            )
            for _ in range(times)
        ]
        try:
            said = [person.communicate(timeout=GRACE_SECONDS)[0].strip() for person in people]
        finally:
            for person in people:
                person.kill()
        return sorted((person.returncode, text) for person, text in zip(people, said, strict=True))


def start(client: Client) -> Run:
    """Reports the alert."""
    alert = "payments: requests time out"
    return client.start("ops-remediation", variables={"alert_description": alert})


def follow(run: Run, after_seq: int = 0) -> Record:
    """Prints what happens until a person has to decide, or the run has ended."""
    for record in run.transitions(after_seq=after_seq):
        match record.body:
            case Transition(to_state="await_approval", visit=visit):
                fix = run.artifacts()["proposed_fix"]
                print(f"→ await_approval ({visit}): {fix['config']}")
                return record
            case Transition(to_state=to, visit=visit):
                print(f"→ {to} ({visit})")
            case Ended(status=status, reason=reason):
                print(f"■ {status.name} ({reason})")
    return record


def everything(run: Run) -> tuple[RunInfo, list[Record]]:
    """All that there is to know of a run: its counts, and its records with their hashes."""
    return run.info(), list(run.records(kinds=ALL))


def rehearse(office: Office, client: Client) -> None:
    """Plays everybody."""
    with office.agent() as agent:
        run = start(client)
        proposal = reject_once(office, run)
        before = everything(run)
        agent.kill()
        agent.wait(GRACE_SECONDS)
        office.sidecar.kill()
    print("SIGKILL to the agent and the sidecar; both start again")
    office.sidecar.start()
    with office.agent():
        compare(before, everything(run))
        approve = (run.id, "approve", f"--seq={proposal.seq}")
        tell("intern", office.clicks("intern", *approve))
        tell("oncall", office.clicks("oncall", *approve, times=2))
        follow(run, proposal.seq)


def reject_once(office: Office, run: Run) -> Record:
    """Has the first proposal rejected; returns the record of the second one."""
    proposal = follow(run)
    why = "--why=the database takes at most 32 connections"
    tell("oncall", office.clicks("oncall", run.id, "reject", f"--seq={proposal.seq}", why))
    return follow(run, proposal.seq)


def compare(before: tuple[RunInfo, list[Record]], after: tuple[RunInfo, list[Record]]) -> None:
    """Prints what the restart left unchanged."""
    info, records = after
    print("unchanged:" if before == after else "CHANGED:", end=" ")
    print(f"{len(records)} records, {info.total_visits} visits, {info.tool_calls} tool calls")


def tell(name: str, said: list[tuple[int, str]]) -> None:
    """Prints what human.py answered to somebody."""
    for _, text in said:
        print(f"  {name}: {text}")


def ask(office: Office, client: Client) -> None:
    """Waits for you, in another terminal, whenever a person has to decide."""
    with office.agent():
        run = start(client)
        record = follow(run)
        while isinstance(record.body, Transition):
            settings = " ".join(f"{k}={v}" for k, v in office.environment("oncall").items())
            print(f"  {settings} {sys.executable} {HERE / 'human.py'} {run.id}")
            record = follow(run, record.seq)


def main() -> None:
    """Runs it, and prints what became of the service."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as directory:
        office = Office(Path(directory))
        with office.service as service, office.sidecar, office.client("app") as client:
            print(f"payments: {service}")
            play = ask if "--ask" in sys.argv else rehearse
            play(office, client)
            print(f"payments: {service}; {', '.join(service.changes)}")


if __name__ == "__main__":
    main()
