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

// RunContext holds the run that an input belongs to, and everything else that the approval checks need.
type RunContext struct {
	Past    *history.Reader
	Key     machine.RunKey
	State   *machine.State
	Program *packcache.Program
	// By is the principal that sends the input.
	By policy.Principal
}

// Prepare stamps requests of calls and decisions about calls. Other commands are returned
// unchanged. The error is a *[machine.Error] or a read error.
func (s *RunContext) Prepare(ctx context.Context, c machine.Command) (machine.Command, error) {
	if s.State == nil || s.State.Status.Terminal() {
		return c, nil
	}
	if err := validate.CheckWrites(s.Program.Graph, c); err != nil {
		return c, err
	}
	if err := validate.CheckVerdict(s.State, c); err != nil {
		return c, err
	}
	switch cmd := c.(type) {
	case machine.RequestSteps:
		return s.judge(ctx, cmd)
	case machine.DecideStep:
		if cmd.Verdict == machine.Expired {
			return c, nil
		}
		return s.decision(ctx, cmd)
	}
	return c, nil
}

// judge evaluates the approval conditions of the requested tools and stamps the results into the
// command.
func (s *RunContext) judge(ctx context.Context, cmd machine.RequestSteps) (machine.Command, error) {
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
		if r.Holding, err = seen.holding(ctx, r); err != nil {
			return cmd, err
		}
	}
	return cmd, nil
}

// values holds the values of a run that conditions use. Each value is read once.
type values struct {
	scene                *RunContext
	variables, artifacts map[string]any
	// unseen maps a kind of values to the reason why conditions cannot use values of this kind.
	unseen map[string]string
}

// unseen returns the reason why a condition cannot use a value that could not be read.
func unseen(what string, err error) string {
	return short("no condition sees " + what + " as it is: " + err.Error())
}

// holding evaluates the condition of one call.
func (v *values) holding(ctx context.Context, r *machine.StepRequest) (machine.Holding, error) {
	p := v.scene.Program.Conditions[r.Tool]
	if p == nil {
		return machine.Holding{Why: "the condition does not compile"}, nil
	}
	vars := map[string]any{"payload": map[string]any{}, "variables": map[string]any{}, "artifacts": map[string]any{}}
	if p.Reads("payload") {
		payload, err := expr.Value(r.Payload)
		if err != nil {
			return machine.Holding{Why: unseen("payload", err)}, nil
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
		return machine.Holding{Why: short(err.Error())}, nil
	}
	return machine.Holding{Free: !holds}, nil
}

// maxWhy bounds the reason of a failed evaluation, in bytes.
const maxWhy = 512

func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxWhy)], "") }

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
		v.unseen["variables"] = unseen("variables", err)
	}
	if object, ok := value.(map[string]any); ok {
		v.variables = object
	}
	return nil
}

// readArtifacts reads JSON artifacts as JSON values, texts as strings, and other artifacts as
// bytes.
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
				v.unseen["artifacts"] = unseen("artifacts."+a.Name, err)
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

// decision stamps a decision with the hash of an edited payload and with the principals that may
// not decide.
func (s *RunContext) decision(ctx context.Context, cmd machine.DecideStep) (machine.Command, error) {
	i := slices.IndexFunc(s.State.Steps, func(p machine.ToolStep) bool { return p.Step == cmd.Step })
	if i < 0 || !s.State.Steps[i].HeldForApproval() {
		return cmd, nil // the machine refuses this command
	}
	step := &s.State.Steps[i]
	tool := step.Tool
	if err := s.sees(tool); err != nil {
		return cmd, err
	}
	if cmd.Verdict == machine.Edited {
		cmd.PayloadHash = validate.PayloadHash(cmd.Payload)
		if why := s.wrong(tool, cmd.Payload); why != "" {
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
	cmd.Starters = Barred(starters, s.By.Identity())
	return cmd, err
}

// sees returns an error if the deciding principal may not see the call. sees must run before every
// check that uses the payload: if a payload has few possible values, its digest can be guessed, and the
// error of a later check would confirm the right guess. Errors about the fields of an edit would also
// reveal the payload.
func (s *RunContext) sees(tool string) error {
	if s.By.Scopes.Has(policy.ValuesSensitive) || !s.Program.Pack.XPawl().Hidden().Payload(tool) {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Field: "step", Allowed: policy.ValuesSensitive.Names(),
		Message: fmt.Sprintf("the pack of the run calls payloads of tool %q sensitive: to decide about its calls takes the scope values:sensitive as well", tool),
	}
}

// Barred returns the names that may not decide. The machine compares whole names. The names are
// those that started the run. The name of the deciding principal is added if it shares any part
// with one of them: the subject, or a principal that acted on its behalf.
func Barred(starters []policy.Identity, by policy.Identity) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, starter := range starters {
		add(starter.String())
		add(starter.Subject)
		if starter.Shares(by) {
			add(by.String())
		}
	}
	return names
}

// wrong returns the reason why a payload does not satisfy the schema of a tool. It returns "" if the
// payload is valid.
func (s *RunContext) wrong(tool string, payload []byte) string {
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

// Starters returns the principals that started the run and the runs that delegated to it on this
// sidecar.
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
