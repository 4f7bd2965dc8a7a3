package server

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// refundPack has a tool of which each call waits for a person.
const refundPack = `{
  "id": "refunds", "name": "Refunds", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"clerk": {"id": "clerk", "name": "Clerk", "version": "1.0.0", "system_template": "Work.", "tools": ["refund"]}},
  "tools": {"refund": {"name": "refund", "description": "Gives money back", "parameters": {"type": "object", "properties": {"order": {"type": "string"}}}}},
  "workflow": {"version": 2, "entry": "work",
    "engine": {"budget": {"max_wall_time_sec": 600}, "x_pawl": {"tools": {"refund": {"approve": "always"}}}},
    "states": {"work": {"prompt_task": "clerk", "on_event": {"Done": "end"}}, "end": {"prompt_task": "clerk", "terminal": true}}}
}`

// TestDecisionLinksAtEachNode: a link shows the call and decides about it at each node of a cluster, and the record names the person, also
// at a node that does not own the partition.
func TestDecisionLinksAtEachNode(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces, c.AllowTools, c.HTTP = []string{packFile}, tenants, []string{"refund"}, "127.0.0.1:0"
	c.TokensFile = tokens(t, "root", "admin", "ops", "steps:approve")
	c.LinkURL, c.LinkKeysFile = "https://approve.example.com", writeFile(t, "link-keys", strings.Repeat("07", 32))
	first, second := begin(t, c), begin(t, c)
	root, ops := dialAs(t, first, "root"), dialAs(t, first, "ops")
	// The first node owns one namespace, and the second one another.
	var local, remote string
	for local == "" || remote == "" {
		local, remote = "", ""
		for _, namespace := range tenants {
			if ownerOf(t, root, namespace) == "" {
				local = namespace
			} else {
				remote = namespace
			}
		}
	}
	for where, namespace := range map[string]string{"at the owner": local, "beside the owner": remote} {
		link := heldLink(t, root, ops, namespace)
		if code, page := visit(t, first, http.MethodGet, link, ""); code != http.StatusOK || !strings.Contains(page, "Approve this call of refund?") || !strings.Contains(page, "o-17") {
			t.Fatalf("%s: GET answers %d %s", where, code, page)
		}
		if code, page := visit(t, first, http.MethodPost, link, "approve"); code != http.StatusOK || !strings.Contains(page, "ops&gt;link:alice@example.com") {
			t.Fatalf("%s: POST answers %d %s", where, code, page)
		}
		for _, node := range []*runningSidecar{first, second} {
			if code, page := visit(t, node, http.MethodPost, link, "deny"); code != http.StatusConflict || !strings.Contains(page, "Already decided: approved") {
				t.Errorf("%s: the second POST answers %d %s", where, code, page)
			}
			if code, page := visit(t, node, http.MethodGet, link, ""); code != http.StatusOK || !strings.Contains(page, "Already decided: approved") {
				t.Errorf("%s: GET afterwards answers %d %s", where, code, page)
			}
		}
	}
}

// TestLinkKeysAreReadAgain: at SIGHUP links of an added key and of the old one are valid, and a removed key ends its links. A faulty file
// changes nothing.
func TestLinkKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.AllowTools, c.HTTP, c.LinkURL = []string{"refund"}, "127.0.0.1:0", "https://approve.example.com"
	old, added := strings.Repeat("07", 32), strings.Repeat("08", 32)
	c.LinkKeysFile = writeFile(t, "link-keys", old)
	s, log := serveLogged(t, c)
	conn := dial(t, s.ready.GRPC)
	hangUp := func(keys, says string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(c.LinkKeysFile+".new", []byte(keys), 0o600), os.Rename(c.LinkKeysFile+".new", c.LinkKeysFile)); err != nil {
			t.Fatal(err)
		}
		// Other tests of this process send the signal too. The first reload that ends now may have begun before the file was there. The
		// second one begins after the first has ended.
		for range 2 {
			before := strings.Count(log.String(), says)
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			log.awaitMore(t, says, before)
		}
	}
	shows := func(link string, want int) {
		t.Helper()
		if code, page := visit(t, s, http.MethodGet, link, ""); code != want {
			t.Errorf("%d, want %d: %s", code, want, page)
		}
	}
	first := heldLink(t, conn, conn, "")
	hangUp(added+"\n"+old, "files reloaded")
	second := heldLink(t, conn, conn, "")
	shows(first, http.StatusOK)
	shows(second, http.StatusOK)
	hangUp(added, "files reloaded")
	shows(first, http.StatusForbidden)
	for _, faulty := range []string{"short", "\n"} {
		hangUp(faulty, "link_keys_file")
		shows(second, http.StatusOK)
	}
}

// heldLink starts a run whose call waits, and returns the link with which alice decides.
func heldLink(t *testing.T, root, ops *grpc.ClientConn, namespace string) string {
	t.Helper()
	if _, err := pawlv1.NewPackServiceClient(root).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Namespace: namespace, Content: []byte(refundPack)}); err != nil {
		t.Fatal(err)
	}
	runs := pawlv1.NewRunServiceClient(root)
	started, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Namespace: namespace, Pack: "refunds", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	turn := started.GetTurn()
	if _, err := runs.RequestStep(t.Context(), &pawlv1.RequestStepRequest{
		Namespace: namespace, RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "refund", PayloadJson: `{"order": "o-17"}`}},
	}); err != nil {
		t.Fatal(err)
	}
	waiting, err := pawlv1.NewControlServiceClient(ops).ListApprovals(t.Context(), &pawlv1.ListApprovalsRequest{Namespace: namespace, LinkFor: "alice@example.com"})
	for _, call := range waiting.GetApprovals() {
		if call.GetRunId() == turn.GetRunId() {
			return call.GetLink()
		}
	}
	t.Fatal(waiting, err)
	return ""
}

// visit opens a link at a node, or posts a decision with it.
func visit(t *testing.T, node *runningSidecar, method, link, decision string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+node.ready.HTTP+strings.TrimPrefix(link, "https://approve.example.com"),
		strings.NewReader(url.Values{"decision": {decision}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(page)
}
