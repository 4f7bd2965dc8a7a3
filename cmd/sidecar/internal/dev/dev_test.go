package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/dev"
	"github.com/pawl-dev/pawl/cmd/sidecar/internal/project"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/ui"
)

// screen is what a session prints; waiters look again at each write.
type screen struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

// await waits until the text is there for the nth time.
func (s *screen) await(t *testing.T, want string, times int) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		s.mu.Lock()
		text, news := s.text.String(), s.changed
		s.mu.Unlock()
		if strings.Count(text, want) >= times {
			return
		}
		select {
		case <-news:
		case <-limit:
			t.Fatalf("%q is not there %d times:\n%s", want, times, text)
		}
	}
}

// put writes a file; other content always has another size here.
func put(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func settings(dir string) config.Config {
	c := config.Default()
	c.Data, c.Listen, c.HTTP, c.AllowTools, c.LogLevel = filepath.Join(dir, ".pawl"), "127.0.0.1:0", "127.0.0.1:0", []string{"*"}, "warn"
	return c
}

// TestSession changes the files of a project and sees what pawl dev makes of each change.
func TestSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := project.Create(project.Options{Dir: dir, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "run.sh")
	put(t, script, "#!/bin/sh\necho \"started for $PAWL_ADDR\"\nexec tail -f /dev/null\n", 0o755)
	out := newScreen()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, &output.Printer{Out: out, Err: out}, dev.Options{Dir: dir, App: []string{"./run.sh"}, Config: settings(dir)})
	}()
	out.await(t, "pawl runs start shop", 1)
	out.await(t, "started for 127.0.0.1:", 1)

	put(t, filepath.Join(dir, "offline.py"), "# changed\n", 0o600)
	out.await(t, "offline.py changed, starting the app again", 1)
	out.await(t, "started for 127.0.0.1:", 2)

	file := filepath.Join(dir, "shop.pack.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, string(text)+"\n# a comment\n", 0o600)
	out.await(t, "shop@1.0.0 registered again", 1)
	put(t, file, string(text)+"\nbogus: [\n", 0o600)
	out.await(t, "is not registered; it is read again when you save it", 1)
	put(t, file, string(text), 0o600)
	out.await(t, "shop@1.0.0 registered again", 2)

	// A pack that is added during the session is registered, and another one cannot be.
	second := filepath.Join(dir, "second.pack.yaml")
	put(t, second, strings.Replace(string(text), "id: shop\n", "id: second\n", 1), 0o600)
	out.await(t, "second@1.0.0 registered", 1)

	put(t, script, "#!/bin/sh\nexit 3\n", 0o755)
	put(t, filepath.Join(dir, "offline.py"), "# changed again\n", 0o600)
	out.await(t, "the app ended: exit status 3; it is started again when a file changes", 1)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestNoPack: the project of a library has no pack file, because its app makes the pack. The session starts the app and shows the runs.
func TestNoPack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := project.Create(project.Options{Dir: dir, Name: "shop", Template: "pydantic-ai"}); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "run.sh"), "#!/bin/sh\necho \"started for $PAWL_ADDR\"\nexec tail -f /dev/null\n", 0o755)
	out := newScreen()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done, opened := make(chan error, 1), make(chan string, 1)
	go func() {
		done <- dev.Run(ctx, &output.Printer{Out: out, Err: out}, dev.Options{
			Dir: dir, App: []string{"./run.sh"}, Config: settings(dir), Open: func(address string) error { opened <- address; return nil },
		})
	}()
	out.await(t, "the app makes its pack itself; see its runs at http://127.0.0.1:", 1)
	out.await(t, "started for 127.0.0.1:", 1)
	if page := <-opened; !strings.HasSuffix(page, ui.Path+"/") {
		t.Errorf("opened %s", page)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestTheWholeAppEnds: children of the app end with it, also those that ignore SIGTERM.
func TestTheWholeAppEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := project.Create(project.Options{Dir: dir, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "run.sh"), "#!/bin/sh\n(trap '' TERM; exec tail -f /dev/null) &\necho \"child $! .\"\nwait\n", 0o755)
	out := newScreen()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, &output.Printer{Out: out, Err: out}, dev.Options{Dir: dir, App: []string{"./run.sh"}, Config: settings(dir)})
	}()
	out.await(t, "child ", 1)
	put(t, filepath.Join(dir, "offline.py"), "# changed\n", 0o600)
	out.await(t, "child ", 2)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	for _, found := range regexp.MustCompile(`child (\d+) \.`).FindAllStringSubmatch(out.text.String(), -1) {
		awaitGone(t, found[1])
	}
}

// awaitGone waits until a killed process is gone, or waits only to be reaped.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	limit := time.After(time.Minute)
	for {
		state, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("the child %s still runs: %s", pid, state)
		}
	}
}

// TestFaults: what keeps a session from beginning says what to do.
func TestFaults(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	withPack := t.TempDir()
	if _, err := project.Create(project.Options{Dir: withPack, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	taken := settings(withPack)
	taken.Listen = listener.Addr().String()
	empty := t.TempDir()
	for name, c := range map[string]struct {
		o    dev.Options
		want string
	}{
		"nothing":       {dev.Options{Dir: empty, Config: settings(empty)}, "no app to start in this directory: `pawl init DIR` creates a project"},
		"an absent one": {dev.Options{Dir: empty, Packs: []string{filepath.Join(empty, "x.yaml")}, Config: settings(empty)}, "no such file"},
		"a taken port":  {dev.Options{Dir: withPack, NoApp: true, Config: taken}, "choose other ports with --listen and --http"},
	} {
		out := newScreen()
		err := dev.Run(t.Context(), &output.Printer{Out: out, Err: out}, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAppCommand: which program of a directory is the app.
func TestAppCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":                   {nil, ""},
		"python":                 {map[string]string{"app.py": ""}, "python3 -u app.py"},
		"python with its own":    {map[string]string{"app.py": "", ".venv/bin/python": ""}, ".venv/bin/python -u app.py"},
		"npm":                    {map[string]string{"package.json": `{"scripts": {"app": "tsx app.ts"}}`}, "npm run --silent app"},
		"npm without the script": {map[string]string{"package.json": `{"scripts": {}}`}, ""},
		"both":                   {map[string]string{"package.json": `{"scripts": {"app": "x"}}`, "app.py": ""}, "npm run --silent app"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(dir, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, path, text, 0o755)
		}
		if got := strings.Join(dev.AppCommand(dir), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestMissingEnvironment: which packages of an app are missing.
func TestMissingEnvironment(t *testing.T) {
	t.Parallel()
	script := `{"scripts": {"app": "tsx app.ts"}}`
	for _, c := range []struct{ files, active, want string }{
		{"app.py requirements.txt", "", "python"},
		{"app.py requirements.txt .venv/bin/python", "", ""},
		{"app.py requirements.txt venv/bin/python", "", ""},
		{"app.py requirements.txt", "/home/venv", ""}, // the active environment may have them
		{"app.py requirements.txt uv.lock", "", ""},
		{"app.py", "", ""},
		{"requirements.txt", "", ""}, // there is no app
		{"in/package.json", "", "typescript"},
		{"in/package.json", "/home/venv", "typescript"},
		{"in/package.json app.py requirements.txt", "", "typescript"},
		{"in/package.json in/node_modules/x", "", ""},
		{"in/package.json in/pnpm-lock.yaml", "", ""},
		{"in/package.json node_modules/pawl-client", "", ""}, // a workspace of npm
		{"in/package.json node_modules/x", "", "typescript"},
	} {
		dir := t.TempDir()
		app := dir
		for file := range strings.FieldsSeq(c.files) {
			path, text := filepath.Join(dir, file), ""
			if filepath.Base(file) == "package.json" {
				app, text = filepath.Dir(path), script
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, path, text, 0o600)
		}
		if got := dev.MissingEnvironment(app, func(string) string { return c.active }); got != c.want {
			t.Errorf("%s, active %q: %q, want %q", c.files, c.active, got, c.want)
		}
	}
}

// TestBrowserCommand: each system has its own command, and without a desktop there is none.
func TestBrowserCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		goos string
		env  map[string]string
		want string
	}{
		"macOS":            {"darwin", nil, "open http://x"},
		"Linux on X":       {"linux", map[string]string{"DISPLAY": ":0"}, "xdg-open http://x"},
		"Linux on Wayland": {"linux", map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, "xdg-open http://x"},
		"FreeBSD on X":     {"freebsd", map[string]string{"DISPLAY": ":0"}, "xdg-open http://x"},
		"a server":         {"linux", map[string]string{"TERM": "xterm"}, ""},
	} {
		getenv := func(name string) string { return c.env[name] }
		if got := strings.Join(dev.BrowserCommand(c.goos, getenv, "http://x"), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOpenBrowser: the command gets the address, and its failure and its absence are errors.
func TestOpenBrowser(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("this test replaces xdg-open")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("DISPLAY", ":0")
	if err := dev.OpenBrowser("http://x"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("no xdg-open: %v", err)
	}
	put(t, filepath.Join(dir, "xdg-open"), "#!/bin/sh\necho $1 >"+dir+"/shown\n", 0o755)
	if err := dev.OpenBrowser("http://x"); err != nil {
		t.Error(err)
	}
	if shown, err := os.ReadFile(filepath.Join(dir, "shown")); string(shown) != "http://x\n" {
		t.Errorf("shown %q, %v", shown, err)
	}
	put(t, filepath.Join(dir, "xdg-open"), "#!/bin/sh\nexit 3\n", 0o755)
	if err := dev.OpenBrowser("http://x"); err == nil || err.Error() != "xdg-open: exit status 3" {
		t.Errorf("a failing xdg-open: %v", err)
	}
}

// TestOlderRuns: a session opens the chat, and names the runs that keep the old content of a changed pack.
func TestOlderRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := project.Create(project.Options{Dir: dir, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	out, opened, done := newScreen(), make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		done <- dev.Run(ctx, &output.Printer{Out: out, Err: out}, dev.Options{
			Dir: dir, NoApp: true, Config: settings(dir),
			Open: func(address string) error { opened <- address; return errors.New("no display") },
		})
	}()
	chat := <-opened
	out.await(t, "chat with your agent at "+chat+"\n", 1)
	out.await(t, "no browser was opened (no display): open "+chat+" yourself\n", 1)
	start := func() string {
		t.Helper()
		body := strings.NewReader(`{"pack": "shop", "execution": "EXECUTION_WORKERS"}`)
		answer, err := http.Post(strings.TrimSuffix(chat, "/ui/chat")+"/v1/runs", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var got struct {
			Run struct {
				RunID string `json:"runId"`
			} `json:"run"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Run.RunID == "" {
			t.Fatalf("%s: %v", answer.Status, err)
		}
		return got.Run.RunID
	}
	file := filepath.Join(dir, "shop.pack.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := start()
	put(t, file, strings.Replace(string(text), "name: Look up", "name: Find", 1), 0o600)
	out.await(t, "a run uses an older version of shop; fork it onto the newest one at "+chat+"/"+first, 1)
	var runs []string
	for range 3 {
		runs = append(runs, start())
	}
	put(t, file, strings.Replace(string(text), "name: Look up", "name: Search for it", 1), 0o600)
	out.await(t, "4 runs use an older version of shop; fork them onto the newest one at "+chat+"/RUN: "+runs[2], 1)
	out.await(t, " and 1 more", 1)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
