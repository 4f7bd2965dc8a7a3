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

// Terms are the operator's settings for new runs, both for starts and for forks. They are read-only. A
// run keeps the settings with which it started.
type Terms struct {
	// Limits are copied into the run.
	Limits machine.Limits
	// DefaultWallTime is the wall time of a run if neither the pack nor the start request sets one.
	// MaxWallTime is the maximum wall time of every run. For both, 0 means none.
	DefaultWallTime, MaxWallTime time.Duration
	// MaxVariableBytes and MaxLabels bound the variables and labels of a start request.
	MaxVariableBytes, MaxLabels int
	// TraceShare is the share of runs that begin a trace of their own if their caller sent no trace
	// context. It is between 0 and 1.
	TraceShare float64
	// Models returns the models that the sidecar can call. The default model comes first. If Models is
	// nil or returns none, the sidecar executes no runs.
	Models func() []string
}

// CheckExecution returns an error if a run has no execution, or an execution that is not available.
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

// CheckVariables makes the checks of variables that do not need the pack. Empty variables mean {}.
func (t *Terms) CheckVariables(given []byte) error {
	if err := TooLarge("variables", "VARIABLES_TOO_LARGE", len(given), t.MaxVariableBytes); err != nil {
		return err
	}
	if len(given) == 0 {
		return nil
	}
	return CheckObject("variables", given)
}

// WallTime returns the wall time of a run. asked is the requested time; 0 means that none was
// requested. If the pack sets none either, the operator's default applies. The result is at most the
// operator's maximum.
func (t *Terms) WallTime(g *machine.Graph, asked time.Duration) time.Duration {
	if g.Budget.MaxWallTime == 0 {
		asked = cmp.Or(asked, t.DefaultWallTime)
	}
	if ceiling := t.MaxWallTime; ceiling > 0 && (asked == 0 || asked > ceiling) {
		return ceiling
	}
	return asked
}

// Variables checks the variables and adds the default values. The error contains all faults and names
// the field of the first one.
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

// JoinFaults joins the errors of a document's fields into one message.
func JoinFaults(faults []pack.FieldError) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = f.Error()
	}
	return strings.Join(words, "; ")
}

// OwnLabels is the key prefix of labels that only the sidecar sets.
const OwnLabels = "pawl."

// CheckLabels checks the labels of the caller. There must not be too many, the trace context must be
// valid, and no label may have the prefix of the sidecar's own labels.
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

// Traced adds the trace context of the run to its labels. This is the caller's trace context or, for
// the share of runs that begin a trace, a new one. The choice is stored with the run, so neither a
// restart nor a change of the configuration affects it.
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

// Copied returns the labels of a run that a copy of the run also gets. It leaves out the trace context
// of the source, and the labels of the sidecar, which describe what started the source.
func Copied(labels []machine.Label) []machine.Label {
	return slices.DeleteFunc(slices.Clone(labels), func(l machine.Label) bool { return isTrace(l) || strings.HasPrefix(l.Key, OwnLabels) })
}

func isTrace(l machine.Label) bool { return l.Key == trace.Label }

// OwnModels returns the sidecar's models if the sidecar executes the run. Otherwise it returns nil.
func (t *Terms) OwnModels(e machine.Execution) []string {
	if e != machine.Sidecar || t.Models == nil {
		return nil
	}
	return t.Models()
}

// Admit checks the models that a new run may call. If the sidecar executes the run, the sidecar must
// have these models. The function also makes further checks.
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

// checkModels returns an error if a run calls a model that the sidecar does not have. own are the
// sidecar's models, if the sidecar executes the run.
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
