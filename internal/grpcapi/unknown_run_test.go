package grpcapi

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// unknownRun is the id of a run that no test starts.
const unknownRun = "01J99999999999999999999999"

// besidesTheRun is what requests that name a run need besides, so that they are sound.
var besidesTheRun = map[string]proto.Message{
	"EmitEvent":    &pawlv1.EmitEventRequest{Event: "Again"},
	"SetArtifacts": &pawlv1.SetArtifactsRequest{Artifacts: []*pawlv1.ArtifactWrite{text("note", "x")}},
	"SendInput":    &pawlv1.SendInputRequest{Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: "[1]"}}}},
	"ShowTurn":     &pawlv1.ShowTurnRequest{TurnSeq: 1},
	"CompleteTurn": &pawlv1.CompleteTurnRequest{TurnSeq: 1, Attempt: 1},
	"FailTurn":     &pawlv1.FailTurnRequest{TurnSeq: 1, Attempt: 1, Error: &pawlv1.Fault{Code: "x"}},
	"SuspendTurn":  &pawlv1.SuspendTurnRequest{TurnSeq: 1, Attempt: 1},
	"WriteOutput":  &pawlv1.WriteOutputRequest{TurnSeq: 1, Attempt: 1, Piece: &pawlv1.OutputPiece{Id: "o", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "x"}}}}},
	"RequestStep":  &pawlv1.RequestStepRequest{TurnSeq: 1, Attempt: 1, Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: "{}"}}},
	"ResolveStep":  &pawlv1.ResolveStepRequest{Step: 1, Tool: "run_tests", Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "1"}},
	"RequestModel": &pawlv1.RequestModelRequest{TurnSeq: 1, Attempt: 1, Round: 1, Request: &pawlv1.ModelRequest{Model: "m"}},
	"AnswerModel": &pawlv1.AnswerModelRequest{Step: 1, Attempt: 1, Outcome: &pawlv1.AnswerModelRequest_Failure{Failure: &pawlv1.ModelFailure{
		Error: &pawlv1.Fault{Code: "x"},
	}}},
	"UpdateModelCall": &pawlv1.UpdateModelCallRequest{Step: 1, Attempt: 1, ResponseId: "r"},
	"GetModelStep":    &pawlv1.GetModelStepRequest{Step: 1},
	"EraseRun":        &pawlv1.EraseRunRequest{Reason: "asked for"},
	"DecideStep": &pawlv1.DecideStepRequest{
		Step: 1, Digest: "sha256:" + strings.Repeat("0", 64), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE,
	},
	"SteerRun":    &pawlv1.SteerRunRequest{Text: "left"},
	"RaiseBudget": &pawlv1.RaiseBudgetRequest{MaxTokens: 1, Reason: "needed"},
}

// requestNaming is a sound request of a method about a run.
func requestNaming(t *testing.T, method string, input protoreflect.MessageDescriptor, run string) proto.Message {
	t.Helper()
	form, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName())
	if err != nil {
		t.Fatal(err)
	}
	out := form.New().Interface()
	if besides := besidesTheRun[method]; besides != nil {
		out = proto.Clone(besides)
	}
	out.ProtoReflect().Set(input.Fields().ByName("run_id"), protoreflect.ValueOfString(run))
	return out
}

// unknownRows are the answers about an unknown run, to a caller with one of the method's scopes,
// that are not RUN_NOT_FOUND: answers to steps, of which semantics.md has the order.
var unknownRows = map[string]string{
	"ResolveStep " + runtime.ScopeAdmin.String():     "OK",
	"ResolveStep " + runtime.ScopeRunsWrite.String(): "STEP_NOT_HELD",
}

// aboutRuns is one way to make calls about runs, with the scopes that admit to the method.
type aboutRuns struct {
	method string
	allows runtime.Scopes
	// scopes are those of the callers, each alone.
	scopes []runtime.Scopes
	ask    func(scope runtime.Scopes, run string) error
}

// TestAnswersAboutUnknownRuns: of each RPC that names a run. Without one of its scopes the
// answer is SCOPE_MISSING, and the same for a run that there is and for one that there is not;
// with one an unknown run is RUN_NOT_FOUND.
func TestAnswersAboutUnknownRuns(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens, withDeletions(t)), testContext(t)
	known := r.start(withToken(ctx, "driver")).GetRun().GetRunId()
	promises, seen := promisedScopes(t), 0
	eachMethod(func(m protoreflect.MethodDescriptor, path string) {
		if m.Input().Fields().ByName("run_id") == nil {
			return
		}
		seen++
		about(t, known, aboutRuns{method: string(m.Name()), allows: promises[path], scopes: auth.EveryScope, ask: func(scope runtime.Scopes, run string) error {
			bounded, stop := context.WithCancel(withToken(ctx, scope.String()))
			defer stop()
			return call(bounded, r.conn, m, path, requestNaming(t, string(m.Name()), m.Input(), run))
		}})
	})
	if seen < 30 {
		t.Errorf("%d methods name a run", seen)
	}
}

// about asks about a known and an unknown run with each scope.
func about(t *testing.T, known string, a aboutRuns) {
	t.Helper()
	for _, scope := range a.scopes {
		there, missing := status.Convert(a.ask(scope, known)), status.Convert(a.ask(scope, unknownRun))
		row := a.method + " " + scope.String()
		if admitted := scope == runtime.ScopeAdmin || a.allows.Any(scope); !admitted {
			if !proto.Equal(there.Proto(), missing.Proto()) || reasonOf(there) != "SCOPE_MISSING" {
				t.Errorf("%s: %v of a run that there is, %v of one that there is not", row, there, missing)
			}
			continue
		}
		if got, want := reasonOf(missing), cmp.Or(unknownRows[row], "RUN_NOT_FOUND"); got != want {
			t.Errorf("%s: %v of an unknown run, want %s", row, missing, want)
		}
		if got := reasonOf(there); got == "RUN_NOT_FOUND" || got == "INVALID_REQUEST" {
			t.Errorf("%s: %v of a run that there is", row, there)
		}
	}
}

func reasonOf(s *status.Status) string {
	if s.Code() == codes.OK {
		return "OK"
	}
	info, _ := detail[*errdetails.ErrorInfo](s)
	return info.GetReason()
}
