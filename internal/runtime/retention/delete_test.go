package retention

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// oneHead is an engine that returns the same head for every run.
type oneHead struct {
	Engine
	state *machine.State
	err   error
}

func (w oneHead) Head(context.Context, runtime.RunKey) (*machine.State, error) { return w.state, w.err }

// TestUnneeded: a child run may be deleted only if its parent is known not to be here, or to have
// ended. A parent that cannot be read keeps its child.
func TestUnneeded(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	busy := &machine.Error{Code: machine.CodeUnavailable, Reason: "BUSY"}
	needed := &machine.Error{Reason: "RUN_NEEDED"}
	for name, c := range map[string]struct {
		way  oneHead
		want error
	}{
		"was never here":     {oneHead{err: &machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND"}}, nil},
		"was deleted":        {oneHead{err: (&machine.Deleted{RunID: "p"}).Err()}, nil},
		"has ended":          {oneHead{state: &machine.State{Status: machine.Cancelled}}, nil},
		"goes on":            {oneHead{state: &machine.State{Status: machine.Running}}, needed},
		"cannot be read":     {oneHead{err: broken}, broken},
		"cannot be read now": {oneHead{err: busy}, busy},
	} {
		room := &Service{cfg: Config{Engine: c.way}}
		err := room.checkUnneeded(context.Background(), runtime.RunKey{ID: "c"}, &machine.State{Parent: &machine.Parent{RunID: "p"}})
		got, refused := errors.AsType[*machine.Error](err)
		if c.want == error(needed) && refused && got.Reason == "RUN_NEEDED" {
			continue
		}
		if !errors.Is(err, c.want) {
			t.Errorf("a parent that %s: %v, want %v", name, err, c.want)
		}
	}
}

// TestAgentsAreToldFirst: a run cannot be deleted while the notice of its end to an agent is
// unconfirmed, if the sidecar notifies agents at all.
func TestAgentsAreToldFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		telling, untold bool
		status          machine.Status
		want            string
	}{
		"untold":       {true, true, machine.Cancelled, agentUntold},
		"told":         {true, false, machine.Cancelled, ""},
		"nobody tells": {false, true, machine.Cancelled, ""},
		// Here the store itself refuses.
		"goes on": {true, true, machine.Running, ""},
	} {
		s := &shelf{unconfirmed: map[string]bool{"r": c.untold}}
		s.run("r", 1, status(c.status))
		room := &Service{cfg: Config{Engine: s, Store: s, Clock: stoppedClock{}, NotifiesAgents: c.telling}}
		_, _, err := room.delete(context.Background(), runtime.RunKey{ID: "r"}, machine.Deleted{By: "me"})
		refusal, _ := errors.AsType[*machine.Error](err)
		if got := refusal != nil; got != (c.want != "") || got && refusal.Reason != c.want || !got && len(s.deleted) != 1 {
			t.Errorf("%s: %v, deleted %v", name, err, s.deleted)
		}
	}
}

// TestBegun: an erasure that was refused has not begun. After any other error it may have begun.
func TestBegun(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		nil: true, errors.New("the disk is gone"): true, machine.ErrNoRun: false,
		&machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND"}:              false,
		&machine.Error{Code: machine.CodeFailedPrecondition, Reason: "RUN_NOT_ERASABLE"}: false,
		&machine.Error{Code: machine.CodePermissionDenied}:                               false,
		&machine.Error{Code: machine.CodeInvalidArgument, Reason: "REASON_REQUIRED"}:     false,
		&machine.Error{Code: machine.CodeUnavailable, Reason: "COMMIT_UNKNOWN"}:          true,
	} {
		if MayHaveErased(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
