package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// ErrNoHistory means that the history of this clone does not have an older commit, or that this is no clone.
var ErrNoHistory = errors.New("no older commit is here")

// stored are the files that decide what a store has.
var stored = []string{"internal/store/storagepb/storage.proto", "internal/store/layout", "internal/store/pg/migrations"}

// OlderCommit is the commit before the last one that changed what a store has, or the one that PAWL_OLDER names. Errors: [ErrNoHistory].
func OlderCommit() (string, error) {
	revision := os.Getenv("PAWL_OLDER")
	if revision == "" {
		last, err := git(append([]string{"log", "-1", "--format=%H", "--"}, stored...)...)
		if err != nil {
			return "", err
		}
		revision = last + "^"
	}
	return git("rev-parse", "--verify", "--quiet", revision+"^{commit}")
}

// BuildAt builds a command of this repository as it was at a commit, and answers where it is, until [Remove].
func BuildAt(commit, command string) (string, error) {
	into, err := dir()
	if err != nil {
		return "", err
	}
	source := filepath.Join(into, commit)
	archive := source + ".tar"
	if _, err := git("archive", "--output", archive, commit); err != nil {
		return "", err
	}
	if err := os.Mkdir(source, 0o700); err != nil {
		return "", err
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w\n%s", err, out)
	}
	bin := filepath.Join(into, path.Base(command)+"-"+commit)
	// Paths that are not in the program let it share what the build cache has of the packages that did not change.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin, module+command)
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s at %s: %w\n%s", command, commit, err, out)
	}
	return bin, errors.Join(os.RemoveAll(source), os.Remove(archive))
}

// git runs git at the top of this clone, and returns the line that it prints.
func git(args ...string) (string, error) {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoHistory, err)
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = strings.TrimSpace(string(top))
	out, err := cmd.Output()
	line := strings.TrimSpace(string(out))
	if err != nil || line == "" && args[0] != "archive" {
		return "", fmt.Errorf("%w: git %s: %w", ErrNoHistory, strings.Join(args, " "), err)
	}
	return line, nil
}
