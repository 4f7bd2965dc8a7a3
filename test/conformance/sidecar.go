package main

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sidecar is a real process on one data directory. It listens on a Unix socket,
// so that clients find it again after a restart.
type sidecar struct {
	binary string
	flags  []string
	dir    string
	socket string
	// token is that of its clients; empty: it asks for none. tokens are those of other principals.
	token  string
	tokens map[string]string
	all    *processes

	cmd    *exec.Cmd
	done   chan struct{}
	stderr tail
}

// binaryOf is the program under test.
func binaryOf(root, named string) (string, error) {
	if named == "" {
		named = filepath.Join(root, "bin", "pawl")
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no sidecar: run `make build`: %w", err)
	}
	return path, nil
}

// newSidecar starts one. With scopes it asks for a token, which has these; principals have others.
func newSidecar(set *settings, flags, scopes []string, principals map[string][]string, files map[string]string) (*sidecar, error) {
	// Paths of sockets are limited to 108 bytes.
	dir, err := os.MkdirTemp("", "pawl-*")
	if err != nil {
		return nil, err
	}
	s := &sidecar{binary: set.binary, all: set.processes, flags: flags, dir: dir, socket: filepath.Join(dir, "s")}
	err = s.write(files)
	if err == nil {
		err = s.authenticate(scopes, principals)
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// write makes the files that the flags name by {dir}.
func (s *sidecar) write(files map[string]string) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	s.flags = slices.Clone(s.flags)
	for i := range s.flags {
		s.flags[i] = strings.ReplaceAll(s.flags[i], "{dir}", s.dir)
	}
	return nil
}

// authenticate makes a token with the scopes, and one for each principal; no scopes: no token.
func (s *sidecar) authenticate(scopes []string, principals map[string][]string) error {
	if len(scopes) == 0 {
		return nil
	}
	var lines []byte
	token := func(name string, scopes []string) string {
		text := rand.Text() + rand.Text()
		lines = fmt.Appendf(lines, "%s %s sha256:%x\n", name, strings.Join(scopes, ","), sha256.Sum256([]byte(text)))
		return text
	}
	s.token, s.tokens = token("tester", scopes), map[string]string{}
	for name, scopes := range principals {
		s.tokens[name] = token(name, scopes)
	}
	file := filepath.Join(s.dir, "tokens")
	s.flags = append([]string{"--tokens-file", file}, s.flags...)
	return os.WriteFile(file, lines, 0o600)
}

func (s *sidecar) address() string { return "unix:" + s.socket }

// start returns when the process says that it serves.
func (s *sidecar) start() error {
	_ = os.Remove(s.socket)
	args := append([]string{"serve", "--data", filepath.Join(s.dir, "data"), "--listen", "127.0.0.1:0", "--socket", s.socket}, s.flags...)
	cmd, done := exec.Command(s.binary, args...), make(chan struct{})
	cmd.Stderr = &s.stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.all.start(cmd); err != nil {
		return err
	}
	s.cmd, s.done = cmd, done
	// A process that neither serves nor ends is killed, which ends the read.
	timer := time.AfterFunc(waitTimeout, func() { _ = cmd.Process.Kill() })
	_, err = bufio.NewReader(output).ReadString('\n')
	timer.Stop()
	go func() {
		s.all.wait(cmd)
		close(done)
	}()
	if err != nil {
		return fmt.Errorf("the sidecar did not start: %w\n%s", err, s.stderr.String())
	}
	return nil
}

// kill ends the process at any point of its work.
func (s *sidecar) kill() error { return s.end(syscall.SIGKILL) }

func (s *sidecar) end(signal os.Signal) error {
	_ = s.cmd.Process.Signal(signal)
	select {
	case <-s.done:
		return nil
	case <-time.After(waitTimeout):
		_ = s.cmd.Process.Kill()
		return fmt.Errorf("the sidecar outlived %v by %v", signal, waitTimeout)
	}
}

// verify lets it finish and checks its store: every journal must replay.
func (s *sidecar) verify() error {
	if err := s.end(syscall.SIGTERM); err != nil {
		return err
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the sidecar ended with %d\n%s", code, s.stderr.String())
	}
	output, err := exec.Command(s.binary, "check", "--data", filepath.Join(s.dir, "data")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pawl check: %w\n%s", err, output)
	}
	return nil
}

// remove ends it, if it still runs, and removes its directory.
func (s *sidecar) remove() {
	if s.done != nil {
		_ = s.kill()
	}
	_ = os.RemoveAll(s.dir)
}
