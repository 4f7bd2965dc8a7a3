package mcp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Defaults and bounds of [Config].
const (
	DefaultTimeout     = 5 * time.Minute
	DefaultAnswerBytes = 1 << 20
	// DefaultMediaBytes is the sidecar's default of [Config.MediaBytes].
	DefaultMediaBytes = 16 << 20
	// connectTimeout bounds how long a server may take to start and to list its tools.
	connectTimeout = 30 * time.Second
	// A server that fails is started again after firstPause. Each further failure doubles the pause, up to maxPause.
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
	// steady is how long a connection must last before it ends, so that the pause before the next connection is
	// firstPause again.
	steady = time.Minute
)

// Config configures a [Client]. Either Command or URL is set.
type Config struct {
	// Name is the name of the server in the configuration. The names of its tools begin with it. Required.
	Name string
	// Command and Args start a server that speaks MCP on its standard input and output.
	Command string
	Args    []string
	// EnvFile is a file with lines NAME=VALUE. The server gets these variables and, of the sidecar's own
	// environment, only those in [inheritedVariables]. "" means that there is no file.
	EnvFile string
	// URL is the endpoint of a server that speaks streamable HTTP.
	URL string
	// HeadersFile is a file with lines NAME: VALUE, which are headers of each request. The file is read again for
	// each connection. "" means that there is no file.
	HeadersFile string
	// Timeout bounds one call. Default [DefaultTimeout].
	Timeout time.Duration
	// AnswerBytes limits the size of one answer of the server, and of its list of tools. Default [DefaultAnswerBytes].
	AnswerBytes int64
	// MediaBytes limits the size of an answer whose media are stored, see [Call.Store]. It is at least AnswerBytes. Default: AnswerBytes.
	MediaBytes int64
	// Version is the sidecar's version. It is sent to servers. Required.
	Version string
	// Log receives problems of a server that no call reports. Default: the log is discarded.
	Log *slog.Logger
}

// Client calls the tools of one MCP server. It connects when it is first needed, and again after the
// connection has ended. It is created with [New]. Safe for concurrent use.
type Client struct {
	cfg    Config
	client *sdk.Client
	// turn is a lock: a channel with space for one value. The goroutine that has sent the value may use current,
	// failures, next and failure.
	turn chan struct{}
	// current is the connection. It is nil if there is none.
	current *connection
	// failures is the number of failed connections since the last one that lasted. next is the earliest time of the next
	// attempt. failure is the error of the last connection if it could not be opened.
	failures int
	next     time.Time
	failure  error
	// digests are the digests of the tools in the last list. reportedTools are the names in that list that no call can
	// use. Both are used only for the log. listed protects them.
	listed        sync.Mutex
	digests       map[string]string
	reportedTools map[string]bool
	// repeatable are the names of the tools in the last list of which a second call does no harm. listed protects it.
	repeatable map[string]bool

	// life ends when Close begins.
	life context.Context //nolint:containedctx // of the client, which outlives the calls that open connections
	stop context.CancelFunc
	// dropping counts the connections that are being closed.
	dropping sync.WaitGroup
}

// connection is one connection to a server, with the tools that the server listed when the connection was opened.
type connection struct {
	session *sdk.ClientSession
	tools   toolSet
	began   time.Time
	// ended is closed when the connection has ended. release then frees its resources.
	ended   chan struct{}
	release func()
	// dropped is set when no new calls may use the connection. The connection ends after that.
	dropped atomic.Bool
	// calls is read-locked by each running call. It is locked for writing before the session is closed and never
	// unlocked, so no call uses a session that is being closed.
	calls sync.RWMutex
}

// beginCall begins a call on the connection. It returns false if the connection accepts no new calls.
func (c *connection) beginCall() bool { return c.calls.TryRLock() }

// leave ends a call.
func (c *connection) leave() { c.calls.RUnlock() }

func (c *connection) isOver() bool {
	if c.dropped.Load() {
		return true
	}
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// New returns a client that is not connected yet.
func New(cfg Config) *Client {
	cfg.Timeout, cfg.AnswerBytes = cmp.Or(cfg.Timeout, DefaultTimeout), cmp.Or(cfg.AnswerBytes, DefaultAnswerBytes)
	cfg.MediaBytes = max(cfg.MediaBytes, cfg.AnswerBytes)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("server", cfg.Name)
	life, stop := context.WithCancel(context.Background())
	m := &Client{
		cfg: cfg, turn: make(chan struct{}, 1), life: life, stop: stop,
		client: sdk.NewClient(&sdk.Implementation{Name: "pawl", Version: cfg.Version}, &sdk.ClientOptions{
			// The sidecar declares no capabilities: a server cannot use its models, its files or its users.
			Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, Logger: slog.New(slog.DiscardHandler),
		}),
	}
	m.client.AddSendingMiddleware(readWholeList(cfg.AnswerBytes))
	return m
}

// lock waits for the exclusive use of the client's fields.
func (m *Client) lock(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Client) unlock() { <-m.turn }

// Close waits until the running calls have ended, and then ends the connection and the server's process. Later calls
// fail.
func (m *Client) Close() {
	m.stop()
	_ = m.lock(context.Background())
	current := m.current
	m.unlock()
	if current != nil {
		m.drop(current)
	}
	m.dropping.Wait()
}

// drop stops new calls on a connection, and closes it when its running calls have ended. The next call opens a new
// connection.
func (m *Client) drop(c *connection) {
	if c.dropped.Swap(true) {
		return
	}
	m.dropping.Go(func() {
		c.calls.Lock()        // it stays locked
		_ = c.session.Close() // the calls report why it ended
		<-c.ended
	})
}

// connect returns the open connection, or opens a new one. fresh reports whether this call opened it. If connect
// returns an error, no request was sent.
func (m *Client) connect(ctx context.Context) (c *connection, fresh bool, err error) {
	if err := m.lock(ctx); err != nil {
		return nil, false, m.unreachable(err)
	}
	if m.current != nil && !m.current.isOver() {
		defer m.unlock()
		return m.current, false, nil
	}
	if m.current != nil {
		m.failed(m.current.began, nil)
	}
	if err := m.wait(ctx); err != nil {
		m.unlock()
		return nil, false, m.unreachable(err)
	}
	// The connection is opened even if this call is cancelled, because other calls wait for it too.
	opened, failed := make(chan *connection, 1), make(chan error, 1)
	go func() {
		defer m.unlock()
		began := time.Now()
		c, err := m.open()
		if err != nil {
			m.failed(began, err)
			m.cfg.Log.Warn("MCP server not reached", "error", clip(err.Error()))
			failed <- err
			return
		}
		m.current, m.failure = c, nil
		m.compare(c.tools)
		opened <- c
	}()
	select {
	case c := <-opened:
		return c, true, nil
	case err := <-failed:
		return nil, false, m.unreachable(err)
	case <-ctx.Done():
		return nil, false, m.unreachable(ctx.Err())
	}
}

// wait waits until a connection may be opened after the last one ended. If the last one could not even be opened, wait
// does not wait, but returns its error until its pause has passed. The pack's retry settings then say when the step is
// tried again.
func (m *Client) wait(ctx context.Context) error {
	left := time.Until(m.next)
	switch {
	case m.life.Err() != nil:
		return errors.New("the sidecar is stopping")
	case left > 0 && m.failure != nil:
		return m.failure
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.life.Done():
		return m.life.Err()
	}
}

func (m *Client) unreachable(err error) *Fault { return m.fault(CodeUnreachable, "%v", err) }

// failed records that a connection could not be opened, with the reason why, or that a connection has ended.
func (m *Client) failed(began time.Time, why error) {
	m.current, m.failure = nil, why
	if time.Since(began) > steady {
		m.failures = 0
	}
	m.next = time.Now().Add(min(firstPause<<min(m.failures, 20), maxPause))
	m.failures++
}

// open connects and lists the tools.
func (m *Client) open() (*connection, error) {
	ctx, cancel := context.WithTimeout(m.life, connectTimeout)
	defer cancel()
	c := &connection{began: time.Now(), ended: make(chan struct{}), release: func() {}}
	transport, err := m.transport(c)
	if err != nil {
		return nil, err
	}
	if c.session, err = m.client.Connect(ctx, transport, nil); err != nil {
		c.release()
		return nil, err
	}
	go func() {
		_ = c.session.Wait() // the calls report why it ended
		c.release()
		close(c.ended)
	}()
	if c.tools, err = list(ctx, c.session); err != nil {
		_ = c.session.Close()
		return nil, err
	}
	return c, nil
}

// list reads the server's tools again on an open connection.
func (m *Client) list(ctx context.Context, c *connection) (toolSet, error) {
	now, err := list(ctx, c.session)
	if err != nil {
		if m.isConnectionLost(ctx, err) {
			m.drop(c)
		}
		return now, m.unreachable(err)
	}
	m.compare(now)
	return now, nil
}

// Tools returns the tools that the server offers now, sorted by name, and the tools that are refused. The error is a
// [*Fault].
func (m *Client) Tools(ctx context.Context) ([]Tool, []RefusedTool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	for {
		c, fresh, err := m.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		now := c.tools
		if !fresh {
			if !c.beginCall() {
				continue // another call has dropped it
			}
			now, err = m.list(ctx, c)
			c.leave()
		}
		return now.sortedTools(), now.refusedTools, err
	}
}

// transport returns the transport for the configured server.
func (m *Client) transport(c *connection) (sdk.Transport, error) {
	if m.cfg.URL != "" {
		return m.httpTransport(c)
	}
	return m.stdioTransport()
}

// Repeatable reports whether the server's last list says that a second call of a tool does no harm: readOnlyHint, unless
// destructiveHint contradicts it, or idempotentHint. It returns false while no list has been read. It sends nothing, so
// it does not block. What a server says may be wrong, so this counts only for a server that the operator trusts.
func (m *Client) Repeatable(tool string) bool {
	m.listed.Lock()
	defer m.listed.Unlock()
	return m.repeatable[tool]
}

// compare remembers what the list says about repeated calls. It logs which tools have changed since the last list, and which are refused for the first time.
func (m *Client) compare(now toolSet) {
	m.listed.Lock()
	defer m.listed.Unlock()
	digests := make(map[string]string, len(now.tools))
	m.repeatable = make(map[string]bool)
	for name := range now.tools {
		m.repeatable[name] = now.tools[name].repeatable
		digests[name] = now.tools[name].Digest
		if before, ok := m.digests[name]; ok && before != digests[name] {
			m.cfg.Log.Warn("MCP tool changed", "tool", m.cfg.Name+"/"+name, "digest", digests[name])
		}
	}
	m.digests = digests
	refused := map[string]bool{}
	for _, r := range now.refusedTools {
		refused[r.Name] = true
		if !m.reportedTools[r.Name] {
			m.cfg.Log.Warn("MCP tool refused", "tool", r.Name, "reason", r.Reason)
		}
	}
	m.reportedTools = refused
}
