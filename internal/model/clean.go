package model

import (
	"fmt"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

const (
	// maxParts, maxCalls, maxFinish and maxTokens bound an answer and its usage. They are the bounds of the contract: an answer that exceeds
	// them would be refused after it was paid for.
	maxParts  = 64
	maxCalls  = 256
	maxFinish = 128
	maxTokens = 1_000_000_000_000
	// maxName bounds names, in bytes, as the contract does.
	maxName = 256
	// hidden is the text that replaces the key in texts.
	hidden = "[key]"
)

// hide replaces the key in a text of an endpoint.
func (e *Endpoint) hide(text string) string {
	if e.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, e.Key, hidden)
}

// clip returns the beginning of a text, of at most limit bytes. It does not cut a character in two.
func clip(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// clean makes an answer that the contract accepts from the endpoint's reply. The answer does not contain the key.
func (e *Endpoint) clean(r *reply, req *Request) (*pawlv1.ModelAnswer, error) {
	if len(r.calls) > maxCalls {
		return nil, tooManyCalls(e.Name)
	}
	for i := range r.texts {
		r.texts[i] = e.hide(r.texts[i])
	}
	for i, c := range r.calls {
		r.calls[i] = rawCall{id: e.hide(c.id), name: clip(wellFormed(e.hide(c.name)), maxName), arguments: e.hide(c.arguments)}
	}
	known, err := knownIDs(req.Messages)
	if err != nil {
		return nil, err
	}
	texts, calls, ok := normal(r.rawAnswer, req.Round, known)
	if !ok {
		return nil, &Failure{Code: CodeNoAnswer, Message: "model " + e.Name + ": the answer has no text, no call and no refusal"}
	}
	text := func(s string) string { return e.hide(wellFormed(s)) }
	a := r.answer
	a.Refusal, a.Calls, a.ProviderName = text(r.refusal), calls, e.Form.provider()
	// A message that the sidecar would refuse is rebuilt, so that a paid answer is not lost.
	if message := wholeEscapes(text(sealed(e.Form, r.seal(texts, calls, req.wired())))); strictjson.Valid([]byte(message)) {
		a.ProviderJson = message
	}
	a.ResponseId, a.Model, a.FinishReason = clip(text(a.GetResponseId()), maxName), clip(text(a.GetModel()), maxName), clip(text(a.GetFinishReason()), maxFinish)
	for _, t := range texts {
		a.Parts = append(a.Parts, &pawlv1.Part{Content: &pawlv1.Part_Text{Text: t}})
	}
	a.Parts = joined(a.GetParts())
	return a, r.fit(a, req.MaxAnswer, e.Name)
}

// fit shortens the answer to the limit. If needed it drops the message in the endpoint's form, which can be built again from the parts.
func (r *reply) fit(a *pawlv1.ModelAnswer, limit int64, name string) error {
	held := byteBudget{name: name, limit: limit}
	for _, p := range a.GetParts() {
		held.used += int64(len(p.GetText()))
	}
	for _, c := range a.GetCalls() {
		held.used += int64(len(c.GetId()) + len(c.GetName()) + len(c.GetArguments()) + len(c.GetBrokenArguments()))
	}
	if limit > 0 && held.used+int64(len(a.GetProviderJson())) > limit {
		a.ProviderJson = ""
	}
	return held.take(a.GetRefusal())
}

func tooManyCalls(name string) error {
	return &Failure{Code: CodeTooLarge, Final: true, Message: fmt.Sprintf("model %s: the answer has more than %d tool calls", name, maxCalls)}
}

// joined reduces text parts to the allowed number. The last part contains all texts that follow.
func joined(parts []*pawlv1.Part) []*pawlv1.Part {
	if len(parts) <= maxParts {
		return parts
	}
	var rest strings.Builder
	for _, p := range parts[maxParts-1:] {
		rest.WriteString(p.GetText())
	}
	return append(parts[:maxParts-1:maxParts-1], &pawlv1.Part{Content: &pawlv1.Part_Text{Text: rest.String()}})
}

// unheard returns the usage of a call for which the endpoint has not reported any usage.
func unheard() *pawlv1.Usage { return &pawlv1.Usage{Estimated: true} }

// settled returns usage that the contract accepts, from any values that the endpoint reported.
func settled(u *pawlv1.Usage) *pawlv1.Usage {
	if u == nil {
		return nil
	}
	tokens := func(n, most int64) int64 { return min(max(n, 0), most) }
	u.InputTokens, u.OutputTokens = tokens(u.GetInputTokens(), maxTokens), tokens(u.GetOutputTokens(), maxTokens)
	u.CachedTokens, u.ReasoningTokens = tokens(u.GetCachedTokens(), u.GetInputTokens()), tokens(u.GetReasoningTokens(), u.GetOutputTokens())
	return u
}

// streamWriter passes text and reasoning on as they arrive, without the key. It holds back the end of a piece that could be the start of
// the key, or half of a character, until more text arrives.
type streamWriter struct {
	e             *Endpoint
	text, thought flow
}

// flow is one of the two streams: text or reasoning.
type flow struct {
	to         func(string)
	held, half string
}

func (t *streamWriter) writeText(piece string)    { t.text.take(t.e, piece) }
func (t *streamWriter) writeThought(piece string) { t.thought.take(t.e, piece) }

func (f *flow) take(e *Endpoint, piece string) {
	if f.to == nil {
		return
	}
	piece, half := withoutHalf(f.half + piece)
	f.half = half
	text := e.hide(f.held + wellFormed(piece))
	n := len(text) - e.keyPrefixLen(text)
	f.held = text[n:]
	if n > 0 {
		f.to(text[:n])
	}
}

// keyPrefixLen returns how many bytes at the end of a text could be the start of the endpoint's API key. They are held back until the
// next piece shows whether they are, because the key must not appear in a text.
func (e *Endpoint) keyPrefixLen(text string) int {
	for n := min(len(text), len(e.Key)-1); n > 0; n-- {
		if strings.HasSuffix(text, e.Key[:n]) {
			return n
		}
	}
	return 0
}

// end passes on the text that was held back.
func (t *streamWriter) end() {
	for _, f := range []*flow{&t.text, &t.thought} {
		if held := f.held + wellFormed(f.half); held != "" && f.to != nil {
			f.to(held)
		}
		f.held, f.half = "", ""
	}
}
