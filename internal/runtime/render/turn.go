package render

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/prompt"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// TurnView is an open turn with everything that its executor needs.
type TurnView struct {
	TurnRef
	RunID string
	// Run is the state from which the turn was read.
	Run           *machine.State
	Orchestration machine.Orchestration
	// System is the rendered prompt.
	System string
	// Definition is the prompt as the pack defines it, with parameters, overrides, validators and other
	// fields.
	Definition *pack.Prompt
	// Messages are the state's conversation, oldest first.
	Messages []machine.Message
	// Tools are the tools that the prompt lists, in the prompt's order. Tools that the prompt or the
	// delegating run blocks are left out.
	Tools []ToolView
	// Events are the events by which the run can leave the state, sorted. A terminal state has none.
	Events []string
	// Slots are the artifacts that the state declares, sorted by name.
	Slots []ArtifactSlot
	// Steps are the steps of the visit so far, with their answers. See [history.MaxStepBytes].
	Steps []history.StepView
	// Remaining is the remaining amount of each budget.
	Remaining machine.Remaining
}

// ToolView is one tool that a turn may call.
type ToolView struct {
	// Name is the tool's key in the pack. For an agent it is the member key.
	Name        string
	Description string
	// Parameters is a JSON Schema. If it is empty, any object is allowed.
	Parameters json.RawMessage
	// Agent reports whether a call of the tool starts a run of an agent.
	Agent bool
}

// ArtifactSlot is one declared artifact.
type ArtifactSlot struct {
	Name string
	machine.Artifact
}

// TurnRef identifies an open turn.
type TurnRef struct {
	// Seq is the record that opened the turn.
	Seq     uint64
	Attempt int
	State   string
	Prompt  string
	// NotBefore is the end of the backoff, in Unix nanoseconds. 0 means that there is no backoff.
	NotBefore int64
	// Token is the caller's right to act on the turn. It is "" for a caller without this right. This
	// happens if the run has the execution WORKERS, if another caller opened the turn, or if the server
	// was restarted. GetTurn then returns a token.
	Token string
}

// Ref returns the identity of a state's open turn, without a token.
func Ref(g *machine.Graph, s *machine.State) *TurnRef {
	ref := &TurnRef{Seq: s.Turn.Seq, Attempt: s.Turn.Attempt, State: s.Current, NotBefore: s.Turn.NotBefore}
	if node := g.States[s.Current]; node != nil {
		ref.Prompt = node.Prompt
	}
	return ref
}

// Turn reads and renders the open turn of a state.
func (r *Renderer) Turn(ctx context.Context, key machine.RunKey, prog *packcache.Program, s *machine.State) (TurnView, error) {
	node := prog.Graph.States[s.Current]
	view := TurnView{TurnRef: *Ref(prog.Graph, s), RunID: s.RunID, Run: s, Orchestration: node.Orchestration}
	view.Definition = prog.Pack.Doc.Prompts[node.Prompt]
	if !node.Terminal {
		view.Events = slices.Sorted(maps.Keys(node.OnEvent))
	}
	view.Slots = slotsOf(prog.Graph, node)
	view.Remaining = rules.RemainingAt(prog.Graph, s, r.clock.Now().UnixNano())
	view.Tools = toolsOf(prog, node.Prompt, s.Policy)
	var err error
	if view.System, err = r.prompt(ctx, key, prog, s, view.Definition.SystemTemplate); err != nil {
		return view, err
	}
	if view.Messages, err = r.messages(ctx, key, s); err != nil {
		return view, err
	}
	view.Steps, err = r.past.VisitSteps(ctx, key, s.Steps)
	return view, err
}

func slotsOf(g *machine.Graph, node *machine.Node) []ArtifactSlot {
	var slots []ArtifactSlot
	for _, name := range slices.Sorted(slices.Values(node.Artifacts)) {
		slots = append(slots, ArtifactSlot{Name: name, Artifact: g.Artifacts[name]})
	}
	return slots
}

func toolsOf(prog *packcache.Program, promptKey string, policy *machine.ToolPolicy) []ToolView {
	blocked := prog.Graph.Prompts[promptKey].Blocklist
	listed := prog.Pack.Doc.Prompts[promptKey].Tools
	var tools []ToolView
	for i, name := range listed {
		if blocked[name] || policy.Blocks(name) || !policy.Admits(name) || slices.Contains(listed[:i], name) {
			continue
		}
		view := ToolView{Name: name, Agent: prog.Graph.Tools[name].Agent}
		if doc := prog.Pack.Doc.Tools[name]; doc != nil {
			view.Description, view.Parameters = doc.Description, doc.Parameters
		} else if agent := prog.Pack.Doc.Prompts[name]; view.Agent && agent != nil {
			view.Description, view.Parameters = agent.Description, packcache.AgentParameters
		}
		tools = append(tools, view)
	}
	return tools
}

// prompt renders a template with the variables and the current artifacts of the run. It reads only the
// artifacts that the template uses.
func (r *Renderer) prompt(ctx context.Context, key machine.RunKey, prog *packcache.Program, s *machine.State, src string) (string, error) {
	variables, err := r.variables(ctx, key)
	if err != nil {
		return "", err
	}
	scope := prompt.Scope{Variables: variables, Artifacts: map[string]any{}, Fragments: prog.Pack.Doc.Fragments}
	for _, name := range artifactsNamed(src, prog.Pack.Doc.Fragments) {
		i := slices.IndexFunc(s.Artifacts, func(h machine.ArtifactHead) bool { return h.Name == name })
		if i < 0 {
			continue
		}
		value, _, err := r.past.Artifact(ctx, key, &s.Artifacts[i], s.Seq)
		if err != nil {
			return "", err
		}
		scope.Artifacts[name] = scopeValue(&value)
	}
	text, err := prompt.Render(src, scope)
	if err != nil {
		return "", fmt.Errorf("runtime: render state %q of run %s: %w", s.Current, key.ID, err)
	}
	return text, nil
}

func scopeValue(v *history.Artifact) any {
	if validate.IsJSON(v.Type) {
		return json.RawMessage(v.Value)
	}
	return string(v.Value)
}

// artifactsNamed returns the artifacts that a template uses, directly or in fragments that it includes.
func artifactsNamed(src string, fragments map[string]string) []string {
	var names []string
	seen := map[string]bool{}
	todo := []string{src}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		for _, ref := range prompt.Parse(next).Refs() {
			switch {
			case ref.Namespace == prompt.Artifact && !slices.Contains(names, ref.Name):
				names = append(names, ref.Name)
			case ref.Namespace == prompt.Fragment && !seen[ref.Name]:
				seen[ref.Name] = true
				todo = append(todo, fragments[ref.Name])
			}
		}
	}
	return names
}

// variables reads the variables with which the run was started.
func (r *Renderer) variables(ctx context.Context, key machine.RunKey) (map[string]any, error) {
	variables, err := r.past.Variables(ctx, key)
	if err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(variables, &raw); err != nil {
		return nil, fmt.Errorf("runtime: variables of run %s: %w", key.ID, err)
	}
	values := make(map[string]any, len(raw))
	for name, value := range raw {
		values[name] = value
	}
	return values, nil
}

// messages reads the messages of the conversation that the open turn sees.
func (r *Renderer) messages(ctx context.Context, key machine.RunKey, s *machine.State) ([]machine.Message, error) {
	i := slices.IndexFunc(s.Conversations, func(c machine.Conversation) bool { return c.State == s.Current })
	if i < 0 {
		return nil, nil
	}
	return r.past.Conversation(ctx, key, s.Conversations[i])
}

// NoTurn returns the error for a run without an open turn.
func NoTurn(reason, message string, s *machine.State) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: reason, Field: "run_id", Message: message, Seq: s.Seq,
	}
}
