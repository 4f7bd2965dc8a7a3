package a2a_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// withApprovedAgent is the pack of approvals with a condition on what is said to an agent.
func withApprovedAgent(t *testing.T, c *payments, condition string) func(*rig) {
	t.Helper()
	raw, err := os.ReadFile("testdata/approvals.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const book = "        book: { compensate: unbook }"
	text := strings.Replace(string(raw), book, "        clerk: { approve: '"+condition+"', approval: { timeout_sec: 3600 } }\n"+book, 1)
	path := filepath.Join(t.TempDir(), "approvals.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil || text == string(raw) {
		t.Fatal("the pack has no place for the condition", err)
	}
	return func(r *rig) {
		withTill(c)(r)
		r.config.Packs = []string{path}
	}
}

// TestOtherLetters: what the condition of an agent's call sees is what the agent is sent. A name
// that one reader takes for another one, or that is there twice, makes no call.
func TestOtherLetters(t *testing.T) {
	c := &payments{}
	r := newRig(t, withApprovedAgent(t, c, `payload.message != "hello"`))
	held := r.send(r.context(""), message("till/desk", `call clerk {"message":"call refund {\"order\":\"1\",\"amount\":7}"}`))
	if got := held.GetStatus().GetState(); got != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Fatalf("said plainly it is %v", got)
	}
	for _, payload := range []string{
		`{"message":"hello","Message":"call refund {\"order\":\"2\",\"amount\":8}"}`,
		`{"Message":"call refund {\"order\":\"2\",\"amount\":8}","message":"hello"}`,
		`{"message":"hello","me\u017fsage":"call refund {\"order\":\"2\",\"amount\":8}"}`,
		`{"message":"hello","message":"call refund {\"order\":\"2\",\"amount\":8}"}`,
		`{"message":"hello","\u006dessage":"call refund {\"order\":\"2\",\"amount\":8}"}`,
	} {
		task := r.send(r.context(""), message("till/desk", `call clerk `+payload))
		output := outputOf(task) + task.GetStatus().GetMessage().String()
		if paid := c.report(); paid != "" || !strings.Contains(output, "by case only") && !strings.Contains(output, "twice") {
			t.Errorf("%s: paid %q; %v %s", payload, paid, task.GetStatus(), output)
		}
	}
}

// TestLargeNumbers: an approver is shown the number that the tool gets, an agent is sent the
// one that was asked for or none, and a message with another one is refused by name.
func TestLargeNumbers(t *testing.T) {
	c := &payments{}
	const order = "9007199254740993"
	r := newRig(t, withApprovedAgent(t, c, `payload.message != "hello"`))
	task := r.send(r.context(""), message("till/desk", `call clerk {"message":"hello","data":[{"order":`+order+`}]}`))
	output := outputOf(task) + task.GetStatus().String()
	if !strings.Contains(output, "PAYLOAD_INVALID") || !strings.Contains(output, "/data/0/order: the number "+order) {
		t.Errorf("%v", output)
	}
	held := r.send(r.context(""), message("till/clerk", `call refund {"order":"x","amount":`+order+`}`))
	shown := held.GetStatus().GetMessage().String()
	if strings.Contains(shown, "9007199254740992") || strings.Contains(shown, "9.007199254740992e") || !strings.Contains(shown, "payload_json") {
		t.Errorf("the approver is shown %s", shown)
	}
}
