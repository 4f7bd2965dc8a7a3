package model

import (
	"fmt"
	"strings"
	"unicode/utf8"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const (
	// maxParts, maxCalls, maxFinish and maxTokens bound an answer and its usage, as the
	// contract does: what it refused would be paid for and lost.
	maxParts  = 64
	maxCalls  = 256
	maxFinish = 128
	maxTokens = 1_000_000_000_000
	// hidden stands for the key.
	hidden = "[key]"
)

// hide takes the key out of what an endpoint says.
func (e *Endpoint) hide(text string) string {
	if e.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, e.Key, hidden)
}

// clip is the beginning of a text without half a letter at its end.
func clip(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// clean makes of what was read an answer that the contract takes, without the key.
func (e *Endpoint) clean(a *pawlv1.ModelAnswer) (*pawlv1.ModelAnswer, error) {
	text := func(s string) string { return e.hide(strings.ToValidUTF8(s, string(utf8.RuneError))) }
	if n := len(a.GetCalls()); n > maxCalls {
		return nil, &Failure{
			Code: CodeTooLarge, Final: true, Message: fmt.Sprintf("model %s: the answer has %d tool calls, at most %d", e.Name, n, maxCalls),
		}
	}
	a.Refusal, a.ProviderJson = text(a.GetRefusal()), text(a.GetProviderJson())
	a.ResponseId, a.Model, a.FinishReason = clip(text(a.GetResponseId()), maxName), clip(text(a.GetModel()), maxName), clip(text(a.GetFinishReason()), maxFinish)
	for _, c := range a.GetCalls() {
		c.Id, c.Name, c.Arguments = clip(text(c.GetId()), maxName), clip(text(c.GetName()), maxName), text(c.GetArguments())
	}
	a.Parts = joined(a.GetParts())
	for _, p := range a.GetParts() {
		p.Content = &pawlv1.Part_Text{Text: text(p.GetText())}
	}
	return a, nil
}

// joined are parts, all of them texts, as many as there may be: the last is all that follow.
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

// unheard is the usage of a call of which the endpoint has told nothing yet.
func unheard() *pawlv1.Usage { return &pawlv1.Usage{Estimated: true} }

// settled is usage that the contract takes, whatever an endpoint counts.
func settled(u *pawlv1.Usage) *pawlv1.Usage {
	if u == nil {
		return nil
	}
	tokens := func(n, most int64) int64 { return min(max(n, 0), most) }
	u.InputTokens, u.OutputTokens = tokens(u.GetInputTokens(), maxTokens), tokens(u.GetOutputTokens(), maxTokens)
	u.CachedTokens, u.ReasoningTokens = tokens(u.GetCachedTokens(), u.GetInputTokens()), tokens(u.GetReasoningTokens(), u.GetOutputTokens())
	return u
}

// teller tells text as it comes in, without the key: an end that may be its beginning
// waits for what follows.
type teller struct {
	e    *Endpoint
	to   func(string)
	held string
}

func (t *teller) tell(piece string) {
	text := t.e.hide(t.held + strings.ToValidUTF8(piece, string(utf8.RuneError)))
	n := len(text) - t.begun(text)
	t.held = text[n:]
	if n > 0 {
		t.to(text[:n])
	}
}

// begun is how many bytes at the end of a text are the beginning of the key.
func (t *teller) begun(text string) int {
	for n := min(len(text), len(t.e.Key)-1); n > 0; n-- {
		if strings.HasSuffix(text, t.e.Key[:n]) {
			return n
		}
	}
	return 0
}

// end tells what was held.
func (t *teller) end() {
	if t.held != "" {
		t.to(t.held)
	}
	t.held = ""
}
