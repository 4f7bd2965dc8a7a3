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

// RunOrigin is what a run was started or forked with.
type RunOrigin struct {
	// RequestID is the caller's own id of the start; "" = none was given.
	RequestID string
	// Variables are one compact JSON object, defaults applied.
	Variables []byte
	// Goal is RFC-103's: the text of the input, else the variable "goal"; "" = none.
	Goal string
	// Budget is the pack's as it was lowered at the start.
	Budget machine.Budget
	// WallExcludesWaiting: the wall clock stands while it waits.
	WallExcludesWaiting bool
}

// RunOriginOf reads what the run of a state was started or forked with.
func (r *Service) RunOriginOf(ctx context.Context, namespace string, s *machine.State) (RunOrigin, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return RunOrigin{}, err
	}
	prog, err := r.cfg.Programs.Of(ctx, ns, s)
	if err != nil {
		return RunOrigin{}, err
	}
	began := r.cfg.Past.First
	if s.Erased != nil {
		began = r.cfg.Past.Left
	}
	first, err := began(ctx, runtime.RunKey{Namespace: ns, ID: s.RunID})
	if err != nil {
		return RunOrigin{}, err
	}
	variables, input, wall := history.StartedWith(first.Command)
	if s.Erased != nil {
		// {} would be a value.
		variables = nil
	}
	return RunOrigin{
		RequestID: first.ID, Variables: variables, Goal: goalOf(input, variables),
		Budget:              rules.EffectiveBudget(prog.Graph, s, wall),
		WallExcludesWaiting: prog.Graph.WallExcludesWaiting,
	}, nil
}

// textOf is a message as words, a part a line.
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

// goalOf is the text of an input, else the variable "goal" where that is a string.
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
