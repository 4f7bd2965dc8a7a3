package retain

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// oneHead is a way that has one thing to say of every run.
type oneHead struct {
	Way
	state *machine.State
	err   error
}

func (w oneHead) Head(context.Context, runtime.RunKey) (*machine.State, error) { return w.state, w.err }

// TestUnneeded: only a parent that is known not to be here, or to have ended, lets its
// child go; one that cannot be read does not.
func TestUnneeded(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	busy := &machine.Refusal{Code: machine.CodeUnavailable, Reason: "BUSY"}
	needed := &machine.Refusal{Reason: "RUN_NEEDED"}
	for name, c := range map[string]struct {
		way  oneHead
		want error
	}{
		"was never here":     {oneHead{err: &machine.Refusal{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND"}}, nil},
		"was deleted":        {oneHead{err: (&machine.Deleted{RunID: "p"}).Refusal()}, nil},
		"has ended":          {oneHead{state: &machine.State{Status: machine.Cancelled}}, nil},
		"goes on":            {oneHead{state: &machine.State{Status: machine.Running}}, needed},
		"cannot be read":     {oneHead{err: broken}, broken},
		"cannot be read now": {oneHead{err: busy}, busy},
	} {
		room := &Room{cfg: Config{Way: c.way}}
		err := room.unneeded(context.Background(), runtime.RunKey{ID: "c"}, &machine.State{Parent: &machine.Parent{RunID: "p"}})
		got, refused := errors.AsType[*machine.Refusal](err)
		if c.want == error(needed) && refused && got.Reason == "RUN_NEEDED" {
			continue
		}
		if !errors.Is(err, c.want) {
			t.Errorf("a parent that %s: %v, want %v", name, err, c.want)
		}
	}
}
