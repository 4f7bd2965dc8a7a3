package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/effects"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// RunContext contains the run that an input belongs to, and everything else that the approval checks
// need.
type RunContext struct {
	Past    *history.Reader
	Key     machine.RunKey
	State   *machine.State
	Program *packcache.Program
	// By is the principal that sends the input.
	By policy.Principal
}

// Prepare adds the data about approval that the rules need to a command. It completes commands that
// request tool calls or decide about a call, and returns other commands unchanged. The run must not have
// ended. The error is a *[machine.Error] or a read error.
func (s *RunContext) Prepare(ctx context.Context, c machine.Command) (machine.Command, error) {
	switch cmd := c.(type) {
	case machine.RequestSteps:
		return s.evaluateConditions(ctx, cmd)
	case machine.DecideStep:
		if cmd.Verdict == machine.Expired {
			return c, nil
		}
		return s.decision(ctx, cmd)
	}
	return c, nil
}

// evaluateConditions evaluates the approval conditions of the requested tools. It adds to the command which calls must
// wait for approval.
func (s *RunContext) evaluateConditions(ctx context.Context, cmd machine.RequestSteps) (machine.Command, error) {
	var seen *values
	for i := range cmd.Requests {
		a := s.Program.Graph.Tools[cmd.Requests[i].Tool].Approval
		if a == nil {
			continue
		}
		if seen == nil {
			seen, cmd.Requests = &values{scene: s, unseen: map[string]string{}}, slices.Clone(cmd.Requests)
		}
		r := &cmd.Requests[i]
		if a.If == "" {
			continue
		}
		var err error
		if r.Holding, err = seen.evaluateHold(ctx, r); err != nil {
			return cmd, err
		}
	}
	return cmd, nil
}

// values contains the values of a run that approval conditions use. Each value is read once for an input.
type values struct {
	scene                *RunContext
	variables, artifacts map[string]any
	// unseen maps a kind of values, for example "artifacts", to the reason why conditions cannot use it.
	unseen map[string]string
}

// conversionReason returns the reason why an approval condition cannot use a value that could not be converted.
func conversionReason(what string, err error) string {
	return shorten("no condition sees " + what + " as it is: " + err.Error())
}

// evaluateHold evaluates the approval condition of one call.
func (v *values) evaluateHold(ctx context.Context, r *machine.StepRequest) (machine.Holding, error) {
	p := v.scene.Program.Conditions[r.Tool]
	if p == nil {
		return machine.Holding{Why: "the condition does not compile"}, nil
	}
	vars := map[string]any{"payload": map[string]any{}, "variables": map[string]any{}, "artifacts": map[string]any{}}
	if p.Reads("payload") {
		payload, err := expr.Value(r.Payload)
		if err != nil {
			return machine.Holding{Why: conversionReason("payload", err)}, nil
		}
		vars["payload"] = payload
	}
	if p.Reads("variables") {
		if err := v.readVariables(ctx); err != nil {
			return machine.Holding{}, err
		}
		if v.unseen["variables"] != "" {
			return machine.Holding{Why: v.unseen["variables"]}, nil
		}
		vars["variables"] = v.variables
	}
	if p.Reads("artifacts") {
		if err := v.readArtifacts(ctx); err != nil {
			return machine.Holding{}, err
		}
		if v.unseen["artifacts"] != "" {
			return machine.Holding{Why: v.unseen["artifacts"]}, nil
		}
		vars["artifacts"] = v.artifacts
	}
	holds, err := p.Holds(vars)
	if err != nil {
		return machine.Holding{Why: shorten(err.Error())}, nil
	}
	return machine.Holding{Free: !holds}, nil
}

// maxWhy bounds the recorded reason why a condition could not be evaluated, in bytes.
const maxWhy = 512

func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxWhy)], "") }

// readVariables reads the variables of the run, once. If expressions cannot represent them, the reason is kept in
// unseen.
func (v *values) readVariables(ctx context.Context) error {
	if v.variables != nil {
		return nil
	}
	raw, err := v.scene.Past.Variables(ctx, v.scene.Key)
	if err != nil {
		return err
	}
	v.variables = map[string]any{}
	if len(raw) == 0 {
		return nil
	}
	value, err := expr.Value(raw)
	if err != nil {
		v.unseen["variables"] = conversionReason("variables", err)
	}
	if object, ok := value.(map[string]any); ok {
		v.variables = object
	}
	return nil
}

// readArtifacts reads the run's artifacts for conditions: JSON artifacts as JSON values, texts as strings, and others as bytes. If one
// JSON artifact cannot be converted, no condition that uses artifacts can be evaluated.
func (v *values) readArtifacts(ctx context.Context) error {
	if v.artifacts != nil {
		return nil
	}
	all, err := v.scene.Past.Artifacts(ctx, v.scene.Key, v.scene.State, v.scene.State.Seq)
	if err != nil {
		return err
	}
	v.artifacts = make(map[string]any, len(all))
	for i := range all {
		a := &all[i]
		switch machine.FormOf(a.Type) {
		case machine.FormJSON:
			value, err := expr.Value(a.Value)
			if err != nil {
				v.unseen["artifacts"] = conversionReason("artifacts."+a.Name, err)
			}
			v.artifacts[a.Name] = value
		case machine.FormText:
			v.artifacts[a.Name] = string(a.Value)
		default:
			v.artifacts[a.Name] = a.Value
		}
	}
	return nil
}

// decision adds to a decision about a call the hash of an edited payload, and the principals that may not
// decide.
func (s *RunContext) decision(ctx context.Context, cmd machine.DecideStep) (machine.Command, error) {
	i := slices.IndexFunc(s.State.Steps, func(p machine.ToolStep) bool { return p.Step == cmd.Step })
	if i < 0 || !s.State.Steps[i].HeldForApproval() {
		return cmd, nil // the step waits for no decision, so the rules refuse the command
	}
	step := &s.State.Steps[i]
	tool := step.Tool
	if err := s.checkVisible(tool); err != nil {
		return cmd, err
	}
	if cmd.Verdict == machine.Edited {
		cmd.PayloadHash = validate.PayloadHash(cmd.Payload)
		if why := s.schemaFault(tool, cmd.Payload); why != "" {
			return cmd, validate.Malformed("EDIT_REFUSED", "payload_json", why)
		}
		if keys, denied := effects.KeysOf(tool, s.Program.Graph.Tools[tool].Dedupe, cmd.Payload); denied != nil || keys.Key != step.Effect && keys.Older != step.Effect {
			return cmd, validate.Malformed("EDIT_REFUSED", "payload_json", "the fields that dedupe names stay as they are: another effect is another call")
		}
	}
	if a := s.Program.Graph.Tools[tool].Approval; a == nil || !a.NotStarter {
		return cmd, nil
	}
	starters, err := s.Starters(ctx)
	cmd.Starters = BarredNames(starters, s.By.Identity())
	return cmd, err
}

// checkVisible returns an error if the deciding principal may not see the payload of the call. It must run before
// every check that uses the payload. A payload with few possible values can be guessed, and the error of
// a later check would confirm the right guess or reveal fields of the payload.
func (s *RunContext) checkVisible(tool string) error {
	if s.By.Scopes.Has(policy.ValuesSensitive) || !s.Program.Pack.XPawl().SensitiveNames().Payload(tool) {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Field: "step", Allowed: policy.ValuesSensitive.Names(),
		Message: fmt.Sprintf("the pack of the run calls payloads of tool %q sensitive: to decide about its calls takes the scope values:sensitive as well", tool),
	}
}

// BarredNames returns the names that may not decide about a call: the principals that started the run. The
// deciding principal may share a part of its identity with one of them: the subject, or a principal that
// acts for it. Then BarredNames adds the whole name of the deciding principal, because the rules compare whole
// names.
func BarredNames(starters []policy.Identity, by policy.Identity) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, starter := range starters {
		add(starter.String())
		add(starter.Subject)
		if starter.SharesPrincipal(by) {
			add(by.String())
		}
	}
	return names
}

// schemaFault returns the reason why a payload does not satisfy the tool's schema of parameters. It returns ""
// if the payload is valid.
func (s *RunContext) schemaFault(tool string, payload []byte) string {
	if d := validate.Denial(s.Program, &machine.StepRequest{Tool: tool, Payload: payload}); d != nil {
		return d.Message
	}
	return ""
}

// Starter returns the principal that started the run.
func (s *RunContext) Starter(ctx context.Context) (string, error) {
	first, err := s.Past.First(ctx, s.Key)
	if err != nil {
		return "", err
	}
	return first.Principal, nil
}

// Starters returns the principals that started the run and the runs above it. A run above it is one that
// delegated to it, directly or through other runs of this sidecar.
func (s *RunContext) Starters(ctx context.Context) ([]policy.Identity, error) {
	var starters []policy.Identity
	key := s.Key
	for range machine.MaxDepth + 1 {
		first, err := s.Past.First(ctx, key)
		if err != nil {
			return starters, err
		}
		starters = append(starters, policy.IdentityOf(first.Principal))
		start, ok := first.Command.(machine.Start)
		if !ok || start.Parent == nil || start.Parent.Origin != "" {
			break
		}
		key.ID = start.Parent.RunID
	}
	return starters, nil
}
