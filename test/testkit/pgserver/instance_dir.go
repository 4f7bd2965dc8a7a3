package pgserver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// A place is the directory of one server: its data, its log and a lock that says that a
// process of tests has it. What a killed process left is taken away by the next.
type instanceDir struct {
	dir      string
	lockFile *os.File
}

func (p instanceDir) data() string { return filepath.Join(p.dir, "data") }
func (p instanceDir) log() string  { return filepath.Join(p.dir, "log") }

// root is where the places are, and the template.
var root = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(os.TempDir(), "pawl-postgres-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, sweep(dir)
})

// newPlace makes an empty place.
func newPlace() (instanceDir, error) {
	dir, err := root()
	if err != nil {
		return instanceDir{}, err
	}
	// No sweep between the directory and its lock.
	guard, err := lock(filepath.Join(dir, "guard"), true)
	if err != nil {
		return instanceDir{}, err
	}
	defer guard.Close()
	made, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return instanceDir{}, err
	}
	held, err := lock(filepath.Join(made, "lock"), true)
	if err != nil {
		return instanceDir{}, err
	}
	return instanceDir{dir: made, lockFile: held}, errors.Join(os.Chmod(made, 0o755), chownToServer(made))
}

// remove takes a place away.
func (p instanceDir) remove() {
	_ = os.RemoveAll(p.dir)
	_ = p.lockFile.Close()
}

// sweep takes away places that no process has.
func sweep(dir string) error {
	guard, err := lock(filepath.Join(dir, "guard"), true)
	if err != nil {
		return err
	}
	defer guard.Close()
	all, _ := filepath.Glob(filepath.Join(dir, "server-*")) // the pattern is well formed
	for _, left := range all {
		held, err := lock(filepath.Join(left, "lock"), false)
		if err == nil && held != nil {
			endLeft(left)
			instanceDir{dir: left, lockFile: held}.remove()
		}
	}
	return nil
}

// endLeft ends a server that outlived its test, as one that was stopped by a signal does.
func endLeft(dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return
	}
	called, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // none: it is gone
	if strings.Contains(string(called), dir) {
		killAll(pid)
	}
}

// template is a fresh data directory, made once for each version of PostgreSQL and copied.
var template = sync.OnceValues(func() (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	initdb, err := binary("initdb")
	if err != nil {
		return "", err
	}
	version, err := exec.Command(initdb, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", initdb, err)
	}
	made := filepath.Join(dir, fmt.Sprintf("template-%x", sha256.Sum256(append(version, initdb...)))[:32])
	guard, err := lock(made+".lock", true)
	if err != nil {
		return "", err
	}
	defer guard.Close()
	if _, err := os.Stat(made); err == nil {
		return made, nil
	}
	return made, makeTemplate(initdb, made)
})

func makeTemplate(initdb, to string) error {
	p, err := newPlace()
	if err != nil {
		return err
	}
	defer p.remove()
	err = run(initdb, "-D", p.data(), "--no-sync", "--locale=C", "--encoding=UTF8", "--auth=trust", "--username="+userName, "--no-instructions")
	if err != nil {
		return err
	}
	return os.Rename(p.data(), to)
}

// run runs a program of PostgreSQL to its end.
func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	if err := prepare(cmd); err != nil {
		return err
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, said)
	}
	return nil
}

// fill copies the template into a place.
func (p instanceDir) fill() error {
	from, err := template()
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := p.data() + strings.TrimPrefix(path, from)
		if entry.IsDir() {
			return errors.Join(os.Mkdir(to, 0o700), chownToServer(to))
		}
		return errors.Join(copyFile(path, to), chownToServer(to))
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// put writes a file of a place as the server's user.
func (p instanceDir) put(name, text string) error {
	path := filepath.Join(p.data(), name)
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), chownToServer(path))
}
