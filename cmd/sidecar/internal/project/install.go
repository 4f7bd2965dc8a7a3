package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// installCommands are the commands that install what a project needs, in their order. They run in its directory.
var installCommands = map[string][][]string{
	"python":     {{"python3", "-m", "venv", ".venv"}, {".venv/bin/pip", "install", "-r", "requirements.txt"}},
	"typescript": {{"npm", "install"}},
}

// environments are the directories, in the directory of a project, into which its packages are installed.
var environments = map[string]string{"python": ".venv", "typescript": "node_modules"}

// InstallText returns the commands that install what a project of a language needs, as a line for a shell.
func InstallText(language string) string { return shellLine(installCommands[language]) }

// InstallText returns the commands of Install as a line for a shell.
func (c *Created) InstallText() string { return shellLine(c.install) }

func shellLine(commands [][]string) string {
	lines := make([]string, 0, len(commands))
	for _, command := range commands {
		words := make([]string, 0, len(command))
		for _, word := range command {
			if strings.ContainsAny(word, " '\"$&;()*?") {
				word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
			}
			words = append(words, word)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, " && ")
}

// Install installs what the app and the tests of a project need: into .venv or node_modules of its directory. say is called with each
// command before it runs.
//
// An error of a command is an [InstallError]. The files of the project remain, and an environment that is not complete is removed. So
// Install can be repeated.
func (c *Created) Install(ctx context.Context, say func(command string)) error {
	return install(ctx, c.Dir, c.Language, c.install, say)
}

// Install does the same for a directory with the files of a project: requirements.txt or package.json. The language is one of
// [Languages]. packages is described in [Options].
func Install(ctx context.Context, dir, language, packages string, say func(command string)) error {
	commands, err := installWith(language, packages)
	if err != nil {
		return err
	}
	return install(ctx, dir, language, commands, say)
}

func install(ctx context.Context, dir, language string, commands [][]string, say func(command string)) error {
	environment := filepath.Join(dir, environments[language])
	_, err := os.Lstat(environment)
	isNew := errors.Is(err, os.ErrNotExist)
	for _, command := range commands {
		say(strings.Join(command, " "))
		process := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // The commands are fixed.
		process.Dir, process.WaitDelay = dir, 5*time.Second
		var out bytes.Buffer
		process.Stdout, process.Stderr = &out, &out
		if err := process.Run(); err != nil {
			failed := &InstallError{Command: strings.Join(command, " "), Output: lastLines(out.String()), Next: nextStep(command, err), Err: err}
			if isNew {
				err = os.RemoveAll(environment)
				return errors.Join(failed, err)
			}
			return failed
		}
	}
	return nil
}

// InstallError is the failure of a command that installs what a project needs.
type InstallError struct {
	// Command is the command as one line. Output is the end of its output, at most 12 lines.
	Command, Output string
	// Next says what the developer can do.
	Next string
	// Err says how the command ended. It is [exec.ErrNotFound] if its program is missing.
	Err error
}

// Error returns a text of several lines.
func (e *InstallError) Error() string {
	text := e.Command + ": " + e.Err.Error()
	if e.Output != "" {
		text += "\n  " + strings.ReplaceAll(e.Output, "\n", "\n  ")
	}
	return text + "\n" + e.Next
}

// Unwrap returns Err.
func (e *InstallError) Unwrap() error { return e.Err }

// nextStep says what the developer can do after a command failed.
func nextStep(command []string, err error) string {
	missing := errors.Is(err, exec.ErrNotFound)
	switch {
	case missing && command[0] == "npm":
		return "npm is missing: install Node 20 or newer, which has it"
	case missing:
		return command[0] + " is missing: install Python 3.10 or newer, so that " + command[0] + " is on the PATH"
	case command[0] == "python3":
		return "python3 has to have the module venv (Debian and Ubuntu: apt install python3-venv)"
	}
	next := "check the network and the package index (HTTPS_PROXY, PIP_INDEX_URL), and that python3 is Python 3.10 or newer"
	if command[0] == "npm" {
		next = "check the network and the registry (HTTPS_PROXY, npm config get registry), and that node is Node 20 or newer"
	}
	return next + "; --packages DIR takes the client from the directory that `make dist` wrote"
}

// installWith returns the commands that install what a project of a language needs, with the client from a directory of built packages.
// If packages is "", the client is the published one.
func installWith(language, packages string) ([][]string, error) {
	commands := installCommands[language]
	if packages == "" {
		return commands, nil
	}
	dir, err := filepath.Abs(packages)
	if err != nil {
		return nil, err
	}
	name := "pawl_client-*-py3-none-*.whl"
	if language == "typescript" {
		name = fmt.Sprintf("pawl-client-*-%s-%s.tgz", runtime.GOOS, runtime.GOARCH)
	}
	found, err := filepath.Glob(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	// The wheel for any platform has no sidecar.
	found = slices.DeleteFunc(found, func(file string) bool { return strings.HasSuffix(file, "-any.whl") })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no %s of this platform: `make dist` builds it in dist/ of a checkout", packages, name)
	}
	before, last := commands[:len(commands)-1], commands[len(commands)-1]
	if language == "typescript" {
		return append(slices.Clone(before), append(slices.Clone(last), found[len(found)-1])), nil
	}
	// pip would take a newer client from PyPI. The client is installed before, so that it satisfies requirements.txt.
	client := []string{last[0], "install", "--no-index", "--no-deps", "--find-links", dir, "pawl-client"}
	return append(slices.Clone(before), client, last), nil
}

// lastLines returns the end of a command's output.
func lastLines(text string) string {
	const most = 12
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
