package validate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// Terms are the operator's settings for every new run, by a start or a fork. They are read only. A
// run keeps the settings that it started with.
type Terms struct {
	// Limits are copied into the run.
	Limits machine.Limits
	// DefaultWallTime is the wall time of a run if neither the pack nor the start request sets one;
	// 0 = none. MaxWallTime is the maximum of every run; 0 = none.
	DefaultWallTime, MaxWallTime time.Duration
	// MaxVariableBytes and MaxLabels bound the variables and labels of a start request.
	MaxVariableBytes, MaxLabels int
	// TraceShare is the share of runs without a caller's trace context that begin a trace, 0 to 1.
	TraceShare float64
	// Models returns the models that the sidecar can call, the default first. If Models is nil or
	// returns none, the sidecar executes no runs.
	Models func() []string
}

// CheckExecution refuses a run without an execution, or with one that is not available.
func (t *Terms) CheckExecution(e machine.Execution) error {
	if !e.Known() {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "EXECUTION_REQUIRED", Field: "execution",
			Message: "say who executes the turns", Allowed: []string{"CALLER", "WORKERS", "SIDECAR"},
		}
	}
	if e == machine.Sidecar && len(t.OwnModels(e)) == 0 {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "NO_MODELS", Field: "execution",
			Message: "SIDECAR: this sidecar has no model; its operator names them with --model",
		}
	}
	return nil
}

// CheckVariables makes the checks of variables that need no pack; empty variables are {}.
func (t *Terms) CheckVariables(given []byte) error {
	if err := TooLarge("variables", "VARIABLES_TOO_LARGE", len(given), t.MaxVariableBytes); err != nil {
		return err
	}
	if len(given) == 0 {
		return nil
	}
	return CheckObject("variables", given)
}

// WallTime returns the wall time of a run for a requested time (0 = not requested): the operator's
// default if the pack sets none either, and at most the operator's maximum.
func (t *Terms) WallTime(g *machine.Graph, asked time.Duration) time.Duration {
	if g.Budget.MaxWallTime == 0 {
		asked = cmp.Or(asked, t.DefaultWallTime)
	}
	if ceiling := t.MaxWallTime; ceiling > 0 && (asked == 0 || asked > ceiling) {
		return ceiling
	}
	return asked
}

// Variables checks the variables and adds the defaults. The error contains all faults and names the
// field of the first.
func Variables(prog *packcache.Program, entry pack.Entry, given []byte) ([]byte, error) {
	values, faults, err := prog.Pack.CheckVariables(entry, given)
	if err != nil {
		return nil, packcache.EntryRefused(err)
	}
	if len(faults) == 0 {
		return values, nil
	}
	return nil, &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "BAD_VARIABLES", Field: faults[0].Field, Message: JoinFaults(faults),
	}
}

// JoinFaults joins the errors of a document's fields to one message.
func JoinFaults(faults []pack.FieldError) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = f.Error()
	}
	return strings.Join(words, "; ")
}

// OwnLabels is the key prefix of labels that only the sidecar sets.
const OwnLabels = "pawl."

// CheckLabels checks the caller's labels: their number, a valid trace context, and no label of the
// sidecar.
func (t *Terms) CheckLabels(labels []machine.Label) error {
	if err := TooLarge("labels", "MAX_LABELS", len(labels), t.MaxLabels); err != nil {
		return err
	}
	for _, l := range labels {
		if strings.HasPrefix(l.Key, OwnLabels) {
			return Malformed("LABEL_RESERVED", "labels["+l.Key+"]", "labels that begin with "+OwnLabels+" are the sidecar's own: it says by them what began a run")
		}
		if _, ok := trace.Parse(l.Value); l.Key == trace.Label && !ok {
			return Malformed("BAD_LABEL", "labels["+l.Key+"]", "must be a W3C traceparent: 00-<32 hex>-<16 hex>-<2 hex>, lower case, ids not all zero")
		}
	}
	return nil
}

// Traced adds the trace context that the run keeps: the caller's, or a new one for the share of
// runs that begin a trace. The choice is stored with the run, so neither a restart nor another
// configuration changes it.
func (t *Terms) Traced(run string, labels []machine.Label, traceparent string) []machine.Label {
	if slices.ContainsFunc(labels, isTrace) {
		return labels
	}
	ctx, given := trace.Parse(traceparent)
	switch {
	case given:
	case t.TraceShare > 0 && trace.Picked(run, t.TraceShare):
		ctx = trace.Root(run)
	default:
		return labels
	}
	return append(slices.Clone(labels), machine.Label{Key: trace.Label, Value: ctx.String()})
}

// Copied returns the labels that a copy takes over. It leaves out the trace context of the source,
// and the labels of the sidecar, which say what started the source.
func Copied(labels []machine.Label) []machine.Label {
	return slices.DeleteFunc(slices.Clone(labels), func(l machine.Label) bool { return isTrace(l) || strings.HasPrefix(l.Key, OwnLabels) })
}

func isTrace(l machine.Label) bool { return l.Key == trace.Label }

// OwnModels returns the sidecar's models if the sidecar executes the run, else nil.
func (t *Terms) OwnModels(e machine.Execution) []string {
	if e != machine.Sidecar || t.Models == nil {
		return nil
	}
	return t.Models()
}

// Admit checks the models that a new run may ask. If the sidecar executes the run, it must have
// them. also makes further checks.
func (t *Terms) Admit(g *machine.Graph, command machine.Command, also func(g *machine.Graph, own []string) error) error {
	own := t.OwnModels(executionOf(command))
	if err := checkModels(g, own); err != nil {
		return err
	}
	return also(g, own)
}

// executionOf returns the execution of the run that a command creates.
func executionOf(command machine.Command) machine.Execution {
	switch c := command.(type) {
	case machine.Start:
		return c.Execution
	case machine.Fork:
		return c.Execution
	}
	return machine.ExecutionUnset
}

// checkModels refuses a run that asks a model which the sidecar does not have. own are the
// sidecar's models, if it executes the run.
func checkModels(g *machine.Graph, own []string) error {
	if len(own) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(g.Prompts)) {
		if model := g.Prompts[key].Model; model != "" && !slices.Contains(own, model) {
			return &machine.Error{
				Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_MODEL", Field: "workflow.engine.x_pawl.models", Allowed: own,
				Message: fmt.Sprintf("the pack has the prompt %q ask the model %q, and no --model of this sidecar has that name", key, model),
			}
		}
	}
	return nil
}
