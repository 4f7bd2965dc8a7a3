"""RFC 0009's security audit: a loop over findings on one sidecar, and for each finding a
loop of an agent that lives on another one.

Usage: audit.py [--kill SEED]    with --kill each sidecar and each worker is killed twice,
at moments that SEED chooses among the records that the run makes on both sidecars
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys

from pawl_client import Client, Ended, Record, Run, StepRequested, Transition, sidecar_path
from pawl_client.testing import Sidecar

from fleet import HERE, Fleet, WorkerProcess
from journals import Journals

# How many records of the kinds that Journals reads the whole makes, on A and B together.
RECORDS = 108
EACH = 2


def start(client: Client) -> Run:
    """Hands over what the scanner found."""
    findings = json.loads((HERE / "findings.json").read_text())
    return client.start("security-audit", agent="triage_findings", variables={"findings": findings})


def moments(seed: int) -> dict[int, str]:
    """Who is killed after how many records: all of them EACH times."""
    chance = random.Random(seed)
    victims = ["sidecar A", "sidecar B", "worker A", "worker B"] * EACH
    chance.shuffle(victims)
    return dict(zip(chance.sample(range(1, RECORDS - 8), len(victims)), victims, strict=True))


def follow(fleet: Fleet, run: Run, kills: dict[int, str]) -> None:
    """Prints what happens in the run until it has ended, and kills in its midst."""
    ended, last = False, max(kills, default=0)
    with Journals(fleet.a, fleet.b) as journals:
        for count, record in enumerate(journals, 1):
            if record.run_id == run.id:
                show(record)
                ended = isinstance(record.body, Ended)
            if count in kills:
                print(f"SIGKILL to {kills[count]}, after {count} records")
                kill(fleet.victims()[kills[count]], journals)
            if ended and count >= last:
                return


def kill(victim: Sidecar | WorkerProcess, journals: Journals) -> None:
    """Kills and starts again."""
    if isinstance(victim, Sidecar):
        journals.restart(victim)
    else:
        victim.restart()


def show(record: Record) -> None:
    """Prints what a record of the audit says, in one line."""
    match record.body:
        case Transition(to_state=to, visit=visit):
            print(f"→ {to} ({visit})")
        case StepRequested(step=step, tool=tool, payload={"variables": {"finding": {"id": name}}}):
            print(f"  step {step}: {tool} on {name}")
        case Ended(status=status, reason=reason):
            print(f"■ {status.name} ({reason})")


def runs_show(sidecar: Sidecar, run_id: str, *flags: str) -> str:
    """What `pawl runs show` prints."""
    command = [sidecar_path(), "runs", f"--addr={sidecar.address}", "show", run_id, *flags]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=30)
    return done.stdout


def show_family(fleet: Fleet, run: Run) -> None:
    """Prints how the two sidecars know each other's runs, of the first investigation."""
    first = json.loads(runs_show(fleet.a, run.id, "-o=json"))["children"][0]
    for name, sidecar, run_id in (("A", fleet.a, run.id), ("B", fleet.b, first["task_id"])):
        lines = runs_show(sidecar, run_id).splitlines()
        family = [line for line in lines if line.startswith(("parent", "child"))]
        print(*(f"{name}: {line}" for line in family[:2]), sep="\n")


def main() -> None:
    """Runs it, and prints what happened and what came out."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser()
    parser.add_argument("--kill", type=int, metavar="SEED")
    seed = parser.parse_args().kill
    with Fleet() as fleet, fleet.a.client() as client:
        run = start(client)
        follow(fleet, run, {} if seed is None else moments(seed))
        print(run.artifacts()["report"])
        show_family(fleet, run)


if __name__ == "__main__":
    main()
