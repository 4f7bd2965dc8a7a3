package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// stopGrace is how long a child may take to end by itself before it is killed.
const stopGrace = 10 * time.Second

// unread limits the lines of a child that were not requested. A child that must end may still write
// the reason. This must not prevent its reader from waiting for the process.
const unread = 64

// child is one process of the bench. It reads JSON lines and answers each with
// one; the end of its input tells it to end. Its owner must stop or kill it.
type child struct {
	role    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	errs    *host.Tail
	done    chan struct{}
	once    sync.Once
}

type answer struct {
	line []byte
	err  error
}

// launcher starts children from this binary.
type launcher struct {
	// self is the command that runs [Child]; role and flags are appended.
	self []string
	// profiles is the directory for CPU profiles; "" = none.
	profiles string
	mu       sync.Mutex
	started  int
}

// start runs a role with args. ctx kills it.
func (l *launcher) start(ctx context.Context, role string, args ...string) (*child, error) {
	return l.spawn(role, exec.CommandContext(ctx, l.self[0], l.argv(role, args)...))
}

// spawn runs a command that speaks as a child does.
func (l *launcher) spawn(role string, cmd *exec.Cmd) (*child, error) {
	c := &child{role: role, cmd: cmd, answers: make(chan answer, unread), errs: &host.Tail{}, done: make(chan struct{})}
	c.cmd.Stderr = c.errs
	c.cmd.SysProcAttr = host.DieWithParent()
	c.cmd.WaitDelay = time.Second
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	go c.read(out)
	return c, nil
}

func (l *launcher) argv(role string, args []string) []string {
	argv := append(append([]string{}, l.self[1:]...), role)
	if l.profiles != "" {
		l.mu.Lock()
		l.started++
		file := fmt.Sprintf("%s/%02d-%s.pprof", l.profiles, l.started, role)
		l.mu.Unlock()
		argv = append(argv, "--cpuprofile", file)
	}
	return append(append(argv, "--"), args...)
}

// read hands lines of the child's output on until it ends, then waits for the
// process, so that no zombie stays.
func (c *child) read(out io.Reader) {
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		c.answers <- answer{line: line}
	}
	err := c.cmd.Wait()
	close(c.done)
	c.answers <- answer{err: fmt.Errorf("child %s ended (%w): %s", c.role, err, c.errs)}
	close(c.answers)
}

// next reads one line of the child's output into v.
func (c *child) next(ctx context.Context, v any) error {
	select {
	case a, ok := <-c.answers:
		if !ok {
			return fmt.Errorf("child %s has ended", c.role)
		}
		if a.err != nil {
			return a.err
		}
		return c.decode(a.line, v)
	case <-ctx.Done():
		return fmt.Errorf("child %s: %w", c.role, ctx.Err())
	}
}

// decode reads one answer; {"error": ...} is a failure of the child's.
func (c *child) decode(line []byte, v any) error {
	var fault struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &fault); err != nil {
		return fmt.Errorf("child %s said %q: %w", c.role, bytes.TrimSpace(line), err)
	}
	if fault.Error != "" {
		return fmt.Errorf("child %s: %s", c.role, fault.Error)
	}
	return json.Unmarshal(line, v)
}

// call sends one request and reads its answer.
func (c *child) call(ctx context.Context, request, v any) error {
	if err := c.send(request); err != nil {
		return errors.Join(err, c.next(ctx, new(any)))
	}
	return c.next(ctx, v)
}

// send is the first half of call.
func (c *child) send(request any) error {
	if err := json.NewEncoder(c.in).Encode(request); err != nil {
		return fmt.Errorf("child %s: %w", c.role, err)
	}
	return nil
}

// stop lets the child end by itself and kills it when it does not. Stopping
// twice, or after kill, does nothing.
func (c *child) stop() {
	c.end(func() {
		c.in.Close()
		select {
		case <-c.done:
		case <-time.After(stopGrace):
			_ = c.cmd.Process.Kill()
			<-c.done
		}
	})
}

// kill ends the child by SIGKILL and waits until it is gone.
func (c *child) kill() {
	c.end(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		c.in.Close()
	})
}

// end calls how once, and discards everything that the child still writes.
func (c *child) end(how func()) {
	c.once.Do(func() {
		go func() {
			for range c.answers {
			}
		}()
		how()
	})
}

// tempDir makes a directory under root and a function that removes it.
func tempDir(root, name string) (string, func(), error) {
	dir, err := os.MkdirTemp(root, name+"-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}
