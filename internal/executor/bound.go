package executor

import (
	"cmp"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const (
	// bytesPerToken and mediaTokens are estimates. bytesPerToken is the number of bytes of text in one
	// token. mediaTokens is the number of tokens of a part that is not a text. They are the same in
	// every client.
	bytesPerToken = 4
	mediaTokens   = 1000
)

// reading counts the size of content that a model reads: the bytes of text, and the parts that are not
// text.
type reading struct{ bytes, media int64 }

func (r *reading) text(s string) { r.bytes += int64(len(s)) }

func (r *reading) message(m *pawlv1.Message) {
	for _, p := range m.GetParts() {
		switch c := p.GetContent().(type) {
		case *pawlv1.Part_Text:
			r.text(c.Text)
		case *pawlv1.Part_Json:
			r.text(c.Json)
		default:
			r.media++
		}
	}
	r.text(m.GetToolCallsJson())
}

func (r *reading) answer(a *pawlv1.ModelAnswer) {
	r.message(&pawlv1.Message{Parts: a.GetParts()})
	for _, call := range a.GetCalls() {
		r.text(call.GetArguments())
	}
}

// result counts the content of an answered tool step, because the model reads it in the next request.
func (r *reading) result(s *pawlv1.Step) {
	r.text(s.GetResultJson())
	r.text(s.GetError().GetMessage())
}

func (r *reading) tokens() int64 {
	return (r.bytes+bytesPerToken-1)/bytesPerToken + r.media*mediaTokens
}

// add counts new content in the next request, and in the whole exchange.
func (x *exchange) add(count func(*reading)) {
	count(&x.fresh)
	count(&x.total)
}

// bound returns the maximum that the next model call may consume. It is the usage of the last call plus an estimate for
// the content that was added since. If the usage of the last call is unknown or only estimated, the content of the whole
// exchange is estimated. The sidecar computes the cost.
func (x *exchange) bound() *pawlv1.Usage {
	read := x.total.tokens()
	if x.used.GetInputTokens() > 0 && !x.used.GetEstimated() {
		read = x.used.GetInputTokens() + x.used.GetOutputTokens() + x.fresh.tokens()
	}
	return &pawlv1.Usage{InputTokens: read, OutputTokens: cmp.Or(x.maxTokens, x.endpoint.DefaultMaxTokens()), Model: x.endpoint.Name}
}
