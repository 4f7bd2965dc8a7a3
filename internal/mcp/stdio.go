package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// inheritedVariables are the variables of the sidecar's environment that a server process gets. It gets no
// others, because they may contain keys of models and of stores.
var inheritedVariables = []string{"HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER"}

const (
	// endGrace is how long a server may take to end after its input was closed, and again after SIGTERM.
	endGrace = 2 * time.Second
	// lastOutput is how long the output of a server is still read after its process has ended.
	lastOutput = time.Second
	// writeTimeout limits how long a server may take to read a message.
	writeTimeout = 10 * time.Second
	// keptErrors is the number of bytes of the server's standard error that are kept for the log.
	keptErrors = 4 << 10
)

// stdioTransport returns a transport that starts the server.
func (m *Client) stdioTransport() (sdk.Transport, error) {
	env, err := ReadEnv(m.cfg.EnvFile)
	if err != nil {
		return nil, err
	}
	for _, name := range inheritedVariables {
		if value, ok := os.LookupEnv(name); ok {
			env = append([]string{name + "=" + value}, env...)
		}
	}
	cmd := exec.Command(m.cfg.Command, m.cfg.Args...) //nolint:gosec,noctx // the operator names the program, and it outlives the call that starts it
	cmd.Env = env
	return &command{cmd: cmd, m: m}, nil
}

// command is a transport that starts a process and exchanges messages with it.
type command struct {
	cmd *exec.Cmd
	m   *Client
}

// Connect starts the process.
func (t *command) Connect(context.Context) (sdk.Connection, error) {
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.Close(), stdout.Close())
	}
	p := &process{
		cmd: t.cmd, limit: int(t.m.cfg.MediaBytes + envelope), stdin: in, stdout: out, errors: &tail{}, messages: make(chan jsonrpc.Message),
		closed: make(chan struct{}), broken: make(chan struct{}), exited: make(chan struct{}),
	}
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr, t.cmd.WaitDelay = stdin, stdout, p.errors, lastOutput
	// The process gets its own process group, so that it does not receive the signals of the terminal.
	// The sidecar ends it.
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = t.cmd.Start()
	err = errors.Join(err, stdin.Close(), stdout.Close()) // the process has its own
	if t.cmd.Process == nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	t.m.cfg.Log.Info("MCP server started", "pid", t.cmd.Process.Pid)
	go p.wait(t.m)
	go p.read()
	return p, nil
}

// process is the connection to a process. Each message is a line.
type process struct {
	cmd           *exec.Cmd
	stdin, stdout *os.File
	errors        *tail
	// limit bounds a line, in bytes.
	limit    int
	messages chan jsonrpc.Message
	// closed is closed by Close. broken is closed when no more messages can be read, and failure then contains the
	// reason. exited is closed when the process has ended.
	closed, broken, exited chan struct{}
	failure                error
	writing                sync.Mutex
	closing                sync.Once
}

// wait waits until the process has ended. After that it reads the process's output only for the time lastOutput.
func (p *process) wait(m *Client) {
	_ = p.cmd.Wait()                                         // the state of the process says more
	_ = p.stdout.SetReadDeadline(time.Now().Add(lastOutput)) // a pipe has deadlines
	close(p.exited)
	select {
	case <-p.closed:
		m.cfg.Log.Info("MCP server stopped")
	default:
		m.cfg.Log.Warn("MCP server ended by itself", "reason", p.cmd.ProcessState.String(), "stderr", clip(p.errors.String()))
	}
}

// read reads messages until the end of the output.
func (p *process) read() {
	defer func() { _ = p.stdout.Close() }()
	defer close(p.broken)
	from := bufio.NewReaderSize(p.stdout, 64<<10)
	for {
		line, err := p.line(from)
		if err != nil {
			p.failure = err
			return
		}
		message := p.message(line)
		if message == nil {
			continue
		}
		select {
		case p.messages <- message:
		case <-p.closed:
			p.failure = io.EOF
			return
		}
	}
}

// line reads one line. It returns an error if the line is longer than the limit.
func (p *process) line(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > p.limit {
			return nil, errTooLarge
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// message returns the message in a line. It returns nil if the line is not a message, because programs
// also print other texts. It also returns nil for notifications and for requests of the server. The
// sidecar answers these requests here.
func (p *process) message(line []byte) jsonrpc.Message {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return nil
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil
	}
	request, asks := message.(*jsonrpc.Request)
	if !asks {
		return message
	}
	if request.IsCall() {
		answer := &jsonrpc.Response{ID: request.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client has no " + request.Method}}
		if request.Method == "ping" {
			answer.Error, answer.Result = nil, []byte("{}")
		}
		_ = p.Write(context.Background(), answer) // a broken pipe ends the reading too
	}
	return nil
}

// Read returns the next message.
func (p *process) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-p.messages:
		return m, nil
	case <-p.broken:
		return nil, p.failure
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message. After an error, no more messages are sent.
func (p *process) Write(_ context.Context, m jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.stdin.SetWriteDeadline(time.Now().Add(writeTimeout)) // a pipe has deadlines
	if _, err = p.stdin.Write(append(raw, '\n')); err != nil {
		_ = p.stdin.Close() // it has a part of the message, so no other message can follow
	}
	return err
}

// Close closes the input of the process and waits until the process has ended. If it does not end, Close sends SIGTERM
// and then SIGKILL. In the end Close kills the processes that it started, even if it has ended by itself.
func (p *process) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		_ = p.stdin.Close()                                                      // the process may have ended before
		defer func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }() // there may be none left
		for _, signal := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL} {
			if signal != 0 {
				_ = syscall.Kill(-p.cmd.Process.Pid, signal) // it may end just now
			}
			select {
			case <-p.exited:
				return
			case <-time.After(endGrace):
			}
		}
	})
	return nil
}

// SessionID returns "", because a process has only one client.
func (*process) SessionID() string { return "" }

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-keptErrors):]...)
	t.text = t.text[max(0, len(t.text)-keptErrors):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
