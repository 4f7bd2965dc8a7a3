"""The verbs, each by the client's own call."""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import control
import models
from canon import canon, fault
from flood import flood
from lines import event
from loops import Blocking, Looping
from script import Holds, Player, artifacts, reply
from work import Server, Worker, started

import pawl_client

Args = dict[str, Any]
_PATIENCE = 50.0


class Driver:
    """Holds what a scenario has named so far."""

    def __init__(self) -> None:
        self._client: pawl_client.Client | None = None
        self._worker: Worker | Server | None = None
        self._loop: Blocking | Looping | None = None

    def ping(self, args: Args) -> None:
        """Answers."""

    def reset(self, args: Args) -> None:
        """Points the driver at a sidecar and forgets all names."""
        if self._client is not None:
            self._client.close()
        self._address, self._token_given = args["address"], args.get("token") or None
        self._ledger: str = args["ledger"]
        self._serves: bool = args.get("serves", False)
        self._worker = None
        if self._loop is None:
            self._loop = Looping() if args.get("async") else Blocking()
        # The asynchronous client is called as the blocking one.
        self._client = self._loop.client(address=self._address, token=self._token_given)
        self._runs: dict[str, pawl_client.Run] = {}
        self._turns: dict[str, pawl_client.TurnInfo] = {}
        self._tails: dict[str, Tail] = {}
        self._holds = Holds()
        self._control = control.Control(self._client)

    # Packs and runs

    @property
    def client(self) -> pawl_client.Client:
        assert self._client is not None
        return self._client

    def _run(self, args: Args) -> pawl_client.Run:
        if "run_id" in args:
            return self.client.attach(args["run_id"])
        return self._runs[args.get("run", "run")]

    def register(self, args: Args) -> Any:
        return canon(self.client.register_pack(args["content"], filename=args["filename"]).pack)

    def start(self, args: Args) -> Any:
        begin = self.client.start if args.get("execution") == "workers" else self.client.open
        run = begin(args["pack"], **started(args))
        alias = next((name for name, known in self._runs.items() if known.id == run.id), "")
        self._runs[args.get("as", "run")] = run
        return {**canon(run.info()), "alias": alias}

    def info(self, args: Args) -> Any:
        return canon(self._run(args).info(at_seq=args.get("at_seq", 0)))

    def artifacts(self, args: Args) -> Any:
        return canon(self._run(args).artifacts(at_seq=args.get("at_seq", 0)))

    def emit(self, args: Args) -> Any:
        return canon(
            self._run(args).emit(
                args["event"],
                artifacts=artifacts(args.get("artifacts")),
                event_id=args.get("id", ""),
                expected_seq=args.get("expected_seq", 0),
                turn_token=self._token(args),
            )
        )

    def set(self, args: Args) -> Any:
        return canon(
            self._run(args).set_artifacts(
                artifacts(args["artifacts"]),
                slots=self._slots(args),
                write_id=args.get("id", ""),
                expected_seq=args.get("expected_seq", 0),
                turn_token=self._token(args),
            )
        )

    def input(self, args: Args) -> Any:
        return canon(
            self._run(args).send_input(
                args["input"],
                message_id=args.get("id", ""),
                expected_seq=args.get("expected_seq", 0),
            )
        )

    def pause(self, args: Args) -> Any:
        return canon(self._run(args).pause(args.get("note", ""), request_id=args.get("id", "")))

    def resume(self, args: Args) -> Any:
        return canon(self._run(args).resume(args.get("note", ""), request_id=args.get("id", "")))

    def cancel(self, args: Args) -> Any:
        return canon(self._run(args).cancel(args.get("note", ""), request_id=args.get("id", "")))

    # What people do to a run

    def approvals(self, args: Args) -> Any:
        return self._control.approvals(self._run(args))

    def decide(self, args: Args) -> Any:
        return self._control.decide(self._run(args), args)

    def steer(self, args: Args) -> Any:
        return control.steer(self._run(args), args)

    def stop_run(self, args: Args) -> Any:
        return control.stop_run(self._run(args), args)

    def raise_budget(self, args: Args) -> Any:
        return control.raise_budget(self._run(args), args)

    def wait(self, args: Args) -> Any:
        waited = self._run(args).wait(
            until=args.get("until", "TERMINAL"), timeout=args.get("seconds", 45)
        )
        return {**canon(waited.run), "timed_out": waited.timed_out}

    # Turns and steps

    def turn(self, args: Args) -> Any:
        info = self._run(args).turn()
        self._turns[args.get("as", "current")] = info
        return canon(info)

    def _held(self, args: Args) -> pawl_client.TurnRef:
        if "ref" in args:
            ref = args["ref"]
            return pawl_client.TurnRef(
                run_id=self._run(args).id,
                turn_seq=ref["turn_seq"],
                state="",
                visit=1,
                attempt=ref["attempt"],
                token=ref.get("token", ""),
            )
        return self._turns[args.get("turn", "current")].turn

    def _slots(self, args: Args) -> Sequence[pawl_client.ArtifactSlot]:
        turn = self._turns.get(args.get("turn", "current"))
        return turn.artifact_slots if turn else ()

    def _token(self, args: Args) -> str:
        return self._held(args).token if "turn" in args or "ref" in args else ""

    def complete(self, args: Args) -> Any:
        held = self._held(args)
        return canon(
            self.client.attach(held.run_id).complete(
                held, reply(args), slots=self._slots(args), request_id=args.get("id", "")
            )
        )

    def fail(self, args: Args) -> Any:
        held = self._held(args)
        usage = args.get("usage")
        return canon(
            self.client.attach(held.run_id).fail(
                held,
                pawl_client.Fault(code=args["code"], message=args.get("message", "")),
                retryable=not args.get("non_retryable", False),
                usage=pawl_client.Usage(**usage) if usage else None,
                request_id=args.get("id", ""),
            )
        )

    def suspend(self, args: Args) -> Any:
        held = self._held(args)
        run = self.client.attach(held.run_id)
        return canon(run.suspend(held, request_id=args.get("id", "")))

    def request(self, args: Args) -> Any:
        held = self._held(args)
        calls = [
            pawl_client.StepCall(
                call["tool"],
                call.get("payload", {}),
                call.get("key", ""),
                call.get("reframe", False),
                pawl_client.ToolCallRef(**call["call"]) if "call" in call else None,
            )
            for call in args["calls"]
        ]
        run = self.client.attach(held.run_id)
        return canon(run.request_steps(held, calls, request_id=args.get("id", "")))

    def resolve(self, args: Args) -> Any:
        error = dict(args.get("error", {}))
        unknown = error.pop("unknown", False)
        answer = pawl_client.Fault(**error) if error else args.get("result")
        return canon(
            self._run(args).resolve_step(
                args["step"],
                args["tool"],
                answer,
                attempt=args["attempt"],
                token=self._token(args),
                non_retryable=args.get("non_retryable", False),
                retry_after=args.get("retry_after"),
                unknown=unknown,
            )
        )

    # Calls of models

    def request_model(self, args: Args) -> Any:
        held = self._held(args)
        return canon(
            self.client.attach(held.run_id).request_model(
                held,
                args.get("round", 1),
                models.asked(args["request"]),
                bound=models.usage(args.get("bound")),
                key=args.get("key", ""),
            )
        )

    def answer_model(self, args: Args) -> Any:
        held = self._held(args)
        return canon(
            self.client.attach(held.run_id).answer_model(
                held,
                args["step"],
                args.get("attempt", 1),
                models.came(args),
                usage=models.usage(args.get("usage")),
            )
        )

    def update_model_call(self, args: Args) -> Any:
        held = self._held(args)
        run = self.client.attach(held.run_id)
        return canon(
            run.update_model_call(held, args["step"], args.get("attempt", 1), args["response_id"])
        )

    def model_step(self, args: Args) -> Any:
        return canon(self._run(args).model_step(args["step"]))

    def fork(self, args: Args) -> Any:
        copy = self._run(args).fork(
            at_seq=args.get("at_seq", 0),
            reuse_steps=args.get("reuse_steps"),
            request_id=args.get("id", ""),
        )
        self._runs[args.get("as", "run")] = copy
        return canon(copy.info())

    def verify(self, args: Args) -> Any:
        return canon(self._run(args).verify())

    def model(self, args: Args) -> Any:
        import endpoints  # The libraries of models: other scenarios do without.

        return endpoints.execute(self._run(args), args, self._ledger)

    # Records

    def records(self, args: Args) -> Any:
        records = self._run(args).records(
            kinds=args.get("kinds", ()), after_seq=args.get("after_seq", 0)
        )
        return {"records": [canon(record) for record in records]}

    def output(self, args: Args) -> Any:
        text = ""
        for shown in self._run(args).events(reconnect_for=_PATIENCE):
            if shown.kind in ("reset", "turn_began"):
                text = ""
            elif shown.kind == "text":
                text += shown.text
            if text.endswith(args["text"]):
                break
        return {"text": text}

    def watch(self, args: Args) -> None:
        kinds = args.get("kinds", ())
        if "pack" in args:
            records = self.client.transitions(pawl_client.RunFilter(pack=args["pack"]), kinds=kinds)
        else:
            records = self._run(args).transitions(kinds=kinds, after_seq=args.get("after_seq", 0))
        self._tails[args.get("name", "watch")] = Tail(records)

    def watched(self, args: Args) -> Any:
        return self._tails[args.get("name", "watch")].wait(args.get("count", 0))

    # Workers

    def worker(self, args: Args) -> None:
        assert self._loop is not None
        player = Player(args, self._holds, self._ledger, self._loop)
        if self._serves and ("turns" in args or "agents" in args):
            self._worker = Server(args, player, self._address, self._token_given, self._loop)
        else:
            kinds = ("turns", "agents", "tools")
            self._worker = Worker(args, player, self._address, self._token_given, *kinds)

    def serve(self, args: Args) -> None:
        assert isinstance(self._worker, Server)
        self._worker.serve(args)

    def arm(self, args: Args) -> None:
        self._holds.arm(args["name"], args["how"])

    def release(self, args: Args) -> None:
        self._holds.release(args["name"])

    def stop(self, args: Args) -> None:
        assert self._worker is not None
        self._worker.stop(_PATIENCE)

    def flood(self, args: Args) -> Any:
        return flood(self._address, args)


class Tail:
    """Reads records in a thread of its own."""

    def __init__(self, records: Iterator[pawl_client.Record]) -> None:
        self._changed = threading.Condition()
        self._records: list[Any] = []
        self._ended = False
        self._error: BaseException | None = None
        self._transitions = records
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            for record in self._transitions:
                with self._changed:
                    self._records.append(canon(record))
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
            event("error", **fault(error))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, count: int) -> Any:
        """Until so many records were read, or all if none is said."""
        end = time.monotonic() + _PATIENCE
        with self._changed:
            while not self._ended and (count == 0 or len(self._records) < count):
                if not self._changed.wait(end - time.monotonic()):
                    raise TimeoutError(f"{len(self._records)} records so far")
            if self._error is not None:
                raise self._error
            return {"records": list(self._records), "ended": self._ended}
