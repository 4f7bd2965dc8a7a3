package a2a

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxContextBytes limits a context id from a caller, in bytes.
const maxContextBytes = 256

// inbound is a SendMessage or SendStreamingMessage call that is being processed.
type inbound struct {
	call
	req    *a2apb.SendMessageRequest
	agent  *agent
	caller runtime.Call
	// speaker is the principal that answers a question: the one that a delegation names, otherwise the
	// caller.
	speaker runtime.Call
	parts   []machine.Part
	// id is the idempotency id of the message, or "".
	id string
}

// accept checks a message and passes it to its run: a new run, or the run of its task. It returns the
// run after the message was applied.
func (s *Service) accept(ctx context.Context, req *a2apb.SendMessageRequest) (runtime.Answer, *inbound, error) {
	c, err := s.negotiate(ctx)
	if err != nil {
		return runtime.Answer{}, nil, err
	}
	m := &inbound{call: c, req: req, caller: s.caller(ctx, req.GetTenant())}
	if m.speaker, err = s.answers(m); err != nil {
		return runtime.Answer{}, nil, err
	}
	if m.agent, err = s.agentOf(ctx, m.caller, req.GetTenant()); err != nil {
		return runtime.Answer{}, nil, err
	}
	if err := s.checkSend(m); err != nil {
		return runtime.Answer{}, nil, err
	}
	m.id = m.idempotency()
	if req.GetMessage().GetTaskId() != "" {
		answer, err := s.resume(ctx, m)
		return answer, m, err
	}
	answer, err := s.begin(ctx, m)
	return answer, m, err
}

// checkSend makes the checks of a message that do not need its task.
func (s *Service) checkSend(m *inbound) (err error) {
	msg, conf := m.req.GetMessage(), m.req.GetConfiguration()
	switch {
	case msg == nil:
		return failAt(invalidParams, "message", "is required")
	case msg.GetMessageId() == "":
		return failAt(invalidParams, "message.messageId", "is required")
	case msg.GetRole() != a2apb.Role_ROLE_USER:
		return failAt(invalidParams, "message.role", "is %s, want ROLE_USER", msg.GetRole())
	case len(msg.GetParts()) == 0:
		return failAt(invalidParams, "message.parts", "want at least one")
	case len(msg.GetContextId()) > maxContextBytes:
		return failAt(invalidParams, "message.contextId", "has %d bytes, at most %d", len(msg.GetContextId()), maxContextBytes)
	case historyOf(conf) != nil && conf.GetHistoryLength() < 0:
		return failAt(invalidParams, "configuration.historyLength", "is %d, want 0 or more", conf.GetHistoryLength())
	case conf.GetTaskPushNotificationConfig() != nil && s.cfg.Push == nil:
		return fail(pushNotSupported, "this agent sends no push notifications")
	}
	if m.parts, err = inboundParts(msg.GetParts()); err != nil {
		return err
	}
	return m.checkModes()
}

// historyOf returns the maximum number of history messages in the response. nil means that all messages
// are returned.
func historyOf(conf *a2apb.SendMessageConfiguration) *int32 {
	if conf == nil {
		return nil
	}
	return conf.HistoryLength
}

// checkModes checks the media types of a message against those that the pack declares. An agent that declares none accepts
// all.
func (m *inbound) checkModes() error {
	def := m.agent.def()
	declared, err := m.agent.pack.Variables(pack.Entry{Agent: m.agent.member})
	if err != nil {
		return err
	}
	starts := m.req.GetMessage().GetTaskId() == ""
	for i := range m.parts {
		p := &m.parts[i]
		if starts && p.MediaType == "" && givesVariables(p, declared) {
			continue
		}
		kind := modeOf(p)
		if kind != "" && len(def.InputModes) > 0 && !modeIn(kind, def.InputModes) {
			return failAt(contentType, "message.parts", "the agent takes %s, not %s", strings.Join(def.InputModes, ", "), clip(kind, 100))
		}
	}
	accepted := m.req.GetConfiguration().GetAcceptedOutputModes()
	if len(accepted) == 0 || len(def.OutputModes) == 0 || slices.ContainsFunc(def.OutputModes, func(mode string) bool { return modeIn(mode, accepted) }) {
		return nil
	}
	return failAt(contentType, "configuration.acceptedOutputModes", "the agent answers with %s", strings.Join(def.OutputModes, ", "))
}

// modeOf returns the media type of a part, or "" if the sender set none.
func modeOf(p *machine.Part) string {
	switch {
	case p.MediaType != "":
		return p.MediaType
	case p.Kind == machine.PartText:
		return textPlain
	case p.Kind == machine.PartJSON:
		return "application/json"
	}
	return ""
}

// givesVariables reports whether the part sets variables of an agent that has variables.
func givesVariables(p *machine.Part, declared []pack.DeclaredVariable) bool {
	return p.Kind == machine.PartJSON && len(declared) > 0 && len(p.Data) > 0 && p.Data[0] == '{'
}

// modeIn reports whether a media type matches one of the patterns, for example text/* and */*.
func modeIn(kind string, patterns []string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	kind = strings.TrimSpace(kind)
	return slices.ContainsFunc(patterns, func(p string) bool {
		p = strings.ToLower(strings.TrimSpace(p))
		major, wild := strings.CutSuffix(p, "/*")
		return p == kind || p == "*/*" || wild && strings.HasPrefix(kind, major+"/")
	})
}

// idempotency returns the id by which a repeat of the message is recognized, or "" if every message is a new one. The id
// consists of the agent, the task and the caller's key, or the message's id if there is no key. The engine refuses a
// different message with the same id.
func (m *inbound) idempotency() string {
	if !m.requestsExtension(protocol.DelegationURI) && !m.requestsExtension(protocol.IdempotentURI) && m.idempotencyKey == "" {
		return ""
	}
	msg := m.req.GetMessage()
	named := "message\x00" + msg.GetMessageId()
	if m.idempotencyKey != "" {
		named = "key\x00" + m.idempotencyKey
	}
	h := sha256.New()
	for _, part := range []string{m.agent.route(), msg.GetTaskId(), named} {
		sum := sha256.Sum256([]byte(part))
		h.Write(sum[:])
	}
	return "a2a-" + hex.EncodeToString(h.Sum(nil))
}

// begin starts a run for a message without a task.
func (s *Service) begin(ctx context.Context, m *inbound) (runtime.Answer, error) {
	variables, err := m.variables()
	if err != nil {
		return runtime.Answer{}, err
	}
	msg := m.req.GetMessage()
	start := runtime.StartRequest{
		Call: m.caller, Pack: m.agent.ref, Agent: m.agent.member, Execution: s.execution(),
		Variables: variables, Input: m.parts, RequestID: m.id,
		Task:     &machine.Task{ContextID: m.contextID(), Owner: m.caller.Principal.Name(), Tenant: m.agent.route()},
		Envelope: envelopeFromProto(msg, m.req.GetMetadata()),
	}
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) == 1 {
		start.Traceparent = values[0]
	}
	if m.requestsExtension(protocol.DelegationURI) {
		if err := s.delegate(&start, msg); err != nil {
			return runtime.Answer{}, err
		}
	}
	return s.cfg.Engine.StartRun(ctx, start)
}

// execution returns how a task is executed: by workers, unless configured otherwise.
func (s *Service) execution() machine.Execution {
	if s.cfg.Execution == nil {
		return machine.Workers
	}
	return s.cfg.Execution()
}

// contextID returns the sender's context id, or a new one. A message with an idempotency id always gets the same one.
func (m *inbound) contextID() string {
	if id := m.req.GetMessage().GetContextId(); id != "" {
		return id
	}
	if m.id != "" {
		return "ctx-" + m.id[len("a2a-"):][:32]
	}
	return "ctx-" + strings.ToLower(rand.Text())
}

// variables returns the variables of the new run: `variables` in the metadata, then the data parts that are objects, in
// order, then the text, if exactly one required string is missing (docs/reference/semantics.md, section 8). For an
// agent without variables, data is only content.
func (m *inbound) variables() ([]byte, error) {
	declared, err := m.agent.pack.Variables(pack.Entry{Agent: m.agent.member})
	if err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	for _, meta := range []*structpb.Struct{m.req.GetMetadata(), m.req.GetMessage().GetMetadata()} {
		given := meta.GetFields()["variables"]
		if _, none := given.GetKind().(*structpb.Value_NullValue); given != nil && !none {
			own, err := strictjson.Object(protocol.ValueFromProto(given))
			if err != nil {
				return nil, failAt(invalidParams, "metadata.variables", "%v", err)
			}
			maps.Copy(values, own)
		}
	}
	for i := range m.parts {
		if p := &m.parts[i]; givesVariables(p, declared) {
			own, _ := strictjson.Object(p.Data) // it is an object, see givesVariables
			maps.Copy(values, own)
		}
	}
	m.fill(declared, values)
	if len(values) == 0 {
		return nil, nil
	}
	return json.Marshal(values)
}

// fill sets the one required string variable without a value to the message's text.
func (m *inbound) fill(declared []pack.DeclaredVariable, values map[string]json.RawMessage) {
	unset := slices.DeleteFunc(slices.Clone(declared), func(d pack.DeclaredVariable) bool {
		_, given := values[d.Name]
		return given || !d.Required || d.Type != "string"
	})
	if len(unset) != 1 {
		return
	}
	var texts []string
	for i := range m.parts {
		if m.parts[i].Kind == machine.PartText {
			texts = append(texts, m.parts[i].Text)
		}
	}
	if len(texts) > 0 {
		values[unset[0].Name], _ = json.Marshal(strings.Join(texts, "\n"))
	}
}

// eventKey is the metadata key of a message that chooses the next event of a run. It is used in states whose event
// the caller chooses (external orchestration).
const eventKey = "pawl.dev/event"

// resume passes a message to the run of its task.
func (s *Service) resume(ctx context.Context, m *inbound) (runtime.Answer, error) {
	msg := m.req.GetMessage()
	state, err := s.task(ctx, m.caller, m.agent, msg.GetTaskId())
	if err != nil {
		return runtime.Answer{}, err
	}
	if id := msg.GetContextId(); id != "" && id != state.Task.ContextID {
		return runtime.Answer{}, failAt(invalidParams, "message.contextId", "task %s is of another context", state.RunID)
	}
	decision, err := protocol.DecisionOf(m.parts)
	if err != nil {
		return runtime.Answer{}, err
	}
	if decision != nil {
		on, err := s.passesOn(ctx, m.speaker, state, decision)
		if err != nil {
			return runtime.Answer{}, err
		}
		if !on {
			return s.decide(ctx, m, state, decision)
		}
	}
	if state.Status.Terminal() {
		if m.id != "" {
			// The message may be a repeat of the one that ended the task. A repeat must get the same answer again.
			if answer, err := s.input(ctx, m, state); err == nil && answer.Duplicate {
				return answer, nil
			}
		}
		return runtime.Answer{}, failAt(unsupportedOperation, "message.taskId", "task %s has ended, it takes no more messages", state.RunID)
	}
	event, err := s.eventOf(ctx, m, state)
	if err != nil {
		return runtime.Answer{}, err
	}
	answer, err := s.input(ctx, m, state)
	if err != nil || event == "" {
		return answer, err
	}
	moved, err := s.cfg.Engine.EmitEvent(ctx, runtime.EmitRequest{
		RunRef: runtime.RunRef{Call: m.speaker, RunID: state.RunID}, Event: event, EventID: m.id, ExpectedSeq: state.VisitSeq,
	})
	if err != nil && answer.Duplicate {
		// The message was accepted before, and the run has continued since.
		return answer, nil
	}
	return moved, err
}

func (s *Service) input(ctx context.Context, m *inbound, state *machine.State) (runtime.Answer, error) {
	return s.cfg.Engine.SendInput(ctx, runtime.InputRequest{
		RunRef: runtime.RunRef{Call: m.speaker, RunID: state.RunID}, Parts: m.parts, MessageID: m.id,
		Envelope: envelopeFromProto(m.req.GetMessage(), m.req.GetMetadata()), Step: askingStep(state),
	})
}

// askingStep returns the number of the first step that delegates to an agent which asked a question and waits for a
// message. It returns 0 if there is none.
func askingStep(state *machine.State) uint32 {
	for i := range state.Steps {
		p := &state.Steps[i]
		if p.Status == machine.StepStatusPending && p.Remote != nil && p.Remote.Asking != machine.AwaitNothing {
			return p.Step
		}
	}
	return 0
}

// eventOf returns the event that a message sends to a run whose current state accepts events from the caller (external
// or hybrid orchestration). It is the event that the metadata name. Without a name it is the only event of a state with
// external orchestration, else "". eventOf checks the caller's right to send the event, so that a message without this
// right is not accepted.
func (s *Service) eventOf(ctx context.Context, m *inbound, state *machine.State) (string, error) {
	named := m.req.GetMessage().GetMetadata().GetFields()[eventKey].GetStringValue()
	graph, err := s.graph(ctx, state)
	if err != nil {
		return "", err
	}
	node := graph.States[state.Current]
	outside := node != nil && node.Orchestration != machine.Internal && askingStep(state) == 0
	if !outside {
		if named != "" {
			return "", failAt(invalidParams, "message.metadata", "%s: state %q is not moved from outside", eventKey, state.Current)
		}
		return "", nil
	}
	events := eventNames(node)
	switch {
	case named == "" && (len(events) != 1 || node.Orchestration != machine.External):
		return "", nil
	case named == "":
		named = events[0]
	case !slices.Contains(events, named):
		return "", failAt(invalidParams, "message.metadata", "%s: %q is none of %s", eventKey, clip(named, 100), strings.Join(events, ", "))
	}
	if !m.speaker.Principal.Scopes.Has(runtime.ScopeEventsExternal) {
		return "", &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Allowed: []string{runtime.ScopeEventsExternal.String()},
			Message: "the state is moved from outside, which takes this scope",
		}
	}
	return named, nil
}

// eventNames lists the events of a state, sorted.
func eventNames(node *machine.Node) []string {
	if node == nil || node.Terminal {
		return nil
	}
	names := make([]string, 0, len(node.OnEvent))
	for name := range node.OnEvent {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
