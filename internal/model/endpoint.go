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
	// Chat is OpenAI's chat completions, which most endpoints speak.
	Chat Form = iota
	// Messages is Anthropic's.
	Messages
	// Responses is OpenAI's newer one.
	Responses
)

const (
	// anthropicScheme begins the URL of an endpoint of the form [Messages].
	anthropicScheme = "anthropic+"
	// responsesScheme begins the URL of an endpoint of the form [Responses].
	responsesScheme = "responses+"
)

// name is what the form is called in records.
func (f Form) name() string {
	return [...]string{Chat: "openai-chat", Messages: "anthropic-messages", Responses: "openai-responses"}[f]
}

// provider is who speaks the form first.
func (f Form) provider() string {
	if f == Messages {
		return "anthropic"
	}
	return "openai"
}

// Endpoint is where a model is asked.
type Endpoint struct {
	// Name is the model as packs and records call it.
	Name string
	Form Form
	// URL is the base URL, without a path of the form's own.
	URL string
	// Model is what the endpoint calls it.
	Model string
	// Key is sent to it; "" = none.
	Key string
	// Timeout bounds one call.
	Timeout time.Duration
	// newer: the endpoint has asked for the bound of an answer by its newer name; nil = it is
	// not remembered.
	newer *atomic.Bool
}

// usualMaxTokens is what an answer of a chat is taken to have at most where the pack does not
// say, as in every client.
const usualMaxTokens = 4096

// DefaultMaxTokens is how many tokens an answer is taken to have at most where the pack does not say.
func (e *Endpoint) DefaultMaxTokens() int64 {
	if e.Form == Messages {
		return defaultMaxTokens
	}
	return usualMaxTokens
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// ParseEndpoint reads NAME=BASE_URL[#MODEL]: MODEL is what the endpoint calls the model,
// NAME unless it is said. A scheme with "anthropic+" before it is an endpoint of Anthropic's
// form, one with "responses+" of OpenAI's Responses. No error repeats the URL, which may hold a password.
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

// keyChars are those of a name that no variable's name has.
var keyChars = regexp.MustCompile(`[^A-Z0-9]+`)

// KeyVariable is the environment variable with a model's key: that of "gpt-5" is
// PAWL_MODEL_KEY_GPT_5.
func KeyVariable(name string) string {
	return "PAWL_MODEL_KEY_" + keyChars.ReplaceAllString(strings.ToUpper(name), "_")
}

// CheckKey says what is wrong with a key, without repeating it.
func CheckKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("a key is printable ASCII without spaces")
	}
	return nil
}

// maxBodyBytes bounds what is read of one response, whatever is in it.
const maxBodyBytes = 64 << 20

// client follows no redirect: the key is for the operator's endpoint alone.
func (e *Endpoint) client(req *Request) *http.Client {
	return &http.Client{Transport: bounded{e, req.OnProviderLimits}}
}

// bounded cuts bodies that are too long and refuses redirects.
type bounded struct {
	e        *Endpoint
	onLimits func(*pawlv1.ProviderLimits)
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if told := limitsOf(res.Header, time.Now()); told != nil && b.onLimits != nil {
		b.onLimits(told)
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxBodyBytes)
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return nil, errors.Join(b.e.refused(res.StatusCode, nil, "a redirect is not followed"), res.Body.Close())
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode < 300 && (kind == "text/html" || kind == "application/json") {
		return nil, errors.Join(b.noStream(kind, res), res.Body.Close())
	}
	return res, nil
}

// noStream is an answer that is none, with what it says.
func (b bounded) noStream(kind string, res *http.Response) *Failure {
	f := &Failure{Code: CodeNoStream, Message: fmt.Sprintf("model %s: the endpoint answers with %s, want text/event-stream: is the base URL one of a model?", b.e.Name, kind)}
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxFaultBytes)) // what is there of it says more than nothing
	if kind == "application/json" {
		if fault := seen(said).Get("error"); fault.Type != gjson.Null {
			f.Message = "model " + b.e.Name + ": the endpoint answers 200 with an error"
			return b.e.faulty(fault, f)
		}
	}
	if text := faultWords(said); text != "" {
		f.Message += ": " + b.e.errorText(text)
	}
	f.RetryAfter = retryAfter(res.Header)
	return f
}
