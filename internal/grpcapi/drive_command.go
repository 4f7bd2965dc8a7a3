package grpcapi

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/fault"
	"github.com/pawl-dev/pawl/internal/grpcapi/quota"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxTraceparentBytes is the bound that the contract has.
const maxTraceparentBytes = 256

// commander makes the commands of streams: each through the interceptors of a unary
// call and the handler of its RPC, so that it cannot be anything else than that.
type commander struct {
	runs  pawlv1.RunServiceServer
	edge  *edge
	limit *quota.Limiter
	// guard is what stands before the handler of a unary call, less what finds out who
	// calls: a stream knows.
	guard []grpc.UnaryServerInterceptor
}

func (s *Server) newCommander(runs pawlv1.RunServiceServer) *commander {
	return &commander{runs: runs, edge: s.edge, limit: s.limit, guard: append(append(outerChain(s.edge), s.auth.Unary), innerChain(s.limit, s.validator)...)}
}

// make makes one command and answers it, whatever becomes of it, as an element of a
// DriveResponse.
func (c *commander) make(ctx context.Context, in *pawlv1.DriveCommand) []byte {
	return c.seal(ctx, c.answer(ctx, in))
}

func (c *commander) answer(ctx context.Context, in *pawlv1.DriveCommand) *pawlv1.DriveAnswer {
	out := &pawlv1.DriveAnswer{Id: in.GetId()}
	if traceparent := in.GetTraceparent(); traceparent != "" {
		ctx = door.WithTrace(ctx, traceparent)
	}
	if err := c.dispatch(ctx, in, out); err != nil {
		st, _ := fault.Status(err)
		out.Answer = &pawlv1.DriveAnswer_Error{Error: st.Proto()}
	}
	return out
}

// guarded calls a handler behind the interceptors.
func guarded[In, Out any](ctx context.Context, c *commander, method string, req *In, handler func(context.Context, *In) (*Out, error)) (*Out, error) {
	info := &grpc.UnaryServerInfo{Server: c.runs, FullMethod: method}
	got, err := chained(c.guard, info, func(ctx context.Context, req any) (any, error) {
		return handler(ctx, req.(*In))
	})(ctx, req)
	if err != nil {
		return nil, err
	}
	return got.(*Out), nil
}

// chained puts interceptors before a handler, the first outermost.
func chained(chain []grpc.UnaryServerInterceptor, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) grpc.UnaryHandler {
	for _, intercept := range slices.Backward(chain) {
		next := handler
		handler = func(ctx context.Context, req any) (any, error) { return intercept(ctx, req, info, next) }
	}
	return handler
}

// dispatch calls the RPC of a command's name.
func (c *commander) dispatch(ctx context.Context, in *pawlv1.DriveCommand, out *pawlv1.DriveAnswer) error {
	if n := len(in.GetTraceparent()); n > maxTraceparentBytes {
		return c.refuse(ctx, &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: fault.InvalidRequest, Field: "traceparent",
			Message: "too many bytes", Limit: maxTraceparentBytes, Got: int64(n),
		})
	}
	switch in.GetCommand().(type) {
	case *pawlv1.DriveCommand_StartRun, *pawlv1.DriveCommand_EmitEvent, *pawlv1.DriveCommand_SendInput,
		*pawlv1.DriveCommand_SetArtifacts, *pawlv1.DriveCommand_PauseRun, *pawlv1.DriveCommand_ResumeRun, *pawlv1.DriveCommand_CancelRun:
		return c.ofRun(ctx, in, out)
	case nil:
		return c.refuse(ctx, noCommand())
	}
	return c.ofTurn(ctx, in, out)
}

// refuse is finish for a command that is none. It counts against what a principal may
// ask for like one.
func (c *commander) refuse(ctx context.Context, err error) error {
	if limited := c.limit.Admit(ctx, cmp.Or(door.SpaceIn(ctx), door.SpaceHome(ctx))); limited != nil {
		err = limited
	}
	return c.finish(ctx, err)
}

// finish is edge.finish for what is no call of some RPC.
func (c *commander) finish(ctx context.Context, err error) error {
	return c.edge.finish(ctx, pawlv1.RunService_Drive_FullMethodName, err)
}

// noCommand refuses a command that is missing, or of a field that this server lacks.
func noCommand() error {
	return &machine.Refusal{
		Code: machine.CodeInvalidArgument, Reason: fault.InvalidRequest, Field: "command",
		Message: "exactly one of the commands that this server knows is required", Allowed: commandNames(),
	}
}

// commandNames are the fields of a command's oneof.
func commandNames() []string {
	fields := (&pawlv1.DriveCommand{}).ProtoReflect().Descriptor().Oneofs().ByName("command").Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return names
}

func (c *commander) ofRun(ctx context.Context, in *pawlv1.DriveCommand, out *pawlv1.DriveAnswer) error {
	switch item := in.GetCommand().(type) {
	case *pawlv1.DriveCommand_StartRun:
		got, err := guarded(ctx, c, pawlv1.RunService_StartRun_FullMethodName, item.StartRun, c.runs.StartRun)
		out.Answer = &pawlv1.DriveAnswer_StartRun{StartRun: got}
		return err
	case *pawlv1.DriveCommand_EmitEvent:
		got, err := guarded(ctx, c, pawlv1.RunService_EmitEvent_FullMethodName, item.EmitEvent, c.runs.EmitEvent)
		out.Answer = &pawlv1.DriveAnswer_EmitEvent{EmitEvent: got}
		return err
	case *pawlv1.DriveCommand_SendInput:
		got, err := guarded(ctx, c, pawlv1.RunService_SendInput_FullMethodName, item.SendInput, c.runs.SendInput)
		out.Answer = &pawlv1.DriveAnswer_SendInput{SendInput: got}
		return err
	case *pawlv1.DriveCommand_SetArtifacts:
		got, err := guarded(ctx, c, pawlv1.RunService_SetArtifacts_FullMethodName, item.SetArtifacts, c.runs.SetArtifacts)
		out.Answer = &pawlv1.DriveAnswer_SetArtifacts{SetArtifacts: got}
		return err
	case *pawlv1.DriveCommand_PauseRun:
		got, err := guarded(ctx, c, pawlv1.RunService_PauseRun_FullMethodName, item.PauseRun, c.runs.PauseRun)
		out.Answer = &pawlv1.DriveAnswer_PauseRun{PauseRun: got}
		return err
	case *pawlv1.DriveCommand_ResumeRun:
		got, err := guarded(ctx, c, pawlv1.RunService_ResumeRun_FullMethodName, item.ResumeRun, c.runs.ResumeRun)
		out.Answer = &pawlv1.DriveAnswer_ResumeRun{ResumeRun: got}
		return err
	}
	got, err := guarded(ctx, c, pawlv1.RunService_CancelRun_FullMethodName, in.GetCancelRun(), c.runs.CancelRun)
	out.Answer = &pawlv1.DriveAnswer_CancelRun{CancelRun: got}
	return err
}

func (c *commander) ofTurn(ctx context.Context, in *pawlv1.DriveCommand, out *pawlv1.DriveAnswer) error {
	switch item := in.GetCommand().(type) {
	case *pawlv1.DriveCommand_GetTurn:
		got, err := guarded(ctx, c, pawlv1.RunService_GetTurn_FullMethodName, item.GetTurn, c.runs.GetTurn)
		out.Answer = &pawlv1.DriveAnswer_GetTurn{GetTurn: got}
		return err
	case *pawlv1.DriveCommand_CompleteTurn:
		got, err := guarded(ctx, c, pawlv1.RunService_CompleteTurn_FullMethodName, item.CompleteTurn, c.runs.CompleteTurn)
		out.Answer = &pawlv1.DriveAnswer_CompleteTurn{CompleteTurn: got}
		return err
	case *pawlv1.DriveCommand_FailTurn:
		got, err := guarded(ctx, c, pawlv1.RunService_FailTurn_FullMethodName, item.FailTurn, c.runs.FailTurn)
		out.Answer = &pawlv1.DriveAnswer_FailTurn{FailTurn: got}
		return err
	case *pawlv1.DriveCommand_SuspendTurn:
		got, err := guarded(ctx, c, pawlv1.RunService_SuspendTurn_FullMethodName, item.SuspendTurn, c.runs.SuspendTurn)
		out.Answer = &pawlv1.DriveAnswer_SuspendTurn{SuspendTurn: got}
		return err
	case *pawlv1.DriveCommand_RequestStep:
		got, err := guarded(ctx, c, pawlv1.RunService_RequestStep_FullMethodName, item.RequestStep, c.runs.RequestStep)
		out.Answer = &pawlv1.DriveAnswer_RequestStep{RequestStep: got}
		return err
	case *pawlv1.DriveCommand_ResolveStep:
		got, err := guarded(ctx, c, pawlv1.RunService_ResolveStep_FullMethodName, item.ResolveStep, c.runs.ResolveStep)
		out.Answer = &pawlv1.DriveAnswer_ResolveStep{ResolveStep: got}
		return err
	case *pawlv1.DriveCommand_RequestModel:
		got, err := guarded(ctx, c, pawlv1.RunService_RequestModel_FullMethodName, item.RequestModel, c.runs.RequestModel)
		out.Answer = &pawlv1.DriveAnswer_RequestModel{RequestModel: got}
		return err
	case *pawlv1.DriveCommand_AnswerModel:
		got, err := guarded(ctx, c, pawlv1.RunService_AnswerModel_FullMethodName, item.AnswerModel, c.runs.AnswerModel)
		out.Answer = &pawlv1.DriveAnswer_AnswerModel{AnswerModel: got}
		return err
	case *pawlv1.DriveCommand_NoteModel:
		got, err := guarded(ctx, c, pawlv1.RunService_NoteModel_FullMethodName, item.NoteModel, c.runs.NoteModel)
		out.Answer = &pawlv1.DriveAnswer_NoteModel{NoteModel: got}
		return err
	}
	got, err := guarded(ctx, c, pawlv1.RunService_WriteOutput_FullMethodName, in.GetWriteOutput(), c.runs.WriteOutput)
	out.Answer = &pawlv1.DriveAnswer_WriteOutput{WriteOutput: got}
	return err
}

// runOf is the run that a command is about; "" = none yet (StartRun), or no command.
func runOf(in *pawlv1.DriveCommand) string {
	var about convert.RunRequest
	switch item := in.GetCommand().(type) {
	case *pawlv1.DriveCommand_EmitEvent:
		about = item.EmitEvent
	case *pawlv1.DriveCommand_SendInput:
		about = item.SendInput
	case *pawlv1.DriveCommand_GetTurn:
		about = item.GetTurn
	case *pawlv1.DriveCommand_CompleteTurn:
		about = item.CompleteTurn
	case *pawlv1.DriveCommand_FailTurn:
		about = item.FailTurn
	case *pawlv1.DriveCommand_SuspendTurn:
		about = item.SuspendTurn
	case *pawlv1.DriveCommand_RequestStep:
		about = item.RequestStep
	case *pawlv1.DriveCommand_ResolveStep:
		about = item.ResolveStep
	case *pawlv1.DriveCommand_RequestModel:
		about = item.RequestModel
	case *pawlv1.DriveCommand_AnswerModel:
		about = item.AnswerModel
	case *pawlv1.DriveCommand_NoteModel:
		about = item.NoteModel
	case *pawlv1.DriveCommand_SetArtifacts:
		about = item.SetArtifacts
	case *pawlv1.DriveCommand_WriteOutput:
		about = item.WriteOutput
	case *pawlv1.DriveCommand_PauseRun:
		about = item.PauseRun
	case *pawlv1.DriveCommand_ResumeRun:
		about = item.ResumeRun
	case *pawlv1.DriveCommand_CancelRun:
		about = item.CancelRun
	default:
		return ""
	}
	return about.GetRunId()
}
