package relay

import (
	"bytes"
	"slices"
)

// A Trap waits for one request and makes a fault of it.
type Trap struct {
	relay   *Relay
	match   []byte
	delay   bool
	sprung  chan struct{}
	taken   bool
	delayed *link
}

// LoseAnswer waits for a request that holds the bytes, passes it on, waits for its answer and
// breaks the connection instead of delivering it: the server did as it was asked.
func (r *Relay) LoseAnswer(match string) *Trap { return r.set(match, false) }

// Delay waits for a request that holds the bytes and keeps it, and what its connection sends
// after it, until [Trap.Deliver].
func (r *Relay) Delay(match string) *Trap { return r.set(match, true) }

func (r *Relay) set(match string, late bool) *Trap {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trap = &Trap{relay: r, match: []byte(match), delay: late, sprung: make(chan struct{})}
	return r.trap
}

// Triggered is closed when the answer was lost, or when the request is kept.
func (t *Trap) Triggered() <-chan struct{} { return t.sprung }

// Deliver passes on what [Relay.Delay] keeps, to a server that may have thought it lost, and
// whether or not the client is still there.
func (t *Trap) Deliver() {
	<-t.sprung
	t.delayed.pipes[Requests].hold(false)
}

// Abandon breaks the client's side of what [Relay.Delay] keeps; the server's stays.
func (t *Trap) Abandon() {
	<-t.sprung
	reset(t.delayed.client)
}

// spring looks whether a request is the one that the trap waits for.
func (r *Relay) spring(l *link, piece []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.trap
	if t == nil || t.taken {
		return
	}
	window := slices.Concat(l.tail, piece)
	l.tail = bytes.Clone(window[max(0, len(window)-len(t.match)+1):])
	if !bytes.Contains(window, t.match) {
		return
	}
	t.taken = true
	if t.delay {
		t.delayed = l
		l.pipes[Requests].hold(true)
		close(t.sprung)
		return
	}
	l.mu.Lock()
	l.loses = t
	l.mu.Unlock()
}
