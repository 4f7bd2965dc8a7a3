package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
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
	// Heard is called with what the provider tells of its limits, before the call is over; nil:
	// nobody wants to know.
	Heard func(*pawlv1.ProviderLimits)
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
	ask := e.askChat
	if e.Form == Messages {
		ask = e.askMessages
	}
	tell := teller{e: e, to: told}
	answer, usage, err := ask(call, req, tell.tell)
	tell.end()
	usage = settled(usage)
	if err == nil {
		// A whole answer is one, whatever ended meanwhile: it is paid for.
		if answer, err = e.clean(answer); err == nil {
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

// maxTold bounds what of an endpoint's error is told, bytes.
const maxTold = 1 << 10

// refused is what an HTTP status says. What the endpoint says of a key that it does not
// take is not told: it may repeat it.
func (e *Endpoint) refused(status int, header http.Header, said string) *Failure {
	f := &Failure{Code: "MODEL_" + strconv.Itoa(status), RetryAfter: retryAfter(header)}
	f.Message = fmt.Sprintf("model %s: %d %s", e.Name, status, http.StatusText(status))
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.Code, f.Final = CodeUnauthorized, true
		f.Message += ": the endpoint does not take the key of " + KeyVariable(e.Name) + " or --model-key"
		return f
	case status == http.StatusTooManyRequests:
		f.Code = CodeRateLimited
	case status != http.StatusRequestTimeout && status != http.StatusConflict && status < 500:
		f.Final = true
	}
	if said != "" {
		f.Message += ": " + e.told(said)
	}
	return f
}

// told is what is told of what an endpoint says. The key goes first: cut in two it would not
// be known any more.
func (e *Endpoint) told(said string) string { return clip(e.hide(said), maxTold) }

// longestWait is the longest that the contract takes.
const longestWait = 24 * time.Hour

// retryAfter reads the header, in milliseconds, seconds or as a date.
func retryAfter(header http.Header) time.Duration {
	if header == nil {
		return 0
	}
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return wait(ms * float64(time.Millisecond))
	}
	text := header.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return wait(s * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return wait(float64(time.Until(at)))
	}
	return 0
}

func wait(ns float64) time.Duration {
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, float64(longestWait)))
}

// room counts an answer's bytes.
type room struct {
	name        string
	limit, used int64
}

// take counts bytes of an answer; an error: there are too many.
func (r *room) take(texts ...string) error {
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
