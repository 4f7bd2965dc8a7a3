package load

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// loadJob asks a load process to keep a server busy.
type loadJob struct {
	// Kind is "echo", "emit", "serve", "send", "delegate", "tool" or "mcp".
	Kind   string `json:"kind"`
	Target string `json:"target"`
	// Clients that each wait for an answer before they ask again.
	Clients     int           `json:"clients"`
	Connections int           `json:"connections"`
	Warm        time.Duration `json:"warm"`
	// Window is measured; 0 = until the parent sends another line.
	Window time.Duration `json:"window"`
	// Namespace ("" = default), Pack and Bytes: where and what an "emit" or "serve" client runs, and what it writes.
	Namespace string `json:"namespace"`
	Pack      string `json:"pack"`
	Bytes     int    `json:"bytes"`
	// Command starts the MCP server that an "mcp" client calls.
	Command []string `json:"command"`
}

// loadResult counts what was answered inside the window.
type loadResult struct {
	Count  uint64  `json:"count"`
	PerSec float64 `json:"per_sec"`
	P50us  float64 `json:"p50_us"`
	P99us  float64 `json:"p99_us"`
	// Total counts the warm-up and what was under way at the end, too.
	Total uint64 `json:"total"`
	// Started counts the runs that were begun.
	Started uint64 `json:"started"`
}

// loadChild does one job after the other.
func loadChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job loadJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		if job.Kind == "serve" {
			return runServed(ctx, job, w.requests)
		}
		return runLoad(ctx, job, w.requests)
	})
}

// runLoad connects, drives all clients through warm-up and window, and waits
// for their last answers.
func runLoad(ctx context.Context, job loadJob, more <-chan []byte) (loadResult, error) {
	conns, closeAll, err := dial(job.Target, job.Connections)
	if err != nil {
		return loadResult{}, err
	}
	defer closeAll()
	clients := make([]client, job.Clients)
	for i := range clients {
		clients[i], err = newClient(job, conns[i%len(conns)], i)
		if err != nil {
			return loadResult{}, err
		}
	}
	if job.Window > 0 {
		more = nil
	}
	return drive(ctx, clients, job.Warm, job.Window, more)
}

// dial opens n connections; each is a TCP connection of its own.
func dial(target string, n int, options ...grpc.DialOption) ([]*grpc.ClientConn, func(), error) {
	var conns []*grpc.ClientConn
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	closeAll := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range n {
		conn, err := grpc.NewClient("passthrough:///"+target, options...)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("connect %s: %w", target, err)
		}
		conns = append(conns, conn)
	}
	return conns, closeAll, nil
}
