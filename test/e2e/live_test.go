package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// liveCallers make short runs while liveFor lasts.
const liveCallers = 12

// live is one load on one sidecar: callers, and readers of all runs.
type live struct {
	t     *testing.T
	s     *sidecar
	ended atomic.Bool
	// runs that were ended, and records that were shown and asked about.
	runs, shown atomic.Int64
}

// TestLiveReaders: short runs without a pause, readers of all runs of every form, and
// each of them asks about each record as soon as it is shown. Nothing that is shown is
// unknown, and no reader dies. PAWL_LIVE says for how long, 1 s by default.
func TestLiveReaders(t *testing.T) {
	t.Parallel()
	lasts := time.Second
	if d, err := time.ParseDuration(os.Getenv("PAWL_LIVE")); err == nil {
		lasts = d
	}
	l := &live{t: t, s: newSidecar(t, "--pack", "testdata/loop.pack.yaml", "--http", "127.0.0.1:0")}
	l.s.start()
	// Readers that ask are behind at the end, and have as long again to catch up.
	ctx := deadline(t, 2*lasts+patience)
	readers := l.readers(ctx)
	var callers sync.WaitGroup
	for range liveCallers {
		callers.Go(func() { l.call(ctx) })
	}
	<-time.After(lasts)
	l.ended.Store(true)
	callers.Wait()
	// This is the last run. A reader that has read its end has read everything.
	last := l.run(ctx, l.s.runs())
	for _, r := range readers {
		r.await(ctx, t, last)
	}
	t.Logf("%d runs, %d records asked about, by %d readers in %v", l.runs.Load(), l.shown.Load(), len(readers), lasts)
}

// call makes runs until it is over.
func (l *live) call(ctx context.Context) {
	client := l.s.runs()
	for !l.ended.Load() && ctx.Err() == nil && !l.t.Failed() {
		l.run(ctx, client)
	}
}

// run makes one short run and returns its id.
func (l *live) run(ctx context.Context, client pawlv1.RunServiceClient) string {
	started, err := client.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		l.t.Errorf("StartRun: %v", err)
		return ""
	}
	run, turn := started.GetRun().GetRunId(), started.GetTurn()
	for _, event := range []string{"Again", "Again", "Stop"} {
		answer, err := client.EmitEvent(ctx, &pawlv1.EmitEventRequest{
			RunId: run, Event: event, TurnToken: turn.GetToken(),
			Artifacts: []*pawlv1.ArtifactWrite{{Name: "mark", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: event}}}},
		})
		if err != nil {
			l.t.Errorf("EmitEvent: %v", err)
			return run
		}
		turn = answer.GetTurn()
	}
	if _, err := client.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
	}); err != nil {
		l.t.Errorf("CompleteTurn: %v", err)
	}
	l.runs.Add(1)
	return run
}

// reader is one stream of all runs. ended gets the runs whose end it was shown, failures
// what ended it.
type reader struct {
	name     string
	mu       sync.Mutex
	ended    map[string]bool
	moved    chan struct{}
	failures chan error
}

func (r *reader) end(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[run] = true
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

func (r *reader) hasSeen(run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[run]
}

// await waits until the reader was shown the end of a run.
func (r *reader) await(ctx context.Context, t *testing.T, run string) {
	t.Helper()
	for !r.hasSeen(run) {
		select {
		case <-r.moved:
		case err := <-r.failures:
			t.Errorf("reader %s: %v", r.name, err)
			return
		case <-ctx.Done():
			t.Errorf("reader %s never saw the end of run %s", r.name, run)
			return
		}
	}
}

// readers open one stream of each form.
func (l *live) readers(ctx context.Context) []*reader {
	var readers []*reader
	add := func(name string, read func(*reader) error) {
		r := &reader{name: name, ended: map[string]bool{}, moved: make(chan struct{}, 1), failures: make(chan error, 1)}
		readers = append(readers, r)
		go func() { r.failures <- read(r) }()
	}
	every := []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_TURN_ABANDONED,
		pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED, pawlv1.RecordKind_RECORD_KIND_ENDED,
	}
	for name, req := range map[string]*pawlv1.StreamTransitionsRequest{
		"plain":     {},
		"every":     {Kinds: every},
		"snapshots": {Snapshots: true},
		"states":    {Filter: &pawlv1.RunFilter{Pack: "loop"}, Kinds: every},
		"consumer":  {Consumer: "live"},
	} {
		req.Follow = true
		add(name, func(r *reader) error { return l.follow(ctx, r, req) })
	}
	add("events", func(r *reader) error { return l.events(ctx, r) })
	return readers
}

// follow reads over gRPC; a consumer acknowledges each record.
func (l *live) follow(ctx context.Context, r *reader, req *pawlv1.StreamTransitionsRequest) error {
	conn := l.s.dial()
	client, deliveries := pawlv1.NewRunServiceClient(conn), pawlv1.NewDeliveryServiceClient(conn)
	stream, err := client.StreamTransitions(ctx, req)
	for err == nil {
		var item *pawlv1.StreamTransitionsResponse
		if item, err = stream.Recv(); err != nil || item.GetRecord() == nil {
			continue
		}
		if err = l.ask(ctx, client, r, item.GetRecord()); err == nil && req.GetConsumer() != "" && !l.ended.Load() {
			_, err = deliveries.AckConsumer(ctx, &pawlv1.AckConsumerRequest{Consumer: req.GetConsumer(), Cursor: item.GetRecord().GetCursor()})
		}
	}
	return err
}

// events reads server-sent events.
func (l *live) events(ctx context.Context, r *reader) error {
	client := l.s.runs()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.s.http+"/v1/transitions:stream?follow=true", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		item := &pawlv1.StreamTransitionsResponse{}
		if err := protojson.Unmarshal([]byte(data), item); err != nil {
			return fmt.Errorf("%s: %w", data, err)
		}
		if item.GetRecord() == nil {
			continue
		}
		if err := l.ask(ctx, client, r, item.GetRecord()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// ask asks everything about a record that was shown, while the load lasts; what is
// left then is only read.
func (l *live) ask(ctx context.Context, client pawlv1.RunServiceClient, r *reader, record *pawlv1.Record) error {
	run, seq := record.GetRunId(), record.GetSeq()
	if record.GetEnded() != nil {
		defer r.end(run)
	}
	if l.ended.Load() {
		return nil
	}
	l.shown.Add(1)
	for _, ask := range []struct {
		name string
		of   bool
		call func() error
	}{
		{"GetRun", true, func() error {
			_, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, AtSeq: seq, IncludeArtifacts: true})
			return err
		}},
		{"ListTransitions", true, func() error {
			_, err := client.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, AfterSeq: seq})
			return err
		}},
		{"StreamTransitions", true, func() error {
			stream, err := client.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, AfterSeq: seq})
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}},
		{"ShowTurn", record.GetTransition() != nil && record.GetTransition().GetToState() == "spin", func() error {
			_, err := client.ShowTurn(ctx, &pawlv1.ShowTurnRequest{RunId: run, TurnSeq: seq})
			return err
		}},
		{"WaitRun", record.GetEnded() != nil, func() error {
			got, err := client.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(0)})
			if err == nil && got.GetTimedOut() {
				return fmt.Errorf("it is not over: %v", got.GetRun().GetStatus())
			}
			return err
		}},
	} {
		if !ask.of {
			continue
		}
		if err := ask.call(); err != nil {
			return fmt.Errorf("%s about record %d of run %s, which was shown: %w", ask.name, seq, run, err)
		}
	}
	return nil
}
