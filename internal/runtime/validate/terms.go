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

// Terms are the operator's settings for new runs, for starts and for forks. They must not be changed. A
// run keeps the settings with which it started.
type Terms struct {
	// Limits are copied into each new run, see [machine.Limits].
	Limits machine.Limits
	// DefaultWallTime is the wall time of a run if neither the pack nor the start request sets one.
	// MaxWallTime is the longest wall time of every run. 0 means none.
	DefaultWallTime, MaxWallTime time.Duration
	// MaxVariableBytes bounds the variables of a start request, and MaxLabels the number of its labels.
	MaxVariableBytes, MaxLabels int
	// TraceShare is the share of runs, between 0 and 1, that begin a trace of their own if their caller
	// sent no trace context.
	TraceShare float64
	// Models returns the models that the sidecar itself can call, the default model first. If it is nil or
	// returns none, the sidecar executes no runs.
	Models func() []string
	// Providers maps the provider keys in packs to names of Models. If it is nil, packs can use only the
	// key "default", which means the first model.
	Providers map[string]string
}

// CheckExecution returns an error if a request names no execution, or one that is not available.
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

// CheckVariables makes the checks of a request's variables that do not need the pack. Empty variables mean
// {}.
func (t *Terms) CheckVariables(given []byte) error {
	if err := TooLarge("variables", "VARIABLES_TOO_LARGE", len(given), t.MaxVariableBytes); err != nil {
		return err
	}
	if len(given) == 0 {
		return nil
	}
	return CheckObject("variables", given)
}

// WallTime returns the wall time for a new run. asked is the requested time, or 0. If neither the request
// nor the pack sets one, the operator's default applies. The result is at most the operator's maximum. 0
// means that only the pack's bound applies, if it has one.
func (t *Terms) WallTime(g *machine.Graph, asked time.Duration) time.Duration {
	if g.Budget.MaxWallTime == 0 {
		asked = cmp.Or(asked, t.DefaultWallTime)
	}
	if ceiling := t.MaxWallTime; ceiling > 0 && (asked == 0 || asked > ceiling) {
		return ceiling
	}
	return asked
}

// Variables checks the variables of a new run against the pack and adds the default values. The error
// contains all faults and names the field of the first one.
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

// JoinFaults joins the faults of several fields into one message.
func JoinFaults(faults []pack.FieldError) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = f.Error()
	}
	return strings.Join(words, "; ")
}

// OwnLabels is the prefix of the keys of labels that only the sidecar sets.
const OwnLabels = "pawl."

// CheckLabels returns an error if a caller's labels are too many, have the prefix of the sidecar's own
// labels, or contain an invalid trace context.
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

// Traced adds the trace context of a new run to its labels: the caller's, or a new one for the share of
// runs that begin a trace of their own. The choice is stored with the run, so neither a restart nor a
// change of the configuration affects it.
func (t *Terms) Traced(run string, labels []machine.Label, traceparent string) []machine.Label {
	if slices.ContainsFunc(labels, isTrace) {
		return labels
	}
	ctx, given := trace.Parse(traceparent)
	switch {
	case given:
	case t.TraceShare > 0 && trace.IsSampled(run, t.TraceShare):
		ctx = trace.Root(run)
	default:
		return labels
	}
	return append(slices.Clone(labels), machine.Label{Key: trace.Label, Value: ctx.String()})
}

// CopiedLabels returns the labels that a copy of a run gets. It leaves out the trace context of the source, and
// the labels that the sidecar has set, because they describe what started the source.
func CopiedLabels(labels []machine.Label) []machine.Label {
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

// Admit checks the models that a new run may call. If the sidecar itself executes the run, it must have
// these models, and the provider keys that the prompts name must be bound to them. The function `also`
// makes further checks. It gets the sidecar's models, and a function that returns the model of a prompt.
func (t *Terms) Admit(
	g *machine.Graph, command machine.Command, also func(g *machine.Graph, own []string, named func(*machine.Prompt) string) error,
) error {
	own := t.OwnModels(executionOf(command))
	if len(own) == 0 {
		return also(g, nil, modelOfPack)
	}
	if err := t.checkModels(g, own); err != nil {
		return err
	}
	return also(g, own, t.modelOf)
}

// modelOfPack returns the model that the pack names for the turns of a prompt, or "".
func modelOfPack(p *machine.Prompt) string { return p.Model }

// modelOf returns the model that the turns of a prompt call in a run that the sidecar executes. This is
// the model that the pack names, or the model to which the prompt's provider key is bound. It returns ""
// if there is neither.
func (t *Terms) modelOf(p *machine.Prompt) string {
	return cmp.Or(p.Model, t.Providers[cmp.Or(p.Provider, pack.DefaultProvider)])
}

// executionOf returns the execution of the run that the command creates. If the command creates no run, it
// returns ExecutionUnset.
func executionOf(command machine.Command) machine.Execution {
	switch c := command.(type) {
	case machine.Start:
		return c.Execution
	case machine.Fork:
		return c.Execution
	}
	return machine.ExecutionUnset
}

// checkModels returns an error if the sidecar cannot execute the turns of a prompt. Either it lacks the
// model that the pack names, or the prompt's provider key is not bound or has an unsuitable role. own are
// the sidecar's models.
func (t *Terms) checkModels(g *machine.Graph, own []string) error {
	for _, key := range slices.Sorted(maps.Keys(g.Prompts)) {
		p := g.Prompts[key]
		if p.Model == "" {
			if err := t.checkProvider(key, p); err != nil {
				return err
			}
		} else if !slices.Contains(own, p.Model) {
			return &machine.Error{
				Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_MODEL", Field: "workflow.engine.x_pawl.models", Allowed: own,
				Message: fmt.Sprintf("the pack has the prompt %q ask the model %q, and no --model of this sidecar has that name", key, p.Model),
			}
		}
	}
	return nil
}

// checkProvider returns an error if the provider key of a prompt is not bound to a model, or if the
// required role is one that a model cannot have. Without a binding by the operator, the key "default"
// means the first model.
func (t *Terms) checkProvider(key string, p *machine.Prompt) error {
	provider := cmp.Or(p.Provider, pack.DefaultProvider)
	switch {
	case !pack.ServedByModel(p.ProviderRole):
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "PROVIDER_UNFIT", Field: "prompts." + key + ".provider",
			Message: fmt.Sprintf("the prompt %q names the provider %q, whose role is %q: a model answers with text. "+
				"Name a provider of the role llm in the pack", key, provider, p.ProviderRole),
		}
	case provider != pack.DefaultProvider && t.Providers[provider] == "":
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "PROVIDER_UNBOUND", Field: "prompts." + key + ".provider",
			Allowed: slices.Sorted(maps.Keys(t.Providers)),
			Message: fmt.Sprintf("the prompt %q names the provider %q, and this sidecar binds no model to that key: its operator does so with --provider %s=MODEL",
				key, provider, provider),
		}
	}
	return nil
}

// Policy returns the operator's allowlist in the form that is sent with a call of an agent. list.Names
// returns the listed tools, and whether all other tools are allowed, too. Policy returns nil if every tool
// is allowed and the list does not name the agent.
func Policy(list interface{ Names() ([]string, bool) }, agent string) *machine.ToolPolicy {
	names, all := list.Names()
	named := slices.Contains(names, agent)
	switch {
	case all && !named:
		return nil
	case all:
		names = nil
	}
	return &machine.ToolPolicy{Limited: !all, Allow: names, Named: named}
}

// AddLease adds to the hashed values the lease and the tool policy that a delegation gives to a run. If there
// are none, it adds no bytes.
func (b Body) AddLease(lease machine.Amount, p *machine.ToolPolicy) {
	if lease != (machine.Amount{}) {
		b.Number(uint64(lease.Tokens))
		b.Number(uint64(lease.CostMicro))
	}
	if lease.ToolCalls != 0 {
		b.Number(uint64(lease.ToolCalls))
	}
	if p == nil {
		return
	}
	b.Flag(p.Limited)
	for _, names := range [][]string{p.Allow, p.Block} {
		b.Number(uint64(len(names)))
		for _, name := range names {
			b.Text(name)
		}
	}
}
