package relay

import (
	"net"
	"sync"
)

// link is a pair of connections.
type link struct {
	relay          *Relay
	client, server net.Conn
	// pipes are what is under way, by direction.
	pipes [2]*pipe
	// tail is the end of what came before, of the length of what a trap looks for.
	tail []byte

	mu sync.Mutex
	// loses is the trap that takes the next answer.
	loses *Trap
}

// run passes bytes on in both directions, each until its side ends.
func (l *link) run() {
	var all sync.WaitGroup
	all.Go(func() { read(l.client, l.pipes[Requests], l.request) })
	all.Go(func() { l.pipes[Requests].write(l.server) })
	all.Go(func() { read(l.server, l.pipes[Answers], l.answer) })
	all.Go(func() { l.pipes[Answers].write(l.client) })
	all.Wait()
	_ = l.client.Close()
	_ = l.server.Close()
}

// cut breaks both connections; what is held is lost.
func (l *link) cut() {
	reset(l.client)
	reset(l.server)
	for _, p := range l.pipes {
		p.drop()
	}
}

// request is asked about bytes on their way to the server.
func (l *link) request(piece []byte) (pass bool) {
	l.relay.spring(l, piece)
	return true
}

// answer is asked about bytes on their way to the client.
func (l *link) answer([]byte) (pass bool) {
	l.mu.Lock()
	trap := l.loses
	l.mu.Unlock()
	if trap == nil {
		return true
	}
	l.cut()
	close(trap.sprung)
	return false
}

// read puts what comes into a pipe.
func read(from net.Conn, into *pipe, pass func([]byte) bool) {
	defer into.end()
	for {
		piece := make([]byte, 64<<10)
		n, err := from.Read(piece)
		if n > 0 && pass(piece[:n]) {
			into.put(piece[:n])
		}
		if err != nil {
			return
		}
	}
}

// pipe is what one direction of a link has under way.
type pipe struct {
	mu     sync.Mutex
	change *sync.Cond
	pieces [][]byte
	held   bool
	ended  bool
}

func newPipe(held bool) *pipe {
	p := &pipe{held: held}
	p.change = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) set(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	p.change.Broadcast()
}

func (p *pipe) put(piece []byte) { p.set(func() { p.pieces = append(p.pieces, piece) }) }
func (p *pipe) hold(held bool)   { p.set(func() { p.held = held }) }
func (p *pipe) end()             { p.set(func() { p.ended = true }) }
func (p *pipe) drop()            { p.set(func() { p.pieces, p.held, p.ended = nil, false, true }) }

// next waits for what may be delivered; none when the side has ended.
func (p *pipe) next() ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held || len(p.pieces) == 0 && !p.ended {
		p.change.Wait()
	}
	if len(p.pieces) == 0 {
		return nil, false
	}
	piece := p.pieces[0]
	p.pieces = p.pieces[1:]
	return piece, true
}

// write sends the bytes of the pipe to a connection until the pipe ends. It drops the bytes if the other side has closed.
func (p *pipe) write(to net.Conn) {
	for {
		piece, ok := p.next()
		if !ok {
			if tcp, ok := to.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			return
		}
		_, _ = to.Write(piece)
	}
}
