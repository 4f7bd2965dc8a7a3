package main

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
)

// relay passes TCP connections on to the sidecar, and can cut them.
type relay struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func startRelay(to string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, to: strings.TrimPrefix(to, "unix:"), conns: map[net.Conn]struct{}{}}
	go r.accept()
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", r.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.join(client, server)
	}
}

// join copies both ways until either end is closed, which closes the other.
func (r *relay) join(client, server net.Conn) {
	r.mu.Lock()
	r.conns[client] = struct{}{}
	r.mu.Unlock()
	over := sync.OnceFunc(func() {
		_, _ = client.Close(), server.Close()
		r.mu.Lock()
		delete(r.conns, client)
		r.mu.Unlock()
	})
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			defer over()
			_, _ = io.Copy(pair[0], pair[1])
		}()
	}
}

// cut closes every connection that there is, and gives their number.
func (r *relay) cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // A reset, as after the loss of a machine.
		}
		_ = conn.Close()
	}
	return len(r.conns)
}

func (r *relay) close() error {
	err := r.listener.Close()
	r.cut()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
