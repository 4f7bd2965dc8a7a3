package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// peers is the directory of the clients that are not ours, made by .ci/test-peers.
func peers(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PAWL_PEERS")
	if dir == "" {
		t.Skip("run by .ci/test-peers, which installs the clients of other people")
	}
	return dir
}

// base is the URL of the writer.
func (r *rig) base() string { return r.scheme() + r.ready.HTTP + "/a2a/crew/writer" }

// run starts a client that is not ours and returns what it printed.
func (r *rig) run(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPeerJavaScript runs the official JavaScript client over every binding, with
// and without TLS and tokens.
func TestPeerJavaScript(t *testing.T) {
	t.Parallel()
	dir := peers(t)
	for name, configure := range map[string][]func(*rig){
		"plain": nil, "TLS": {withTLS}, "tokens": {withTokens}, "TLS and tokens": {withTLS, withTokens},
	} {
		r := newRig(t, configure...)
		var env []string
		if r.config.TLSCert != "" {
			env = []string{"NODE_EXTRA_CA_CERTS=" + r.authority, "PEER_CA=" + r.authority}
		}
		if r.tokens {
			env = append(env, "PEER_TOKEN="+secretOf(alice))
		}
		for _, binding := range []string{"JSONRPC", "HTTP+JSON", "GRPC"} {
			out, err := r.run(t, env, "node", filepath.Join(dir, "a2a-js", "check.mjs"), r.base(), binding)
			if err != nil || !strings.Contains(out, binding+": ok") {
				t.Errorf("%s, %s: %v\n%s", binding, name, err, out)
			}
		}
	}
}

// TestPeerCommandLine runs the Go SDK's command line over every binding, with and
// without TLS and tokens; its gRPC knows no TLS, and it cannot read the card of a sidecar
// that asks for tokens (docs/guides/a2a.md).
func TestPeerCommandLine(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(peers(t), "bin", "a2a")
	for _, configure := range [][]func(*rig){nil, {withTLS}, {withTokens}, {withTLS, withTokens}} {
		r := newRig(t, configure...)
		env := []string{"SSL_CERT_FILE=" + r.authority}
		bindings := map[string][]string{
			"card": {r.base()}, "jsonrpc": {r.base(), "--transport", "jsonrpc"}, "rest": {r.base(), "--transport", "rest"},
			"grpc": {r.ready.GRPC, "--transport", "grpc", "--tenant", "crew/writer", "--insecure"},
		}
		if r.config.TLSCert != "" {
			delete(bindings, "grpc")
		}
		var common []string
		if r.tokens {
			delete(bindings, "card")
			common = []string{"--auth", "Bearer " + secretOf(alice)}
		}
		for way, args := range bindings {
			c := &commandLine{t: t, r: r, bin: bin, env: env, binding: way, url: args[0], args: slices.Concat(args[1:], common, []string{"-o", "json"})}
			c.check()
		}
	}
}

// commandLine is the a2a program on one way to the writer.
type commandLine struct {
	t            *testing.T
	r            *rig
	bin          string
	env          []string
	binding, url string
	args         []string
	exitError    bool
}

// run runs one verb.
func (c *commandLine) run(verb []string, rest ...string) string {
	c.t.Helper()
	args := append(append(append([]string{}, verb...), c.url), rest...)
	out, err := c.r.run(c.t, c.env, c.bin, append(args, c.args...)...)
	if (err != nil) != c.exitError {
		c.t.Errorf("%s: a2a %s: %v\n%s", c.binding, strings.Join(args, " "), err, out)
	}
	return out
}

func (c *commandLine) want(out string, words ...string) {
	c.t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			c.t.Errorf("%s: no %q in\n%s", c.binding, w, out)
		}
	}
}

func (c *commandLine) check() {
	c.t.Helper()
	if c.binding == "card" {
		c.want(c.run([]string{"discover"}), "Writer", "JSONRPC")
	}
	sent := c.run([]string{"send"}, "hello")
	c.want(sent, "TASK_STATE_COMPLETED", "hello")
	id := idIn(sent)
	c.want(c.run([]string{"get", "task"}, id), id, "TASK_STATE_COMPLETED")
	c.want(c.run([]string{"list", "tasks"}), id)
	c.want(c.run([]string{"send"}, "write a b", "--stream"), "TASK_STATE_WORKING", "lastChunk", "TASK_STATE_COMPLETED")
	asked := idIn(c.run([]string{"send"}, "ask which?"))
	c.want(c.run([]string{"send"}, "that", "--task", asked), "TASK_STATE_COMPLETED", "got that")
	waiting := idIn(c.run([]string{"send"}, "ask waiting?", "--immediate"))
	c.want(c.subscribe(waiting), "TASK_STATE_CANCELED")
	c.exitError = true
	c.want(c.run([]string{"get", "task"}, "nothing"), "no such task")
}

// subscribe follows a task that waits, and cancels it once the first event came.
func (c *commandLine) subscribe(id string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.bin, append([]string{"subscribe", c.url, id}, c.args...)...)
	cmd.Env, cmd.WaitDelay = append(os.Environ(), c.env...), time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(out, first); err != nil {
		c.t.Errorf("%s: subscribe printed nothing: %v", c.binding, err)
	}
	c.want(c.run([]string{"cancel"}, id), "TASK_STATE_CANCELED")
	rest, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		c.t.Errorf("%s: subscribe: %v", c.binding, err)
	}
	return string(first) + string(rest)
}

// idIn is the id of the task that was printed.
func idIn(out string) string {
	var task struct {
		ID   string
		Task struct{ ID string }
	}
	_ = json.NewDecoder(strings.NewReader(out)).Decode(&task)
	if task.ID == "" {
		return task.Task.ID
	}
	return task.ID
}
