package grpcapi

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
)

// TestBadInput: each bad input gets a typed error that names the field and what is allowed. The journal does
// not change.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	const unknownRun = "01J99999999999999999999999"
	emit := func(change func(*pawlv1.EmitEventRequest)) func() error {
		return func() error {
			req := &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken()}
			change(req)
			_, err := r.runs.EmitEvent(ctx, req)
			return err
		}
	}
	start := func(change func(*pawlv1.StartRunRequest)) func() error {
		return func() error {
			req := startRequest()
			change(req)
			_, err := r.runs.StartRun(ctx, req)
			return err
		}
	}
	tests := []struct {
		name   string
		call   func() error
		code   codes.Code
		reason string
		words  []string
	}{
		{"unknown event", emit(func(r *pawlv1.EmitEventRequest) { r.Event = "Nope" }), codes.FailedPrecondition, "UNKNOWN_EVENT", []string{"event", "Again, Ask, Check, Finish, Share"}},
		{"unknown run", emit(func(r *pawlv1.EmitEventRequest) { r.RunId = unknownRun }), codes.NotFound, "RUN_NOT_FOUND", []string{"run_id"}},
		{"no run id", emit(func(r *pawlv1.EmitEventRequest) { r.RunId = "x" }), codes.InvalidArgument, "INVALID_REQUEST", []string{"run_id", "26 characters"}},
		{"namespace in capitals", emit(func(r *pawlv1.EmitEventRequest) { r.Namespace = "A" }), codes.InvalidArgument, "INVALID_REQUEST", []string{"namespace: must begin with a-z"}},
		{"no event", emit(func(r *pawlv1.EmitEventRequest) { r.Event = "" }), codes.InvalidArgument, "INVALID_REQUEST", []string{"event"}},
		{"no token", emit(func(r *pawlv1.EmitEventRequest) { r.TurnToken = "" }), codes.PermissionDenied, "TURN_TOKEN_REQUIRED", []string{"turn_token"}},
		{"stale token", emit(func(r *pawlv1.EmitEventRequest) { r.TurnToken = "token-0" }), codes.PermissionDenied, "TURN_TOKEN_STALE", []string{"turn_token"}},
		{"stale expected_seq", emit(func(r *pawlv1.EmitEventRequest) { r.ExpectedSeq = 7 }), codes.Aborted, "SEQ_MISMATCH", []string{"expected_seq"}},
		{"undeclared artifact", emit(func(r *pawlv1.EmitEventRequest) { r.Artifacts = []*pawlv1.ArtifactWrite{text("nope", "x")} }), codes.InvalidArgument, "UNDECLARED_ARTIFACT", []string{"artifacts[nope]", "blob, log, note"}},
		{"artifact that is no JSON", emit(func(r *pawlv1.EmitEventRequest) { r.Artifacts = []*pawlv1.ArtifactWrite{jsonValue("log", "{")} }), codes.InvalidArgument, "ARTIFACT_TYPE", []string{"artifacts[log]", "application/json"}},
		{"artifact in another form", emit(func(r *pawlv1.EmitEventRequest) { r.Artifacts = []*pawlv1.ArtifactWrite{text("log", "1")} }), codes.InvalidArgument, "ARTIFACT_TYPE", []string{"artifacts[log]", "as text", "as json"}},
		{"artifact of another type", emit(func(r *pawlv1.EmitEventRequest) {
			w := text("note", "1")
			w.Value.MediaType = "text/html"
			r.Artifacts = []*pawlv1.ArtifactWrite{w}
		}), codes.InvalidArgument, "ARTIFACT_TYPE", []string{"artifacts[note]", "text/html", "text/plain"}},
		{"artifact without value", emit(func(r *pawlv1.EmitEventRequest) { r.Artifacts = []*pawlv1.ArtifactWrite{{Name: "note"}} }), codes.InvalidArgument, "INVALID_REQUEST", []string{"artifacts[0].value"}},
		{"artifact twice", emit(func(r *pawlv1.EmitEventRequest) {
			r.Artifacts = []*pawlv1.ArtifactWrite{text("note", "1"), text("note", "2")}
		}), codes.InvalidArgument, "DUPLICATE_ARTIFACT", []string{"artifacts[note]"}},
		{"oversized artifact", emit(func(r *pawlv1.EmitEventRequest) {
			r.Artifacts = []*pawlv1.ArtifactWrite{text("note", strings.Repeat("x", 64<<10+1))}
		}), codes.ResourceExhausted, "ARTIFACT_TOO_LARGE", []string{"artifacts[note]", "65537", "65536", "reference"}},
		{"unknown namespace", emit(func(r *pawlv1.EmitEventRequest) { r.Namespace = "other" }), codes.NotFound, "NAMESPACE_NOT_FOUND", []string{"namespace"}},
		{"long id", emit(func(r *pawlv1.EmitEventRequest) { r.EventId = strings.Repeat("x", 129) }), codes.InvalidArgument, "INVALID_REQUEST", []string{"event_id"}},

		{"missing variable", start(func(r *pawlv1.StartRunRequest) { r.VariablesJson = "" }), codes.InvalidArgument, "BAD_VARIABLES", []string{"goal"}},
		{"variable of another type", start(func(r *pawlv1.StartRunRequest) { r.VariablesJson = `{"goal": 1}` }), codes.InvalidArgument, "BAD_VARIABLES", []string{"goal"}},
		{"variables that are no JSON", start(func(r *pawlv1.StartRunRequest) { r.VariablesJson = `{"goal"` }), codes.InvalidArgument, "INVALID_JSON", []string{"variables_json"}},
		{"variables that are no object", start(func(r *pawlv1.StartRunRequest) { r.VariablesJson = `[]` }), codes.InvalidArgument, "INVALID_JSON", []string{"variables_json", "object"}},
		{"no execution", start(func(r *pawlv1.StartRunRequest) { r.Execution = 0 }), codes.InvalidArgument, "INVALID_REQUEST", []string{"execution: must be one of EXECUTION_CALLER, EXECUTION_WORKERS"}},
		{"unknown execution", start(func(r *pawlv1.StartRunRequest) { r.Execution = 9 }), codes.InvalidArgument, "INVALID_REQUEST", []string{"execution", "EXECUTION_CALLER, EXECUTION_WORKERS"}},
		{"unknown status of a filter", func() error {
			_, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{Statuses: []pawlv1.RunStatus{0}}})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"filter.statuses[0]", "RUN_STATUS_RUNNING, RUN_STATUS_WAITING"}},
		{"unknown kind of record", func() error {
			_, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), Kinds: []pawlv1.RecordKind{99}})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"kinds[0]", "RECORD_KIND_TRANSITION"}},
		{"unknown pack", start(func(r *pawlv1.StartRunRequest) { r.Pack = "loops" }), codes.NotFound, "PACK_NOT_FOUND", []string{"pack", "loops"}},
		{"unknown agent", start(func(r *pawlv1.StartRunRequest) { r.Entry = &pawlv1.StartRunRequest_Agent{Agent: "x"} }), codes.InvalidArgument, "NO_SUCH_ENTRY", []string{"agent", "approver, worker"}},
		{"bad label", start(func(r *pawlv1.StartRunRequest) { r.Labels = map[string]string{"a b": "c"} }), codes.InvalidArgument, "INVALID_REQUEST", []string{"labels"}},
		{"input that is no JSON", start(func(r *pawlv1.StartRunRequest) {
			r.Input = []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: "{"}}}
		}), codes.InvalidArgument, "INVALID_JSON", []string{"input[0].json"}},
		{"empty JSON input", start(func(r *pawlv1.StartRunRequest) {
			r.Input = []*pawlv1.Part{{Content: &pawlv1.Part_Json{}}}
		}), codes.InvalidArgument, "INVALID_JSON", []string{"input[0].json"}},
		{"input without content", start(func(r *pawlv1.StartRunRequest) { r.Input = []*pawlv1.Part{{}} }), codes.InvalidArgument, "INVALID_REQUEST", []string{"input[0].content"}},

		{"metadata that is no object", func() error {
			_, err := r.runs.SendInput(ctx, &pawlv1.SendInputRequest{RunId: turn.GetRunId(), Parts: []*pawlv1.Part{
				{Content: &pawlv1.Part_Text{Text: "x"}}, {Content: &pawlv1.Part_Text{Text: "x"}, MetadataJson: "1"},
			}})
			return err
		}, codes.InvalidArgument, "INVALID_JSON", []string{"parts[1].metadata_json"}},
		{"message of nobody", func() error {
			_, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(), Messages: []*pawlv1.Message{{Role: "robot"}},
			})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"messages[0].role"}},
		{"tool calls that are no JSON", func() error {
			_, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(), Messages: []*pawlv1.Message{{Role: "assistant", ToolCallsJson: "x"}},
			})
			return err
		}, codes.InvalidArgument, "INVALID_JSON", []string{"messages[0].tool_calls_json"}},
		{"negative usage", func() error {
			_, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(), Usage: &pawlv1.Usage{ToolCalls: -1},
			})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"usage.tool_calls"}},
		{"another turn", func() error {
			_, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{RunId: turn.GetRunId(), TurnSeq: 9, Attempt: 1, TurnToken: turn.GetToken()})
			return err
		}, codes.FailedPrecondition, "TURN_STALE", []string{"turn_seq"}},
		{"no error", func() error {
			_, err := r.runs.FailTurn(ctx, &pawlv1.FailTurnRequest{RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken()})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"error"}},
		{"payload that is no object", func() error {
			_, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(),
				Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: `"x"`}},
			})
			return err
		}, codes.InvalidArgument, "INVALID_JSON", []string{"requests[0].payload_json"}},
		{"no answer", func() error {
			_, err := r.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{RunId: turn.GetRunId(), Step: 1, Tool: "run_tests", Attempt: 1})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"answer"}},
		{"answer that is no JSON", func() error {
			_, err := r.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
				RunId: turn.GetRunId(), Step: 1, Tool: "run_tests", Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "{"},
			})
			return err
		}, codes.InvalidArgument, "INVALID_JSON", []string{"result_json"}},
		{"record to come", func() error {
			_, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId(), AtSeq: 99})
			return err
		}, codes.NotFound, "RECORD_NOT_FOUND", []string{"at_seq"}},
		{"page token of records", func() error {
			_, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), PageToken: "x"})
			return err
		}, codes.InvalidArgument, "BAD_PAGE_TOKEN", []string{"page_token"}},
		{"page size", func() error {
			_, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{PageSize: 1001})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"page_size"}},
		{"long wait", func() error {
			_, err := r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: unknownRun})
			return err
		}, codes.NotFound, "RUN_NOT_FOUND", []string{"run_id"}},
	}
	commits := r.store.Commits()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := wantError(t, tt.call(), tt.code, tt.reason)
			for _, word := range tt.words {
				if !strings.Contains(st.Message(), word) {
					t.Errorf("no %q in %q", word, st.Message())
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := r.store.Commits(); n != commits {
			t.Errorf("%d commits", n-commits)
		}
		// Nothing was used up: the turn is as it was.
		r.emit(ctx, turn, "Again")
	})
}

// TestFieldsOfErrors: an error has its field where programs look for it in google.rpc.
func TestFieldsOfErrors(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: "x", Artifacts: []*pawlv1.ArtifactWrite{{}}})
	bad, _ := detail[*errdetails.BadRequest](status.Convert(err))
	var fields []string
	for _, v := range bad.GetFieldViolations() {
		if v.GetDescription() == "" || v.GetReason() != apierror.InvalidRequest {
			t.Errorf("violation %v", v)
		}
		fields = append(fields, v.GetField())
	}
	if got := strings.Join(fields, " "); got != "run_id event artifacts[0].name artifacts[0].value" {
		t.Fatalf("fields %q", got)
	}
}

// TestLoserOfARaceLearnsWhoWon: of two approvals of the same visit, one wins. The other one gets the record of
// the one that won.
func TestLoserOfARaceLearnsWhoWon(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	seen := r.start(ctx).GetTurn()
	won := r.emit(ctx, seen, "Again", text("note", strings.Repeat("x", 60<<10)))
	stale := seen.GetTurnSeq()
	calls := map[string]func() error{
		"EmitEvent": func() error {
			_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
				RunId: seen.GetRunId(), Event: "Again", TurnToken: won.GetTurn().GetToken(), ExpectedSeq: stale,
			})
			return err
		},
		"SendInput": func() error {
			_, err := r.runs.SendInput(ctx, &pawlv1.SendInputRequest{
				RunId: seen.GetRunId(), ExpectedSeq: stale, Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "x"}}},
			})
			return err
		},
		"SetArtifacts": func() error {
			_, err := r.runs.SetArtifacts(ctx, &pawlv1.SetArtifactsRequest{
				RunId: seen.GetRunId(), ExpectedSeq: stale, TurnToken: won.GetTurn().GetToken(), Artifacts: []*pawlv1.ArtifactWrite{text("note", "y")},
			})
			return err
		},
		"CompleteTurn": func() error {
			turn := won.GetTurn()
			_, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
				RunId: seen.GetRunId(), ExpectedSeq: stale, TurnToken: turn.GetToken(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, Event: "Again",
			})
			return err
		},
	}
	for name, call := range calls {
		st := wantError(t, call(), codes.Aborted, "SEQ_MISMATCH")
		winner, ok := detail[*pawlv1.Record](st)
		if !ok || winner.GetSeq() != won.GetTransition().GetSeq() || winner.GetTransition().GetEvent() != "Again" || winner.GetTransition().GetArtifactsWritten() != nil {
			t.Errorf("%s: record %v", name, winner)
		}
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

// garbage has bytes that are no message of any RPC, and some that are.
var garbage = [][]byte{
	{0xff}, {0x0a, 0xff}, []byte("not a message"), {0x08}, {0x0a, 0x05, 'a'}, {0x12, 0x02, 0xff, 0xfe}, {0x0b, 0x0b, 0x0b},
}

// TestGarbageToEveryRPC: if bytes cannot be decoded, the error is the caller's and not the server's.
func TestGarbageToEveryRPC(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	eachMethod(func(m protoreflect.MethodDescriptor, path string) {
		answers := []codes.Code{codes.OK}
		if m.Parent().Name() == "StoreService" {
			answers = append(answers, codes.FailedPrecondition) // STORE_OFF
		}
		for _, bytes := range garbage {
			err := call(ctx, r.conn, m, path, bytes, grpc.ForceCodecV2(rawCodec{}))
			decodes := proto.Unmarshal(bytes, dynamicpb.NewMessage(m.Input())) == nil
			if code := status.Code(err); code != codes.InvalidArgument && !(decodes && slices.Contains(answers, code)) {
				t.Errorf("%s with % x: %v", m.Name(), bytes, err)
			}
		}
		st := wantError(t, call(ctx, r.conn, m, path, []byte{0xff}, grpc.ForceCodecV2(rawCodec{})), codes.InvalidArgument, "MALFORMED_MESSAGE")
		if want := string(m.Input().FullName()); !strings.Contains(st.Message(), want) {
			t.Errorf("no %s in %q", want, st.Message())
		}
	})
	if n := r.store.Commits(); n != 0 {
		t.Fatalf("%d commits", n)
	}
}

// FuzzEveryRPC sends any bytes to an RPC of a server with a run. No panic reaches the caller, and the answer
// has a status that is neither INTERNAL nor UNKNOWN.
func FuzzEveryRPC(f *testing.F) {
	var methods []protoreflect.MethodDescriptor
	var paths []string
	eachMethod(func(m protoreflect.MethodDescriptor, path string) {
		methods, paths = append(methods, m), append(paths, path)
	})
	r := newRig(f)
	ctx, cancel := context.WithCancel(context.Background())
	f.Cleanup(cancel)
	run := r.start(ctx).GetRun().GetRunId()
	for i := range methods {
		for _, bytes := range garbage {
			f.Add(uint8(i), bytes)
		}
		f.Add(uint8(i), seedOf(f, methods[i], run))
	}
	f.Fuzz(func(t *testing.T, which uint8, bytes []byte) {
		i := int(which) % len(methods)
		// Calls that wait and quiet streams last until their context ends.
		bounded, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		err := call(bounded, r.conn, methods[i], paths[i], bytes, grpc.ForceCodecV2(rawCodec{}))
		if code := status.Code(err); code == codes.Internal || code == codes.Unknown {
			t.Fatalf("%s: %v", methods[i].Name(), err)
		}
	})
}

// seedOf returns a request that passes the constraints, as far as a run id and some words can do that.
func seedOf(f *testing.F, m protoreflect.MethodDescriptor, run string) []byte {
	f.Helper()
	seeds := map[string]proto.Message{
		"EmitEvent":    &pawlv1.EmitEventRequest{RunId: run, Event: "Again", TurnToken: "token-1", Artifacts: []*pawlv1.ArtifactWrite{text("note", "x")}},
		"SendInput":    &pawlv1.SendInputRequest{RunId: run, Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: "[1]"}}}},
		"CompleteTurn": &pawlv1.CompleteTurnRequest{RunId: run, TurnSeq: 1, Attempt: 1, Messages: []*pawlv1.Message{{Role: "user"}}},
		"FailTurn":     &pawlv1.FailTurnRequest{RunId: run, TurnSeq: 1, Attempt: 1, Error: &pawlv1.Fault{Code: "x"}},
		"RequestStep":  &pawlv1.RequestStepRequest{RunId: run, TurnSeq: 1, Attempt: 1, Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: "{}"}}},
		"ResolveStep":  &pawlv1.ResolveStepRequest{RunId: run, Step: 1, Tool: "x", Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "1"}},
		"StartRun":     startRequest(),
		"RegisterPack": &pawlv1.RegisterPackRequest{Content: loopPack},
		"ValidatePack": &pawlv1.ValidatePackRequest{Content: []byte("id: x")},
	}
	msg := seeds[string(m.Name())]
	if msg == nil {
		msg = &pawlv1.GetRunRequest{RunId: run}
	}
	bytes, err := proto.Marshal(msg)
	if err != nil {
		f.Fatal(err)
	}
	return bytes
}
