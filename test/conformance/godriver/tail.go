package godriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// tail follows a run in the background, over as many connections as it takes.
type tail struct {
	mu      sync.Mutex
	records []any
	// last is the last seq by run, cursor the place in the order of all runs.
	last    map[string]uint64
	cursor  string
	ended   bool
	err     error
	changed chan struct{}
}

// watch begins to follow a run, or all runs of a pack.
func (d *driver) watch(_ context.Context, a args) (any, error) {
	run := d.runID(a)
	t := &tail{last: map[string]uint64{run: a.AfterSeq}, changed: make(chan struct{})}
	d.mu.Lock()
	d.tails[named(a.Name, "watch")] = t
	d.mu.Unlock()
	req := &pawlv1.StreamTransitionsRequest{RunId: run, Kinds: kindsOf(a.Kinds), Follow: true}
	if a.Pack != "" {
		req.RunId, req.Filter = "", &pawlv1.RunFilter{Pack: a.Pack}
	}
	client := d.client()
	go t.follow(client, req)
	return nil, nil
}

func (t *tail) follow(client pawlv1.RunServiceClient, req *pawlv1.StreamTransitionsRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*retryTimeout)
	defer cancel()
	for {
		if req.GetRunId() != "" {
			req.AfterSeq = t.last[req.GetRunId()]
		} else {
			req.AfterCursor = t.cursor
		}
		err := t.once(ctx, client, req)
		if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			continue
		}
		t.mu.Lock()
		t.ended, t.err = true, err
		t.wake()
		t.mu.Unlock()
		return
	}
}

// once reads one connection to its end; nil: the stream is over.
func (t *tail) once(ctx context.Context, client pawlv1.RunServiceClient, req *pawlv1.StreamTransitionsRequest) error {
	stream, err := client.StreamTransitions(ctx, req)
	for err == nil {
		var item *pawlv1.StreamTransitionsResponse
		if item, err = stream.Recv(); err == nil && item.GetRecord() != nil {
			err = t.take(item.GetRecord())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// output reads what a turn under way puts out until it ends with the text.
func (d *driver) output(ctx context.Context, a args) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	stream, err := d.client().StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: d.runID(a), Follow: true, Output: true})
	if err != nil {
		return nil, err
	}
	for text := ""; ; {
		item, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		piece := item.GetOutput()
		if piece.GetReset_() {
			text = ""
		}
		if text += piece.GetText(); strings.HasSuffix(text, a.Text) {
			return map[string]any{"text": text}, nil
		}
	}
}

func (t *tail) take(r *pawlv1.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last[r.GetRunId()]; r.GetPrevSeq() != last {
		return fmt.Errorf("a gap: %d follows %d, not %d", r.GetSeq(), r.GetPrevSeq(), last)
	}
	t.last[r.GetRunId()], t.cursor = r.GetSeq(), r.GetCursor()
	t.records = append(t.records, canonical(r))
	t.wake()
	return nil
}

// wake wakes the goroutines that wait for a change. The caller holds the mutex.
func (t *tail) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// awaitRecords waits until so many records were read, or all if none is said.
func (d *driver) awaitRecords(ctx context.Context, a args) (any, error) {
	d.mu.Lock()
	t := d.tails[named(a.Name, "watch")]
	d.mu.Unlock()
	if t == nil {
		return nil, fmt.Errorf("nothing is watched as %q", a.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	for {
		t.mu.Lock()
		records, ended, err, news := t.records, t.ended, t.err, t.changed
		t.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if ended || a.Count > 0 && len(records) >= a.Count {
			return map[string]any{"records": records, "ended": ended}, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d records so far: %w", len(records), ctx.Err())
		}
	}
}
