package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/project"
)

// stopTime is the time in which an app must end after SIGTERM.
const stopTime = 5 * time.Second

// AppCommand returns the command that starts the app in a directory. This is the script "app" of package.json, or app.py with the
// interpreter of the directory. It returns nil if there is no app.
func AppCommand(dir string) []string {
	var manifest struct {
		Scripts map[string]string `json:"scripts"`
	}
	if text, err := os.ReadFile(filepath.Join(dir, "package.json")); err == nil && json.Unmarshal(text, &manifest) == nil && manifest.Scripts["app"] != "" {
		return []string{"npm", "run", "--silent", "app"}
	}
	if !hasFile(dir, "app.py") {
		return nil
	}
	for _, python := range []string{".venv/bin/python", "venv/bin/python"} {
		if hasFile(dir, python) {
			return []string{python, "-u", "app.py"}
		}
	}
	return []string{"python3", "-u", "app.py"}
}

// lockFiles are the files by which another package manager than npm and pip installs the packages of a directory.
var lockFiles = []string{"pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "uv.lock", "poetry.lock"}

// MissingEnvironment returns the language of the app in a directory if the packages of the app are listed but not installed: there is
// requirements.txt without .venv or venv, or package.json without node_modules. getenv reads the environment. The result is "" if an
// active Python environment has the packages (VIRTUAL_ENV), or if another package manager installs them.
func MissingEnvironment(dir string, getenv func(string) string) string {
	command := AppCommand(dir)
	switch {
	case len(command) == 0 || slices.ContainsFunc(lockFiles, func(name string) bool { return hasFile(dir, name) || hasAbove(dir, name) }):
	case command[0] == "npm":
		if !hasModules(dir) {
			return "typescript"
		}
	case command[0] == "python3" && hasFile(dir, "requirements.txt") && getenv("VIRTUAL_ENV") == "":
		return "python"
	}
	return ""
}

// hasModules reports whether the packages of npm are installed: in the directory, or, for a workspace of npm, above it.
func hasModules(dir string) bool {
	return hasFile(dir, "node_modules") || hasAbove(dir, "node_modules/pawl-client")
}

// hasAbove reports whether a directory above dir contains a file or directory.
func hasAbove(dir, name string) bool {
	above, err := filepath.Abs(dir)
	for err == nil && filepath.Dir(above) != above {
		if above = filepath.Dir(above); hasFile(above, name) {
			return true
		}
	}
	return false
}

// hasFile reports whether a directory contains a file or directory.
func hasFile(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// app runs the developer's program as a process.
type app struct {
	dir     string
	command []string
	env     []string
	out     io.Writer
}

// run starts the process, and starts it again when a file changes, until ctx ends. If the process ends by itself, it is started again at
// the next change.
func (a *app) run(ctx context.Context, say func(format string, args ...any)) {
	before := scan(a.dir)
	for ctx.Err() == nil {
		reason := a.once(ctx, &before, say)
		if reason != "" {
			rel, err := filepath.Rel(a.dir, reason)
			if err != nil {
				rel = reason
			}
			say("%s changed, starting the app again", rel)
		}
	}
}

// once runs the process until a file changes or ctx ends, and returns the changed file.
func (a *app) once(ctx context.Context, before *map[string]stamp, say func(format string, args ...any)) (reason string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process := exec.CommandContext(ctx, a.command[0], a.command[1:]...) //nolint:gosec // It is the developer's own command.
	process.Dir, process.Env, process.Stdout, process.Stderr = a.dir, append(os.Environ(), a.env...), a.out, a.out
	group, err := newGroup()
	if err == nil {
		defer group.end()
		process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group.id()}
		process.Cancel = func() error { return syscall.Kill(-group.id(), syscall.SIGTERM) }
		process.WaitDelay = stopTime
		err = process.Start()
	}
	ended := make(chan struct{})
	if err != nil {
		say("the app does not start: %v; it is tried again when a file changes, or give its command with --app", err)
		close(ended)
	} else {
		go func() {
			defer close(ended)
			err := process.Wait()
			group.end()
			if ctx.Err() == nil {
				say("the app ended: %s; it is started again when a file changes", endOf(err))
				if language := MissingEnvironment(a.dir, noVariable); err != nil && language != "" {
					say("if a package is missing: stop, run %s, and start `pawl dev` again", project.InstallText(language))
				}
			}
		}()
	}
	every(ctx, func() {
		now := scan(a.dir)
		if reason, *before = changed(*before, now), now; reason != "" {
			cancel()
		}
	})
	<-ended
	return reason
}

// group is a process group for the app, because the children of a shell or npm must end too. Its leader is a shell that
// waits for the end of a pipe from this process. So the group also ends when this process is killed and cannot stop the app.
type group struct {
	leader *exec.Cmd
	once   sync.Once
}

// leading waits for the end of the pipe, and then ends the processes of its group as [app.once] does.
var leading = fmt.Sprintf("trap '' TERM; read -r x; kill -s TERM 0; sleep %d; kill -s KILL 0", int(stopTime.Seconds()))

func newGroup() (*group, error) {
	g := &group{leader: exec.Command("/bin/sh", "-c", leading)} //nolint:gosec,noctx // The command is constant. end ends it, also after the context of the app.
	g.leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := g.leader.StdinPipe(); err != nil {
		return nil, err
	}
	return g, g.leader.Start()
}

func (g *group) id() int { return g.leader.Process.Pid }

// end kills the processes of the group that are left, the leader included.
func (g *group) end() {
	g.once.Do(func() {
		_ = syscall.Kill(-g.id(), syscall.SIGKILL)
		_ = g.leader.Wait()
	})
}

// noVariable is an environment without variables.
func noVariable(string) string { return "" }

// endOf describes how a process ended.
func endOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
