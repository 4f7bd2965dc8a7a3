package convert

import (
	"fmt"
	"slices"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// The functions of this file convert requests. An interceptor has already checked the constraints of
// the proto files, so these functions check only what the constraints cannot express.

// Caller is the caller of a request.
type Caller struct {
	// Call is the caller in the form that the engine uses. Its namespace applies to requests that do
	// not name a namespace.
	runtime.Call
	// Bound means that the request came in a worker's stream. The request belongs to the worker's
	// namespace, even if it names another namespace.
	Bound bool
	// Traceparent is the trace context of the request, or "".
	Traceparent string
}

// In returns the caller's call with the namespace that a request names. If it names none, or if the caller is bound, this
// is the caller's own namespace.
func (c Caller) In(namespace string) runtime.Call {
	call := c.Call
	if namespace != "" && !c.Bound {
		call.Namespace = namespace
	}
	if call.Namespace == "" {
		call.Namespace = call.Principal.DefaultNamespace()
	}
	return call
}

// RunRequest is implemented by every request about one run.
type RunRequest interface {
	GetNamespace() string
	GetRunId() string
}

// Run returns the run that a request names.
func (c Caller) Run(req RunRequest) runtime.RunRef {
	return runtime.RunRef{Call: c.In(req.GetNamespace()), RunID: req.GetRunId()}
}

// turnRequest is implemented by every request about one turn.
type turnRequest interface {
	RunRequest
	GetTurnSeq() uint64
	GetAttempt() int32
	GetTurnToken() string
	GetRequestId() string
}

// turn returns the turn that a request names.
func (c Caller) turn(req turnRequest) runtime.TurnCall {
	return runtime.TurnCall{
		RunRef: c.Run(req), TurnToken: req.GetTurnToken(),
		TurnSeq: req.GetTurnSeq(), Attempt: int(req.GetAttempt()), ID: req.GetRequestId(),
	}
}

// StartFromProto converts a StartRun request.
func StartFromProto(c Caller, req *pawlv1.StartRunRequest) (runtime.StartRequest, error) {
	variables, err := compactObject("variables_json", req.GetVariablesJson())
	if err != nil {
		return runtime.StartRequest{}, err
	}
	input, err := partsFromProto("input", req.GetInput())
	if err != nil {
		return runtime.StartRequest{}, err
	}
	return runtime.StartRequest{
		Call: c.In(req.GetNamespace()), Pack: req.GetPack(), Agent: req.GetAgent(), State: req.GetState(),
		Variables: variables, Input: input, Execution: machine.Execution(req.GetExecution()),
		Labels: labelsFromProto(req.GetLabels()), RequestID: req.GetRequestId(), MaxSteps: int(req.GetMaxSteps()),
		Conversation: req.GetConversation(), Traceparent: c.Traceparent,
	}, nil
}

// labelsFromProto converts labels and sorts them by key, as the engine requires.
func labelsFromProto(in map[string]string) []machine.Label {
	if len(in) == 0 {
		return nil
	}
	out := make([]machine.Label, 0, len(in))
	for key, value := range in {
		out = append(out, machine.Label{Key: key, Value: value})
	}
	slices.SortFunc(out, func(a, b machine.Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// EmitFromProto converts an EmitEvent request.
func EmitFromProto(c Caller, req *pawlv1.EmitEventRequest) (runtime.EmitRequest, error) {
	return runtime.EmitRequest{
		RunRef: c.Run(req), Event: req.GetEvent(), Artifacts: writesFromProto(req.GetArtifacts()),
		EventID: req.GetEventId(), ExpectedSeq: req.GetExpectedSeq(), TurnToken: req.GetTurnToken(),
	}, nil
}

// InputFromProto converts a SendInput request.
func InputFromProto(c Caller, req *pawlv1.SendInputRequest) (runtime.InputRequest, error) {
	parts, err := partsFromProto("parts", req.GetParts())
	return runtime.InputRequest{
		RunRef: c.Run(req), Parts: parts, MessageID: req.GetMessageId(), ExpectedSeq: req.GetExpectedSeq(),
		Step: req.GetStep(),
	}, err
}

// ArtifactsFromProto converts a SetArtifacts request.
func ArtifactsFromProto(c Caller, req *pawlv1.SetArtifactsRequest) (runtime.ArtifactsRequest, error) {
	return runtime.ArtifactsRequest{
		RunRef: c.Run(req), Artifacts: writesFromProto(req.GetArtifacts()),
		WriteID: req.GetWriteId(), ExpectedSeq: req.GetExpectedSeq(), TurnToken: req.GetTurnToken(),
	}, nil
}

// CompleteFromProto converts a CompleteTurn request.
func CompleteFromProto(c Caller, req *pawlv1.CompleteTurnRequest) (runtime.CompleteRequest, error) {
	output, err := partsFromProto("output", req.GetOutput())
	if err != nil {
		return runtime.CompleteRequest{}, err
	}
	messages, err := messagesFromProto("messages", req.GetMessages())
	if err != nil {
		return runtime.CompleteRequest{}, err
	}
	return runtime.CompleteRequest{
		TurnCall: c.turn(req), Output: output, Messages: messages, Usage: usageFromProto(req.GetUsage()),
		Event: req.GetEvent(), Artifacts: writesFromProto(req.GetArtifacts()), ExpectedSeq: req.GetExpectedSeq(),
		Await: machine.Awaiting(req.GetAwaiting()), Reply: req.GetReply(), ConversationThroughStep: req.GetConversationThroughStep(),
	}, nil
}

// FailFromProto converts a FailTurn request.
func FailFromProto(c Caller, req *pawlv1.FailTurnRequest) (runtime.FailRequest, error) {
	return runtime.FailRequest{
		TurnCall: c.turn(req), Error: faultFromProto(req.GetError()),
		Retryable: req.GetRetryable(), Usage: usageFromProto(req.GetUsage()), Reject: req.GetReject(), Rejected: req.GetRejectedStep(),
	}, nil
}

// OutputFromProto converts a WriteOutput request.
func OutputFromProto(c Caller, req *pawlv1.WriteOutputRequest) (runtime.OutputRequest, error) {
	piece, err := pieceFromProto(req.GetPiece())
	return runtime.OutputRequest{TurnCall: c.turn(req), Piece: piece}, err
}

// StepsFromProto converts a RequestStep request.
func StepsFromProto(c Caller, req *pawlv1.RequestStepRequest) (runtime.StepsRequest, error) {
	out := runtime.StepsRequest{TurnCall: c.turn(req), Requests: make([]machine.StepRequest, len(req.GetRequests()))}
	for i, r := range req.GetRequests() {
		payload, err := compactObject(fmt.Sprintf("requests[%d].payload_json", i), r.GetPayloadJson())
		if err != nil {
			return out, err
		}
		if payload == nil {
			payload = []byte("{}")
		}
		out.Requests[i] = machine.StepRequest{
			Key: r.GetKey(), Tool: r.GetTool(), Payload: payload, Reframe: r.GetReframe(), Call: callFromProto(r.GetCall()), ByCaller: r.GetByCaller(),
		}
	}
	return out, nil
}

// ResolveFromProto converts a ResolveStep request.
func ResolveFromProto(c Caller, req *pawlv1.ResolveStepRequest) (runtime.ResolveRequest, error) {
	out := runtime.ResolveRequest{
		RunRef: c.Run(req), TurnToken: req.GetTurnToken(), Step: req.GetStep(),
		Tool: req.GetTool(), Attempt: int(req.GetAttempt()), Final: req.GetNonRetryable(), RetryAfter: req.GetRetryAfter().AsDuration(),
		Unknown: req.GetUnknown(),
	}
	var err error
	switch answer := req.GetAnswer().(type) {
	case *pawlv1.ResolveStepRequest_ResultJson:
		out.OK = true
		out.Result, err = compactJSON("result_json", answer.ResultJson)
	case *pawlv1.ResolveStepRequest_Error:
		out.Error = faultFromProto(answer.Error)
	}
	out.Usage, out.Metered = usageFromProto(req.GetUsage()), req.GetUsage() != nil
	return out, err
}

// RaiseFromProto converts a RaiseBudget request.
func RaiseFromProto(c Caller, req *pawlv1.RaiseBudgetRequest) (runtime.Request, error) {
	return runtime.Request{RunRef: c.Run(req), ID: req.GetRequestId(), Command: machine.RaiseBudget{
		To: machine.Amount{Tokens: req.GetMaxTokens(), CostMicro: req.GetMaxCostMicroUsd()}, Reason: req.GetReason(),
	}}, nil
}

// controlRequest is implemented by the requests PauseRun, ResumeRun and CancelRun.
type controlRequest interface {
	RunRequest
	GetNote() string
	GetRequestId() string
}

// ControlFromProto converts a PauseRun, ResumeRun or CancelRun request.
func ControlFromProto[In controlRequest](c Caller, req In) (runtime.ControlRequest, error) {
	return runtime.ControlRequest{RunRef: c.Run(req), Note: req.GetNote(), ID: req.GetRequestId()}, nil
}

// CancelFromProto converts a CancelRun request. The cancellation also includes the runs that the run
// has started.
func CancelFromProto(c Caller, req *pawlv1.CancelRunRequest) (runtime.ControlRequest, error) {
	out, err := ControlFromProto(c, req)
	out.Cascade = true
	return out, err
}

// SuspendFromProto converts a SuspendTurn request.
func SuspendFromProto(c Caller, req *pawlv1.SuspendTurnRequest) (runtime.TurnCall, error) {
	return c.turn(req), nil
}

// FilterFromProto converts a filter of runs.
func FilterFromProto(in *pawlv1.RunFilter) machine.RunFilter {
	out := machine.RunFilter{
		Pack: in.GetPack(), State: in.GetState(), Labels: labelsFromProto(in.GetLabels()), Parent: in.GetParentRunId(),
		Reason: in.GetReason(), CreatedFrom: timeFromProto(in.GetCreatedAfter()), CreatedBefore: timeFromProto(in.GetCreatedBefore()),
		IDPrefix: in.GetRunIdPrefix(),
	}
	for _, s := range in.GetStatuses() {
		out.Status = append(out.Status, machine.Status(s))
	}
	return out
}

// KindsFromProto converts a list of record kinds.
func KindsFromProto(in []pawlv1.RecordKind) []machine.RecordKind {
	out := make([]machine.RecordKind, len(in))
	for i, k := range in {
		out[i] = machine.RecordKind(k)
	}
	return out
}

// WatchFromProto converts a StreamTransitions request.
func WatchFromProto(c Caller, in *pawlv1.StreamTransitionsRequest) streams.Request {
	filter := FilterFromProto(in.GetFilter())
	out := streams.Request{
		Call: c.In(in.GetNamespace()), AfterSeq: in.GetAfterSeq(), AfterCursor: in.GetAfterCursor(),
		FromNow: in.GetFromNow(), Consumer: in.GetConsumer(), Follow: in.GetFollow(), Snapshots: in.GetSnapshots(), Output: in.GetOutput(),
		Statuses: in.GetStatuses(),
		OutputAfter: runtime.OutputPosition{
			Turn: in.GetOutputAfter().GetTurnSeq(), Delivery: int(in.GetOutputAfter().GetDelivery()), Offset: in.GetOutputAfter().GetOffset(),
		},
		Filter: streams.Filter{
			RunID: in.GetRunId(), Pack: filter.Pack, Status: filter.Status, Labels: filter.Labels,
			Parent: filter.Parent, Kinds: KindsFromProto(in.GetKinds()),
		},
	}
	if filter.State != "" {
		out.Filter.States = []string{filter.State}
	}
	return out
}
