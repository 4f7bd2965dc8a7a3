package flood

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// server answers after a time and takes at most so many calls at once.
type server struct {
	callTime   time.Duration
	maxRunning int64
	running    atomic.Int64
	fault      error
}

func (s *server) call(context.Context) error {
	if s.fault != nil {
		return s.fault
	}
	defer s.running.Add(-1)
	if s.running.Add(1) > s.maxRunning {
		st, err := status.New(codes.ResourceExhausted, "full").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(500 * time.Millisecond)})
		if err != nil {
			return err
		}
		return st.Err()
	}
	time.Sleep(s.callTime) // the bubble's clock: what the work takes
	return nil
}

func callsOf(s *server, n int) []Call {
	var out []Call
	for range n {
		out = append(out, s.call)
	}
	return out
}

// TestRun checks that accepted and refused calls are distinguished, that refused callers pause for
// the requested time, and that the recovery is measured.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// None of the crowd comes, or comes again, at an instant at which a call ends: 11 ms divide
		// neither its pauses nor the times at which it comes.
		s := &server{callTime: 11 * time.Millisecond, maxRunning: 8}
		got, err := Run(t.Context(), Clients{Steady: callsOf(s, 4), Crowd: callsOf(s, 12)}, Times{
			Warm: time.Second, Window: 2 * time.Second, RecoveryTimeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		// Eight at once, 11 ms each, for two seconds; eight of the crowd come twice a second;
		// those that come as the window begins or ends count for it or not.
		if got.BaselineP99ms < 10 || got.BaselineP99ms > 12 || got.AcceptedP99ms > 12 || got.Accepted < 1440 || got.Accepted > 1464 {
			t.Errorf("%+v", got)
		}
		if got.Refused < 8*3 || got.Refused > 8*5 || got.RefusedP99ms > 1 || got.RecoveryMs != 100 {
			t.Errorf("%+v", got)
		}
	})
}

// TestFaults: an error that is no refusal is the measurement's, and so is no recovery.
func TestFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if _, err := Run(t.Context(), Clients{Steady: callsOf(&server{fault: broken}, 1)}, Times{RecoveryTimeout: slice}); !errors.Is(err, broken) || !errors.Is(err, errNoRecovery) {
			t.Error(err)
		}
	})
}
