package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Codes of failures; those of an HTTP status are "MODEL_" and its number.
const (
	CodeUnauthorized = "MODEL_UNAUTHORIZED"
	CodeRateLimited  = "MODEL_RATE_LIMITED"
	CodeUnreachable  = "MODEL_UNREACHABLE"
	CodeTimeout      = "MODEL_TIMEOUT"
	CodeCut          = "STREAM_TRUNCATED"
	CodeTooLarge     = "ANSWER_TOO_LARGE"
	CodePart         = "MEDIA_UNSUPPORTED"
	CodeParameter    = "PARAMETER_UNSUPPORTED"
	CodeRequest      = "REQUEST_UNREADABLE"
	CodeNoStream     = "MODEL_NO_STREAM"
	CodeNoAnswer     = "NO_ANSWER"
)

// Request is what a model is asked, as it is recorded.
type Request struct {
	System string
	Tools  []Tool
	// Parameters by the pack's names; tool_choice among them.
	Parameters map[string]json.RawMessage
	Messages   []*pawlv1.Message
	// MaxTokens is how many tokens the answer may have, of which the endpoint is told; 0 = the
	// endpoint's own default, where it has one.
	MaxTokens int64
	// MaxAnswer bounds the answer, bytes of its texts; 0 = no bound.
	MaxAnswer int64
	// Round is the round of the turn that is asked for, from 1: it is in the ids that are made for calls
	// without one.
	Round int32
	// OnThought is called with what the model thinks, as it comes in; nil: it is dropped.
	OnThought func(string)
	// OnProviderLimits is called with what the provider tells of its limits, before the call is over; nil:
	// nobody wants to know.
	OnProviderLimits func(*pawlv1.ProviderLimits)

	names *names
}

// wired are the names of its tools as endpoints take them.
func (r *Request) wired() names {
	if r.names == nil {
		n := namesOf(r.Tools)
		r.names = &n
	}
	return *r.names
}

// Tool is what a model is told of a tool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Failure is a call that came to nothing.
type Failure struct {
	Code, Message string
	// Final: no further attempt can help.
	Final bool
	// RetryAfter is how long the endpoint asks to wait; 0 = it does not say.
	RetryAfter time.Duration
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Ask makes one call. told gets the text as it comes in. What was consumed is told also of
// a call that failed, as far as the endpoint said so; it is estimated where that is not all of
// it, and nil where the endpoint was not at work on the call. The error is a [*Failure], or that of
// the context where that is over.
func (e *Endpoint) Ask(ctx context.Context, req *Request, told func(string)) (*pawlv1.ModelAnswer, *pawlv1.Usage, error) {
	call, cancel := context.WithTimeoutCause(ctx, e.Timeout, errTimeout)
	defer cancel()
	ask := map[Form]func(context.Context, *Request, *streamWriter) (*reply, *pawlv1.Usage, error){
		Chat: e.askChat, Messages: e.askMessages, Responses: e.askResponses,
	}[e.Form]
	tell := streamWriter{e: e, text: flow{to: told}, thought: flow{to: req.OnThought}}
	got, usage, err := ask(call, req, &tell)
	tell.end()
	usage = settled(usage)
	if err == nil {
		// A whole answer is one, whatever ended meanwhile: it is paid for.
		var answer *pawlv1.ModelAnswer
		if answer, err = e.clean(got, req); err == nil {
			return answer, usage, nil
		}
	}
	if ctx.Err() != nil {
		return nil, usage, ctx.Err()
	}
	if errors.Is(context.Cause(call), errTimeout) {
		err = &Failure{Code: CodeTimeout, Message: fmt.Sprintf("model %s: no whole answer in %s", e.Name, e.Timeout)}
		if usage == nil {
			usage = unheard() // it may be at work on it yet
		}
	}
	return nil, usage, e.failure(err)
}

var errTimeout = errors.New("the call took too long")

// failure makes any error a failure without the key in it.
func (e *Endpoint) failure(err error) *Failure {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		f = &Failure{Code: CodeCut, Message: fmt.Sprintf("model %s: %v", e.Name, err)}
		var large *http.MaxBytesError
		var network net.Error
		switch {
		case errors.As(err, &large):
			f.Code, f.Final = CodeTooLarge, true
			f.Message = fmt.Sprintf("model %s: the response has more than %d bytes", e.Name, large.Limit)
		case errors.As(err, &network):
			f.Code = CodeUnreachable
		}
	}
	f.Message = e.hide(f.Message)
	return f
}

// byteBudget counts an answer's bytes.
type byteBudget struct {
	name        string
	limit, used int64
}

// take counts bytes of an answer; an error: there are too many.
func (r *byteBudget) take(texts ...string) error {
	for _, text := range texts {
		r.used += int64(len(text))
	}
	if r.limit > 0 && r.used > r.limit {
		return &Failure{
			Code: CodeTooLarge, Final: true,
			Message: fmt.Sprintf("model %s: the answer has more than %d bytes", r.name, r.limit),
		}
	}
	return nil
}
