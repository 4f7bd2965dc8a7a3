package godriver

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// args are those of every verb; test/conformance/README.md says which of them have which.
type args struct {
	Address   string            `json:"address"`
	AuthToken string            `json:"token"`
	Ledger    string            `json:"ledger"`
	Pack      string            `json:"pack"`
	Content   string            `json:"content"`
	Filename  string            `json:"filename"`
	Serves    bool              `json:"serves"`
	Attach    bool              `json:"attach"`
	How       string            `json:"how"`
	Run       string            `json:"run"`
	RunID     string            `json:"run_id"`
	As        string            `json:"as"`
	Name      string            `json:"name"`
	Agent     string            `json:"agent"`
	State     string            `json:"state"`
	Execution string            `json:"execution"`
	Variables map[string]any    `json:"variables"`
	Labels    map[string]string `json:"labels"`
	Input     string            `json:"input"`
	MaxSteps  int32             `json:"max_steps"`
	// Conversation means that a user holds a conversation with the run that begins.
	Conversation bool            `json:"conversation"`
	ID           string          `json:"id"`
	Expected     uint64          `json:"expected_seq"`
	Turn         string          `json:"turn"`
	Ref          *ref            `json:"ref"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	Final        bool            `json:"non_retryable"`
	Calls        []stepCall      `json:"calls"`
	Step         uint32          `json:"step"`
	Tool         string          `json:"tool"`
	Attempt      int32           `json:"attempt"`
	Result       json.RawMessage `json:"result"`
	Error        *fault          `json:"error"`
	// RetryAfter is in seconds.
	RetryAfter float64  `json:"retry_after"`
	Note       string   `json:"note"`
	Until      string   `json:"until"`
	Text       string   `json:"text"`
	Seconds    float64  `json:"seconds"`
	Kinds      []string `json:"kinds"`
	AfterSeq   uint64   `json:"after_seq"`
	AtSeq      uint64   `json:"at_seq"`
	Count      int      `json:"count"`
	Beats      int      `json:"beats"`
	Packs      []string `json:"packs"`
	WorkerID   string   `json:"worker_id"`
	Reuse      *bool    `json:"reuse_steps"`
	controlArgs
	modelArgs
	reply
	script
}

// ref names a turn without a fetched turn, like a caller that never called GetTurn.
type ref struct {
	TurnSeq uint64 `json:"turn_seq"`
	Attempt int32  `json:"attempt"`
	Token   string `json:"token"`
}

// reply is what a turn is completed with.
type reply struct {
	Event     string                     `json:"event"`
	Artifacts map[string]json.RawMessage `json:"artifacts"`
	Output    string                     `json:"output"`
	Messages  []message                  `json:"messages"`
	Usage     *usage                     `json:"usage"`
	// ConversationThroughStep is an answered MODEL step.
	ConversationThroughStep uint32 `json:"conversation_through_step"`
}

type message struct {
	Role string `json:"role"`
	Text string `json:"text"`
	// JSON is a part of that kind, instead of the text.
	JSON       json.RawMessage `json:"json"`
	ToolCallID string          `json:"tool_call_id"`
}

type usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CostMicroUSD int64 `json:"cost_micro_usd"`
	ToolCalls    int32 `json:"tool_calls"`

	CachedTokens    int64  `json:"cached_tokens"`
	ReasoningTokens int64  `json:"reasoning_tokens"`
	Model           string `json:"model"`
}

type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Unknown, of a tool's: it may have happened.
	Unknown bool `json:"unknown"`
}

type stepCall struct {
	Tool    string          `json:"tool"`
	Payload json.RawMessage `json:"payload"`
	// PayloadJSON is the payload letter by letter, where the spelling of its numbers counts.
	PayloadJSON string `json:"payload_json"`
	Key         string `json:"key"`
	Reframe     bool   `json:"reframe"`
	// Catch means that the handler goes on if the call fails.
	Catch bool `json:"catch"`
	// Call is the model's call that it is.
	Call *callRef `json:"call"`
}

func (f *fault) wire() *pawlv1.Fault {
	if f == nil {
		return nil
	}
	return &pawlv1.Fault{Code: f.Code, Message: f.Message}
}

func (u *usage) wire() *pawlv1.Usage {
	if u == nil {
		return nil
	}
	return &pawlv1.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CostMicroUsd: u.CostMicroUSD, ToolCalls: u.ToolCalls,
		CachedTokens: u.CachedTokens, ReasoningTokens: u.ReasoningTokens, Model: u.Model,
	}
}

func partsOf(text string) []*pawlv1.Part {
	if text == "" {
		return nil
	}
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}
}

func messagesOf(given []message) (out []*pawlv1.Message) {
	for _, m := range given {
		out = append(out, m.wire())
	}
	return out
}

func (m message) wire() *pawlv1.Message {
	parts := partsOf(m.Text)
	if m.JSON != nil {
		parts = append(parts, &pawlv1.Part{Content: &pawlv1.Part_Json{Json: string(m.JSON)}})
	}
	return &pawlv1.Message{Role: m.Role, Parts: parts, ToolCallId: m.ToolCallID}
}

func callsOf(calls []stepCall) (out []*pawlv1.StepRequest) {
	for _, c := range calls {
		out = append(out, &pawlv1.StepRequest{Tool: c.Tool, PayloadJson: string(c.Payload), Key: c.Key, Reframe: c.Reframe, Call: c.Call.wire()})
	}
	return out
}

// writesOf are artifacts as the wire has them: text, {$bytes: BASE64}, or JSON;
// the declared types decide about text.
func writesOf(given map[string]json.RawMessage, slots []*pawlv1.ArtifactSlot) (out []*pawlv1.ArtifactWrite) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		isJSON := slices.ContainsFunc(slots, func(s *pawlv1.ArtifactSlot) bool {
			return s.GetName() == name && strings.HasSuffix(s.GetMediaType(), "json")
		})
		out = append(out, &pawlv1.ArtifactWrite{Name: name, Value: artifactOf(given[name], isJSON)})
	}
	return out
}

func artifactOf(value json.RawMessage, isJSON bool) *pawlv1.ArtifactValue {
	var text string
	if json.Unmarshal(value, &text) == nil && !isJSON {
		return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: text}}
	}
	var marked struct {
		Bytes *string `json:"$bytes"`
	}
	if json.Unmarshal(value, &marked) == nil && marked.Bytes != nil {
		data, _ := base64.StdEncoding.DecodeString(*marked.Bytes)
		return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Data{Data: data}}
	}
	return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: string(value)}}
}

func kindsOf(words []string) (out []pawlv1.RecordKind) {
	for _, w := range words {
		out = append(out, pawlv1.RecordKind(pawlv1.RecordKind_value["RECORD_KIND_"+w]))
	}
	return out
}

// idOrNew is the id that was given, or a fresh one.
func idOrNew(id string) string {
	if id == "" {
		return rand.Text()
	}
	return id
}
