package relay

import (
	"net"
	"sync"
	"testing"
)

// Direction of bytes.
type Direction int

const (
	// Requests go to the server.
	Requests Direction = iota
	// Answers come from it.
	Answers
)

// A Relay listens at an address of its own and passes on what comes.
type Relay struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	// refuses means that each new connection is closed at once.
	refuses bool
	// holds says of each direction that its bytes wait.
	holds [2]bool
	links map[*link]struct{}
	trap  *Trap
}

// Start starts a relay to an address until the test ends.
func Start(tb testing.TB, target string) *Relay {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{listener: listener, target: target, links: map[*link]struct{}{}}
	go r.accept()
	tb.Cleanup(func() {
		_ = listener.Close()
		r.Refuse()
	})
	return r
}

// Addr is where the relay listens.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Retarget sends connections that come from now on to another address.
func (r *Relay) Retarget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// Cut breaks all connections and answers how many; new ones are taken.
func (r *Relay) Cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.cut()
	}
	return len(r.links)
}

// Refuse breaks all connections, and those that come, until [Relay.Accept].
func (r *Relay) Refuse() {
	r.mu.Lock()
	r.refuses = true
	r.mu.Unlock()
	r.Cut()
}

// Accept ends what [Relay.Refuse] began.
func (r *Relay) Accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = false
}

// Hold keeps the bytes of a direction back, on all connections, until [Relay.Release]
// delivers them: also those of a side that has closed meanwhile.
func (r *Relay) Hold(d Direction) { r.hold(d, true) }

// Release delivers what was held.
func (r *Relay) Release(d Direction) { r.hold(d, false) }

func (r *Relay) hold(d Direction, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds[d] = held
	for l := range r.links {
		l.pipes[d].hold(held)
	}
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.join(client)
	}
}

// join passes a connection on until both its sides have ended.
func (r *Relay) join(client net.Conn) {
	r.mu.Lock()
	target, refuses := r.target, r.refuses
	r.mu.Unlock()
	if refuses {
		// The server does not notice this.
		reset(client)
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		reset(client)
		return
	}
	l := r.link(client, server)
	l.run()
	r.mu.Lock()
	delete(r.links, l)
	r.mu.Unlock()
}

func (r *Relay) link(client, server net.Conn) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &link{relay: r, client: client, server: server}
	for d := range l.pipes {
		l.pipes[d] = newPipe(r.holds[d])
	}
	r.links[l] = struct{}{}
	if r.refuses {
		l.cut()
	}
	return l
}

// reset closes a connection so that the other side notices it at once.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
