package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/envelope"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// answersBytes is about how much one message of answers has, unless one answer has more.
const answersBytes = 1 << 20

type driveServer = grpc.BidiStreamingServer[pawlv1.DriveRequest, pawlv1.DriveResponse]

// driver serves one stream of commands: one goroutine reads, the handler's own sends.
type driver struct {
	s      *runService
	stream driveServer
	lanes  *lanes
	// who calls, by the rights that hold. Only the reader's.
	who    *door.Caller
	rights *door.AuthState
}

// Drive implements pawl.v1.RunService.
func (s *runService) Drive(stream driveServer) error {
	leave, err := s.streams.Enter(stream.Context(), "")
	if err != nil {
		return err
	}
	defer leave()
	d := &driver{s: s, stream: stream, lanes: newLanes(s.commands.make)}
	defer d.lanes.dismiss()
	ctx, over := door.Lasting(stream.Context(), door.CallerOf(stream.Context()))
	defer over()
	if err := stream.Send(&pawlv1.DriveResponse{Window: driveWindow}); err != nil {
		return err
	}
	return d.serve(ctx)
}

// serve sends answers until the stream ends, and ends it after the last one.
func (d *driver) serve(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	received := make(chan error, 1)
	// The reader has the channel itself: the loop below forgets it.
	go func(ended chan<- error) { ended <- d.receive(reading, ctx) }(received)
	var end error
	var quiet <-chan struct{}
	drain, who := d.s.draining, door.CallerOf(ctx)
	for {
		changed := d.s.auth.Changed()
		if err := d.s.auth.Recheck(who, pawlv1.RunService_Drive_FullMethodName); err != nil {
			return err
		}
		if err := d.flush(); err != nil {
			return err
		}
		select {
		case <-d.lanes.wake:
			gather()
			continue
		case <-changed:
			continue
		case end = <-received:
		case <-drain:
			end = draining()
		case <-quiet:
			if err := d.flush(); err != nil {
				return err
			}
			return end
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// Nothing more is read; what was is answered.
		stop()
		received, drain, quiet = nil, nil, d.lanes.quiet
		d.lanes.close()
	}
}

// flush sends all answers that wait.
func (d *driver) flush() error {
	for {
		answers := d.lanes.unsent()
		if len(answers) == 0 {
			return nil
		}
		for len(answers) > 0 {
			n := fitting(answers)
			if err := d.stream.SendMsg(message(answers[:n])); err != nil {
				return err
			}
			d.lanes.sent(answers[:n])
			answers = answers[n:]
		}
	}
}

// fitting counts the answers that go into one message, at least one.
func fitting(answers []answered) int {
	n, bytes := 1, len(answers[0].wire)
	for n < len(answers) && bytes+len(answers[n].wire) <= answersBytes {
		bytes += len(answers[n].wire)
		n++
	}
	return n
}

// receive reads commands until reading ends or the stream does, and returns why the
// stream is to end; nil: its client sends nothing more. Commands are made in ctx.
func (d *driver) receive(reading, ctx context.Context) error {
	for {
		in, err := d.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.check(in)
		}
		if err != nil {
			return err
		}
		if !d.lanes.admit(reading, len(in.GetCommands())) {
			return context.Cause(reading)
		}
		making, err := d.caller(ctx)
		if err != nil {
			return err
		}
		if in.GetNamespace() != "" {
			making = door.WithSpace(making, in.GetNamespace())
		}
		d.lanes.take(making, in.GetCommands(), envelope.Received(ctx))
	}
}

// check judges what is about a message as a whole.
func (d *driver) check(in *pawlv1.DriveRequest) error {
	commands := in.GetCommands()
	if len(commands) > driveWindow {
		return &machine.Refusal{
			Code: machine.CodeResourceExhausted, Reason: "TOO_MANY_COMMANDS", Field: "commands",
			Message: "one message has more commands than may be open", Limit: driveWindow, Got: int64(len(commands)),
		}
	}
	if in.GetNamespace() != "" {
		if err := checked(&pawlv1.DriveRequest{Namespace: in.GetNamespace()}); err != nil {
			return err
		}
	}
	if id, found := d.lanes.duplicate(commands); found {
		return &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "BAD_COMMAND_ID", Field: "commands.id",
			Message: fmt.Sprintf("a command has the id %d; it must be at least 1, and not that of one without an answer", id),
		}
	}
	return nil
}

// caller is the context of commands, with the rights that hold when they are admitted.
// Those that change while a command waits for its turn are asked again in [door.Authenticator.Unary].
func (d *driver) caller(ctx context.Context) (context.Context, error) {
	if now := d.s.auth.Current.Load(); now != d.rights {
		who, err := d.s.auth.Again(door.CallerOf(ctx), pawlv1.RunService_Drive_FullMethodName)
		if err != nil {
			return ctx, err
		}
		d.who, d.rights = who, now
	}
	return door.WithRights(ctx, d.who, d.rights), nil
}
