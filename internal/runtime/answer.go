package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/prompt"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Answer is the result of an input. The caller must not change it, because the engine shares the state and the records.
type Answer struct {
	RunID string
	// State is the state of the run after the input.
	State *machine.State
	// Entry is the commit that the input made, or the commit of the earlier input if the input is a repeat. Entry has
	// no records if the input made no change.
	Entry machine.Entry
	// Turn is the open turn of the run after the input. It is nil if no turn is open.
	Turn *TurnRef
	// Duplicate reports whether an earlier input had the same id. If so, the Answer is the recorded answer to that
	// earlier input.
	Duplicate   bool
	Disposition machine.Disposition
	// Steps are the outcomes of the calls that a RequestSteps input requested, in the order of the requests.
	Steps []StepAnswer
	// IncludedMessages are required messages that the sidecar added to a model request because the caller did not send
	// them: steering messages of people, and notices of the sidecar.
	IncludedMessages []conversation.IncludedMessage
	// Graph is the control flow of the run. It is nil if State is nil.
	Graph *machine.Graph
	// Final contains the final artifacts, sorted by name, if the input ended the run. It is nil for a caller that may
	// not read runs.
	Final []ArtifactValue
}

// Ended reports whether the input ended the run. If the input is a repeat, the result is about the first input with
// this id.
func (a *Answer) Ended() bool {
	return slices.ContainsFunc(a.Entry.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == machine.RecEnded })
}

// addArtifacts adds the final artifacts to an answer if its input ended the run. It runs after the execution slot of the
// run is released, which is safe because a run that has ended does not change.
func (e *Engine) addArtifacts(ctx context.Context, ns uint32, by *Principal, answer Answer, err error) (Answer, error) {
	if err != nil || answer.State == nil || !answer.Ended() || !by.Scopes.Any(ScopeRunsRead|ScopeRunsWrite) {
		return answer, err
	}
	key := RunKey{Namespace: ns, ID: answer.RunID}
	answer.Final, err = e.history.Artifacts(ctx, key, answer.State, answer.State.Seq)
	return answer, err
}

// TurnRef identifies an open turn.
type TurnRef struct {
	// Seq is the seq of the record that opened the turn.
	Seq     uint64
	Attempt int
	State   string
	Prompt  string
	// NotBefore is the end of the pause after a failed attempt, in Unix nanoseconds. 0 means that there is no pause.
	NotBefore int64
	// Token proves that the caller may act on the turn. It is "" if workers execute the run, if another caller opened the
	// turn, or after a restart of the server. A caller that may execute the turn then gets a token from GetTurn.
	Token string
}

// turnRefOf returns the reference to a state's open turn, without a token.
func turnRefOf(g *machine.Graph, s *machine.State) *TurnRef {
	ref := &TurnRef{Seq: s.Turn.Seq, Attempt: s.Turn.Attempt, State: s.Current, NotBefore: s.Turn.NotBefore}
	if node := g.States[s.Current]; node != nil {
		ref.Prompt = node.Prompt
	}
	return ref
}

// StepAnswer is a step with its recorded answer, as the executor of the turn receives it.
type StepAnswer = history.StepAnswer

// ArtifactValue is an artifact with its value. With the mode Append the value combines all writes.
type ArtifactValue = history.Artifact

// RunView is the state of a run directly after one of its records. The receiver must not change it.
type RunView struct {
	State *machine.State
	// Artifacts are ordered by name. They are nil unless the caller requested them.
	Artifacts []ArtifactValue
}

// Cursor is a position in the journal of a namespace. A later commit has a greater cursor.
type Cursor = validate.Cursor

// CursorAt returns the cursor after the i-th record of a committed entry. A watch (a stream of records) returns the
// same cursors.
func (e *Engine) CursorAt(entry *machine.Entry, i int) Cursor {
	return Cursor{Epoch: e.store.Epoch(), Position: entry.Cursor, Index: uint16(i)}
}

// RecordRow is one record with its context, as a watch (a stream of records) returns it.
type RecordRow struct {
	RunID  string
	Record machine.Record
	// PrevSeq is the seq of the run's previous record that matches the filter of the watch. It is 0 if there is none.
	// With it, a reader can check that no record is missing.
	PrevSeq uint64
	Cursor  Cursor
	// Semantics is the version of the rules that made the record.
	Semantics machine.Semantics
	// PrevHash and Hash are the values of the run's hash chain before and after the entry that contains the record.
	PrevHash [32]byte
	Hash     [32]byte
	// Erased reports whether the values of the run were erased.
	Erased bool
	// Status is the status of the run after the commit of the record. It is 0 if the caller did not request it.
	Status machine.Status
	// Snapshot is the run after the record. It is nil if the caller did not request it or if the values of the run were
	// erased.
	Snapshot *RunView
}

// OutputChunk is a piece of the output that the executor of an open turn has streamed. It is not stored.
type OutputChunk struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Offset is the position of Text in the output, in bytes. It counts from the beginning of this delivery (one
	// assignment of the turn to an executor).
	Offset int64
	Text   string
	// Behind is the seq of the run's newest record when this piece of output arrived. Readers receive the piece after that
	// record and before the next record.
	Behind uint64
	// Reasoning reports whether Text is reasoning of a model and not output of the turn.
	Reasoning bool
	// Reset reports whether the reader must discard the output that it has read before. It is true if Text comes from
	// another assignment of the turn, or if the reader missed a part.
	Reset bool
}

// OutputPosition is the position up to which a reader has read a turn's output. The zero value means that nothing was
// read.
type OutputPosition struct {
	Turn     uint64
	Delivery int
	Offset   int64
}

// Renderer builds what the executor of a turn needs: the prompt with its variables and artifacts, the conversation,
// tools, events and the remaining budgets. The same state always gives the same result, except for the remaining wall
// time. A Renderer has no state of its own. Safe for concurrent use.
type Renderer struct {
	history *history.Reader
	clock   Clock
}

// newRenderer returns a Renderer.
func newRenderer(past *history.Reader, clock Clock) *Renderer {
	return &Renderer{history: past, clock: clock}
}

// TurnView is an open turn with everything that its executor needs.
type TurnView struct {
	TurnRef
	RunID string
	// Run is the state from which the turn was read.
	Run           *machine.State
	Orchestration machine.Orchestration
	// System is the rendered prompt.
	System string
	// Definition is the prompt as the pack defines it, with parameters, overrides, validators and so on.
	Definition *pack.Prompt
	// Messages are the messages of the state's conversation, oldest first.
	Messages []machine.Message
	// Tools are the tools that the prompt lists, in the prompt's order. Tools that the prompt blocks, or that the delegating run blocks or
	// does not allow, are left out.
	Tools []ToolView
	// Events are the events by which the run can leave the state, sorted. A terminal state has none.
	Events []string
	// Slots are the artifacts that the state declares, sorted by name.
	Slots []ArtifactSlot
	// Steps are the steps of the visit so far, with their answers. Payloads and results that exceed [history.MaxStepBytes]
	// together are left out.
	Steps []history.StepView
	// Remaining is the remaining amount of each budget.
	Remaining machine.Remaining
}

// ToolView is one tool that a turn may call.
type ToolView struct {
	// Name is the tool's key in the pack. If the tool is an agent, Name is the key of the agent among the pack's agents.
	Name        string
	Description string
	// Parameters is a JSON Schema. If it is empty, any object is allowed.
	Parameters json.RawMessage
	// Agent reports whether the tool is an agent, so that a call of it starts a run.
	Agent bool
}

// ArtifactSlot is an artifact that a state declares.
type ArtifactSlot struct {
	Name string
	machine.Artifact
}

// Turn returns the open turn of the state s, with everything that its executor needs.
func (r *Renderer) Turn(ctx context.Context, key machine.RunKey, prog *packcache.Program, s *machine.State) (TurnView, error) {
	node := prog.Graph.States[s.Current]
	view := TurnView{TurnRef: *turnRefOf(prog.Graph, s), RunID: s.RunID, Run: s, Orchestration: node.Orchestration}
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
	view.Steps, err = r.history.VisitSteps(ctx, key, s.Steps)
	return view, err
}

func slotsOf(g *machine.Graph, node *machine.Node) []ArtifactSlot {
	var slots []ArtifactSlot
	for _, name := range slices.Sorted(slices.Values(node.Artifacts)) {
		slots = append(slots, ArtifactSlot{Name: name, Artifact: g.Artifacts[name]})
	}
	return slots
}

// toolsOf returns the tools that the model may see in turns of a prompt: the listed ones that neither the prompt
// nor the policy forbids.
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

// prompt renders a template with the variables and the current artifacts of the run. It reads only the artifacts that
// the template uses, because reading a value can be expensive.
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
		value, _, err := r.history.Artifact(ctx, key, &s.Artifacts[i], s.Seq)
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

// artifactsNamed returns the names of the artifacts that a template uses, directly or in fragments that it includes.
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
	variables, err := r.history.Variables(ctx, key)
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
	return r.history.Conversation(ctx, key, s.Conversations[i])
}

// NoTurn returns the error for a request that needs an open turn if the run has none.
func NoTurn(reason, message string, s *machine.State) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: reason, Field: "run_id", Message: message, Seq: s.Seq,
	}
}

// StateOf returns the state of a run after the commit that contains the record seq. 0 means the newest state. A past state is replayed
// from the last checkpoint before it, so the cost does not depend on the length of the journal. If the values of the run were erased, seq
// must be 0. The caller must have checked that the principal may read the run.
func (e *Engine) StateOf(ctx context.Context, key RunKey, seq uint64) (*machine.State, error) {
	head, err := e.Head(ctx, key)
	if err != nil || seq == 0 {
		return head, err
	}
	if err := head.CheckNotErased(); err != nil || seq == head.Seq {
		return head, err
	}
	prog, err := e.programs.ProgramOf(ctx, key.Namespace, head)
	if err != nil {
		return nil, err
	}
	return e.history.StateAt(ctx, key, head, prog.Graph, seq)
}

// replayTail applies entries to a stored state of a run, with the control flow of the run's pack. The store calls it to
// compute newer states.
func (e *Engine) replayTail(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	prog, err := e.programs.ProgramOf(ctx, head.Namespace, head)
	if err != nil {
		return nil, err
	}
	s, err := history.ApplyEntries(prog.Graph, head, tail)
	if err != nil {
		return nil, fmt.Errorf("runtime: replay run %s: %w", head.RunID, err)
	}
	return s, nil
}
