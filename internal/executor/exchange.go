package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

const (
	// defaultExitTool is the name of the function that a model calls to leave a state. It is the same in every client.
	defaultExitTool = "leave_state"
	// askUser is the name of the function that a model calls to ask the person.
	askUser = "ask_user"
	// defaultRounds bounds the answers in a turn. The pack can set another bound (tool_policy.max_rounds).
	defaultRounds = 100
)

func durationOf(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// settings are the pack's settings for the executor.
type settings struct {
	Parameters     map[string]json.RawMessage `json:"parameters"`
	ModelOverrides map[string]override        `json:"model_overrides"`
	// Model is the model that the pack names. It is "" if the pack names none.
	Model string `json:"model"`
	// Provider is the provider key that the prompt names. "" means [model.DefaultProvider].
	Provider string `json:"provider"`
	// Chat means that the state is a conversation with a person.
	Chat bool `json:"chat"`
	// OutputSchema is the JSON Schema of the turn's output.
	OutputSchema json.RawMessage `json:"output_schema"`
	// Orchestration is the orchestration of the state.
	Orchestration string `json:"orchestration"`
	ToolPolicy    struct {
		ToolChoice json.RawMessage `json:"tool_choice"`
		MaxRounds  int             `json:"max_rounds"`
	} `json:"tool_policy"`
}

// override is the part of the prompt's model_overrides that applies to one model.
type override struct {
	SystemTemplate string                     `json:"system_template"`
	Prefix         string                     `json:"system_template_prefix"`
	Suffix         string                     `json:"system_template_suffix"`
	Parameters     map[string]json.RawMessage `json:"parameters"`
}

// exchange is one execution of a turn.
type exchange struct {
	turn     *pawl.Turn
	view     *pawlv1.GetTurnResponse
	endpoint *model.Endpoint
	// exitTool is the name of the exit tool, the function that a model calls to leave the state. It is "" if the
	// state has none.
	exitTool string
	// chat means that a text of the model that does not leave the state is sent to a person, who may reply. ask is the
	// name of the function that the model calls to ask the person.
	chat      bool
	ask       string
	slots     map[string]*pawlv1.ArtifactSlot
	maxRounds int
	// output is the required form of the turn's output. If it is nil, the output is the model's text.
	output *output
	// maxTokens is the limit of one answer of the model in tokens, or 0 if the pack sets none. used is the usage of the
	// last model call. fresh is the size of the content that was added after the last call. total is the size of the
	// content of the whole exchange.
	maxTokens    int64
	used         *pawlv1.Usage
	fresh, total reading
	// next is the request of the next round.
	next *pawlv1.ModelRequest
	// offered are the tools that requests offer to the model.
	offered []*pawlv1.ToolSpec
	// last is the step of the last answer. round is the next round to request.
	last  uint32
	round int32
}

// exchange returns the exchange for a turn. It is built from the data of the turn.
func (e *Executor) exchange(t *pawl.Turn) (*exchange, error) {
	x := &exchange{turn: t, view: t.Assignment.GetTurn(), slots: map[string]*pawlv1.ArtifactSlot{}}
	var s settings
	if text := x.view.GetSettingsJson(); text != "" {
		if err := strictjson.Decode([]byte(text), &s, strictjson.Open); err != nil {
			return nil, &pawl.Failure{Code: "SETTINGS_UNREADABLE", Message: err.Error(), Final: true}
		}
	}
	var err error
	if x.endpoint, err = e.endpoint(&s); err != nil {
		return nil, err
	}
	x.chat = (s.Chat || s.Orchestration == "hybrid" || s.Orchestration == "external") && !x.view.GetTerminal()
	own := s.ModelOverrides[x.endpoint.Name]
	if own.SystemTemplate != "" || strings.Contains(own.Prefix+own.Suffix, "{{") {
		return nil, &pawl.Failure{
			Code: "OVERRIDE_UNSUPPORTED", Final: true,
			Message: fmt.Sprintf("model_overrides.%s: a template is not rendered by this executor; it takes system_template_prefix and system_template_suffix without placeholders, and parameters", x.endpoint.Name),
		}
	}
	if x.output, err = outputOf(s.OutputSchema); err != nil {
		return nil, &pawl.Failure{Code: "SETTINGS_UNREADABLE", Message: "output_schema: " + err.Error(), Final: true}
	}
	if string(s.ToolPolicy.ToolChoice) != `"none"` {
		x.offered = x.view.GetTools()
	}
	x.maxRounds = cmp.Or(s.ToolPolicy.MaxRounds, defaultRounds)
	for _, slot := range x.view.GetArtifactSlots() {
		if isText(slot) || isJSON(slot) {
			x.slots[slot.GetName()] = slot
		}
	}
	return x, x.setFirstRequest(&s, &own)
}

// setFirstRequest sets the request of the first round.
func (x *exchange) setFirstRequest(s *settings, own *override) error {
	tools, err := json.Marshal(x.tools())
	if err != nil {
		return err
	}
	parameters := map[string]json.RawMessage{}
	for _, from := range []map[string]json.RawMessage{s.Parameters, own.Parameters} {
		for name, value := range from {
			if string(value) != "null" {
				parameters[name] = value
			}
		}
	}
	if choice := string(s.ToolPolicy.ToolChoice); choice != "" && choice != `"auto"` && choice != `"none"` && choice != "null" {
		parameters["tool_choice"] = s.ToolPolicy.ToolChoice
	}
	if x.output != nil && (x.chat || x.exitTool == "") && parameters["response_format"] == nil {
		parameters["response_format"] = x.output.format()
	}
	if x.maxTokens, err = x.endpoint.MaxTokens(parameters); err != nil {
		return &pawl.Failure{Code: model.CodeParameter, Message: err.Error(), Final: true}
	}
	given, err := json.Marshal(parameters)
	if err != nil {
		return err
	}
	x.next = &pawlv1.ModelRequest{
		Model: x.endpoint.Name, System: new(own.Prefix + x.view.GetSystemPrompt() + own.Suffix),
		ToolsJson: new(string(tools)), ParametersJson: new(string(given)),
		Messages: []*pawlv1.ModelMessage{{Content: &pawlv1.ModelMessage_Conversation{Conversation: &pawlv1.ConversationRange{}}}},
	}
	x.add(func(r *reading) {
		r.text(x.next.GetSystem() + x.next.GetToolsJson())
		for _, m := range x.view.GetMessages() {
			r.message(m)
		}
	})
	if messages := x.view.GetMessages(); len(messages) == 0 || messages[len(messages)-1].GetRole() == "assistant" {
		// A request must have at least one message, so this one is added if there is only a system prompt. It is also
		// added if the last message is the model's own.
		x.addMessage(message("user", text("Go on.")))
	}
	return nil
}

// addMessage adds a new message to the next request.
func (x *exchange) addMessage(m *pawlv1.Message) {
	x.add(func(r *reading) { r.message(m) })
	x.next.Messages = append(x.next.Messages, &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Message{Message: m}})
}

func message(role string, parts ...*pawlv1.Part) *pawlv1.Message {
	return &pawlv1.Message{Role: role, Parts: parts}
}

func text(s string) *pawlv1.Part { return &pawlv1.Part{Content: &pawlv1.Part_Text{Text: s}} }

// streamText streams text to the readers of the run. If a reader misses the stream, it gets the text
// from the record.
func (x *exchange) streamText(ctx context.Context, s string) { inPieces(ctx, s, x.turn.Output) }

// streamThought streams the model's reasoning.
func (x *exchange) streamThought(ctx context.Context, s string) { inPieces(ctx, s, x.turn.Reasoning) }

func inPieces(ctx context.Context, s string, to func(context.Context, string) error) {
	for len(s) > 0 {
		n := min(len(s), maxPiece)
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		if to(ctx, s[:n]) != nil {
			return
		}
		s = s[n:]
	}
}

// replay streams the text of a recorded answer again, because the streams of the execution that
// received the answer have ended.
func (x *exchange) replay(ctx context.Context, step *pawlv1.Step) {
	for _, part := range step.GetModel().GetAnswer().GetParts() {
		x.streamText(ctx, part.GetText())
	}
}

// maxPiece bounds a piece of output, in bytes. The API has the same limit.
const maxPiece = 64 << 10

// tools returns the tools that the request offers to the model. It also sets exitTool and ask, the names of the two
// functions that it adds.
func (x *exchange) tools() []model.Tool {
	tools := []model.Tool{}
	for _, t := range x.offered {
		tools = append(tools, model.Tool{Name: t.GetName(), Description: t.GetDescription(), Parameters: json.RawMessage(t.GetParametersJson())})
	}
	if len(x.view.GetAllowedEvents()) > 0 {
		x.exitTool = unusedName(defaultExitTool, tools)
		schema, _ := json.Marshal(x.exitToolSchema()) // a value made of texts can always be encoded
		tools = append(tools, model.Tool{Name: x.exitTool, Description: "Ends this state. Choose the event that says how it went.", Parameters: schema})
	}
	if x.chat {
		x.ask = unusedName(askUser, tools)
		tools = append(tools, model.Tool{
			Name: x.ask, Description: "Asks the person a question; the answer is their next message.", Parameters: json.RawMessage(askSchema),
		})
	}
	return tools
}

const askSchema = `{"type":"object","properties":{"question":{"type":"string","minLength":1}},"required":["question"],"additionalProperties":false}`

// unusedName returns a name that no tool has. It begins with the given name.
func unusedName(name string, tools []model.Tool) string {
	for slices.ContainsFunc(tools, func(t model.Tool) bool { return t.Name == name }) {
		name += "_"
	}
	return name
}

type object = map[string]any

// exitToolSchema returns the JSON Schema of the parameters of the exit tool, by which the model leaves the state:
// the event, the artifacts to write, and the output if it has a schema.
func (x *exchange) exitToolSchema() object {
	properties := object{"event": object{"type": "string", "enum": x.view.GetAllowedEvents()}}
	if len(x.slots) > 0 {
		artifacts := object{}
		for name, slot := range x.slots {
			schema := object{"description": strings.TrimSpace(slot.GetDescription() + " (" + slot.GetMediaType() + ")")}
			if isText(slot) {
				schema["type"] = "string"
			}
			artifacts[name] = schema
		}
		properties["artifacts"] = object{"type": "object", "properties": artifacts, "additionalProperties": false}
	}
	schema := object{"type": "object", "properties": properties, "required": []string{"event"}, "additionalProperties": false}
	if x.output != nil {
		x.output.addSchema(schema)
	}
	return schema
}

func isText(s *pawlv1.ArtifactSlot) bool { return strings.HasPrefix(s.GetMediaType(), "text/") }

func isJSON(s *pawlv1.ArtifactSlot) bool {
	return s.GetMediaType() == "application/json" || strings.HasSuffix(s.GetMediaType(), "+json")
}

// readRequest converts a recorded request to the form that an endpoint needs.
func readRequest(got *pawlv1.GetModelStepResponse) (*model.Request, error) {
	req := &model.Request{System: got.GetSystem(), Messages: got.GetMessages()}
	for _, part := range []struct {
		field, text string
		target      any
	}{{"tools_json", got.GetToolsJson(), &req.Tools}, {"parameters_json", got.GetParametersJson(), &req.Parameters}} {
		if part.text == "" {
			continue
		}
		if err := strictjson.Decode([]byte(part.text), part.target, strictjson.Open); err != nil {
			return nil, &pawl.Failure{Code: model.CodeRequest, Message: part.field + ": " + err.Error(), Final: true}
		}
	}
	return req, nil
}
