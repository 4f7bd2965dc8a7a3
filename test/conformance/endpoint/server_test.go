package endpoint

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// scriptOf is a server with one case.
func scriptOf(t *testing.T, text string) (*Server, *Case) {
	t.Helper()
	c, err := read("case", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start([]*Case{c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// ask makes a request of an executor, and gives the status, the header and what was read of the body.
func ask(t *testing.T, s *Server, c *Case, executor, body string) (*http.Response, string, error) {
	t.Helper()
	path := strings.TrimPrefix(paths[c.Form], "/v1")
	base := s.Base(c, executor)
	if c.Form == Messages {
		path = paths[c.Form]
	}
	got, err := http.Post(base+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(got.Body)
	if closing := got.Body.Close(); closing != nil {
		t.Error(closing)
	}
	return got, string(text), err
}

const streaming = `{"stream": true, "messages": [{"role": "user", "content": "x"}]}`

// Each executor has a conversation of its own; the last round is repeated.
func TestRounds(t *testing.T) {
	s, c := scriptOf(t, "why: x\nform: chat\nrounds: [order, said]\n")
	for _, want := range []string{"tulip", "on their way", "on their way"} {
		if _, got, err := ask(t, s, c, "a", streaming); err != nil || !strings.Contains(got, want) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("want %s: %v\n%s", want, err, got)
		}
	}
	if _, got, _ := ask(t, s, c, "b", streaming); !strings.Contains(got, "tulip") {
		t.Errorf("another executor: %s", got)
	}
	if n := len(s.Requests("case", "a")); n != 3 {
		t.Errorf("requests: %d", n)
	}
}

// A request that is refused is answered with 400 and uses up no round.
func TestRefusal(t *testing.T) {
	s, c := scriptOf(t, "why: x\nform: chat\nrules: [nonempty]\nrounds: [order, said]\n")
	got, text, _ := ask(t, s, c, "a", `{"stream": true, "messages": [{"role": "user", "content": ""}]}`)
	if got.StatusCode != http.StatusBadRequest || !strings.Contains(text, "must have non-empty content") {
		t.Errorf("%d %s", got.StatusCode, text)
	}
	if _, text, _ := ask(t, s, c, "a", streaming); !strings.Contains(text, "tulip") {
		t.Errorf("then: %s", text)
	}
	if requests := s.Requests("case", "a"); requests[0].Breach == "" || requests[1].Breach != "" {
		t.Errorf("%+v", requests)
	}
	if got, _, _ := ask(t, s, c, "a", "no JSON"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("no JSON: %d", got.StatusCode)
	}
}

// What a round says of the response is on the wire.
func TestResponses(t *testing.T) {
	for _, test := range []struct {
		name, round string
		judge       func(*http.Response, string, error) bool
	}{
		{"status", "{status: 429, headers: {Retry-After: '1.5'}, body: full}", func(r *http.Response, body string, _ error) bool {
			return r.StatusCode == http.StatusTooManyRequests && r.Header.Get("Retry-After") == "1.5" && body == "full"
		}},
		{"date", "{status: 429, headers: {Retry-After: '{date+2}'}}", func(r *http.Response, _ string, _ error) bool {
			at, err := http.ParseTime(r.Header.Get("Retry-After"))
			return err == nil && at.After(time.Now())
		}},
		{"page", "{raw: <html>, type: text/html}", func(r *http.Response, body string, _ error) bool {
			return r.Header.Get("Content-Type") == "text/html" && body == "<html>"
		}},
		{"cut", "{cut: true, parts: [{text: Hello}]}", func(_ *http.Response, body string, err error) bool {
			return err == io.ErrUnexpectedEOF && strings.Contains(body, "Hello") && !strings.Contains(body, "DONE")
		}},
		{"chunked", "{split: true, parts: [{text: Zoë}]}", func(r *http.Response, body string, err error) bool {
			return err == nil && slices.Equal(r.TransferEncoding, []string{"chunked"}) && strings.Contains(body, "Zoë")
		}},
		{"odd", "{odd: true, parts: [{text: Hello}]}", func(_ *http.Response, body string, _ error) bool {
			return strings.HasPrefix(body, "\ufeff: ") && strings.Contains(body, "data:{") && strings.Count(body, "\n") == strings.Count(body, "\r\n")
		}},
		{"no end", "{finish: none, usage: none, parts: [{text: Hello}]}", func(_ *http.Response, body string, _ error) bool {
			return !strings.Contains(body, `"stop"`) && !strings.Contains(body, "usage") && strings.Contains(body, "[DONE]")
		}},
		{"error", "{parts: [{text: Hello}], error: '{\"error\": \"x\"}'}", func(_ *http.Response, body string, _ error) bool {
			return strings.HasSuffix(body, "data: {\"error\": \"x\"}\n\n")
		}},
		{"long", "{parts: [{text: '<<t*70000>>'}]}", func(_ *http.Response, body string, _ error) bool {
			return strings.Count(body, `"content":"t`) == 3 && strings.Count(body, "t") > 70_000
		}},
	} {
		s, c := scriptOf(t, "why: x\nform: chat\nrounds:\n  - "+test.round+"\n")
		got, body, err := ask(t, s, c, "a", streaming)
		if !test.judge(got, body, err) {
			t.Errorf("%s: %v %v\n%.2000s", test.name, got.Status, err, body)
		}
	}
}

// TestToldNames checks that a call of {NAME} has the name that the model received with the
// description of the tool.
func TestToldNames(t *testing.T) {
	s, c := scriptOf(t, "why: x\nform: chat\nrounds:\n  - {parts: [{call: '{stock.count}', arguments: '{}'}]}\n")
	body := `{"stream": true, "tools": [{"type": "function", "function": {"name": "stock_count", "description": "stock.count"}}]}`
	if _, text, _ := ask(t, s, c, "a", body); !strings.Contains(text, `"name":"stock_count"`) {
		t.Error(text)
	}
}

// All answers of all forms are event streams whose data is JSON, but where a case says otherwise.
func TestCasesAreJSON(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 65 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		for i, r := range c.Rounds {
			if r.Status != 0 || r.Raw != "" {
				continue
			}
			for line := range bytes.Lines(r.body(c.Form)) {
				data, ok := bytes.CutPrefix(line, []byte("data:"))
				if data = bytes.TrimSpace(data); ok && string(data) != "[DONE]" && !json.Valid(data) {
					t.Errorf("%s, round %d: %.200s", c.Name, i+1, data)
				}
			}
		}
	}
}

// A path of another form, or of no case, is not found.
func TestPaths(t *testing.T) {
	s, _ := scriptOf(t, "why: x\nform: chat\nrounds: [said]\n")
	for _, path := range []string{"/case/a/v1/messages", "/other/a/v1/chat/completions", "/case"} {
		got, err := http.Post(s.URL+path, "application/json", strings.NewReader(streaming))
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, got.Status)
		}
		_ = got.Body.Close()
	}
}

// A case that is not sound is refused, by what is wrong with it.
func TestUnsound(t *testing.T) {
	for _, test := range []struct{ text, word string }{
		{"form: chat\nrounds: [said]\n", "why"},
		{"why: x\nform: telex\nrounds: [said]\n", "form"},
		{"why: x\nform: chat\n", "rounds"},
		{"why: x\nform: chat\nrules: [kind]\nrounds: [said]\n", "kind is none"},
		{"why: x\nform: chat\nrounds: [sung]\n", "sung is no round"},
		{"why: x\nform: chat\nrounds: [{sung: x}]\n", "sung"},
		{"why: x\nform: chat\nrounds: [{parts: [{block: '{}'}]}]\n", "messages alone"},
		{"why: x\nform: chat\nrounds: [{fail: '{}'}]\n", "responses alone"},
		{"why: x\nform: chat\nrounds: [{loop: true}]\nexpect: {endless: true}\n", "endless"},
	} {
		if _, err := read("x", []byte(test.text)); err == nil || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%q: want %q, got %v", test.text, test.word, err)
		}
	}
}
