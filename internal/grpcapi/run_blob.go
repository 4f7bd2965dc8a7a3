package grpcapi

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/blob"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

type putBlobServer = grpc.ClientStreamingServer[pawlv1.PutBlobRequest, pawlv1.PutBlobResponse]

// PutBlob implements pawl.v1.RunService.
func (s *runService) PutBlob(stream putBlobServer) error {
	ctx, end := s.guardedContext(stream.Context(), pawlv1.RunService_PutBlob_FullMethodName)
	defer end()
	in, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "REQUEST_REQUIRED", Field: "data", Message: "the stream has no request",
		}
	}
	if err != nil {
		return err
	}
	w, err := s.blobs.Put(ctx, blob.PutRequest{
		Call: callOf(ctx, in.GetNamespace()), UploadID: in.GetUploadId(), MediaType: in.GetMediaType(), Ref: in.GetBlobRef(),
	})
	if err != nil {
		return err
	}
	for !w.IsStored() {
		if err := w.Write(ctx, in.GetOffset(), in.GetData()); err != nil {
			return streamEnd(ctx, err)
		}
		if in.GetLast() {
			break
		}
		if in, err = stream.Recv(); errors.Is(err, io.EOF) {
			got, err := w.Pause(ctx)
			return answerBlob(stream, got, err)
		}
		if err != nil {
			// The bytes before the interruption are kept, so that the upload can be resumed.
			_, _ = w.Pause(context.WithoutCancel(ctx))
			return streamEnd(ctx, err)
		}
	}
	got, err := w.Finish(ctx)
	return answerBlob(stream, got, err)
}

func answerBlob(stream putBlobServer, got blob.Info, err error) error {
	if err != nil {
		return err
	}
	return stream.SendAndClose(&pawlv1.PutBlobResponse{BlobRef: got.Ref, Size: got.Size, Duplicate: got.Duplicate})
}

// GetBlob implements pawl.v1.RunService.
func (s *runService) GetBlob(in *pawlv1.GetBlobRequest, stream grpc.ServerStreamingServer[pawlv1.GetBlobResponse]) error {
	ctx, end := s.guardedContext(stream.Context(), pawlv1.RunService_GetBlob_FullMethodName)
	defer end()
	call := callOf(ctx, in.GetNamespace())
	err := s.blobs.Get(ctx, call, in.GetBlobRef(), in.GetOffset(), func(info blob.Info, at int64, piece []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return stream.Send(&pawlv1.GetBlobResponse{Size: info.Size, MediaType: info.MediaType, Offset: at, Data: piece})
	})
	return streamEnd(ctx, err)
}
