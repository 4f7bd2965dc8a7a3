package grpcapi

import (
	"context"
	"fmt"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/sent"
)

// answersField is DriveResponse.answers.
const answersField protowire.Number = 1

// seal encodes an answer as one element of a DriveResponse. One that cannot be, which
// is the server's fault, is answered as that.
func (c *commander) seal(ctx context.Context, answer *pawlv1.DriveAnswer) []byte {
	wire, err := elementOf(answer)
	if err != nil {
		st := status.Convert(c.finish(ctx, fmt.Errorf("encode the answer to a command: %w", err)))
		// A status that this process made is UTF-8.
		wire, _ = elementOf(&pawlv1.DriveAnswer{Id: answer.GetId(), Answer: &pawlv1.DriveAnswer_Error{Error: st.Proto()}})
	}
	return wire
}

func elementOf(answer *pawlv1.DriveAnswer) ([]byte, error) {
	size := proto.Size(answer)
	wire := make([]byte, 0, protowire.SizeTag(answersField)+protowire.SizeBytes(size))
	wire = protowire.AppendTag(wire, answersField, protowire.BytesType)
	wire = protowire.AppendVarint(wire, uint64(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(wire, answer)
}

// message puts answers together to a DriveResponse: its elements one after the other.
func message(answers []answered) sent.Message {
	if len(answers) == 1 {
		return answers[0].wire
	}
	size := 0
	for _, a := range answers {
		size += len(a.wire)
	}
	whole := make([]byte, 0, size)
	for _, a := range answers {
		whole = append(whole, a.wire...)
	}
	return whole
}
