package server

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// operatorToken must reach only the agent that the operator named.
const operatorToken = "of-the-operator"

// delegator is an engine that delegates to one agent over real sockets.
type delegator struct {
	*services.Runtime
	t   *testing.T
	ctx context.Context
	run string
}

var adminCall = runtime.Call{Principal: runtime.Principal{Subject: "test", Scopes: runtime.ScopeAdmin}}

// newDelegator returns a delegator that gives up an unreachable agent after giveUp. It admits every
// tool if allow names none.
func newDelegator(t *testing.T, remote client.Remote, giveUp time.Duration, allow ...string) *delegator {
	t.Helper()
	if allow == nil {
		allow = []string{"*"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	local, err := grpc.NewClient("passthrough:nobody", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := services.New(services.Config{Config: runtime.Config{
		Store: testkit.NewStore(), Clock: runtime.SystemClock{}, IDs: &testkit.IDs{}, AllowTools: allow,
	}})
	if err != nil {
		t.Fatal(err)
	}
	remote.Token = operatorToken
	box, err := delivery.New(delivery.Config{
		Delegations: engine.Delegations, Subscriptions: engine.Subscriptions, Directory: directory{agents: client.NewDirectory(map[string]client.Remote{"helper": remote}, local, ""), name: engine.NamespaceName},
		Pause: time.Millisecond, MaxPause: 2 * time.Millisecond, GiveUp: giveUp, Follow: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	engine.Attach(runtime.Hooks{OnCommit: []runtime.Observer{box}})
	var loops sync.WaitGroup
	loops.Go(func() { _ = engine.Run(ctx) })
	loops.Go(func() { _ = box.Run(ctx) })
	t.Cleanup(func() { cancel(); loops.Wait(); local.Close() })
	if _, err := engine.RegisterPack(ctx, packs.RegisterRequest{Call: adminCall, Document: []byte(teamPack)}); err != nil {
		t.Fatal(err)
	}
	return &delegator{Runtime: engine, t: t, ctx: ctx}
}

// delegate starts a run whose turn delegates, and returns the answer to its step.
func (d *delegator) delegate(payload string) *machine.StepResolved {
	d.t.Helper()
	run, err := d.StartRun(d.ctx, runtime.StartRequest{Call: adminCall, Pack: "team", Execution: machine.Caller})
	if err != nil {
		d.t.Fatal(err)
	}
	d.run = run.RunID
	ref := runtime.RunRef{Call: adminCall, RunID: run.RunID}
	view, err := d.GetTurn(d.ctx, ref)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = d.RequestSteps(d.ctx, runtime.StepsRequest{
		TurnCall: runtime.TurnCall{RunRef: ref, TurnToken: view.Token},
		Requests: []machine.StepRequest{{Tool: "helper", Payload: []byte(payload)}},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	watch, err := d.Watch(d.ctx, streams.Request{
		Call: adminCall, Follow: true, Filter: streams.Filter{RunID: run.RunID, Kinds: []machine.RecordKind{machine.RecStepResolved, machine.RecEnded}},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	defer watch.Close()
	page, err := watch.Next(d.ctx)
	for err == nil && page.Heartbeat {
		page, err = watch.Next(d.ctx)
	}
	if err != nil {
		d.t.Fatalf("the step did not end: %v", err)
	}
	answer, ok := page.Records[0].Record.Body.(*machine.StepResolved)
	if !ok {
		d.t.Fatalf("the run ended instead of its step: %+v", page.Records[0])
	}
	return answer
}

// fakeAgent is an agent over HTTP that answers as the test configures it.
type fakeAgent struct {
	*httptest.Server
	// card and rpc answer requests for the card and all calls. If they are nil, the agent answers correctly.
	card func(http.ResponseWriter, *http.Request)
	rpc  func(w http.ResponseWriter, r *http.Request, method string)

	mu    sync.Mutex
	calls []string
	auth  []string
}

func newRogue(t *testing.T, secured bool) *fakeAgent {
	t.Helper()
	g := &fakeAgent{}
	g.Server = httptest.NewUnstartedServer(g)
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secured {
		g.StartTLS()
	} else {
		g.Start()
	}
	t.Cleanup(g.Close)
	return g
}

// ServeHTTP answers requests for the card and JSON-RPC.
func (g *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := "card"
	var call struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
	}
	if r.URL.Path != "/card" {
		_ = json.NewDecoder(r.Body).Decode(&call)
		method = call.Method
	}
	g.mu.Lock()
	g.calls, g.auth = append(g.calls, method), append(g.auth, r.Header.Get("Authorization"))
	g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case method != "card" && g.rpc != nil:
		g.rpc(w, r, method)
	case method != "card":
		result(w, method, task("COMPLETED"))
	case g.card != nil:
		g.card(w, r)
	default:
		cardTo(g.URL+"/rpc", "JSONRPC", "1.0")(w, r)
	}
}

func (g *fakeAgent) count(method string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range g.calls {
		if call == method {
			n++
		}
	}
	return n
}

// cardTo serves a card with one interface.
func cardTo(url, binding, version string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "rogue", "supportedInterfaces": []any{
			map[string]string{"url": url, "protocolBinding": binding, "protocolVersion": version},
		}})
	}
}

func task(state string) string {
	return `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_` + state + `"}}`
}

// result answers a call with a task, in the form of the method.
func result(w http.ResponseWriter, method, task string) {
	switch method {
	case "SendMessage":
		task = `{"task":` + task + `}`
	case "SubscribeToTask":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"task\":%s}}\n\n", task)
		return
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"1","result":%s}`, task)
}

// raw answers with words and a status.
func raw(status int, contentType, words string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(words))
	}
}

// constantHandler answers each call in the same way.
func constantHandler(f func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, _ string) { f(w, r) }
}

// waitLimit is for agents that do not recover, aLongTime for those that do.
const (
	waitLimit = 20 * time.Millisecond
	aLongTime = time.Minute
)

// TestRogueCards: a false or invalid card ends the step with a code. Only the host of the card
// receives requests, and with them the token.
func TestRogueCards(t *testing.T) {
	t.Parallel()
	elsewhere := newRogue(t, false)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(elsewhere.URL, "http://"))
	other := "http://localhost:" + port // not the host of the card, which is 127.0.0.1
	huge := `{"name":"` + strings.Repeat("x", 10<<20) + `"}`
	for _, tt := range []struct {
		name, code, says string
		card             func(http.ResponseWriter, *http.Request)
	}{
		{"another host", "AGENT_CARD", "another host", cardTo(other+"/rpc", "JSONRPC", "1.0")},
		{"another host over gRPC", "AGENT_CARD", "another host", cardTo("localhost:"+port, "GRPC", "1.0")},
		{"a host in front of an @", "AGENT_CARD", "another host", cardTo("http://127.0.0.1@localhost:"+port, "HTTP+JSON", "1.0")},
		{"a resolver instead of a host", "AGENT_CARD", "", cardTo("unix:/tmp/x", "GRPC", "1.0")},
		{"a file", "AGENT_CARD", "no http(s) URL", cardTo("file:///etc/passwd", "JSONRPC", "1.0")},
		{"an unknown binding", "AGENT_CARD", "SOAP", cardTo("http://127.0.0.1:1/", "SOAP", "1.0")},
		{"version 0.3", "AGENT_CARD", `version "0.3"`, cardTo("http://127.0.0.1:1/", "JSONRPC", "0.3")},
		{"version 1.01", "AGENT_CARD", `version "1.01"`, cardTo("http://127.0.0.1:1/", "JSONRPC", "1.01")},
		{"no interface", "AGENT_CARD", "no interface", raw(200, "application/json", `{}`)},
		{"interfaces that are null", "AGENT_CARD", "no interface", raw(200, "application/json", `{"supportedInterfaces":[null]}`)},
		{"empty", "AGENT_CARD", "", raw(200, "application/json", "")},
		{"not JSON", "AGENT_CARD", "", raw(200, "text/html", "<html>")},
		{"an array", "AGENT_CARD", "", raw(200, "application/json", "[]")},
		{"10 MB", "AGENT_RESULT_TOO_LARGE", "8388608", raw(200, "application/json", huge)},
		{"not there", "AGENT_CARD", "404", raw(404, "text/plain", "")},
		{"down", "AGENT_CARD", "503", raw(503, "text/plain", "")},
		{"401", "AGENT_REFUSED", "401", raw(401, "text/plain", "")},
		{"403", "AGENT_REFUSED", "403", raw(403, "text/plain", "")},
		{"a redirection", "AGENT_REDIRECTED", "", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other+"/card", http.StatusFound) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRogue(t, false)
			g.card = tt.card
			got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, waitLimit).delegate(`{"message":"go"}`)
			if got.OK || got.Error.Code != tt.code || !strings.Contains(got.Error.Message, tt.says) {
				t.Errorf("the step ended with %.300s", fmt.Sprint(got.Error))
			}
			if strings.Contains(got.Error.Message, operatorToken) {
				t.Errorf("the token is in the journal: %s", got.Error.Message)
			}
		})
	}
	if len(elsewhere.calls) != 0 {
		t.Errorf("another host was called: %v with %v", elsewhere.calls, elsewhere.auth)
	}
}

// TestRogueAnswers: an agent that breaks the protocol ends the step with a code.
func TestRogueAnswers(t *testing.T) {
	t.Parallel()
	other := newRogue(t, false)
	rpc := func(words string) func(http.ResponseWriter, *http.Request, string) {
		return constantHandler(raw(200, "application/json", `{"jsonrpc":"2.0","id":"1",`+words+`}`))
	}
	huge := strings.Repeat("x", 10<<20)
	for _, tt := range []struct {
		name, code string
		rpc        func(http.ResponseWriter, *http.Request, string)
	}{
		{"401", "AGENT_REFUSED", constantHandler(raw(401, "text/plain", ""))},
		{"403", "AGENT_REFUSED", constantHandler(raw(403, "application/json", `{"error":{"message":"no"}}`))},
		{"a wrong content type", "AGENT_UNREACHABLE", constantHandler(raw(200, "text/html", "<html>"))},
		{"nothing", "AGENT_UNREACHABLE", constantHandler(raw(200, "application/json", ""))},
		{"an unknown state", "AGENT_PROTOCOL", func(w http.ResponseWriter, _ *http.Request, m string) { result(w, m, task("DREAMING")) }},
		{"a task without id", "AGENT_PROTOCOL", rpc(`"result":{"task":{"status":{"state":"TASK_STATE_COMPLETED"}}}`)},
		{"null for parts", "AGENT_PROTOCOL", rpc(`"result":{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[null]}]}}`)},
		{"null for artifacts", "AGENT_PROTOCOL", rpc(`"result":{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[null]}}`)},
		{"an error that it names", "AGENT_REFUSED", rpc(`"error":{"code":-32602,"message":"no such skill"}`)},
		{"10 MB", "AGENT_RESULT_TOO_LARGE", rpc(`"result":{"task":{"id":"` + huge + `"}}`)},
		{"10 MB as a stream", "AGENT_RESULT_TOO_LARGE", constantHandler(raw(200, "text/event-stream", `{"result":"`+huge))},
		{"a redirection", "AGENT_REDIRECTED", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, other.URL+"/rpc", http.StatusTemporaryRedirect)
		}},
		{"a task that changes its id", "AGENT_PROTOCOL", func(w http.ResponseWriter, _ *http.Request, m string) {
			if m == "SendMessage" {
				result(w, m, task("WORKING"))
				return
			}
			result(w, m, strings.Replace(task("COMPLETED"), `"t"`, `"u"`, 1))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRogue(t, false)
			g.rpc = tt.rpc
			got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, waitLimit).delegate(`{"message":"go"}`)
			if got.OK || got.Error.Code != tt.code {
				t.Errorf("the step ended with %v, %.300s", got.OK, fmt.Sprint(got.Error))
			}
		})
	}
	if len(other.calls) != 0 {
		t.Errorf("another host was called: %v with %v", other.calls, other.auth)
	}
}

// TestRogueStreams: the sidecar asks for the task itself, independent of what a stream says or does
// not say. The end of the task is the end of the step.
func TestRogueStreams(t *testing.T) {
	t.Parallel()
	status := func(state string) string {
		return `data: {"jsonrpc":"2.0","id":"1","result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_` + state + `"}}}}` + "\n\n"
	}
	// forever repeats words until the client has gone.
	forever := func(words string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(words)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}
	}
	for _, tt := range []struct {
		name   string
		stream func(http.ResponseWriter, *http.Request)
	}{
		{"for ever, without an end", forever(status("WORKING"))},
		{"for ever, in one event", forever("data: " + strings.Repeat("x", 1<<20) + "\n")},
		{"for ever, in one line", forever(strings.Repeat("x", 1<<20))},
		{"comments for ever", forever(": still here\n\n")},
		{"without a word", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"out of order", raw(200, "text/event-stream", status("COMPLETED")+status("SUBMITTED")+status("WORKING"))},
		{"of another task", raw(200, "text/event-stream", strings.ReplaceAll(status("COMPLETED"), `"t"`, `"u"`))},
		{"that ends at once", raw(200, "text/event-stream", "")},
		{"that breaks off", func(w http.ResponseWriter, r *http.Request) {
			raw(200, "text/event-stream", status("WORKING")[:40])(w, r)
			panic(http.ErrAbortHandler)
		}},
		{"of another content type", raw(200, "text/html", "<html>")},
		{"that is not there", raw(501, "text/plain", "")},
		{"of an unknown state", raw(200, "text/event-stream", status("DREAMING"))},
		{"of nulls", raw(200, "text/event-stream", "data: null\n\ndata: {\"result\":null}\n\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRogue(t, false)
			var asked atomic.Int64
			g.rpc = func(w http.ResponseWriter, r *http.Request, m string) {
				switch m {
				case "SubscribeToTask":
					tt.stream(w, r)
				case "GetTask":
					if asked.Add(1) >= 3 {
						result(w, m, task("COMPLETED"))
						return
					}
					fallthrough
				default:
					result(w, m, task("WORKING"))
				}
			}
			got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, aLongTime).delegate(`{"message":"go"}`)
			if !got.OK || !strings.Contains(string(got.Result), `"task_id":"t"`) || g.count("SendMessage") != 1 {
				t.Errorf("the step ended with %+v after %d messages", got, g.count("SendMessage"))
			}
		})
	}
}

// TestAgentsThatRecover: a message instead of a task is a result. The sidecar waits for an
// agent whose failure may pass.
func TestAgentsThatRecover(t *testing.T) {
	t.Parallel()
	t.Run("a message", func(t *testing.T) {
		g := newRogue(t, false)
		g.rpc = constantHandler(raw(200, "application/json", `{"jsonrpc":"2.0","id":"1","result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"data":[1,"two"]}]}}}`))
		got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, waitLimit).delegate(`{"message":"go"}`)
		if !got.OK || !strings.Contains(string(got.Result), `"output":[1,"two"]`) {
			t.Errorf("the step ended with %+v, %s", got, got.Result)
		}
	})
	t.Run("it comes back", func(t *testing.T) {
		g := newRogue(t, false)
		// down fails a call as often as there are statuses.
		down := func(tries *atomic.Int64, w http.ResponseWriter, r *http.Request) bool {
			statuses := []int{503, 404, 429, 425}
			n := int(tries.Add(1))
			if n > len(statuses) {
				return false
			}
			w.Header().Set("Retry-After", "1")
			raw(statuses[n-1], "application/json", "{")(w, r)
			return true
		}
		var cards, sends atomic.Int64
		g.card = func(w http.ResponseWriter, r *http.Request) {
			if !down(&cards, w, r) {
				cardTo(g.URL+"/rpc", "JSONRPC", "1.0")(w, r)
			}
		}
		g.rpc = func(w http.ResponseWriter, r *http.Request, m string) {
			if !down(&sends, w, r) {
				result(w, m, task("COMPLETED"))
			}
		}
		got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, aLongTime).delegate(`{"message":"go"}`)
		if !got.OK || g.count("card") != 5 || g.count("SendMessage") != 5 {
			t.Errorf("the step ended with %+v after %v", got, g.calls)
		}
	})
	t.Run("nobody knows what it did", func(t *testing.T) {
		// An agent that declares the extension receives the message again, another agent does not.
		for _, extensions := range []string{"", protocol.IdempotentURI, protocol.DelegationURI} {
			g := newRogue(t, false)
			g.card = func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"extensions":[{"uri":%q}]}}`,
					g.URL+"/rpc", extensions)
			}
			var sends atomic.Int64
			g.rpc = func(w http.ResponseWriter, r *http.Request, m string) {
				if sends.Add(1) == 1 {
					// This is how a proxy answers if the agent breaks the connection.
					raw(503, "text/plain", "upstream connect error or disconnect/reset before headers")(w, r)
					return
				}
				result(w, m, task("COMPLETED"))
			}
			got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, aLongTime).delegate(`{"message":"go"}`)
			again := extensions != ""
			if got.OK != again || got.Unknown == again || (g.count("SendMessage") == 2) != again {
				t.Errorf("%q: the step ended with %+v after %v", extensions, got, g.calls)
			}
		}
	})
	t.Run("it is out of reach", func(t *testing.T) {
		g := newRogue(t, false)
		g.Close()
		got := newDelegator(t, client.Remote{Card: g.URL + "/card"}, waitLimit).delegate(`{"message":"go"}`)
		if got.OK || got.Error.Code != "AGENT_CARD" {
			t.Errorf("the step ended with %+v", got)
		}
	})
}

// TestAgentsOverTLS: one of the operator's authorities must have signed the certificate. An
// interface without TLS is not used.
func TestAgentsOverTLS(t *testing.T) {
	t.Parallel()
	known := x509.NewCertPool()
	for _, tt := range []struct {
		name, code string
		ca         *x509.CertPool
		face       string
	}{
		{"known authority", "", known, ""},
		{"unknown authority", "AGENT_CARD", nil, ""},
		{"an interface in the clear", "AGENT_CARD", known, "http://127.0.0.1:1/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRogue(t, true)
			known.AddCert(g.Certificate())
			if tt.face != "" {
				g.card = cardTo(tt.face, "JSONRPC", "1.0")
			}
			got := newDelegator(t, client.Remote{Card: g.URL + "/card", CA: tt.ca}, waitLimit).delegate(`{"message":"go"}`)
			if got.OK != (tt.code == "") || got.Error.Code != tt.code {
				t.Errorf("the step ended with %+v", got)
			}
			if tt.code == "" && !slices.Equal(g.auth, []string{"Bearer " + operatorToken, "Bearer " + operatorToken}) {
				t.Errorf("authorisations %v", g.auth)
			}
			if tt.ca == nil && len(g.calls) != 0 {
				t.Errorf("it was told %v", g.calls)
			}
		})
	}
}
