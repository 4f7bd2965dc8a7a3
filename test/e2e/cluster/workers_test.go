package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/child"
)

// The clients as they are made by .ci/python-env test and by .ci/typescript-env with the
// build of clients/typescript.
const (
	python     = "../../../clients/python/.venv/bin/python"
	typescript = "../../../clients/typescript/dist/esm/index.js"
)

// language is what workers are written in. One serves all namespaces, by a connection for each.
type language struct {
	name  string
	serve func(l *load, at *node, name string)
}

// languages are those that are here; PAWL_LANGUAGES=go,python,typescript asks for some.
func languages(t *testing.T) []language {
	t.Helper()
	selected := os.Getenv("PAWL_LANGUAGES")
	var all []language
	for _, one := range []struct {
		name, needs string
		serve       func(l *load, at *node, name string)
	}{
		{"go", "", serveGo},
		{"python", python, func(l *load, at *node, name string) {
			serveProcess(l, name, python, "testdata/worker.py", "unix:"+at.socket, l.book.url, "charge-python", strings.Join(l.c.spaces, ","))
		}},
		{"typescript", typescript, func(l *load, at *node, name string) {
			library, _ := filepath.Abs(typescript) // fails only without a working directory
			serveProcess(l, name, "node", "testdata/worker.mjs", "unix:"+at.socket, l.book.url, "charge-typescript", strings.Join(l.c.spaces, ","), library)
		}},
	} {
		switch _, err := os.Stat(cmp.Or(one.needs, ".")); {
		case selected != "" && !slices.Contains(strings.Split(selected, ","), one.name):
		case err == nil:
			all = append(all, language{one.name, one.serve})
		case selected != "":
			t.Fatal(err)
		default:
			t.Logf("no workers in %s: %v", one.name, err)
		}
	}
	return all
}

// chargePacks are the packs of the workers, one for each language.
func chargePacks(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("testdata/charge.pack.json")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{"go", "python", "typescript"} {
		file := filepath.Join(t.TempDir(), name+".pack.json")
		own := bytes.Replace(raw, []byte(`"id": "charge"`), []byte(`"id": "charge-`+name+`"`), 1)
		if err := os.WriteFile(file, own, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// workerProcess is a worker that is a process. It lives over all faults but those that it is meant by.
type workerProcess struct {
	t      *testing.T
	name   string
	args   []string
	output bytes.Buffer
	cmd    *exec.Cmd
	done   chan error
}

// serveProcess runs a worker until the test ends.
func serveProcess(l *load, name string, args ...string) {
	l.t.Helper()
	h := &workerProcess{t: l.t, name: name, args: args}
	h.start()
	l.c.workers = append(l.c.workers, h)
	l.t.Cleanup(func() {
		h.kill()
		if l.t.Failed() {
			l.t.Logf("a worker in %s said:\n%s", name, h.output.Bytes()[max(0, h.output.Len()-8<<10):])
		}
	})
}

func (h *workerProcess) start() {
	h.t.Helper()
	h.cmd = exec.Command(h.args[0], h.args[1:]...)
	h.cmd.Stdout, h.cmd.Stderr = &h.output, &h.output
	if err := child.Start(h.cmd, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	h.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan<- error) { done <- cmd.Wait() }(h.cmd, h.done)
}

// kill ends it by SIGKILL. It must not have ended before.
func (h *workerProcess) kill() {
	h.t.Helper()
	select {
	case err := <-h.done:
		h.t.Errorf("a worker in %s ended: %v", h.name, err)
	default:
		_ = h.cmd.Process.Kill()
		<-h.done
	}
}

func (h *workerProcess) replace() {
	h.t.Helper()
	h.kill()
	h.start()
}

func serveGo(l *load, at *node, _ string) {
	l.t.Helper()
	for _, space := range l.c.spaces {
		serveSpaceInGo(l, at, space)
	}
}

func serveSpaceInGo(l *load, at *node, space string) {
	l.t.Helper()
	tool := func(name string) pawl.ToolFunc {
		return func(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
			l.book.enter(name, step.IdempotencyKey())
			return json.RawMessage(`true`), nil
		}
	}
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		ID: "go-" + at.name, Namespace: space, Conn: at.dial(), Retry: 20 * time.Millisecond, Turns: 4, Steps: 4, Packs: []string{"charge-go"},
		Prompts: map[string]pawl.TurnFunc{"work": workGo, "end": func(context.Context, *pawl.Turn) (pawl.Completion, error) { return pawl.Completion{}, nil }},
		Tools:   map[string]pawl.ToolFunc{"charge": tool("charge"), "once": tool("once")},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("worker in Go: %v", err)
		}
	})
}

func workGo(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	if _, err := turn.Step(ctx, "charge", "charge", `{}`); err != nil {
		return pawl.Completion{}, err
	}
	_, err := turn.Step(ctx, "once", "once", `{}`)
	if _, failed := errors.AsType[*pawl.Failure](err); err != nil && !failed {
		return pawl.Completion{}, err
	}
	// An error of it means that the outcome is unknown, so it is not done again.
	return pawl.Completion{Event: "More"}, ctx.Err()
}

// ledger is the world outside: which calls came to it, by their keys.
type ledger struct {
	url string

	mu    sync.Mutex
	calls map[string]*entry
}

type entry struct {
	tool string
	// times is the number of its calls. reported means that its work is in the journal.
	times    int
	reported bool
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	b := &ledger{calls: map[string]*entry{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Tool, Key string }
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.enter(call.Tool, call.Key)
		_, _ = w.Write([]byte("true"))
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *ledger) enter(tool, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[key] == nil {
		b.calls[key] = &entry{tool: tool}
	}
	b.calls[key].times++
}

// answered: a step with a result was done, and one that cannot be repeated ended as unknown if
// it has none.
func (b *ledger) answered(t *testing.T, key string, step *pawlv1.StepResolved) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	call := b.calls[key]
	switch {
	case call != nil:
		call.reported = true
	case step.GetOk():
		t.Errorf("step %s has a result, and was not done", key)
	}
	if !step.GetOk() && (step.GetTool() != "once" || !step.GetUnknown()) {
		t.Errorf("step %s (%s) ended with %v, unknown: %v", key, step.GetTool(), step.GetError(), step.GetUnknown())
	}
}

// checkEffects: what was done is in a journal, and what knows no keys was done once at most.
func (b *ledger) checkEffects(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	again := 0
	for key, call := range b.calls {
		if !call.reported {
			t.Errorf("%s (%s) was done, and no journal has it", key, call.tool)
		}
		if call.times > 1 {
			again++
		}
		if call.tool == "once" && call.times > 1 {
			t.Errorf("%s was done %d times", key, call.times)
		}
	}
	t.Logf("world outside: %d effects, %d of them asked for again under their key", len(b.calls), again)
}
