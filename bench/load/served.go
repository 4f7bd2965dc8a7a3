package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/bench/load/stat"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// workStream executes many runs over one work stream, as a program does that drives its own runs:
// each run has one turn, and the completions of the turns that share a message share one as well.
type workStream struct {
	stream grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse]
	all    stat.Histogram
	total  uint64
	// runs are those that are served, by their ids.
	runs map[string]*servedRun
}

// servedRun is one run at a time.
type servedRun struct {
	emitClient
	// completedAt is when the last turn was completed; counts: that was while measuring.
	completedAt time.Time
	counts      bool
}

// runServed executes job.Clients runs through warm-up and window.
func runServed(ctx context.Context, job loadJob, more <-chan []byte) (loadResult, error) {
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
	s := &workStream{runs: make(map[string]*servedRun)}
	if s.stream, err = registerServer(ctx, conns[0], job.Namespace); err != nil {
		return loadResult{}, err
	}
	var out loadResult
	for i := range job.Clients {
		run := &servedRun{emitClient: *newEmitClient(job, conns[0], i)}
		if err := run.start(ctx); err != nil {
			return out, err
		}
		s.runs[run.run] = run
		if err := s.stream.Send(serveRun(run.run)); err != nil {
			return out, err
		}
	}
	var now atomic.Int32
	ended := make(chan error, 1)
	go func() { ended <- s.completeTurns(ctx, &now) }()
	pause(ctx, job.Warm, nil)
	begin := time.Now()
	now.Store(measuring)
	pause(ctx, job.Window, more)
	now.Store(over)
	elapsed := time.Since(begin)
	if err := <-ended; err != nil {
		return out, err
	}
	for _, run := range s.runs {
		out.Started += run.runs
	}
	out.Count, out.PerSec, out.Total = s.all.Count(), float64(s.all.Count())/elapsed.Seconds(), s.total
	out.P50us, out.P99us = micros(s.all.Quantile(0.5)), micros(s.all.Quantile(0.99))
	return out, s.stream.CloseSend()
}

// registerServer opens a work stream that offers nothing: what it executes are the runs that it serves.
func registerServer(ctx context.Context, conn grpc.ClientConnInterface, namespace string) (grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse], error) {
	stream, err := pawlv1.NewWorkerServiceClient(conn).Work(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&pawlv1.WorkRequest{
		Namespace: namespace,
		Item:      &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{WorkerId: "served", Batches: true, CompactReceipts: true}},
	})
	if err == nil {
		_, err = stream.Recv()
	}
	return stream, err
}

// completeTurns completes the turns of all runs until it is over and each completion has its receipt.
func (s *workStream) completeTurns(ctx context.Context, now *atomic.Int32) error {
	for open := len(s.runs); open > 0; {
		in, err := s.stream.Recv()
		if err != nil {
			return err
		}
		at, stand := time.Now(), now.Load()
		var message *pawlv1.WorkRequest
		for _, one := range append([]*pawlv1.WorkResponse{in}, in.GetMore()...) {
			next, ended, err := s.handle(ctx, one, at, stand)
			if err != nil {
				return err
			}
			if ended {
				open--
			}
			for _, request := range next {
				if message == nil {
					message = request
				} else {
					message.More = append(message.More, request)
				}
			}
		}
		if message == nil {
			continue
		}
		if err := s.stream.Send(message); err != nil {
			return errors.Join(err, s.stream.RecvMsg(nil))
		}
	}
	return nil
}

// handle takes one response: a turn is completed, unless it is over; then its run is.
func (s *workStream) handle(ctx context.Context, in *pawlv1.WorkResponse, at time.Time, stand phase) (next []*pawlv1.WorkRequest, ended bool, err error) {
	if refused := in.GetReceipt().GetError(); refused != nil {
		return nil, false, status.FromProto(refused).Err()
	}
	if unserved := in.GetRunUnserved(); unserved != nil {
		return nil, false, fmt.Errorf("run %s is served no more: %v", unserved.GetRunId(), unserved.GetCause())
	}
	lease := in.GetTurn().GetLease()
	if lease == nil {
		return nil, false, nil
	}
	run := s.runs[lease.GetRunId()]
	if run == nil {
		return nil, false, fmt.Errorf("a turn of run %s, which is not served", lease.GetRunId())
	}
	if run.sent > 0 {
		if s.total++; run.counts && stand == measuring {
			s.all.Add(at.Sub(run.completedAt))
		}
	}
	if stand == over {
		return nil, true, nil
	}
	if run.sent == runTransitions {
		next, err = s.startRun(ctx, run)
		return next, false, err
	}
	run.sent++
	run.completedAt, run.counts = at, stand == measuring
	return []*pawlv1.WorkRequest{{Id: s.total + 1, Item: &pawlv1.WorkRequest_CompleteTurn{CompleteTurn: &pawlv1.CompleteTurnRequest{
		Namespace: run.space, RunId: run.run, TurnSeq: lease.GetTurnSeq(), Attempt: lease.GetAttempt(), TurnToken: lease.GetToken(), Event: eventName,
		Artifacts: []*pawlv1.ArtifactWrite{{Name: artifactName, Value: run.value}},
	}}}}, false, nil
}

// startRun goes on with a new run.
func (s *workStream) startRun(ctx context.Context, run *servedRun) ([]*pawlv1.WorkRequest, error) {
	old := run.run
	delete(s.runs, old)
	if err := run.start(ctx); err != nil {
		return nil, err
	}
	run.sent = 0
	s.runs[run.run] = run
	return []*pawlv1.WorkRequest{serveRun(run.run), {Item: &pawlv1.WorkRequest_ReleaseRun{ReleaseRun: &pawlv1.ReleaseRun{RunId: old}}}}, nil
}

func serveRun(run string) *pawlv1.WorkRequest {
	return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ServeRun{ServeRun: &pawlv1.ServeRun{RunId: run}}}
}
