"""A driver of level core without a client: generated stubs, and one JSON value a line.

It shows how much a driver in another language needs. `pawl_client` is only the place of the stubs.
"""

import base64
import json
import sys
import threading
import time
import uuid

import grpc
from google.protobuf import descriptor, duration_pb2, timestamp_pb2
from google.rpc import error_details_pb2, status_pb2
from pawl_client.v1 import pack_pb2, pack_pb2_grpc, record_pb2, run_pb2, run_pb2_grpc

lock = threading.Lock()
names = {}  # What the scenario has named: the channel, runs and turns.


def canon(m):
    """A message as the scenarios have it: see "How it works" in the README."""
    if isinstance(m, timestamp_pb2.Timestamp):
        return m.ToJsonString()
    if isinstance(m, duration_pb2.Duration):
        return m.ToTimedelta().total_seconds()
    if m.DESCRIPTOR.name == "ArtifactValue":
        kind = m.WhichOneof("value")
        return value_of(kind, getattr(m, kind)) if kind else None
    if m.DESCRIPTOR.name == "Part":
        kind = m.WhichOneof("content") or "text"
        return {kind: value_of(kind, getattr(m, kind))}
    fields = {}
    for f in m.DESCRIPTOR.fields:
        value, name = getattr(m, f.name), f.name
        if f.message_type and f.message_type.GetOptions().map_entry:
            fields[name] = dict(value)
        elif f.is_repeated:
            fields[name] = [one(f, item) for item in value]
        elif f.has_presence and not m.HasField(name):
            fields[name.removesuffix("_json")] = None
        elif name.endswith("_json"):
            fields[name.removesuffix("_json")] = value_of("json", value)
        else:
            fields[name] = one(f, value)
    if m.DESCRIPTOR.name == "Message":
        fields["text"] = "".join(part.text for part in m.parts)
    if m.DESCRIPTOR.name == "Record":
        body = m.WhichOneof("body")
        fields |= {"kind": body.upper() if body else "UNSPECIFIED", "body": canon(getattr(m, body)) if body else None}
    return fields


def one(f, value):
    if f.type == descriptor.FieldDescriptor.TYPE_MESSAGE:
        return canon(value)
    if f.type == descriptor.FieldDescriptor.TYPE_ENUM:
        zero = f.enum_type.values[0].name.removesuffix("UNSPECIFIED")
        return f.enum_type.values_by_number[value].name.removeprefix(zero)
    return {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def value_of(kind, value):
    if kind == "json":
        return json.loads(value) if value else None
    return {"$bytes": base64.b64encode(value).decode()} if kind == "data" else value


def call(method, request):
    """A call, and the very same one again while the sidecar is away."""
    until = time.monotonic() + 50
    while True:
        try:
            return method(request, wait_for_ready=True, timeout=50, metadata=names["token"])
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                raise


def parts(text):
    return [record_pb2.Part(text=text)] if text else []


def writes(given, turn):
    """Artifacts: the declared media type decides about a text."""
    types = {slot.name: slot.media_type for slot in turn.artifact_slots} if turn else {}
    out = []
    for name, value in (given or {}).items():
        if isinstance(value, str) and not types.get(name, "").endswith("json"):
            v = {"text": value}
        elif isinstance(value, dict) and "$bytes" in value:
            v = {"data": base64.b64decode(value["$bytes"])}
        else:
            v = {"json": json.dumps(value)}
        out.append({"name": name, "value": v})
    return out


def begin(a):
    """The request that starts a run."""
    request = run_pb2.StartRunRequest(
        pack=a["pack"], labels=a.get("labels"), request_id=a.get("id") or uuid.uuid4().hex, input=parts(a.get("input")),
        max_steps=a.get("max_steps", 0), conversation=a.get("conversation", False), execution="EXECUTION_" + a.get("execution", "caller").upper(),
        variables_json=json.dumps(a["variables"]) if "variables" in a else "",
    )
    for entry in ("agent", "state"):
        if a.get(entry):
            setattr(request, entry, a[entry])
    return request


def finish(op, a, turn, request_id):
    """The request that completes a turn, or fails it."""
    ref = {"run_id": turn.turn.run_id, "turn_seq": turn.turn.turn_seq, "attempt": turn.turn.attempt, "turn_token": turn.turn.token}
    usage = record_pb2.Usage(**a["usage"]) if "usage" in a else None
    if op == "fail":
        error = {"code": a.get("code", ""), "message": a.get("message", "")}
        return run_pb2.FailTurnRequest(
            **ref, error=error, retryable=not a.get("non_retryable", False), usage=usage, request_id=request_id,
        )
    messages = [
        {"role": m["role"], "parts": parts(m.get("text")), "tool_call_id": m.get("tool_call_id", "")} for m in a.get("messages", [])
    ]
    return run_pb2.CompleteTurnRequest(
        **ref, event=a.get("event", ""), artifacts=writes(a.get("artifacts"), turn), output=parts(a.get("output")), messages=messages,
        usage=usage, request_id=request_id,
    )


def perform(op, a):
    """One verb of the scenarios."""
    if op == "reset":
        channel = grpc.insecure_channel(a["address"])
        names.update(runs=run_pb2_grpc.RunServiceStub(channel), packs=pack_pb2_grpc.PackServiceStub(channel), ids={}, turns={})
        names["token"] = [("authorization", "Bearer " + a["token"])] if a["token"] else []
    if op in ("ping", "reset"):
        return {}
    runs, turns = names["runs"], names["turns"]
    run_id = a.get("run_id") or names["ids"].get(a.get("run", "run"), "")
    request_id = a.get("id") or uuid.uuid4().hex
    turn = turns.get(a.get("turn", "current"))
    if "ref" in a:
        turn = run_pb2.GetTurnResponse(turn={"run_id": run_id, **a["ref"]})
    token = turn.turn.token if turn and ("turn" in a or "ref" in a) else ""
    seq = a.get("expected_seq", 0)
    if op == "register":
        content = a["content"].encode()
        request = pack_pb2.RegisterPackRequest(content=content, filename=a["filename"], make_default=True)
        return canon(call(names["packs"].RegisterPack, request).pack)
    if op == "start":
        run = call(runs.StartRun, begin(a)).run
        alias = next((name for name, known in names["ids"].items() if known == run.run_id), "")
        names["ids"][a.get("as", "run")] = run.run_id
        return canon(call(runs.GetRun, run_pb2.GetRunRequest(run_id=run.run_id)).run) | {"alias": alias}
    if op in ("info", "artifacts"):
        got = call(runs.GetRun, run_pb2.GetRunRequest(run_id=run_id, at_seq=a.get("at_seq", 0), include_artifacts=True))
        return canon(got.run) if op == "info" else {one.head.name: canon(one.value) for one in got.artifacts}
    if op == "turn":
        turns[a.get("as", "current")] = call(runs.GetTurn, run_pb2.GetTurnRequest(run_id=run_id))
        return canon(turns[a.get("as", "current")])
    if op in ("complete", "fail"):
        return canon(call(runs.CompleteTurn if op == "complete" else runs.FailTurn, finish(op, a, turn, request_id)))
    if op == "wait":
        until = run_pb2.WAIT_UNTIL_WAITING if a.get("until") == "WAITING" else run_pb2.WAIT_UNTIL_TERMINAL
        request = run_pb2.WaitRunRequest(run_id=run_id, until=until)
        request.timeout.FromMilliseconds(int(1000 * a.get("seconds", 45)))
        got = call(runs.WaitRun, request)
        return canon(got.run) | {"timed_out": got.timed_out}
    if op == "records":
        kinds, records, page = ["RECORD_KIND_" + kind for kind in a.get("kinds", [])], [], ""
        while True:
            request = run_pb2.ListTransitionsRequest(run_id=run_id, kinds=kinds, after_seq=a.get("after_seq", 0), page_token=page)
            got = call(runs.ListTransitions, request)
            records += [canon(record) for record in got.records]
            page = got.next_page_token
            if not page:
                return {"records": records}
    written = writes(a.get("artifacts"), turn)
    method, request = {
        "emit": lambda: (runs.EmitEvent, run_pb2.EmitEventRequest(
            run_id=run_id, event=a["event"], artifacts=written, event_id=request_id, expected_seq=seq, turn_token=token)),
        "set": lambda: (runs.SetArtifacts, run_pb2.SetArtifactsRequest(
            run_id=run_id, artifacts=written, write_id=request_id, expected_seq=seq, turn_token=token)),
        "input": lambda: (runs.SendInput, run_pb2.SendInputRequest(
            run_id=run_id, parts=parts(a["input"]), message_id=request_id, expected_seq=seq)),
        "cancel": lambda: (runs.CancelRun, run_pb2.CancelRunRequest(run_id=run_id, note=a.get("note", ""), request_id=request_id)),
        "pause": lambda: (runs.PauseRun, run_pb2.PauseRunRequest(run_id=run_id, note=a.get("note", ""), request_id=request_id)),
        "resume": lambda: (runs.ResumeRun, run_pb2.ResumeRunRequest(run_id=run_id, note=a.get("note", ""), request_id=request_id)),
    }[op]()
    return canon(call(method, request))


def fault(error):
    """An error as the scenarios have it: the reason is in the details of the status."""
    found = {"code": error.code().name, "message": error.details(), "reason": "", "metadata": {}}
    rich = status_pb2.Status.FromString(dict(error.trailing_metadata() or []).get("grpc-status-details-bin", b""))
    for detail in rich.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            found |= {"reason": info.reason, "metadata": dict(info.metadata)}
    return found


def answer(request):
    try:
        line = {"id": request["id"], "result": perform(request["op"], request.get("args") or {})}
    except grpc.RpcError as error:
        line = {"id": request["id"], "error": fault(error)}
    except Exception as error:
        line = {"id": request["id"], "error": {"code": "", "reason": type(error).__name__, "message": str(error)}}
    with lock:
        print(json.dumps(line), flush=True)


for text in sys.stdin:
    threading.Thread(target=answer, args=(json.loads(text),), daemon=True).start()
