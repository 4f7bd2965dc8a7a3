package server

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/policy"
)

// lines verifies an audit, and returns its entries about one method and the text of all entries.
func lines(t *testing.T, dir, method string) (found []audit.Entry, all string) {
	t.Helper()
	var text strings.Builder
	if _, err := audit.Verify(dir, nil, func(e *audit.Entry, _ string, line []byte) error {
		text.Write(line)
		if strings.HasSuffix(e.Method, method) {
			found = append(found, *e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found, text.String()
}

// TestAudit: the audit has who did what over each port and who was refused, and no content of
// calls. A line is written before the answer is sent.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "audit")
	r := newOperationsRig(t, func(c *config.Config) { c.Audit = dir })
	red := r.tenant(keyOf("admin", "red"))
	own := red.settle(t, "Payload-of-red")
	started, _ := lines(t, dir, "/StartRun")
	if len(started) != 1 || started[0].Principal != "admin/red" || started[0].Namespace != "red" || started[0].Resource != own.run ||
		started[0].RequestID != "the-same" || started[0].Outcome != "OK" || !strings.HasPrefix(started[0].Peer, "127.0.0.1:") {
		t.Errorf("the start: %+v", started)
	}
	for method, want := range map[string]audit.Entry{
		"/RegisterPack": {Resource: own.digest}, "/PutBlob": {Resource: "up"}, "/PutWebhook": {Resource: "hook"},
	} {
		got, _ := lines(t, dir, method)
		if len(got) != 1 || got[0].Outcome != "OK" || got[0].Principal != "admin/red" || got[0].Resource != want.Resource {
			t.Errorf("%s: %+v", method, got)
		}
	}
	if read, _ := lines(t, dir, "/StreamTransitions"); len(read) != 0 {
		t.Errorf("what only read has lines: %+v", read)
	}
	// These calls use the gateway, JSON-RPC, and gRPC of A2A. Each entry has the address of its caller.
	gateway := "http://" + r.s.ready.HTTP
	r.http("post", gateway+"/v1/runs/"+own.run+":cancel", `{"namespace":"red","note":"Payload-of-red","requestId":"c-1"}`, keyOf("admin", "red"))
	r.http("post", gateway+"/a2a/team/lead", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"Payload-of-red"}]},"configuration":{"returnImmediately":true}}}`, keyOf("admin", "home"))
	_, err := a2apb.NewA2AServiceClient(r.conn).SendMessage(metadata.AppendToOutgoingContext(r.tenant(keyOf("admin", "home")).ctx, "a2a-version", "1.0"), &a2apb.SendMessageRequest{
		Tenant: "team/lead", Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true},
		Message: &a2apb.Message{MessageId: "m-2", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "Payload-of-red"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// A backup of the whole store has a line before its first byte and one at its end.
	backup, err := pawlv1.NewStoreServiceClient(r.conn).Backup(r.tenant(keyOf("admin", "free")).ctx, &pawlv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Recv(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := lines(t, dir, "/Backup"); len(entries) == 0 || entries[0].Outcome != "BEGUN" || entries[0].Principal == "" || entries[0].Peer == "" {
		t.Errorf("with the first bytes of a backup: %+v", entries)
	}
	for err == nil {
		_, err = backup.Recv()
	}
	if ended, _ := lines(t, dir, "/Backup"); !errors.Is(err, io.EOF) || len(ended) != 2 || ended[1].Outcome != "OK" {
		t.Errorf("a backup: %+v, %v", ended, err)
	}
	cancelled, _ := lines(t, dir, "/CancelRun")
	if len(cancelled) != 1 || cancelled[0].RequestID != "c-1" || cancelled[0].Resource != own.run || !strings.HasPrefix(cancelled[0].Peer, "127.0.0.1:") {
		t.Errorf("over the gateway: %+v", cancelled)
	}
	sent, _ := lines(t, dir, "/SendMessage")
	sent = slices.DeleteFunc(sent, func(e audit.Entry) bool { return e.RequestID == "the-same" }) // the namespace's own
	if len(sent) != 2 || sent[0].RequestID != "m-1" || sent[1].RequestID != "m-2" || sent[0].Outcome != "OK" || sent[0].Principal != "admin/home" ||
		!strings.HasPrefix(sent[0].Peer, "127.0.0.1:") || sent[1].Namespace != "default" {
		t.Errorf("over A2A: %+v", sent)
	}
	r.refused(dir, own)
	_, all := lines(t, dir, "")
	for _, secret := range []string{"Payload-of-red", keyOf("admin", "red"), own.token, "nobody-knows-this-token"} {
		if strings.Contains(all, secret) {
			t.Errorf("the audit has %q", secret)
		}
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(all, "}{", "}\n{"), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

// refused makes calls that are refused, over each port: a right is missing, the namespace is
// another principal's, or the token is unknown.
func (r *operationsRig) refused(dir string, own tenantData) {
	t := r.t
	reader := r.tenant(keyOf("runs:read", "red"))
	_, _ = reader.runs.PauseRun(reader.ctx, &pawlv1.PauseRunRequest{RunId: own.run})
	_, _ = reader.runs.GetRun(reader.ctx, &pawlv1.GetRunRequest{RunId: own.run, Namespace: "blue"})
	_, _ = r.tenant("nobody-knows-this-token").runs.ListRuns(r.tenant("nobody-knows-this-token").ctx, &pawlv1.ListRunsRequest{})
	r.http("get", "http://"+r.s.ready.HTTP+"/a2a/team/lead/tasks", "", "nobody-knows-this-token")
	r.http("get", "http://"+r.s.ready.Metrics+"/metrics", "", keyOf("admin", "red"))
	for method, want := range map[string]audit.Entry{
		"/PauseRun":    {Principal: "runs:read/red", Outcome: "PERMISSION_DENIED", Reason: "SCOPE_MISSING"},
		"/GetRun":      {Principal: "runs:read/red", Outcome: "NOT_FOUND", Reason: "NAMESPACE_NOT_FOUND"},
		"/ListRuns":    {Outcome: "UNAUTHENTICATED", Reason: "TOKEN_UNKNOWN"},
		"/ListTasks":   {Outcome: "UNAUTHENTICATED", Reason: "TOKEN_UNKNOWN"},
		"GET /metrics": {Principal: "admin/red", Outcome: "PERMISSION_DENIED", Reason: "NAMESPACE_BOUND"},
	} {
		got, _ := lines(t, dir, method)
		if len(got) != 1 || got[0].Principal != want.Principal || got[0].Outcome != want.Outcome || got[0].Reason != want.Reason || got[0].Peer == "" {
			t.Errorf("%s: %+v", method, got)
		}
	}
}

// TestEveryOperationSaysWhetherItChanges: an operation whose name does not begin like a question
// changes something, and has a line in the audit.
func TestEveryOperationSaysWhetherItChanges(t *testing.T) {
	t.Parallel()
	reads := []string{"Get", "List", "Show", "Stream", "Count", "Wait", "Verify", "Diff", "Validate", "Export", "Subscribe", "Check", "Stats", "Query"}
	for _, op := range policy.Operations {
		service, name, ok := strings.Cut(strings.TrimPrefix(op.Name, "/"), "/")
		if !ok || strings.Contains(op.Name, " ") || strings.HasPrefix(service, "grpc.") {
			continue
		}
		if asks := slices.ContainsFunc(reads, func(verb string) bool { return strings.HasPrefix(name, verb) }); asks == op.Changes {
			t.Errorf("%s: Changes is %v", op.Name, op.Changes)
		}
	}
}
