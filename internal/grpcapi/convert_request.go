package grpcapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The constraints of the proto files were checked by the interceptor before any
// of these is called; what is left is what they cannot say.

func callOf(ctx context.Context, namespace string) runtime.Call {
	if w := workerOf(ctx); w != nil {
		return w.Call()
	}
	if namespace == "" {
		namespace, _ = ctx.Value(namespaceKey{}).(string)
	}
	return runtime.Call{Namespace: namespace, Principal: principalOf(ctx).Principal}
}

type namespaceKey struct{}

// withNamespace is for requests of a stream, which may leave it to their message.
func withNamespace(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, namespaceKey{}, namespace)
}

// runRequest is what every request to one run has.
type runRequest interface {
	GetNamespace() string
	GetRunId() string
}

func refOf(ctx context.Context, req runRequest) runtime.RunRef {
	return runtime.RunRef{Call: callOf(ctx, req.GetNamespace()), RunID: req.GetRunId()}
}

// turnRequest is what every request to one turn has.
type turnRequest interface {
	runRequest
	GetTurnSeq() uint64
	GetAttempt() int32
	GetTurnToken() string
	GetRequestId() string
}

func turnCallOf(ctx context.Context, req turnRequest) runtime.TurnCall {
	return runtime.TurnCall{
		RunRef: refOf(ctx, req), TurnToken: req.GetTurnToken(),
		TurnSeq: req.GetTurnSeq(), Attempt: int(req.GetAttempt()), ID: req.GetRequestId(),
	}
}

func startFromProto(ctx context.Context, req *pawlv1.StartRunRequest) (runtime.StartRequest, error) {
	variables, err := compactObject("variables_json", req.GetVariablesJson())
	if err != nil {
		return runtime.StartRequest{}, err
	}
	input, err := partsFromProto("input", req.GetInput())
	if err != nil {
		return runtime.StartRequest{}, err
	}
	return runtime.StartRequest{
		Call: callOf(ctx, req.GetNamespace()), Pack: req.GetPack(), Agent: req.GetAgent(), State: req.GetState(),
		Variables: variables, Input: input, Execution: machine.Execution(req.GetExecution()),
		Labels: labelsFromProto(req.GetLabels()), RequestID: req.GetRequestId(), MaxSteps: int(req.GetMaxSteps()),
		Traceparent: traceparentOf(ctx),
	}, nil
}

// labelsFromProto sorts by key, as a run keeps them.
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

func emitFromProto(ctx context.Context, req *pawlv1.EmitEventRequest) runtime.EmitRequest {
	return runtime.EmitRequest{
		RunRef: refOf(ctx, req), Event: req.GetEvent(), Artifacts: writesFromProto(req.GetArtifacts()),
		EventID: req.GetEventId(), ExpectedSeq: req.GetExpectedSeq(), TurnToken: req.GetTurnToken(),
	}
}

func inputFromProto(ctx context.Context, req *pawlv1.SendInputRequest) (runtime.InputRequest, error) {
	parts, err := partsFromProto("parts", req.GetParts())
	return runtime.InputRequest{
		RunRef: refOf(ctx, req), Parts: parts, MessageID: req.GetMessageId(), ExpectedSeq: req.GetExpectedSeq(),
		Step: req.GetStep(),
	}, err
}

func artifactsFromProto(ctx context.Context, req *pawlv1.SetArtifactsRequest) runtime.ArtifactsRequest {
	return runtime.ArtifactsRequest{
		RunRef: refOf(ctx, req), Artifacts: writesFromProto(req.GetArtifacts()),
		WriteID: req.GetWriteId(), ExpectedSeq: req.GetExpectedSeq(), TurnToken: req.GetTurnToken(),
	}
}

func completeFromProto(ctx context.Context, req *pawlv1.CompleteTurnRequest) (runtime.CompleteRequest, error) {
	output, err := partsFromProto("output", req.GetOutput())
	if err != nil {
		return runtime.CompleteRequest{}, err
	}
	messages, err := messagesFromProto("messages", req.GetMessages())
	if err != nil {
		return runtime.CompleteRequest{}, err
	}
	return runtime.CompleteRequest{
		TurnCall: turnCallOf(ctx, req), Output: output, Messages: messages, Usage: usageFromProto(req.GetUsage()),
		Event: req.GetEvent(), Artifacts: writesFromProto(req.GetArtifacts()), ExpectedSeq: req.GetExpectedSeq(),
		Await: machine.Awaiting(req.GetAwait()), Reply: req.GetReply(),
	}, nil
}

func failFromProto(ctx context.Context, req *pawlv1.FailTurnRequest) runtime.FailRequest {
	return runtime.FailRequest{
		TurnCall: turnCallOf(ctx, req), Error: faultFromProto(req.GetError()),
		Retryable: req.GetRetryable(), Usage: usageFromProto(req.GetUsage()), Reject: req.GetReject(),
	}
}

func outputFromProto(ctx context.Context, req *pawlv1.WriteOutputRequest) (runtime.OutputRequest, error) {
	piece, err := pieceFromProto(req.GetPiece())
	return runtime.OutputRequest{TurnCall: turnCallOf(ctx, req), Piece: piece}, err
}

func stepsFromProto(ctx context.Context, req *pawlv1.RequestStepRequest) (runtime.StepsRequest, error) {
	out := runtime.StepsRequest{TurnCall: turnCallOf(ctx, req), Requests: make([]machine.StepRequest, len(req.GetRequests()))}
	for i, r := range req.GetRequests() {
		payload, err := compactObject(fmt.Sprintf("requests[%d].payload_json", i), r.GetPayloadJson())
		if err != nil {
			return out, err
		}
		if payload == nil {
			payload = []byte("{}")
		}
		out.Requests[i] = machine.StepRequest{Key: r.GetKey(), Tool: r.GetTool(), Payload: payload, Reframe: r.GetReframe()}
	}
	return out, nil
}

func resolveFromProto(ctx context.Context, req *pawlv1.ResolveStepRequest) (runtime.ResolveRequest, error) {
	out := runtime.ResolveRequest{
		RunRef: refOf(ctx, req), TurnToken: req.GetTurnToken(), Step: req.GetStep(),
		Tool: req.GetTool(), Attempt: int(req.GetAttempt()),
	}
	var err error
	switch answer := req.GetAnswer().(type) {
	case *pawlv1.ResolveStepRequest_ResultJson:
		out.OK = true
		out.Result, err = compactJSON("result_json", answer.ResultJson)
	case *pawlv1.ResolveStepRequest_Error:
		out.Error = faultFromProto(answer.Error)
	}
	return out, err
}

// noted is what pause, resume and cancel have.
type noted interface {
	runRequest
	GetNote() string
	GetRequestId() string
}

func controlFromProto(ctx context.Context, req noted) runtime.ControlRequest {
	return runtime.ControlRequest{RunRef: refOf(ctx, req), Note: req.GetNote(), ID: req.GetRequestId()}
}

func filterFromProto(in *pawlv1.RunFilter) machine.RunFilter {
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

func kindsFromProto(in []pawlv1.RecordKind) []machine.RecordKind {
	out := make([]machine.RecordKind, len(in))
	for i, k := range in {
		out[i] = machine.RecordKind(k)
	}
	return out
}
