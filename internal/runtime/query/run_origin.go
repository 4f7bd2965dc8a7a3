package query

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// RunOrigin describes how a run was started or forked.
type RunOrigin struct {
	// RequestID is the idempotency id with which the caller started the run. It is "" if the caller
	// sent none.
	RequestID string
	// Variables is one compact JSON object with the variables of the run and their default values.
	Variables []byte
	// Goal is the goal of the run (RFC-103): the text of the input or, if there is no input, the
	// variable "goal". It is "" if there is neither.
	Goal string
	// Budget is the budget that applies to the run, see [rules.EffectiveBudget].
	Budget machine.Budget
	// WallExcludesWaiting reports whether the wall-time clock of the run stops while the run waits.
	WallExcludesWaiting bool
}

// RunOriginOf returns how a state's run was started or forked.
func (r *Service) RunOriginOf(ctx context.Context, namespace string, s *machine.State) (RunOrigin, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return RunOrigin{}, err
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, ns, s)
	if err != nil {
		return RunOrigin{}, err
	}
	began := r.cfg.Past.First
	if s.Erased != nil {
		began = r.cfg.Past.RemainingInput
	}
	first, err := began(ctx, runtime.RunKey{Namespace: ns, ID: s.RunID})
	if err != nil {
		return RunOrigin{}, err
	}
	variables, input, wall := history.StartedWith(first.Command)
	if s.Erased != nil {
		// After an erasure the variables are unknown. They must be nil, because {} would mean that the
		// run had none.
		variables = nil
	}
	return RunOrigin{
		RequestID: first.ID, Variables: variables, Goal: goalOf(input, variables),
		Budget:              rules.EffectiveBudget(prog.Graph, s, wall),
		WallExcludesWaiting: prog.Graph.WallExcludesWaiting,
	}, nil
}

// textOf returns the parts of a message as one text, with one line for each part.
func textOf(parts []machine.Part) string {
	lines := make([]string, len(parts))
	for i, p := range parts {
		switch p.Kind {
		case machine.PartText, machine.PartURI:
			lines[i] = p.Text
		case machine.PartJSON:
			lines[i] = string(p.Data)
		default:
			lines[i] = fmt.Sprintf("(%d bytes of %s)", len(p.Data), p.MediaType)
		}
	}
	return strings.Join(lines, "\n")
}

// goalOf returns the text of a run's input. If there is none, it returns the variable "goal" if that is
// a string.
func goalOf(input []machine.Part, variables []byte) string {
	if text := textOf(input); text != "" {
		return text
	}
	var declared map[string]json.RawMessage
	var goal string
	if json.Unmarshal(variables, &declared) != nil || json.Unmarshal(declared["goal"], &goal) != nil {
		return ""
	}
	return goal
}
