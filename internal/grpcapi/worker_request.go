package grpcapi

import (
	"context"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// checked validates one message of a worker's stream against the constraints of the proto files. The
// interceptor that does this for other calls is not used, because it would end the whole stream.
func checked(in proto.Message) error {
	err := newFastValidator().Validate(in)
	if err == nil {
		return nil
	}
	st := status.New(codes.InvalidArgument, err.Error())
	if violations, ok := err.(*protovalidate.ValidationError); ok { //nolint:errorlint // Validate returns it unwrapped
		st = apierror.Constraint(st, violations.ToProto().GetViolations())
	}
	return st.Err()
}

type workerKey struct{}

// byWorker returns a context for the requests of a worker's stream. It contains the worker.
func byWorker(ctx context.Context, w *dispatch.Worker) context.Context {
	return context.WithValue(ctx, workerKey{}, w)
}

// workerOf returns the worker whose stream has sent the request. For other calls it returns nil.
func workerOf(ctx context.Context) *dispatch.Worker {
	w, _ := ctx.Value(workerKey{}).(*dispatch.Worker)
	return w
}

// take handles one request. It answers a request about the stream itself immediately. A request about a
// run waits for the earlier requests about the same run.
func (l *workStream) take(ctx context.Context, in *pawlv1.WorkRequest) {
	if err := checked(in); err != nil {
		l.refuse(in.GetId(), err)
		return
	}
	if credits := in.GetCredits(); credits != nil {
		l.worker.Credit(int(credits.GetTurns()), int(credits.GetSteps()))
	}
	run := aboutRun(in)
	if run == nil {
		receipt, err := l.control(in)
		l.answer(in, receipt, err)
		return
	}
	turn := make(chan struct{})
	l.mu.Lock()
	before := l.last[run.GetRunId()]
	l.last[run.GetRunId()] = turn
	l.unanswered++
	l.mu.Unlock()
	l.requests.Add(1)
	go l.run(byWorker(ctx, l.worker), in, run.GetRunId(), before, turn)
}

// run executes a request about a run after the earlier requests about that run have taken effect.
func (l *workStream) run(ctx context.Context, in *pawlv1.WorkRequest, run string, before <-chan struct{}, turn chan struct{}) {
	defer l.requests.Done()
	if before != nil {
		<-before
	}
	var receipt *pawlv1.WorkReceipt
	var err error
	ctx = ratelimit.OnWait(ctx, func() (func(), error) { return l.await(in) })
	if request := func() { receipt, err = l.audited(ctx, in) }; endsTurn(in) {
		l.worker.Deliver(run, request)
	} else {
		request()
	}
	l.mu.Lock()
	if close(turn); l.last[run] == turn {
		delete(l.last, run)
	}
	l.unanswered--
	l.mu.Unlock()
	l.answer(in, receipt, err)
}

// endsTurn reports whether the request ends a turn, so that the run may continue with its next turn.
func endsTurn(in *pawlv1.WorkRequest) bool {
	return in.GetCompleteTurn() != nil || in.GetFailTurn() != nil
}

// aboutRun returns the part of a request that names a run, or nil if the request names none.
func aboutRun(in *pawlv1.WorkRequest) interface{ GetRunId() string } {
	switch item := in.GetItem().(type) {
	case *pawlv1.WorkRequest_CompleteTurn:
		return item.CompleteTurn
	case *pawlv1.WorkRequest_FailTurn:
		return item.FailTurn
	case *pawlv1.WorkRequest_SuspendTurn:
		return item.SuspendTurn
	case *pawlv1.WorkRequest_RequestStep:
		return item.RequestStep
	case *pawlv1.WorkRequest_ResolveStep:
		return item.ResolveStep
	case *pawlv1.WorkRequest_RequestModel:
		return item.RequestModel
	case *pawlv1.WorkRequest_AnswerModel:
		return item.AnswerModel
	case *pawlv1.WorkRequest_UpdateModelCall:
		return item.UpdateModelCall
	case *pawlv1.WorkRequest_SetArtifacts:
		return item.SetArtifacts
	case *pawlv1.WorkRequest_WriteOutput:
		return item.WriteOutput
	case *pawlv1.WorkRequest_ServeRun:
		return item.ServeRun
	case *pawlv1.WorkRequest_ReleaseRun:
		return item.ReleaseRun
	}
	return nil
}

// methodOf returns the RPC that a worker's request about a run corresponds to, for the audit log.
func methodOf(in *pawlv1.WorkRequest) string {
	switch in.GetItem().(type) {
	case *pawlv1.WorkRequest_ServeRun, *pawlv1.WorkRequest_ReleaseRun:
		return pawlv1.WorkerService_Work_FullMethodName
	}
	name := string(aboutRun(in).(proto.Message).ProtoReflect().Descriptor().Name())
	return "/" + pawlv1.RunService_ServiceDesc.ServiceName + "/" + strings.TrimSuffix(name, "Request")
}

// audited calls guardedCall and writes a line to the audit log. The line names the RPC of RunService to which the request
// corresponds, or the RPC Work if there is none.
func (l *workStream) audited(ctx context.Context, in *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	audit := l.s.edge.auditLog
	if audit == nil {
		return l.guardedCall(ctx, in)
	}
	method := methodOf(in)
	if err := audit.Admit(method); err != nil {
		return nil, err
	}
	receipt, err := l.guardedCall(ctx, in)
	audit.Completed(ctx, method, aboutRun(in), err)
	return receipt, err
}

// guardedCall calls call and recovers from panics. The recovery interceptor does not see panics in
// other goroutines.
func (l *workStream) guardedCall(ctx context.Context, in *pawlv1.WorkRequest) (receipt *pawlv1.WorkReceipt, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = l.s.edge.recovered(ctx, cause)
		}
	}()
	return l.call(ctx, in)
}

// call executes a request that corresponds to an RPC of RunService, or that says that the worker begins or ceases to
// serve a run.
func (l *workStream) call(ctx context.Context, in *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	out := &pawlv1.WorkReceipt{}
	runs := l.s.runs
	switch item := in.GetItem().(type) {
	case *pawlv1.WorkRequest_CompleteTurn:
		got, err := runs.CompleteTurn(ctx, item.CompleteTurn)
		out.Answer = &pawlv1.WorkReceipt_CompleteTurn{CompleteTurn: got}
		return out, err
	case *pawlv1.WorkRequest_FailTurn:
		got, err := runs.FailTurn(ctx, item.FailTurn)
		out.Answer = &pawlv1.WorkReceipt_FailTurn{FailTurn: got}
		return out, err
	case *pawlv1.WorkRequest_SuspendTurn:
		got, err := runs.SuspendTurn(ctx, item.SuspendTurn)
		out.Answer = &pawlv1.WorkReceipt_SuspendTurn{SuspendTurn: got}
		return out, err
	case *pawlv1.WorkRequest_RequestStep:
		got, err := runs.RequestStep(ctx, item.RequestStep)
		out.Answer = &pawlv1.WorkReceipt_RequestStep{RequestStep: got}
		return out, err
	case *pawlv1.WorkRequest_ResolveStep:
		got, err := runs.ResolveStep(ctx, item.ResolveStep)
		out.Answer = &pawlv1.WorkReceipt_ResolveStep{ResolveStep: got}
		return out, err
	case *pawlv1.WorkRequest_WriteOutput:
		got, err := runs.WriteOutput(ctx, item.WriteOutput)
		out.Answer = &pawlv1.WorkReceipt_WriteOutput{WriteOutput: got}
		return out, err
	case *pawlv1.WorkRequest_RequestModel:
		got, err := runs.RequestModel(ctx, item.RequestModel)
		out.Answer = &pawlv1.WorkReceipt_RequestModel{RequestModel: got}
		return out, err
	case *pawlv1.WorkRequest_AnswerModel:
		got, err := runs.AnswerModel(ctx, item.AnswerModel)
		out.Answer = &pawlv1.WorkReceipt_AnswerModel{AnswerModel: got}
		return out, err
	case *pawlv1.WorkRequest_UpdateModelCall:
		got, err := runs.UpdateModelCall(ctx, item.UpdateModelCall)
		out.Answer = &pawlv1.WorkReceipt_UpdateModelCall{UpdateModelCall: got}
		return out, err
	case *pawlv1.WorkRequest_ServeRun:
		return out, l.worker.Serve(ctx, convert.ServedFromProto(item.ServeRun))
	case *pawlv1.WorkRequest_ReleaseRun:
		l.worker.Release(item.ReleaseRun.GetRunId())
		return out, nil
	}
	// The other kinds of requests about a run were handled above, so this one is SetArtifacts.
	got, err := runs.SetArtifacts(ctx, in.GetSetArtifacts())
	out.Answer = &pawlv1.WorkReceipt_SetArtifacts{SetArtifacts: got}
	return out, err
}

// control handles a request about the stream and its leases.
func (l *workStream) control(in *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	out := &pawlv1.WorkReceipt{}
	switch item := in.GetItem().(type) {
	case *pawlv1.WorkRequest_Register:
		return nil, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "ALREADY_REGISTERED", Field: "register",
			Message: "the worker is registered; what it executes does not change on this stream",
		}
	case *pawlv1.WorkRequest_Heartbeat:
		got, err := l.heartbeat(item.Heartbeat.GetTokens())
		out.Answer = &pawlv1.WorkReceipt_Heartbeat{Heartbeat: got}
		return out, err
	case *pawlv1.WorkRequest_Output:
		end, err := l.worker.Output(convert.ShownFromProto(item.Output))
		out.Answer = &pawlv1.WorkReceipt_Output{Output: &pawlv1.OutputProgress{Offset: end}}
		return out, err
	case *pawlv1.WorkRequest_Release:
		if token := item.Release.GetStepToken(); token != "" {
			return out, l.worker.ReleaseStep(token)
		}
		return out, l.worker.ReleaseTurn(item.Release.GetTurnToken())
	case *pawlv1.WorkRequest_Drain:
		l.worker.Drain()
	}
	return out, nil
}

func (l *workStream) heartbeat(tokens []string) (*pawlv1.LeaseExtension, error) {
	if !l.heartbeats.Allow() {
		return nil, &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "RATE_LIMITED", Field: "heartbeat",
			Message: "heartbeats come too fast; no lease was extended", Limit: heartbeatRate, RetryAfter: int64(heartbeatEvery) / heartbeatRate,
		}
	}
	extended, lost := l.worker.Heartbeat(tokens)
	out := &pawlv1.LeaseExtension{Lost: lost}
	for i := range extended {
		out.Leases = append(out.Leases, convert.TurnLeaseToProto(&extended[i]))
	}
	return out, nil
}

// answer queues the receipt of a request. Only a request with an id or with an error gets a receipt.
func (l *workStream) answer(in *pawlv1.WorkRequest, receipt *pawlv1.WorkReceipt, err error) {
	if err != nil {
		l.refuse(in.GetId(), err)
		return
	}
	if in.GetId() == 0 {
		l.releaseRequest()
		return
	}
	receipt.Id = in.GetId()
	if l.compactReceipts && !needsAnswer(in) {
		receipt.Answer = nil
	}
	l.queueReceipt(receipt)
}

// needsAnswer reports whether a worker cannot continue without the answer to its request.
func needsAnswer(in *pawlv1.WorkRequest) bool {
	switch in.GetItem().(type) {
	case *pawlv1.WorkRequest_RequestModel, *pawlv1.WorkRequest_AnswerModel,
		*pawlv1.WorkRequest_RequestStep, *pawlv1.WorkRequest_Heartbeat, *pawlv1.WorkRequest_Output:
		return true
	}
	return false
}

func (l *workStream) refuse(id uint64, err error) {
	st := status.Convert(l.s.edge.finish(context.Background(), pawlv1.WorkerService_Work_FullMethodName, err))
	l.queueReceipt(&pawlv1.WorkReceipt{Id: id, Error: st.Proto()})
}
