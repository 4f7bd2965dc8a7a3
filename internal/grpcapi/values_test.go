package grpcapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/test/testkit/jsonvalues"
)

// runDriver is a caller that drives its run itself, over one of the ways to do so.
type runDriver struct {
	step    func(*pawlv1.RequestStepRequest) (*pawlv1.RequestStepResponse, error)
	resolve func(*pawlv1.ResolveStepRequest) (*pawlv1.ResolveStepResponse, error)
	emit    func(*pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error)
}

// post makes a call over HTTP whose JSON is real JSON.
func post[T proto.Message](ctx context.Context, r *rig, path, body string, response T) (T, error) {
	got := r.httpCall(ctx, http.MethodPost, path, body)
	said, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		return response, fmt.Errorf("%d %s %w", got.StatusCode, said, err)
	}
	return response, protojson.Unmarshal(said, response)
}

// drivers are the ways in which a run is driven.
func (r *rig) drivers(ctx context.Context) map[string]runDriver {
	return map[string]runDriver{
		"calls": {
			func(in *pawlv1.RequestStepRequest) (*pawlv1.RequestStepResponse, error) {
				return r.runs.RequestStep(ctx, in)
			},
			func(in *pawlv1.ResolveStepRequest) (*pawlv1.ResolveStepResponse, error) {
				return r.runs.ResolveStep(ctx, in)
			},
			func(in *pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error) { return r.runs.EmitEvent(ctx, in) },
		},
		"HTTP": {
			func(in *pawlv1.RequestStepRequest) (*pawlv1.RequestStepResponse, error) {
				return post(ctx, r, fmt.Sprintf("/v1/runs/%s/turns/%d/steps", in.GetRunId(), in.GetTurnSeq()), fmt.Sprintf(`{"attempt":%d,"turnToken":%q,"requests":[{"tool":%q,"payload":%s}]}`,
					in.GetAttempt(), in.GetTurnToken(), in.GetRequests()[0].GetTool(), in.GetRequests()[0].GetPayloadJson()), &pawlv1.RequestStepResponse{})
			},
			func(in *pawlv1.ResolveStepRequest) (*pawlv1.ResolveStepResponse, error) {
				return post(ctx, r, fmt.Sprintf("/v1/runs/%s/steps/%d:resolve", in.GetRunId(), in.GetStep()), fmt.Sprintf(`{"tool":%q,"attempt":%d,"turnToken":%q,"result":%s}`,
					in.GetTool(), in.GetAttempt(), in.GetTurnToken(), in.GetResultJson()), &pawlv1.ResolveStepResponse{})
			},
			func(in *pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error) {
				return post(ctx, r, "/v1/runs/"+in.GetRunId()+"/events", fmt.Sprintf(`{"event":%q,"turnToken":%q,"artifacts":[{"name":%q,"value":{"json":%s}}]}`,
					in.GetEvent(), in.GetTurnToken(), in.GetArtifacts()[0].GetName(), in.GetArtifacts()[0].GetValue().GetJson()), &pawlv1.EmitEventResponse{})
			},
		},
	}
}

// TestValuesOfDrivenRuns: payloads, results and artifacts of a run that its caller drives are
// answered, recorded and shown as they were given, the digest covers just that, and what
// readers see differently is refused by name.
func TestValuesOfDrivenRuns(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	r.register(ctx)
	r.register1(ctx, "", controlled("held", `"tools": {"write_file": {"approve": "payload.n != 123.0"}}`))
	for way, d := range r.drivers(ctx) {
		for _, v := range jsonvalues.All {
			t.Run(way+"/"+v.Name, func(t *testing.T) {
				started := startRequest()
				turn := mustStart(ctx, t, r, started)
				asked, err := d.step(&pawlv1.RequestStepRequest{
					RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Requests: []*pawlv1.StepRequest{{Tool: "write_file", PayloadJson: v.Text}},
				})
				if v.Refused != "" {
					refusedWith(t, "payload", err, v.Refused)
					asked, err = r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
						RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Requests: []*pawlv1.StepRequest{{Tool: "write_file", PayloadJson: `{}`}},
					})
				}
				if err != nil {
					t.Fatal(err)
				}
				step := asked.GetOutcomes()[0].GetStep()
				_, err = d.resolve(&pawlv1.ResolveStepRequest{
					RunId: turn.GetRunId(), Step: step.GetStep(), Tool: "write_file", Attempt: 1, TurnToken: turn.GetToken(), Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: v.Text},
				})
				emit := &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken(), Artifacts: []*pawlv1.ArtifactWrite{jsonValue("log", v.Text)}}
				if v.Refused != "" {
					refusedWith(t, "result", err, v.Refused)
					_, err = d.emit(emit)
					refusedWith(t, "artifact", err, v.Refused)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				moved, err := d.emit(emit)
				if err != nil {
					t.Fatal(err)
				}
				wantSame(t, v.Text, map[string]string{
					"the step": step.GetPayloadJson(), "the record of the event": moved.GetTransition().GetTransition().GetArtifactsWritten()[0].GetValue().GetJson(),
				})
				r.recorded(ctx, t, turn.GetRunId(), v.Text)
				r.checkHeldCall(ctx, t, d, v.Text)
			})
		}
	}
}

// recorded: the journal and the run have the value of the step, of its result and of the artifact.
func (r *rig) recorded(ctx context.Context, t *testing.T, run, text string) {
	t.Helper()
	page, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, record := range page.GetRecords() {
		if s := record.GetStepRequested(); s != nil {
			seen["the record of the step"] = s.GetPayloadJson()
		}
		if s := record.GetStepResolved(); s != nil {
			seen["the record of the result"] = s.GetResultJson()
		}
	}
	got, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
	if err != nil || len(seen) != 2 {
		t.Fatal(seen, err)
	}
	for _, a := range got.GetArtifacts() {
		if a.GetHead().GetName() == "log" {
			seen["the artifact"] = strings.TrimSuffix(strings.TrimPrefix(a.GetValue().GetJson(), "["), "]")
		}
	}
	wantSame(t, text, seen)
}

// checkHeldCall: of a call that is held the approver is shown the value, and the digest, by which it is
// approved, is that of what is shown.
func (r *rig) checkHeldCall(ctx context.Context, t *testing.T, d runDriver, text string) {
	t.Helper()
	started := startRequest()
	started.Pack = "held"
	turn := mustStart(ctx, t, r, started)
	asked, err := d.step(&pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Requests: []*pawlv1.StepRequest{{Tool: "write_file", PayloadJson: text}},
	})
	if err != nil {
		t.Fatal(err)
	}
	control := pawlv1.NewControlServiceClient(r.conn)
	waits, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: turn.GetRunId()})
	if err != nil || len(waits.GetApprovals()) != 1 {
		t.Fatal(waits, err)
	}
	call := waits.GetApprovals()[0].GetCall()
	run, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	covers := machine.CallDigest("write_file", run.GetRun().GetPack().GetDigest(), turn.GetRunId(), call.GetStep(), validate.PayloadHash([]byte(call.GetPayloadJson())))
	if digest := fmt.Sprintf("sha256:%x", covers); call.GetApproval().GetDigest() != digest {
		t.Errorf("the digest is %s, of what is shown %s", call.GetApproval().GetDigest(), digest)
	}
	_, err = control.DecideStep(ctx, &pawlv1.DecideStepRequest{
		RunId: turn.GetRunId(), Step: call.GetStep(), Digest: call.GetApproval().GetDigest(), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, text, map[string]string{
		"the held step": asked.GetOutcomes()[0].GetStep().GetPayloadJson(), "what the approver is shown": call.GetPayloadJson(),
	})
}

func mustStart(ctx context.Context, t *testing.T, r *rig, req *pawlv1.StartRunRequest) *pawlv1.TurnRef {
	t.Helper()
	got, err := r.runs.StartRun(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return got.GetTurn()
}

func wantSame(t *testing.T, text string, seen map[string]string) {
	t.Helper()
	for what, value := range seen {
		if !jsonvalues.Equal(value, text) {
			t.Errorf("%s has %s", what, value)
		}
	}
}

func refusedWith(t *testing.T, what string, err error, word string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), word) {
		t.Errorf("the %s: %v, want %q", what, err, word)
	}
}
