package grpcapi

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
)

// ForkRun implements pawl.v1.RunService.
func (s *runService) ForkRun(ctx context.Context, in *pawlv1.ForkRunRequest) (*pawlv1.ForkRunResponse, error) {
	if in.GetPack() != "" {
		// The fork may use another version of the pack, which may not hide the values that the source's version hides
		// from the caller. So the caller must have the right to read all of them.
		if err := s.redactor.CheckUnredacted(ctx, refOf(ctx, in), ""); err != nil {
			return nil, err
		}
	}
	return handleUnary(ctx, s, in, traced(ctx, convert.ForkFromProto), s.timeTravel.ForkRun, func(a *convert.Answer) *pawlv1.ForkRunResponse {
		return &pawlv1.ForkRunResponse{
			Run: a.Run(callOf(ctx, in.GetNamespace()).Namespace), Record: a.Record(machine.RecOrigin), Turn: a.TurnRef(), Duplicate: a.Duplicate,
		}
	})
}

// EraseRun implements pawl.v1.RunService.
func (s *runService) EraseRun(ctx context.Context, in *pawlv1.EraseRunRequest) (*pawlv1.EraseRunResponse, error) {
	state, duplicate, err := s.retain.EraseRun(ctx, refOf(ctx, in), in.GetReason())
	if retention.MayHaveErased(err) {
		s.sent.Clear()
	}
	if err != nil {
		return nil, err
	}
	return convert.ErasedToProto(state, duplicate), nil
}

// DeleteRun implements pawl.v1.RunService.
func (s *runService) DeleteRun(ctx context.Context, in *pawlv1.DeleteRunRequest) (*pawlv1.DeleteRunResponse, error) {
	deleted, duplicate, err := s.retain.DeleteRun(ctx, refOf(ctx, in))
	return convert.DeletedToProto(&deleted, duplicate), err
}

// DiffRuns implements pawl.v1.RunService.
func (s *runService) DiffRuns(ctx context.Context, in *pawlv1.DiffRunsRequest) (*pawlv1.DiffRunsResponse, error) {
	req := convert.DiffFromProto(callerOf(ctx), in)
	if err := s.redactor.CheckUnredacted(ctx, req.RunRef, req.Other); err != nil {
		return nil, err
	}
	got, err := s.timeTravel.DiffRuns(ctx, req)
	if err != nil {
		return nil, err
	}
	return convert.DiffToProto(&got), nil
}

// VerifyRun implements pawl.v1.RunService.
func (s *runService) VerifyRun(ctx context.Context, in *pawlv1.VerifyRunRequest) (*pawlv1.VerifyRunResponse, error) {
	proof, err := s.timeTravel.VerifyRun(ctx, refOf(ctx, in))
	if err != nil {
		return nil, err
	}
	return &pawlv1.VerifyRunResponse{
		Ok: proof.OK(), Entries: proof.Entries, Records: proof.Records, Hash: proof.Hash[:],
		BadSeq: proof.BadSeq, Detail: proof.Detail, Erased: proof.Erased,
	}, nil
}

// exportPiece is the size of the data in one message of an export, in bytes.
const exportPiece = 256 << 10

// ExportRun implements pawl.v1.RunService.
func (s *runService) ExportRun(in *pawlv1.ExportRunRequest, stream grpc.ServerStreamingServer[pawlv1.ExportRunResponse]) error {
	ctx, end := s.guardedContext(stream.Context(), pawlv1.RunService_ExportRun_FullMethodName)
	defer end()
	out := codec.NewChunkWriter(exportPiece, func(piece []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return stream.Send(&pawlv1.ExportRunResponse{Data: piece})
	})
	if err := s.redactor.CheckUnredacted(ctx, refOf(ctx, in), ""); err != nil {
		return err
	}
	if err := s.timeTravel.ExportRun(ctx, refOf(ctx, in), out); err != nil {
		return streamEnd(ctx, err)
	}
	return streamEnd(ctx, out.Flush())
}

type importRunServer = grpc.ClientStreamingServer[pawlv1.ImportRunRequest, pawlv1.ImportRunResponse]

// ImportRun implements pawl.v1.RunService.
func (s *runService) ImportRun(stream importRunServer) error {
	ctx, end := s.guardedContext(stream.Context(), pawlv1.RunService_ImportRun_FullMethodName)
	defer end()
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "REQUEST_REQUIRED", Field: "data", Message: "the stream has no request",
		}
	}
	if err != nil {
		return err
	}
	st, duplicate, err := s.timeTravel.ImportRun(ctx, callOf(ctx, first.GetNamespace()), &incoming{stream: stream, unread: first.GetData()})
	if err != nil {
		return streamEnd(ctx, err)
	}
	run, err := s.run(ctx, callOf(ctx, first.GetNamespace()).Namespace, st)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&pawlv1.ImportRunResponse{Run: run, Duplicate: duplicate})
}

// incoming is an io.Reader of the data in a stream of ImportRun requests.
type incoming struct {
	stream importRunServer
	unread []byte
}

func (in *incoming) Read(b []byte) (int, error) {
	for len(in.unread) == 0 {
		next, err := in.stream.Recv()
		if err != nil {
			return 0, err
		}
		in.unread = next.GetData()
	}
	n := copy(b, in.unread)
	in.unread = in.unread[n:]
	return n, nil
}
