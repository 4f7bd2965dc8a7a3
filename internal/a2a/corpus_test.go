package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	_ "github.com/cockroachdb/datadriven" // has the flag -rewrite
)

// accepting reports whether the golden files are to be written. It reads the flag of the scenarios.
func accepting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// request is one line of the corpus.
type request struct {
	Name   string          `json:"name"`
	Agent  string          `json:"agent"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	// Names keeps the id of the task that is answered as $NAME for later requests.
	Names string `json:"names"`
}

func (q *request) streams() bool {
	return q.Method == "SendStreamingMessage" || q.Method == "SubscribeToTask"
}

// outcome is the answer of a binding to a request: results or a problem.
type outcome struct {
	Results []json.RawMessage `json:"results,omitempty"`
	Problem *problem          `json:"problem,omitempty"`
}

// problem is an error in the form that is common to all bindings.
type problem struct {
	// RPC, GRPC and HTTP are the codes; a binding knows one of them.
	RPC    int    `json:"rpc,omitempty"`
	GRPC   string `json:"grpc,omitempty"`
	HTTP   int    `json:"http,omitempty"`
	Domain string `json:"domain"`
	Reason string `json:"reason"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

// binding sends the requests of the corpus.
type binding func(t *testing.T, r *rig, q *request, params json.RawMessage) outcome

var bindings = map[string]binding{"GRPC": overGRPC, "JSONRPC": overRPC, "HTTP+JSON": overHTTP}

// TestCorpus runs the same requests over the three bindings. What comes back is
// the same, and what it was when the golden file was accepted.
func TestCorpus(t *testing.T) {
	t.Parallel()
	corpus := readCorpus(t)
	golden := map[string]outcome{}
	if raw, err := os.ReadFile("testdata/corpus.golden.json"); err == nil {
		if err := json.Unmarshal(raw, &golden); err != nil {
			t.Fatal(err)
		}
	}
	told := map[string]map[string]outcome{}
	for name, do := range bindings {
		told[name] = runCorpus(t, do, corpus)
	}
	accepted := map[string]outcome{}
	for i := range corpus {
		name := corpus[i].Name
		all := merge(t, name, told)
		accepted[name] = all
		if got, want := canonical(t, all), canonical(t, golden[name]); !accepting() && got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if accepting() {
		raw, err := json.MarshalIndent(accepted, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/corpus.golden.json", append(raw, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func readCorpus(t *testing.T) []request {
	t.Helper()
	raw, err := os.ReadFile("testdata/corpus.json")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []request
	if err := json.Unmarshal(raw, &corpus); err != nil {
		t.Fatal(err)
	}
	return corpus
}

// runCorpus runs the corpus over one binding, against a sidecar of its own.
func runCorpus(t *testing.T, do binding, corpus []request) map[string]outcome {
	t.Helper()
	r := newRig(t)
	ids := map[string]string{}
	out := map[string]outcome{}
	for i := range corpus {
		q := &corpus[i]
		params := string(q.Params)
		for name, id := range ids {
			params = strings.ReplaceAll(params, `"$`+name+`"`, `"`+id+`"`)
		}
		got := do(t, r, q, json.RawMessage(params))
		if q.Names != "" && len(got.Results) > 0 {
			ids[q.Names] = taskID.FindStringSubmatch(string(got.Results[0]))[1]
		}
		out[q.Name] = got
	}
	masks := newMasks()
	for i := range corpus {
		name := corpus[i].Name
		got := out[name]
		for j := range got.Results {
			got.Results[j] = masks.mask(t, got.Results[j])
		}
		if got.Problem != nil {
			got.Problem.Text = masks.text(got.Problem.Text)
		}
		out[name] = got
	}
	return out
}

var taskID = regexp.MustCompile(`"(?:id|taskId)":"([0-9A-Z]{26})"`)

// masks replaces what differs from run to run: ids by the order of their first
// appearance, and times.
type masks struct{ seen map[string]string }

func newMasks() *masks { return &masks{seen: map[string]string{}} }

var (
	changing = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}|(ctx|push)-[a-z0-9]{26,32}`)
	// handOut matches the event that a worker has a new task. The event comes together with the record of
	// the task, or before it.
	handOut = regexp.MustCompile(`("statusUpdate":\{"contextId":"[^"]*","metadata":\{"pawl.dev/generation":)2\}(,"status":\{"state":"TASK_STATE_WORKING")`)
	moment  = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"`)
)

func (m *masks) text(s string) string {
	return changing.ReplaceAllStringFunc(s, func(id string) string {
		kind := "T"
		switch {
		case strings.HasPrefix(id, "ctx-"):
			kind = "C"
		case strings.HasPrefix(id, "push-"):
			kind = "P"
		}
		if m.seen[id] == "" {
			m.seen[id] = fmt.Sprintf("$%s%d", kind, len(m.seen)+1)
		}
		return m.seen[id]
	})
}

func (m *masks) mask(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	text := moment.ReplaceAllLiteralString(m.text(canonical(t, b.Bytes())), `"$time"`)
	return json.RawMessage(handOut.ReplaceAllString(text, `${1}3}${2}`))
}

// canonical is JSON with sorted keys and without empty values, which bindings may
// leave out.
func canonical(t *testing.T, v any) string {
	t.Helper()
	raw, ok := v.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	out, err := json.Marshal(dropEmpty(plain))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func dropEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch value := dropEmpty(value).(type) {
			case string:
				if value == "" && key != "text" {
					delete(v, key)
				}
			case float64:
				if value == 0 && key == "totalSize" {
					delete(v, key)
				}
			case bool:
				if !value {
					delete(v, key)
				}
			case []any:
				if len(value) == 0 {
					delete(v, key)
				}
			}
		}
	case []any:
		for i := range v {
			v[i] = dropEmpty(v[i])
		}
	}
	return v
}

// merge compares the bindings and puts their codes into one problem.
func merge(t *testing.T, name string, told map[string]map[string]outcome) outcome {
	t.Helper()
	all := told["GRPC"][name]
	for _, b := range []string{"JSONRPC", "HTTP+JSON"} {
		other := told[b][name]
		if got, want := canonical(t, other.Results), canonical(t, all.Results); got != want {
			t.Errorf("%s: %s answers\n%s\nand GRPC\n%s", name, b, got, want)
		}
		if (other.Problem == nil) != (all.Problem == nil) {
			t.Errorf("%s: %s has the problem %+v, GRPC %+v", name, b, other.Problem, all.Problem)
			continue
		}
		if other.Problem == nil {
			continue
		}
		all.Problem.RPC, all.Problem.HTTP = max(all.Problem.RPC*-1, other.Problem.RPC*-1)*-1, max(all.Problem.HTTP, other.Problem.HTTP)
		if other.Problem.Reason != all.Problem.Reason || other.Problem.Domain != all.Problem.Domain || other.Problem.Text != all.Problem.Text {
			t.Errorf("%s: %s says %+v, GRPC %+v", name, b, other.Problem, all.Problem)
		}
	}
	return all
}

func overGRPC(t *testing.T, r *rig, q *request, params json.RawMessage) outcome {
	t.Helper()
	full := protoreflect.FullName("lf.a2a.v1.A2AService." + q.Method)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(full)
	if err != nil {
		t.Fatal(err)
	}
	method := found.(protoreflect.MethodDescriptor)
	in, out := messageOf(t, method.Input()), messageOf(t, method.Output())
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(params, in); err != nil {
		t.Fatalf("%s: %v", q.Name, err)
	}
	in.ProtoReflect().Set(method.Input().Fields().ByName("tenant"), protoreflect.ValueOfString(q.Agent))
	path := "/lf.a2a.v1.A2AService/" + q.Method
	ctx := r.context("")
	if !q.streams() {
		if err := r.conn.Invoke(ctx, path, in, out); err != nil {
			return outcome{Problem: ofStatus(err)}
		}
		return outcome{Results: []json.RawMessage{toJSON(t, out)}}
	}
	return overStream(ctx, t, r, path, in)
}

func overStream(ctx context.Context, t *testing.T, r *rig, path string, in proto.Message) outcome {
	t.Helper()
	stream, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(in), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	var got outcome
	for {
		item := &a2apb.StreamResponse{}
		err := stream.RecvMsg(item)
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			got.Problem = ofStatus(err)
			return got
		}
		got.Results = append(got.Results, toJSON(t, item))
	}
}

func messageOf(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

func toJSON(t *testing.T, m proto.Message) json.RawMessage {
	t.Helper()
	raw, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ofStatus(err error) *problem {
	st := status.Convert(err)
	p := &problem{GRPC: st.Code().String(), Text: st.Message()}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			p.Domain, p.Reason, p.Field = info.GetDomain(), info.GetReason(), info.GetMetadata()["field"]
		}
	}
	if st.Code() == codes.OK {
		return nil
	}
	return p
}

// detail is an element of data or details.
type detail struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata"`
}

func ofDetails(p *problem, details []detail) *problem {
	for _, d := range details {
		if d.Type == "type.googleapis.com/google.rpc.ErrorInfo" {
			p.Domain, p.Reason, p.Field = d.Domain, d.Reason, d.Metadata["field"]
		}
	}
	return p
}

func agentPath(agent string) string {
	if agent == "" {
		return ""
	}
	return "/a2a/" + agent
}

func overRPC(t *testing.T, r *rig, q *request, params json.RawMessage) outcome {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.Name, "method": q.Method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	path := agentPath(q.Agent)
	if path == "" {
		path = "/"
	}
	got := r.http("POST", path, string(body))
	frames := []string{string(got.body)}
	if strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
		frames = dataOf(got.body)
	}
	var out outcome
	for _, frame := range frames {
		var res struct {
			ID     string
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
				Data    []detail
			}
		}
		if err := json.Unmarshal([]byte(frame), &res); err != nil || res.ID != q.Name {
			t.Fatalf("%s: %v in %s", q.Name, err, frame)
		}
		if res.Error != nil {
			out.Problem = ofDetails(&problem{RPC: res.Error.Code, Text: res.Error.Message}, res.Error.Data)
			continue
		}
		out.Results = append(out.Results, res.Result)
	}
	return out
}

// dataOf takes the data of server-sent events.
func dataOf(body []byte) []string {
	var out []string
	for line := range strings.SplitSeq(string(body), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

// restPaths has for each method its verb and path; $id and $taskId are taken from
// the request.
var restPaths = map[string][2]string{
	"SendMessage":                      {"POST", "/message:send"},
	"SendStreamingMessage":             {"POST", "/message:stream"},
	"GetTask":                          {"GET", "/tasks/$id"},
	"ListTasks":                        {"GET", "/tasks"},
	"CancelTask":                       {"POST", "/tasks/$id:cancel"},
	"SubscribeToTask":                  {"GET", "/tasks/$id:subscribe"},
	"CreateTaskPushNotificationConfig": {"POST", "/tasks/$taskId/pushNotificationConfigs"},
	"GetTaskPushNotificationConfig":    {"GET", "/tasks/$taskId/pushNotificationConfigs/$id"},
	"ListTaskPushNotificationConfigs":  {"GET", "/tasks/$taskId/pushNotificationConfigs"},
	"DeleteTaskPushNotificationConfig": {"DELETE", "/tasks/$taskId/pushNotificationConfigs/$id"},
	"GetExtendedAgentCard":             {"GET", "/extendedAgentCard"},
}

func overHTTP(t *testing.T, r *rig, q *request, params json.RawMessage) outcome {
	t.Helper()
	verb, path := restPaths[q.Method][0], restPaths[q.Method][1]
	fields := map[string]any{}
	if err := json.Unmarshal(params, &fields); err != nil {
		t.Fatal(err)
	}
	query := url.Values{}
	for _, key := range slices.Sorted(mapKeys(fields)) {
		value := fmt.Sprint(fields[key])
		if mark := "$" + key; strings.Contains(path, mark) {
			path = strings.ReplaceAll(path, mark, url.PathEscape(value))
			delete(fields, key)
			continue
		}
		query.Set(key, value)
	}
	body := ""
	switch verb {
	case http.MethodPost:
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		body = string(raw)
	default:
		if encoded := query.Encode(); encoded != "" {
			path += "?" + encoded
		}
	}
	got := r.http(verb, agentPath(q.Agent)+path, body)
	switch {
	case got.status != http.StatusOK:
		return outcome{Problem: ofREST(t, got)}
	case strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream"):
		var out outcome
		for _, frame := range dataOf(got.body) {
			out.Results = append(out.Results, json.RawMessage(frame))
		}
		return out
	}
	return outcome{Results: []json.RawMessage{got.body}}
}

func ofREST(t *testing.T, got answer) *problem {
	t.Helper()
	var body struct {
		Error struct {
			Code    int
			Status  string
			Message string
			Details []detail
		}
	}
	if err := json.Unmarshal(got.body, &body); err != nil || body.Error.Code != got.status {
		t.Fatalf("%v in %s", err, got)
	}
	return ofDetails(&problem{HTTP: got.status, Text: body.Error.Message}, body.Error.Details)
}

func mapKeys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}
