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

// These are the codes of failed model calls. The code for an HTTP status is "MODEL_" and its number.
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

// Request is a request to a model, as it is recorded.
type Request struct {
	System string
	Tools  []Tool
	// Parameters are the pack's parameters by name, including tool_choice.
	Parameters map[string]json.RawMessage
	Messages   []*pawlv1.Message
	// MaxTokens bounds the tokens of the answer. It is sent to the endpoint; 0 = defaultMaxTokens in the form [Messages],
	// otherwise no bound is sent.
	MaxTokens int64
	// MaxAnswer bounds the answer, in bytes of its texts; 0 = no bound.
	MaxAnswer int64
	// Round is the number of the request in the turn, from 1. It is part of the ids that are made for calls without an id.
	Round int32
	// OnThought is called with the model's reasoning as it arrives. If it is nil, the reasoning is dropped.
	OnThought func(string)
	// OnProviderLimits is called with the rate limits that the provider reports, before Ask returns. If it is nil, it is not called.
	OnProviderLimits func(*pawlv1.ProviderLimits)

	names *names
}

// wireNames returns the table of the tools' names: in the pack, and in the form that the endpoint accepts.
func (r *Request) wireNames() names {
	if r.names == nil {
		n := namesOf(r.Tools)
		r.names = &n
	}
	return *r.names
}

// Tool is the description of a tool for a model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Failure is the error of a failed call.
type Failure struct {
	Code, Message string
	// Final means that no further attempt is useful.
	Final bool
	// RetryAfter is the pause that the endpoint requests; 0 = none.
	RetryAfter time.Duration
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Ask makes one call of the model. It calls onText with the text as it arrives. It returns the usage that the endpoint
// reported, also for a failed call. The usage is marked as estimated if it may be incomplete, and it is nil if the
// endpoint did not process the call, or if the context ended before the answer began. The error is a [*Failure], or the
// error of the context if the context has ended.
func (e *Endpoint) Ask(ctx context.Context, req *Request, onText func(string)) (*pawlv1.ModelAnswer, *pawlv1.Usage, error) {
	call, cancel := context.WithTimeoutCause(ctx, e.Timeout, errTimeout)
	defer cancel()
	ask := map[Form]func(context.Context, *Request, *streamWriter) (*reply, *pawlv1.Usage, error){
		Chat: e.askChat, Messages: e.askMessages, Responses: e.askResponses,
	}[e.Form]
	tell := streamWriter{e: e, text: flow{to: onText}, reasoning: flow{to: req.OnThought}}
	got, usage, err := ask(call, req, &tell)
	tell.end()
	usage = validUsage(usage)
	if err == nil {
		// A complete answer is returned even if the context ended meanwhile, because it is paid for.
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
			usage = unreportedUsage() // the endpoint may still be processing the call
		}
	}
	return nil, usage, e.failure(err)
}

var errTimeout = errors.New("the call took too long")

// failure converts any error to a Failure whose text does not contain the key.
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

// byteBudget counts the bytes of an answer.
type byteBudget struct {
	name        string
	limit, used int64
}

// take counts the bytes of texts. It returns an error if the answer has too many bytes.
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
