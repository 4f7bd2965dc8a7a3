package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/bench/latency"
)

// ingest drives many runs over one Drive stream, as a program does that drives them
// itself: each run has one event in flight, and what the answers of a message allow to
// be sent next goes in one message.
type ingest struct {
	stream grpc.BidiStreamingClient[pawlv1.DriveRequest, pawlv1.DriveResponse]
	runs   []*emitClient
	asked  []time.Time
	// counts: the command of the run was sent while measuring.
	counts []bool
	all    latency.Histogram
	total  uint64
}

// runIngest drives job.Clients runs through warm-up and window.
func runIngest(ctx context.Context, job loadJob, more <-chan []byte) (loadResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if job.Window > 0 {
		more = nil
	}
	conns, closeAll, err := dial(job.Target, 1)
	if err != nil {
		return loadResult{}, err
	}
	defer closeAll()
	stream, err := pawlv1.NewRunServiceClient(conns[0]).Drive(ctx)
	if err != nil {
		return loadResult{}, err
	}
	d := &ingest{stream: stream, asked: make([]time.Time, job.Clients), counts: make([]bool, job.Clients)}
	for i := range job.Clients {
		d.runs = append(d.runs, newEmitClient(job, conns[0], i))
	}
	first, err := stream.Recv()
	if err == nil && int(first.GetWindow()) < job.Clients {
		err = fmt.Errorf("a window of %d for %d runs", first.GetWindow(), job.Clients)
	}
	if err != nil {
		return loadResult{}, err
	}
	return d.drive(ctx, job, more)
}

// drive sends and receives in one goroutine, while another one keeps the time.
func (d *ingest) drive(ctx context.Context, job loadJob, more <-chan []byte) (loadResult, error) {
	var now atomic.Int32
	ended := make(chan error, 1)
	go func() { ended <- d.pump(&now) }()
	pause(ctx, job.Warm, nil)
	begin := time.Now()
	now.Store(measuring)
	pause(ctx, job.Window, more)
	now.Store(over)
	elapsed := time.Since(begin)
	if err := <-ended; err != nil {
		return loadResult{}, err
	}
	out := loadResult{
		Count: d.all.Count(), PerSec: float64(d.all.Count()) / elapsed.Seconds(), Total: d.total,
		P50us: micros(d.all.Quantile(0.5)), P99us: micros(d.all.Quantile(0.99)),
	}
	for _, run := range d.runs {
		out.Started += run.runs
	}
	return out, d.stream.CloseSend()
}

// pump drives all runs until it is over and every command has its answer.
func (d *ingest) pump(now *atomic.Int32) error {
	message := &pawlv1.DriveRequest{}
	for i := range d.runs {
		message.Commands = append(message.Commands, d.next(i, now.Load()))
	}
	for open := len(d.runs); open > 0; {
		if len(message.GetCommands()) > 0 {
			if err := d.stream.Send(message); err != nil {
				return errors.Join(err, d.stream.RecvMsg(nil))
			}
		}
		in, err := d.stream.Recv()
		if err != nil {
			return err
		}
		at, stand := time.Now(), now.Load()
		message = &pawlv1.DriveRequest{Commands: make([]*pawlv1.DriveCommand, 0, len(in.GetAnswers()))}
		for _, answer := range in.GetAnswers() {
			i := int(answer.GetId()) - 1
			if err := d.runs[i].took(answer); err != nil {
				return err
			}
			if d.total++; d.counts[i] && stand == measuring {
				d.all.Add(at.Sub(d.asked[i]))
			}
			if open--; stand != over {
				message.Commands = append(message.Commands, d.next(i, stand))
				open++
			}
		}
	}
	return nil
}

// next is the next command of a run: its id is free again.
func (d *ingest) next(i int, stand phase) *pawlv1.DriveCommand {
	d.asked[i] = time.Now()
	command, emits := d.runs[i].command()
	command.Id, d.counts[i] = uint64(i)+1, emits && stand == measuring
	return command
}

// command asks for what once does.
func (c *emitClient) command() (command *pawlv1.DriveCommand, emits bool) {
	if c.run == "" {
		return &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_StartRun{StartRun: c.first()}}, false
	}
	c.sent++
	return &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_EmitEvent{EmitEvent: c.event()}}, true
}

// took takes the answer to a command.
func (c *emitClient) took(answer *pawlv1.DriveAnswer) error {
	switch got := answer.GetAnswer().(type) {
	case *pawlv1.DriveAnswer_StartRun:
		c.run, c.token = got.StartRun.GetRun().GetRunId(), got.StartRun.GetTurn().GetToken()
		c.runs++
	case *pawlv1.DriveAnswer_EmitEvent:
		if c.token = got.EmitEvent.GetTurn().GetToken(); c.sent%runTransitions == 0 {
			c.run = ""
		}
	default:
		return fmt.Errorf("run %s: %s", c.run, strings.TrimSpace(protojson.Format(answer)))
	}
	return nil
}
