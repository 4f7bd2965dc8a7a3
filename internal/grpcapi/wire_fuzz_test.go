package grpcapi

import (
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// FuzzFrames: frames are found at the same places however the bytes arrive.
func FuzzFrames(f *testing.F) {
	f.Add(frame(frameHeaders, 1, 3), uint8(1))
	f.Add(append(frame(frameReset, 1, 4), 0, 0, 9), uint8(5))
	f.Fuzz(func(t *testing.T, wire []byte, step uint8) {
		type seen struct {
			kind   byte
			stream uint32
		}
		var whole, pieces []seen
		(&frames{}).walk(wire, func(kind byte, stream uint32) { whole = append(whole, seen{kind, stream}) })
		cut := &frames{}
		for rest := wire; len(rest) > 0; {
			n := min(int(step)%7+1, len(rest))
			cut.walk(rest[:n], func(kind byte, stream uint32) { pieces = append(pieces, seen{kind, stream}) })
			rest = rest[n:]
		}
		if len(whole) != len(pieces) {
			t.Fatalf("%d frames at once, %d in pieces", len(whole), len(pieces))
		}
		for i := range whole {
			if whole[i] != pieces[i] {
				t.Fatalf("frame %d: %v at once, %v in pieces", i, whole[i], pieces[i])
			}
		}
	})
}

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
