package model

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Form is the wire format of an endpoint.
type Form uint8

const (
	// Chat is OpenAI's chat completions, which most endpoints support.
	Chat Form = iota
	// Messages is Anthropic's format.
	Messages
	// Responses is OpenAI's newer format.
	Responses
)

const (
	// anthropicScheme is the prefix of the URL of an endpoint of the form [Messages].
	anthropicScheme = "anthropic+"
	// responsesScheme is the prefix of the URL of an endpoint of the form [Responses].
	responsesScheme = "responses+"
)

// name returns the name of the form in records.
func (f Form) name() string {
	return [...]string{Chat: "openai-chat", Messages: "anthropic-messages", Responses: "openai-responses"}[f]
}

// provider returns the provider that defined the form.
func (f Form) provider() string {
	if f == Messages {
		return "anthropic"
	}
	return "openai"
}

// Endpoint is the address of a model, and the name under which the model is called.
type Endpoint struct {
	// Name is the name of the model in packs and records.
	Name string
	Form Form
	// URL is the base URL, without the path of the form.
	URL string
	// Model is the name of the model at the endpoint.
	Model string
	// Key is the API key that is sent to the endpoint; "" = none.
	Key string
	// KeyFile is the file from which Key was read; "" = none.
	KeyFile string
	// Timeout bounds one call.
	Timeout time.Duration
	// newer reports whether the endpoint has requested the newer name of the parameter that bounds an answer. If newer
	// is nil, the request is not remembered.
	newer *atomic.Bool
}

// usualMaxTokens is the bound of an answer in the forms [Chat] and [Responses], in tokens, that is assumed if the pack
// sets none. It is the same in every client.
const usualMaxTokens = 4096

// DefaultMaxTokens returns the assumed bound of an answer, in tokens, if the pack sets none.
func (e *Endpoint) DefaultMaxTokens() int64 {
	if e.Form == Messages {
		return defaultMaxTokens
	}
	return usualMaxTokens
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// ParseEndpoint reads NAME=BASE_URL[#MODEL]. MODEL is the name of the model at the endpoint, by default NAME. A scheme with the prefix
// "anthropic+" means Anthropic's form, and "responses+" means OpenAI's Responses. No error contains the URL, because the URL may contain
// a password.
func ParseEndpoint(text string) (Endpoint, error) {
	name, address, ok := strings.Cut(text, "=")
	if !ok || !nameForm.MatchString(name) {
		return Endpoint{}, fmt.Errorf("is no NAME=BASE_URL[#MODEL] with a NAME of 1 to 128 letters, digits and . _ : / -")
	}
	e := Endpoint{Name: name, newer: &atomic.Bool{}}
	for form, scheme := range map[Form]string{Messages: anthropicScheme, Responses: responsesScheme} {
		if rest, ok := strings.CutPrefix(address, scheme); ok {
			e.Form, address = form, rest
			break
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return Endpoint{}, fmt.Errorf("%s: want http(s)://HOST[:PORT][/PATH][#MODEL], or anthropic+http(s)://… or responses+http(s)://…, without a query", name)
	}
	if u.User != nil {
		return Endpoint{}, fmt.Errorf("%s: the URL has credentials; give a key by %s or by a file", name, KeyVariable(name))
	}
	e.Model = name
	if u.Fragment != "" {
		e.Model = u.Fragment
	}
	u.Fragment, u.RawFragment = "", ""
	e.URL = u.String()
	if !strings.HasSuffix(e.URL, "/") {
		e.URL += "/"
	}
	return e, nil
}

// keyChars match those characters of a model's name that are not allowed in the name of an environment variable.
var keyChars = regexp.MustCompile(`[^A-Z0-9]+`)

// KeyVariable returns the name of the environment variable with a model's key. For "gpt-5" this is PAWL_MODEL_KEY_GPT_5.
func KeyVariable(name string) string {
	return "PAWL_MODEL_KEY_" + keyChars.ReplaceAllString(strings.ToUpper(name), "_")
}

// CheckKey returns an error if the key is not valid. The error does not contain the key.
func CheckKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("a key is printable ASCII without spaces")
	}
	return nil
}

// maxBodyBytes bounds the bytes that are read of one response.
const maxBodyBytes = 64 << 20

// client returns an HTTP client that follows no redirect, because the key must be sent only to the operator's endpoint.
func (e *Endpoint) client(req *Request) *http.Client {
	return &http.Client{Transport: limitedTransport{e, req.OnProviderLimits}}
}

// limitedTransport is a transport that returns an error for a body that is too long, for a redirect, and for a page or a
// JSON text in place of an event stream.
type limitedTransport struct {
	e        *Endpoint
	onLimits func(*pawlv1.ProviderLimits)
}

// RoundTrip implements http.RoundTripper.
func (b limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if limits := limitsOf(res.Header, time.Now()); limits != nil && b.onLimits != nil {
		b.onLimits(limits)
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxBodyBytes)
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return nil, errors.Join(b.e.statusFailure(res.StatusCode, nil, "a redirect is not followed"), res.Body.Close())
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode < 300 && (kind == "text/html" || kind == "application/json") {
		return nil, errors.Join(b.noStream(kind, res), res.Body.Close())
	}
	return res, nil
}

// noStream returns the failure for a response that is not an event stream. The failure contains the text of the
// response.
func (b limitedTransport) noStream(kind string, res *http.Response) *Failure {
	f := &Failure{Code: CodeNoStream, Message: fmt.Sprintf("model %s: the endpoint answers with %s, want text/event-stream: is the base URL one of a model?", b.e.Name, kind)}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxFaultBytes)) // a partial text is better than none
	if kind == "application/json" {
		if fault := parseUnambiguous(body).Get("error"); fault.Type != gjson.Null {
			f.Message = "model " + b.e.Name + ": the endpoint answers 200 with an error"
			return b.e.addErrorBody(fault, f)
		}
	}
	if text := faultWords(body); text != "" {
		f.Message += ": " + b.e.errorText(text)
	}
	f.RetryAfter = retryAfter(res.Header)
	return f
}
