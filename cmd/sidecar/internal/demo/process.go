package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/output"
)

// readyWithin bounds the time in which a sidecar must become ready.
const readyWithin = 30 * time.Second

// process is a running `pawl serve` and a connection to it.
type process struct {
	cmd   *exec.Cmd
	conn  *grpc.ClientConn
	addr  string
	http  string
	ready time.Duration
	log   *os.File
}

// startProcess runs `pawl serve` with the arguments and waits until it is ready. The process writes its log to the file sidecar.log in
// dir.
func startProcess(binary, dir string, args []string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "sidecar.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{log: log, cmd: exec.Command(binary, append([]string{"serve", "--exit-with-stdin"}, args...)...)}
	p.cmd.Args[0] = "pawl"
	p.cmd.Env = environment()
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	// The pipe ends with this process, even if it is killed, and the sidecar ends with the pipe.
	if _, err := p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start sidecar: %w", err), log.Close())
	}
	if err := p.connect(out); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	p.ready = time.Since(began)
	return p, nil
}

// environment returns the environment of this process, without the variables that configure a sidecar (PAWL_*).
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PAWL_") {
			env = append(env, v)
		}
	}
	return env
}

// connect reads the line that says that the sidecar is ready, and connects to the address in it.
func (p *process) connect(out io.Reader) error {
	type result struct {
		line string
		err  error
	}
	lines := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		lines <- result{line, err}
	}()
	select {
	case got := <-lines:
		if got.err != nil {
			return fmt.Errorf("the sidecar ended before it was ready (see %s): %w", p.log.Name(), got.err)
		}
		return p.dial(got.line)
	case <-time.After(readyWithin):
		return fmt.Errorf("the sidecar was not ready within %s (see %s)", readyWithin, p.log.Name())
	}
}

func (p *process) dial(line string) (err error) {
	var ready struct {
		Ready bool   `json:"ready"`
		GRPC  string `json:"grpc"`
		HTTP  string `json:"http"`
	}
	if err := json.Unmarshal([]byte(line), &ready); err != nil || !ready.Ready {
		return fmt.Errorf("ready line %q: %w", line, err)
	}
	p.addr, p.http = ready.GRPC, ready.HTTP
	p.conn, err = output.Dial(output.Target{Addr: ready.GRPC})
	return err
}

// kill ends the process at once, like a power cut, and waits until it has ended.
func (p *process) kill() error {
	errs := []error{p.cmd.Process.Kill()}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, p.release())...)
}

// stop ends the process by SIGTERM, so that it drains. It returns an error if the exit code is not 0.
func (p *process) stop() error {
	errs := []error{p.cmd.Process.Signal(syscall.SIGTERM)}
	if err := p.cmd.Wait(); err != nil {
		errs = append(errs, fmt.Errorf("sidecar after SIGTERM: %w", err))
	}
	return errors.Join(append(errs, p.release())...)
}

func (p *process) release() error {
	errs := []error{p.log.Close()}
	if p.conn != nil {
		errs = append(errs, p.conn.Close())
	}
	return errors.Join(errs...)
}
