package grpcapi

import (
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// FuzzDrive: whatever a message of a Drive stream says, the stream goes on or ends typed.
func FuzzDrive(f *testing.F) {
	for _, m := range []proto.Message{
		&pawlv1.DriveRequest{Commands: []*pawlv1.DriveCommand{{Id: 1, Command: &pawlv1.DriveCommand_EmitEvent{EmitEvent: &pawlv1.EmitEventRequest{RunId: "r", Event: "E"}}}}},
		&pawlv1.DriveRequest{Namespace: "x"},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	r := newRig(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		req := &pawlv1.DriveRequest{}
		if proto.Unmarshal(raw, req) != nil {
			return
		}
		ctx := t.Context()
		stream, err := r.runs.Drive(ctx)
		if err != nil || stream.Send(req) != nil || stream.CloseSend() != nil {
			return
		}
		for {
			if _, err := stream.Recv(); err != nil {
				if code := status.Code(err); err != io.EOF && (code == codes.Internal || code == codes.Unknown) {
					t.Fatalf("%v: %v", req, err)
				}
				return
			}
		}
	})
}
