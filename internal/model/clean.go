package model

import (
	"fmt"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

const (
	// maxParts, maxCalls, maxFinish and maxTokens bound an answer and its usage. The API (pawl.v1) has the same
	// bounds: it would refuse a larger answer after the answer was paid for.
	maxParts  = 64
	maxCalls  = 256
	maxFinish = 128
	maxTokens = 1_000_000_000_000
	// maxName bounds names, in bytes. The API (pawl.v1) has the same bound.
	maxName = 256
	// keyPlaceholder is the text that replaces the endpoint's API key in texts.
	keyPlaceholder = "[key]"
)

// hide replaces the API key in a text that the endpoint sent.
func (e *Endpoint) hide(text string) string {
	if e.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, e.Key, keyPlaceholder)
}

// clip returns the beginning of a text, of at most limit bytes. It does not cut a character in two.
func clip(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// clean converts the endpoint's reply to an answer that the contract (the API of pawl.v1) accepts. The answer does
// not contain the API key.
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
	texts, calls, ok := normalizeAnswer(r.rawAnswer, req.Round, known)
	if !ok {
		return nil, &Failure{Code: CodeNoAnswer, Message: "model " + e.Name + ": the answer has no text, no call and no refusal"}
	}
	text := func(s string) string { return e.hide(wellFormed(s)) }
	a := r.answer
	a.Refusal, a.Calls, a.ProviderName = text(r.refusal), calls, e.Form.provider()
	// The message in the endpoint's form is kept only if it is valid JSON. Otherwise it is built again from the parts
	// when it is sent, so that a paid answer is not lost.
	if message := wholeEscapes(text(recordedText(e.Form, r.seal(texts, calls, req.wireNames())))); strictjson.Valid([]byte(message)) {
		a.ProviderJson = message
	}
	a.ResponseId, a.Model, a.FinishReason = clip(text(a.GetResponseId()), maxName), clip(text(a.GetModel()), maxName), clip(text(a.GetFinishReason()), maxFinish)
	for _, t := range texts {
		a.Parts = append(a.Parts, &pawlv1.Part{Content: &pawlv1.Part_Text{Text: t}})
	}
	a.Parts = joinParts(a.GetParts())
	return a, r.fit(a, req.MaxAnswer, e.Name)
}

// fit drops the message in the endpoint's form, which can be built again from the parts, if the answer would exceed the
// limit with it. If the rest exceeds the limit too, fit returns an error.
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

// joinParts reduces text parts to the allowed number. The last part contains all texts that follow.
func joinParts(parts []*pawlv1.Part) []*pawlv1.Part {
	if len(parts) <= maxParts {
		return parts
	}
	var rest strings.Builder
	for _, p := range parts[maxParts-1:] {
		rest.WriteString(p.GetText())
	}
	return append(parts[:maxParts-1:maxParts-1], &pawlv1.Part{Content: &pawlv1.Part_Text{Text: rest.String()}})
}

// unreportedUsage returns the usage of a call for which the endpoint has not reported any usage.
func unreportedUsage() *pawlv1.Usage { return &pawlv1.Usage{Estimated: true} }

// validUsage returns usage that the API (pawl.v1) accepts, from any values that the endpoint reported.
func validUsage(u *pawlv1.Usage) *pawlv1.Usage {
	if u == nil {
		return nil
	}
	tokens := func(n, most int64) int64 { return min(max(n, 0), most) }
	u.InputTokens, u.OutputTokens = tokens(u.GetInputTokens(), maxTokens), tokens(u.GetOutputTokens(), maxTokens)
	u.CachedTokens, u.ReasoningTokens = tokens(u.GetCachedTokens(), u.GetInputTokens()), tokens(u.GetReasoningTokens(), u.GetOutputTokens())
	return u
}

// streamWriter passes text and reasoning on as they arrive, without the API key. It holds back the end of a piece
// that could be the start of the key, or half of a character, until more text arrives.
type streamWriter struct {
	e               *Endpoint
	text, reasoning flow
}

// flow is one of the two streams: text or reasoning.
type flow struct {
	to            func(string)
	pending, half string
}

func (t *streamWriter) writeText(piece string)    { t.text.take(t.e, piece) }
func (t *streamWriter) writeThought(piece string) { t.reasoning.take(t.e, piece) }

func (f *flow) take(e *Endpoint, piece string) {
	if f.to == nil {
		return
	}
	piece, half := withoutHalf(f.half + piece)
	f.half = half
	text := e.hide(f.pending + wellFormed(piece))
	n := len(text) - e.keyPrefixLen(text)
	f.pending = text[n:]
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

// end passes on the text that was held back, because no more text arrives.
func (t *streamWriter) end() {
	for _, f := range []*flow{&t.text, &t.reasoning} {
		if held := f.pending + wellFormed(f.half); held != "" && f.to != nil {
			f.to(held)
		}
		f.pending, f.half = "", ""
	}
}
