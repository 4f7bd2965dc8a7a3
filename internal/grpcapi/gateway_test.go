package grpcapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
)

func withGateway(c *Config, _ *services.Config) {
	c.HTTP, c.HTTPOrigins = "127.0.0.1:0", []string{"https://app.example"}
}

// httpCall makes a request to the gateway; header is pairs of name and value.
func (r *rig) httpCall(ctx context.Context, method, path, body string, header ...string) *httpAnswer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.server.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	return &httpAnswer{StatusCode: resp.StatusCode, Header: resp.Header, Body: resp.Body}
}

// httpAnswer is a response whose body the test closes at its end.
type httpAnswer struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

// jsonCall makes a call and decodes the answer; it fails unless the status is 200.
func (r *rig) jsonCall(ctx context.Context, method, path, body string, into proto.Message) {
	r.t.Helper()
	resp := r.httpCall(ctx, method, path, body)
	got := readAll(r.t, resp)
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, got)
	}
	if err := protojson.Unmarshal(got, into); err != nil {
		r.t.Fatalf("%s %s: %v in %s", method, path, err, got)
	}
}

func readAll(t testing.TB, resp *httpAnswer) []byte {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// errorOf decodes a google.rpc.Status.
func errorOf(t testing.TB, resp *httpAnswer) (code int, message, reason string) {
	t.Helper()
	var st struct {
		Code    int              `json:"code"`
		Message string           `json:"message"`
		Details []map[string]any `json:"details"`
	}
	body := readAll(t, resp)
	if err := json.Unmarshal(body, &st); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, d := range st.Details {
		if d["@type"] == "type.googleapis.com/google.rpc.ErrorInfo" {
			reason, _ = d["reason"].(string)
		}
	}
	return st.Code, st.Message, reason
}

func TestGatewayDrivesARun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	var registered pawlv1.RegisterPackResponse
	document, _ := json.Marshal(map[string]any{"content": loopPack})
	r.jsonCall(ctx, "POST", "/v1/packs", string(document), &registered)
	var started pawlv1.StartRunResponse
	r.jsonCall(ctx, "POST", "/v1/runs", `{"pack":"loop","execution":"EXECUTION_CALLER","variablesJson":"{\"goal\":\"x\"}"}`, &started)
	run := started.GetRun().GetRunId()
	var moved pawlv1.EmitEventResponse
	r.jsonCall(ctx, "POST", "/v1/runs/"+run+"/events",
		fmt.Sprintf(`{"event":"Again","turnToken":%q,"artifacts":[{"name":"note","value":{"text":"hi"}}]}`, started.GetTurn().GetToken()), &moved)
	var got pawlv1.GetRunResponse
	r.jsonCall(ctx, "GET", "/v1/runs/"+run+"?includeArtifacts=true", "", &got)
	if got.GetRun().GetTotalVisits() != 2 || got.GetArtifacts()[0].GetValue().GetText() != "hi" {
		t.Fatalf("run %v", &got)
	}
	var turn pawlv1.GetTurnResponse
	r.jsonCall(ctx, "POST", "/v1/runs/"+run+"/turn", "{}", &turn)
	var completed pawlv1.CompleteTurnResponse
	r.jsonCall(ctx, "POST", fmt.Sprintf("/v1/runs/%s/turns/%d:complete", run, turn.GetTurn().GetTurnSeq()),
		fmt.Sprintf(`{"attempt":1,"turnToken":%q,"event":"Finish"}`, turn.GetTurn().GetToken()), &completed)
	if completed.GetState() != "done" {
		t.Fatalf("CompleteTurn %v", &completed)
	}
	// Standard ProtoJSON: lower camel case, 64-bit numbers as strings.
	raw := readAll(t, r.httpCall(ctx, "GET", "/v1/runs/"+run, ""))
	if !bytes.Contains(raw, []byte(`"visitSeq":"`)) {
		t.Fatalf("JSON %s", raw)
	}
}

func TestGatewayErrors(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway, withTokens), testContext(t)
	admin := []string{"Authorization", "Bearer " + secretOf("admin")}
	tests := []struct {
		name, method, path, body string
		header                   []string
		status, code             int
		reason                   string
	}{
		{"no token", "GET", "/v1/runs", "", nil, 401, 16, "TOKEN_MISSING"},
		{"scope", "GET", "/v1/runs", "", []string{"Authorization", "Bearer " + secretOf("work")}, 403, 7, "SCOPE_MISSING"},
		{"metadata is no header", "GET", "/v1/runs", "", []string{"Grpc-Metadata-Authorization", "Bearer " + secretOf("admin")}, 401, 16, "TOKEN_MISSING"},
		{"unknown run", "GET", "/v1/runs/01J99999999999999999999999", "", admin, 404, 5, "RUN_NOT_FOUND"},
		{"no run id", "GET", "/v1/runs/x", "", admin, 400, 3, "INVALID_REQUEST"},
		{"no JSON", "POST", "/v1/runs", "{", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"unknown field", "POST", "/v1/runs", `{"nope":1}`, admin, 400, 3, "MALFORMED_MESSAGE"},
		{"unknown parameter", "GET", "/v1/runs?nope=1", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"parameter of no message", "GET", "/v1/runs?filter.pack.id=x", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"field of the filter with a typing mistake", "GET", "/v1/runs?filter.pak=x", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"filter in both spellings", "GET", "/v1/runs?filter.pack=loop&filter.labels[a]=b&page_size=1&order=RUN_ORDER_OLDEST_FIRST", "", admin, 200, 0, ""},
		{"unknown parameter of a stream", "GET", "/v1/transitions:stream?flow=true", "", append([]string{"Accept", "text/event-stream"}, admin...), 400, 3, "MALFORMED_MESSAGE"},
		{"bad parameter", "GET", "/v1/runs?pageSize=x", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"path that is no text", "GET", "/v1/runs/%ff", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"query that is no text", "GET", "/v1/runs?pageToken=%ff", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"broken query", "GET", "/v1/runs?pageToken=%zz", "", admin, 400, 3, "MALFORMED_MESSAGE"},
		{"token that is no text", "GET", "/v1/runs", "", []string{"Authorization", "Bearer \xff"}, 400, 3, "MALFORMED_MESSAGE"},
		{"last event that is no text", "GET", "/v1/transitions:stream", "", append([]string{"Accept", "text/event-stream", "Last-Event-ID", "\xff"}, admin...), 400, 3, "MALFORMED_MESSAGE"},
		{"no such path", "GET", "/v2/runs", "", admin, 404, 5, "PATH_NOT_FOUND"},
		{"no such method", "PUT", "/v1/runs", "{}", admin, 405, 12, "METHOD_NOT_ALLOWED"},
		{"form", "POST", "/v1/runs", "a=b", append([]string{"Content-Type", "application/x-www-form-urlencoded"}, admin...), 415, 3, "CONTENT_TYPE"},
		{"two content types", "POST", "/v1/runs", "{}", append([]string{"Content-Type", "application/json", "Content-Type", "text/plain"}, admin...), 415, 3, "CONTENT_TYPE"},
		{"origin", "GET", "/v1/runs", "", append([]string{"Origin", "https://evil.example"}, admin...), 403, 7, "ORIGIN_NOT_ALLOWED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp := r.httpCall(ctx, tt.method, tt.path, tt.body, tt.header...)
			code, message, reason := errorOf(t, resp)
			if resp.StatusCode != tt.status || code != tt.code || reason != tt.reason {
				t.Fatalf("%d: code %d, reason %q, %s", resp.StatusCode, code, reason, message)
			}
			if tt.status == 401 && resp.Header.Get("WWW-Authenticate") != "Bearer" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// TestGatewayNamesWhatThereIs: an error of a path or parameter says what would do.
func TestGatewayNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	for path, want := range map[string][]string{
		"/v1/runs?filter.pak=x": {`"filter.pak"`, "RunFilter", "pack, statuses, state, labels"},
		"/v1/runs?nope=1":       {`"nope"`, "ListRunsRequest", "pageSize"},
		"/v2/runs":              {"GET /v2/runs", "/openapi.json"},
	} {
		_, message, _ := errorOf(t, r.httpCall(ctx, "GET", path, ""))
		for _, word := range want {
			if !strings.Contains(message, word) {
				t.Errorf("%s: no %s in %q", path, word, message)
			}
		}
	}
}

func TestGatewayRetryAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t, withGateway, func(c *Config, _ *services.Config) { c.RequestsPerSecond = 0.01 })
	ctx := testContext(t)
	readAll(t, r.httpCall(ctx, "GET", "/v1/runs", ""))
	resp := r.httpCall(ctx, "GET", "/v1/runs", "")
	if _, _, reason := errorOf(t, resp); resp.StatusCode != http.StatusTooManyRequests || reason != "RATE_LIMITED" || len(resp.Header.Get("Retry-After")) < 2 {
		t.Fatalf("%d %s, Retry-After %q", resp.StatusCode, reason, resp.Header.Get("Retry-After"))
	}
}

func TestGatewayBodyLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, withGateway, func(c *Config, _ *services.Config) { c.MaxMessageBytes = 4 << 10 })
	resp := r.httpCall(testContext(t), "POST", "/v1/runs", `{"pack":"`+strings.Repeat("x", 9<<10)+`"}`)
	if resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%d %s", resp.StatusCode, readAll(t, resp))
	}
}

// TestOpenAPI: the served document has every RPC but those that HTTP cannot do.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, withGateway, withTokens)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(readAll(t, r.httpCall(testContext(t), "GET", gateway.OpenAPIPath, "")), &doc); err != nil {
		t.Fatal(err)
	}
	var operations []string
	for _, path := range doc.Paths {
		for _, op := range path {
			operations = append(operations, op.OperationID)
		}
	}
	eachMethod(func(m protoreflect.MethodDescriptor, _ string) {
		// Bytes in pieces are for gRPC; the gateway streams records alone.
		if m.IsStreamingClient() || m.IsStreamingServer() && m.Name() != "StreamTransitions" {
			return
		}
		if want := fmt.Sprintf("%s_%s", m.Parent().Name(), m.Name()); !slices.Contains(operations, want) {
			t.Errorf("no %s", want)
		}
	})
}

// event is one server-sent event.
type event struct{ id, name, data string }

// readEvent reads one event; io.EOF ends.
func readEvent(lines *bufio.Reader) (event, error) {
	var e event
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			return e, nil
		}
	}
}

func (r *rig) events(ctx context.Context, path string, header ...string) *bufio.Reader {
	r.t.Helper()
	resp := r.httpCall(ctx, "GET", path, "", append([]string{"Accept", "text/event-stream"}, header...)...)
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("%d %s: %s", resp.StatusCode, kind, readAll(r.t, resp))
	}
	return bufio.NewReader(resp.Body)
}

func wantEvent(t testing.TB, lines *bufio.Reader) event {
	t.Helper()
	e, err := readEvent(lines)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestServerSentEvents: a reader that reconnects with the last id misses nothing
// and gets nothing twice.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	turn := r.drive(ctx, r.start(ctx).GetTurn(), 3)
	for _, path := range []string{"/v1/transitions:stream", "/v1/runs/" + turn.GetRunId() + "/transitions:stream"} {
		lines := r.events(ctx, path)
		var events []event
		for {
			e := wantEvent(t, lines)
			events = append(events, e)
			if e.name == "end" {
				break
			}
			var item pawlv1.StreamTransitionsResponse
			if err := protojson.Unmarshal([]byte(e.data), &item); err != nil || item.GetRecord().GetCursor() != e.id {
				t.Fatalf("event %v: %v", e, err)
			}
		}
		if len(events) != 5 {
			t.Fatalf("%d events", len(events))
		}
		rest := r.events(ctx, path+"?afterSeq=1", "Last-Event-ID", events[1].id, "Accept", "text/html, text/event-stream;q=0.9")
		for _, want := range events[2:] {
			if got := wantEvent(t, rest); got.id != want.id || got.name != want.name {
				t.Fatalf("event %v, want %v", got, want)
			}
		}
		again := r.httpCall(ctx, "GET", path, "", "Accept", "text/event-stream", "Last-Event-ID", events[4].id)
		if body := readAll(t, again); again.StatusCode != http.StatusNoContent || len(body) > 0 {
			t.Errorf("who connects again after the end has %d %q, want 204", again.StatusCode, body)
		}
	}
}

func TestServerSentHeartbeatAndFollow(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	turn := r.start(ctx).GetTurn()
	lines := r.events(ctx, "/v1/runs/"+turn.GetRunId()+"/transitions:stream?follow=true")
	if e := wantEvent(t, lines); e.name != "" {
		t.Fatalf("event %v", e)
	}
	r.clock.AwaitAlarm(streams.DefaultHeartbeat)
	r.clock.Advance(streams.DefaultHeartbeat)
	beat := wantEvent(t, lines)
	if beat.name != "heartbeat" || beat.id == "" {
		t.Fatalf("event %v", beat)
	}
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: turn.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	if e := wantEvent(t, lines); !strings.Contains(e.data, "RUN_STATUS_CANCELLED") {
		t.Fatalf("event %v", e)
	}
	if e := wantEvent(t, lines); e.name != "end" {
		t.Fatalf("event %v", e)
	}
}

// TestServerSentRefusals: what is refused before the stream begins is an
// ordinary error; what ends it later is an event.
func TestServerSentRefusals(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway, withTokens), testContext(t)
	r.start(withToken(ctx, "driver"))
	accept := []string{"Accept", "text/event-stream"}
	reader := append([]string{"Authorization", "Bearer " + secretOf("runs:read")}, accept...)
	for path, want := range map[string]string{
		"/v1/transitions:stream?afterCursor=x": "BAD_CURSOR",
		"/v1/transitions:stream?afterSeq=1":    "INVALID_REQUEST",
		"/v1/transitions:stream?afterSeq=x":    "MALFORMED_MESSAGE",
		"/v1/runs/x/transitions:stream":        "INVALID_REQUEST",
	} {
		resp := r.httpCall(ctx, "GET", path, "", reader...)
		if _, message, reason := errorOf(t, resp); resp.StatusCode != http.StatusBadRequest || reason != want {
			t.Errorf("%s: %d %s %s", path, resp.StatusCode, reason, message)
		}
	}
	resp := r.httpCall(ctx, "GET", "/v1/transitions:stream", "", accept...)
	if _, _, reason := errorOf(t, resp); resp.StatusCode != http.StatusUnauthorized || reason != "TOKEN_MISSING" {
		t.Fatalf("%d %s", resp.StatusCode, reason)
	}
	lines := r.events(ctx, "/v1/transitions:stream?follow=true", reader...)
	wantEvent(t, lines)
	if err := r.server.SetRights(Rights{Tokens: []auth.Token{{Principal: "other", Secret: goodSecret, Scopes: runtime.ScopeAdmin}}}); err != nil {
		t.Fatal(err)
	}
	if e := wantEvent(t, lines); e.name != "fault" || !strings.Contains(e.data, "TOKEN_REVOKED") {
		t.Fatalf("event %v", e)
	}
}

// TestNewlineDelimitedJSON: who does not ask for events gets one object a line.
func TestNewlineDelimitedJSON(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	turn := r.drive(ctx, r.start(ctx).GetTurn(), 2)
	body := readAll(t, r.httpCall(ctx, "GET", "/v1/runs/"+turn.GetRunId()+"/transitions:stream", ""))
	lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), body)
	}
	for _, line := range lines {
		var wrapped struct {
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(line, &wrapped); err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(wrapped.Result, &pawlv1.StreamTransitionsResponse{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGatewayOverTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	r := newRig(t, withGateway, func(c *Config, _ *services.Config) {
		c.TLSCert, c.TLSKey = a.path("server.pem"), a.path("server.key")
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.client("")}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + r.server.HTTPAddr() + "/v1/runs")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d", resp.StatusCode)
	}
}

// FuzzGateway sends any body and query to the gateway: the answer is JSON and
// never blames the server.
func FuzzGateway(f *testing.F) {
	r := newRig(f, withGateway)
	run := r.start(context.Background()).GetRun().GetRunId()
	f.Add("/v1/runs", `{"pack":"loop"}`, "")
	f.Add("/v1/runs/"+run+"/events", `{"event":"Again"}`, "text/event-stream")
	f.Add("/v1/packs:validate", `{"content":"e30="}`, "application/json")
	f.Add("/v1/runs/"+run+"/turns/1:complete", `{"attempt":"1","usage":{"inputTokens":"-1"}}`, "")
	f.Add("/v1/runs/"+run+"?atSeq=1&includeArtifacts=true", "", "")
	f.Add("/v1/transitions:stream?kinds=RECORD_KIND_ENDED&afterCursor=AA", "", "text/event-stream")
	f.Add("/v1/packs/loop/graph?agent=%00", "", "")
	f.Fuzz(func(t *testing.T, path, body, accept string) {
		target, err := url.Parse(path)
		if err != nil || !strings.HasPrefix(path, "/v1/") {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		req := &http.Request{
			Method: method, URL: target, Host: "localhost", RequestURI: path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}, "Accept": {accept}},
			Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
		w := httptest.NewRecorder()
		r.server.gateway.server.Handler.ServeHTTP(w, req.WithContext(ctx))
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s %q: %s", path, body, w.Body)
		}
	})
}

// TestGatewayTakesRealJSON: fields that hold JSON as text may be real JSON, under either
// name, nested too; numbers keep their digits, and a field is given once.
func TestGatewayTakesRealJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		msg        proto.Message
		body, want string
	}{
		"object":        {&pawlv1.StartRunRequest{}, `{"variables":{"goal":"x","n":9007199254740993}}`, `{"variablesJson":"{\"goal\":\"x\",\"n\":9007199254740993}"}`},
		"own name":      {&pawlv1.StartRunRequest{}, `{"variablesJson":{"goal":1.50}}`, `{"variablesJson":"{\"goal\":1.50}"}`},
		"proto name":    {&pawlv1.StartRunRequest{}, `{"variables_json":{}}`, `{"variablesJson":"{}"}`},
		"text":          {&pawlv1.StartRunRequest{}, `{"variablesJson":"{\"goal\":\"x\"}"}`, `{"variablesJson":"{\"goal\":\"x\"}"}`},
		"null":          {&pawlv1.StartRunRequest{}, `{"variables":null}`, `{}`},
		"list of parts": {&pawlv1.StartRunRequest{}, `{"input":[{"text":"a"},{"json":{"b":[1,null]}}]}`, `{"input":[{"text":"a"},{"json":"{\"b\":[1,null]}"}]}`},
		"bare enum":     {&pawlv1.StartRunRequest{}, `{"execution":"CALLER"}`, `{"execution":"EXECUTION_CALLER"}`},
		"full enum":     {&pawlv1.StartRunRequest{}, `{"execution":"EXECUTION_WORKERS"}`, `{"execution":"EXECUTION_WORKERS"}`},
		"enum number":   {&pawlv1.StartRunRequest{}, `{"execution":1}`, `{"execution":1}`},
		"bare enums":    {&pawlv1.StreamTransitionsRequest{}, `{"filter":{"statuses":["WAITING","RUN_STATUS_RUNNING"]}}`, `{"filter":{"statuses":["RUN_STATUS_WAITING","RUN_STATUS_RUNNING"]}}`},
		"artifact":      {&pawlv1.EmitEventRequest{}, `{"artifacts":[{"name":"a","value":{"json":[1,"x"]}}]}`, `{"artifacts":[{"name":"a","value":{"json":"[1,\"x\"]"}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := (&gateway.RealJSON{}).NewDecoder(strings.NewReader(c.body)).Decode(c.msg); err != nil {
				t.Fatal(err)
			}
			want := c.msg.ProtoReflect().New().Interface()
			if err := protojson.Unmarshal([]byte(c.want), want); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(c.msg, want) {
				t.Errorf("got %v, want %v", c.msg, want)
			}
		})
	}
	for body, says := range map[string]string{
		`{"variables":{},"variablesJson":"{}"}`: "two forms of one field",
		`{"variables":{}`:                       "want a comma",
		`{"runId":"a","runId":"b"}`:             "/runId: the member is there twice",
		`{"variables":{"a":1,"a":2}}`:           "/variables/a: the member is there twice",
		`{"input":[{"text":"a","text":"b"}]}`:   "/input/0/text: the member is there twice",
		`{"nothing":{}}`:                        "unknown field",
		`[]`:                                    "unexpected token",
	} {
		err := (&gateway.RealJSON{}).NewDecoder(strings.NewReader(body)).Decode(&pawlv1.StartRunRequest{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
}

func TestGatewayStartsWithRealVariables(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	r.register(ctx)
	var started pawlv1.StartRunResponse
	r.jsonCall(ctx, "POST", "/v1/runs", `{"pack":"loop","execution":"EXECUTION_CALLER","variables":{"goal":"x"}}`, &started)
	if got := started.GetTurn().GetRunId(); got == "" {
		t.Fatalf("no turn in %v", &started)
	}
	var list pawlv1.ListRunsResponse
	r.jsonCall(ctx, "GET", "/v1/runs?filter.statuses=RUNNING&filter.statuses=RUN_STATUS_WAITING", "", &list)
	if len(list.GetRuns()) != 1 {
		t.Fatalf("bare names in a query: %v", &list)
	}
	code, message, reason := errorOf(t, r.httpCall(ctx, "POST", "/v1/runs", `{"pack":"loop","execution":"EXECUTION_CALLER","variables":[1]}`))
	if code != 3 || reason != "INVALID_JSON" || !strings.Contains(message, "object") {
		t.Fatalf("a list: %d %s %s", code, reason, message)
	}
}

// TestGatewayHealth: probes come without a token and by any name.
func TestGatewayHealth(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway, withTokens), testContext(t)
	get := func(path string, code int, says string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.server.HTTPAddr()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "10.1.2.3:7290"
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body := readAll(t, &httpAnswer{Body: resp.Body}); resp.StatusCode != code || !strings.Contains(string(body), says) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	get("/readyz", http.StatusOK, `"SERVING"`)
	get("/healthz", http.StatusOK, `"ALIVE"`)
	// A sidecar that does not serve is alive: a restart would not help it.
	r.server.health.set(healthpb.HealthCheckResponse_NOT_SERVING)
	get("/readyz", http.StatusServiceUnavailable, `NOT_SERVING`)
	get("/healthz", http.StatusOK, `"ALIVE"`)
}

// TestRootLeadsToThePage: a person who opens the port sees the page.
func TestRootLeadsToThePage(t *testing.T) {
	t.Parallel()
	page := func(c *Config, _ *services.Config) {
		c.PagePath, c.Page = "/ui", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the page")) })
	}
	r, ctx := newRig(t, withGateway, page), testContext(t)
	if got := readAll(t, r.httpCall(ctx, "GET", "/", "")); string(got) != "the page" {
		t.Fatalf("got %q", got)
	}
	if resp := r.httpCall(ctx, "GET", "/nothing", ""); resp.StatusCode != http.StatusNotFound {
		t.Fatalf("an unknown path: %d", resp.StatusCode)
	}
}
