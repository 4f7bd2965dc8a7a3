package project

import (
	"bytes"
	"context"
	"fmt"
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
// An error contains the last lines of the command that failed. The files of the project remain, so the command can be repeated.
func (c *Created) Install(ctx context.Context, say func(command string)) error {
	for _, command := range c.install {
		say(strings.Join(command, " "))
		process := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // The commands are fixed.
		process.Dir, process.WaitDelay = c.Dir, 5*time.Second
		var out bytes.Buffer
		process.Stdout, process.Stderr = &out, &out
		if err := process.Run(); err != nil {
			return fmt.Errorf("%s: %w%s", strings.Join(command, " "), err, lastLines(out.String()))
		}
	}
	return nil
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

// lastLines returns the end of a command's output, indented, after a line break. It returns "" if there is no output.
func lastLines(text string) string {
	const most = 12
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-most):]
	if text = strings.Join(lines, "\n  "); text == "" {
		return ""
	}
	return "\n  " + text
}
