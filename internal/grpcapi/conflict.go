package grpcapi

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxConflictRecordBytes limits the record that is sent with an error, in a trailer.
const maxConflictRecordBytes = 2048

// expecting is a request that can name the record that the caller expects to be the newest one.
type expecting interface {
	convert.RunRequest
	GetExpectedSeq() uint64
}

// withConflictRecord adds the newest record to the error of a request whose expected_seq is out of
// date. The record is sent without its artifacts. With it, a caller that lost a race learns what
// happened. If the record cannot be read, the error is returned unchanged.
func (s *runService) withConflictRecord(ctx context.Context, in any, err error) error {
	said, ok := in.(expecting)
	if !ok {
		return err
	}
	var refusal *machine.Error
	if !errors.As(err, &refusal) || refusal.Code != machine.CodeAborted || refusal.Seq == 0 {
		return err
	}
	row, readErr := s.views.ConflictRecord(ctx, refOf(ctx, said), refusal.Seq)
	if readErr != nil {
		return err
	}
	winner := convert.RecordToProto(&row, convert.DeclaredTypes(nil), nil)
	if transition := winner.GetTransition(); transition != nil {
		transition.ArtifactsWritten = nil
	}
	if s.redactor.HideSeen(ctx, refOf(ctx, said), winner) != nil || proto.Size(winner) > maxConflictRecordBytes {
		return err
	}
	return apierror.With(apierror.Refused(refusal), protoadapt.MessageV1Of(winner)).Err()
}
