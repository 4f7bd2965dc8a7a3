package convert

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

// bodies has one record body of each kind.
var bodies = []machine.Body{
	&machine.Transition{From: "a", Event: "E", To: "b", Intended: "c", Redirects: []machine.Redirect{{State: "c", Guard: "max_visits:c"}}, Visit: 2, Total: 3, Cause: machine.CauseMaxVisits, Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte("x")}}},
	&machine.InputReceived{Parts: []machine.Part{{Kind: machine.PartText, Text: "x"}}, MessageID: "m", Queued: true},
	&machine.TurnOpened{State: "a", Inputs: []uint64{4}},
	&machine.TurnAssigned{TurnSeq: 1, Attempt: 2, Assigned: machine.Assignment{Worker: "w", Delivery: 3, At: 4}},
	&machine.TurnCompleted{TurnSeq: 1, Attempt: 1, Usage: machine.Usage{InputTokens: 1}},
	&machine.TurnFailed{TurnSeq: 1, Attempt: 1, Error: machine.Fault{Code: "X"}, Retryable: true, Next: 2, NotBefore: 9},
	&machine.TurnAbandoned{TurnSeq: 1, Attempt: 1, Why: "event"},
	&machine.TurnSuspended{TurnSeq: 1, Attempt: 1, Pending: []uint32{1}},
	&machine.StepRequested{Step: 1, Key: "k", Tool: "t", Payload: []byte("{}"), Deadline: 9},
	&machine.StepResolved{Step: 1, Tool: "t", Attempt: 1, OK: true, Result: []byte("1")},
	&machine.StepRejected{Key: "k", Tool: "t", Denial: machine.Denial{Code: "TOOL_NOT_LISTED"}},
	&machine.StepCancelled{Step: 1, Tool: "t", Why: "left"},
	&machine.ArtifactsSet{Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte("x")}}},
	&machine.Paused{Note: "n"},
	&machine.Resumed{Note: "n"},
	&machine.Origin{RunID: "r", Seq: 5, State: &machine.State{Current: "plan"}},
	&machine.Ended{Status: machine.Failed, Reason: "x"},
	&machine.TurnReady{TurnSeq: 1, Attempt: 2},
	&machine.OutputWritten{TurnSeq: 1, Attempt: 1, Piece: machine.OutputPiece{ID: "a"}},
	&machine.StepDelegated{Step: 1, Tool: "t", Attempt: 1, Remote: machine.Remote{TaskID: "x"}},
	&machine.NoChange{Command: machine.CmdPause, ID: "p"},
	&machine.ModelUpdated{Step: 1, Attempt: 2, ResponseID: "r"},
	&machine.StepDecided{Step: 1, Tool: "t", Verdict: machine.Approved, Digest: [32]byte{1}, Reason: "r", Deadline: 5},
	&machine.BudgetRaised{From: machine.Amount{CostMicro: 5}, To: machine.Amount{CostMicro: 9}, Reason: "r"},
	&machine.StepOutcomeUnknown{Step: 1, Tool: "t", Attempt: 2, Error: machine.Fault{Code: "C"}, Worker: "w", By: 2},
	&machine.CompensationStarted{Status: machine.Failed, Reason: "x", Event: "E", Intended: "s", Effects: []uint32{2, 1}, Pending: []uint32{3}},
	&machine.Steered{Text: "x", When: machine.SteerNow},
	&machine.Stopped{TurnSeq: 1, Attempt: 2, Note: "n", ConversationThrough: machine.StepRef{Step: 1}, Calls: []machine.StepRef{{Step: 2}, {}}},
	&machine.NoticeAdded{Code: "C", Text: "x"},
	&machine.Evaluated{Results: []machine.EvalResult{{
		ID: "e", Type: "contains", Prompt: "p", Trigger: "every_turn", TurnSeq: 1, VisitSeq: 2, Score: 500_000, Threshold: "gte 0.5", Passed: true, Explanation: "x", Error: "y",
		Groups: []string{"g"}, Metric: &machine.EvalMetric{Name: "m", Kind: "gauge"},
	}}},
}

// TestEveryRecordKind: each kind has its own field, whose number is the kind's
// plus 20, from 40 on plus 40, and nothing of it is lost on the way.
func TestEveryRecordKind(t *testing.T) {
	t.Parallel()
	types := MediaTypes(func(string) string { return "text/plain" })
	for i, body := range bodies {
		kind := machine.RecordKindOf(body)
		if _, named := pawlv1.RecordKind_name[int32(kind)]; !named {
			t.Fatalf("body %d is of kind %d, which has no name", i, kind)
		}
		record := RecordToProto(&runtime.RecordRow{RunID: "r", Record: machine.Record{Seq: 7, At: 8, Principal: "p", Body: body}, PrevSeq: 6}, types, nil)
		field := record.ProtoReflect().WhichOneof(record.ProtoReflect().Descriptor().Oneofs().ByName("body"))
		if field == nil || int(field.Number()) != fieldOf(kind) {
			t.Errorf("kind %d is in %v", kind, field)
			continue
		}
		if inner := record.ProtoReflect().Get(field).Message(); proto.Size(inner.Interface()) == 0 {
			t.Errorf("%s is empty", field.Name())
		}
		if record.GetSeq() != 7 || record.GetPrevSeq() != 6 || record.GetPrincipal() != "p" || len(record.GetPrevHash()) != 32 {
			t.Errorf("record %v", record)
		}
	}
	if len(bodies) != len(pawlv1.RecordKind_name)-1 {
		t.Errorf("%d kinds, %d on the wire", len(bodies), len(pawlv1.RecordKind_name)-1)
	}
}

// TestPartsComeBack: what goes in comes out, JSON compact.
func TestPartsComeBack(t *testing.T) {
	t.Parallel()
	in := []*pawlv1.Message{{
		Role: "assistant", ToolCallsJson: `[{"a":1}]`, ToolCallId: "id",
		Parts: []*pawlv1.Part{
			{Content: &pawlv1.Part_Text{Text: "{{x}}"}, MediaType: "text/markdown"},
			{Content: &pawlv1.Part_Json{Json: `{"n":1.50,"b":"ä"}`}},
			{Content: &pawlv1.Part_Data{Data: []byte{0}}, Filename: "f", MetadataJson: `{"k":[]}`},
			{Content: &pawlv1.Part_Uri{Uri: "blob:sha256:00"}},
		},
	}}
	mid, err := messagesFromProto("messages", in)
	if err != nil {
		t.Fatal(err)
	}
	if out := messagesToProto(mid); len(out) != 1 || !proto.Equal(out[0], in[0]) {
		t.Fatalf("%v became %v", in, out)
	}
}

// TestTokenSurvivesOnlyInTurns: a run tells its turn to every reader, so never
// with the token.
func TestTokenSurvivesOnlyInTurns(t *testing.T) {
	t.Parallel()
	state := &machine.State{RunID: "r", Current: "a", Turn: &machine.Turn{Seq: 3, Attempt: 2, Suspended: true, NotBefore: 5}, Visits: []machine.Count{{State: "a", N: 4}}}
	run := RunToProto("", state, []string{"E"})
	if run.GetTurn().GetToken() != "" || run.GetTurn().GetVisit() != 4 || !run.GetTurnSuspended() || run.GetTurnNotBefore().GetNanos() != 5 {
		t.Fatalf("run %v", run)
	}
	if turn := turnToProto(state, &runtime.TurnRef{Seq: 3, State: "a", Token: "word"}); turn.GetToken() != "word" {
		t.Fatalf("turn %v", turn)
	}
}

// conversions are those of requests, each fed with bytes that decode.
var conversions = map[string]func([]byte){
	"start":     conversion(StartFromProto),
	"emit":      conversion(EmitFromProto),
	"input":     conversion(InputFromProto),
	"artifacts": conversion(ArtifactsFromProto),
	"complete":  conversion(CompleteFromProto),
	"fail":      conversion(FailFromProto),
	"suspend":   conversion(SuspendFromProto),
	"output":    conversion(OutputFromProto),
	"steps":     conversion(StepsFromProto),
	"resolve":   conversion(ResolveFromProto),
	"model":     conversion(RequestModelFromProto),
	"answer":    conversion(AnswerModelFromProto),
	"note":      conversion(UpdateModelCallFromProto),
	"control":   conversion(ControlFromProto[*pawlv1.PauseRunRequest]),
	"cancel":    conversion(CancelFromProto),
	"fork":      conversion(ForkFromProto),
	"diff": conversion(func(c Caller, m *pawlv1.DiffRunsRequest) (timetravel.DiffRequest, error) {
		return DiffFromProto(c, m), nil
	}),
	"watch": conversion(func(c Caller, m *pawlv1.StreamTransitionsRequest) (streams.Request, error) {
		return WatchFromProto(c, m), nil
	}),
	"list": conversion(func(_ Caller, m *pawlv1.ListRunsRequest) (machine.RunFilter, error) {
		return FilterFromProto(m.GetFilter()), nil
	}),
}

// conversion decodes bytes into the conversion's message, skips what does not
// decode, and reports an error that is not typed as a panic.
func conversion[M, Out any, P interface {
	*M
	proto.Message
}](f func(Caller, P) (Out, error)) func([]byte) {
	return func(data []byte) {
		m := P(new(M))
		if proto.Unmarshal(data, m) != nil {
			return
		}
		if _, err := f(Caller{}, m); err != nil {
			if st, withheld := apierror.Status(err); withheld != nil {
				panic(st.Message())
			}
		}
	}
}

// FuzzConversions: no request makes a conversion panic, checked or not.
func FuzzConversions(f *testing.F) {
	seeds := []proto.Message{
		&pawlv1.StartRunRequest{Pack: "p", VariablesJson: "{}", Input: []*pawlv1.Part{{}}, Labels: map[string]string{"a": "b"}},
		&pawlv1.CompleteTurnRequest{Messages: []*pawlv1.Message{nil, {Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: "{"}}}}}},
		&pawlv1.EmitEventRequest{Artifacts: []*pawlv1.ArtifactWrite{{}, {Name: "a", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: "{"}}}, {Name: "b", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "c"}}}}},
		&pawlv1.RequestStepRequest{Requests: []*pawlv1.StepRequest{{PayloadJson: "[1"}, {}}},
		&pawlv1.ResolveStepRequest{Answer: &pawlv1.ResolveStepRequest_Error{}},
		&pawlv1.RequestModelRequest{Request: &pawlv1.ModelRequest{System: new(""), ToolsJson: new("["), Messages: []*pawlv1.ModelMessage{
			{}, {Content: &pawlv1.ModelMessage_Message{}}, {Content: &pawlv1.ModelMessage_Conversation{}}, {Content: &pawlv1.ModelMessage_Result{}},
			{Content: &pawlv1.ModelMessage_Message{Message: &pawlv1.Message{Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: "{"}}}}}},
		}}},
		&pawlv1.AnswerModelRequest{Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: &pawlv1.ModelAnswer{Parts: []*pawlv1.Part{{}}, Calls: []*pawlv1.ModelCall{{}}}}},
		&pawlv1.AnswerModelRequest{Outcome: &pawlv1.AnswerModelRequest_Failure{}},
		&pawlv1.UpdateModelCallRequest{ResponseId: "r"},
	}
	for _, seed := range seeds {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(bytes.Repeat([]byte{0x0a, 0x00}, 64))
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, run := range conversions {
			run(data)
		}
	})
}

// fieldOf is the number of a kind's field; those from 60 on were taken.
func fieldOf(kind machine.RecordKind) int {
	if kind >= 40 {
		return int(kind) + 40
	}
	return int(kind) + 20
}
