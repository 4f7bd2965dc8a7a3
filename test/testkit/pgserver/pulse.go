package pgserver

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// pulseInterval is the pause between two commits of a pulse.
	pulseInterval = 10 * time.Millisecond
	// slowCommit is what one may take: below that the database commits.
	slowCommit = 250 * time.Millisecond
)

// Pulse repeatedly commits a row in a database over its own connection, and remembers when this
// failed. At those times no other client could commit either.
type Pulse struct {
	mu       sync.Mutex
	silences []silence
	// since is when the commit was begun that is under way, or the first of those that failed.
	since time.Time
}

type silence struct{ from, to time.Time }

// Listen has a pulse until the test ends. What is committed waits for standbys as everything does.
func Listen(tb testing.TB, url string) *Pulse {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p, over := &Pulse{}, make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			p.listen(ctx, url)
		}
	}()
	tb.Cleanup(func() { stop(); <-over })
	return p
}

// listen commits until there is no answer, or another one than that it is done.
func (p *Pulse) listen(ctx context.Context, url string) {
	p.begin()
	defer rest(ctx)
	conf, err := pgconn.ParseConfig(url)
	if err != nil {
		return
	}
	said := false
	conf.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { said = true }
	conn, err := pgconn.ConnectConfig(ctx, conf)
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	sql := "SET client_min_messages = warning; CREATE TABLE IF NOT EXISTS pulse (beats bigint); TRUNCATE pulse; INSERT INTO pulse VALUES (0)"
	for ctx.Err() == nil {
		// A commit that came with a warning was not waited for.
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil || said {
			return
		}
		p.done()
		rest(ctx)
		sql = "UPDATE pulse SET beats = beats + 1"
		p.begin()
	}
}

func (p *Pulse) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
}

func (p *Pulse) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.since) > slowCommit {
		p.silences = append(p.silences, silence{p.since, now})
	}
	p.since = time.Time{}
}

func rest(ctx context.Context) {
	timer := time.NewTimer(pulseInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// SilentTime returns how long the database made no commit between two times.
func (p *Pulse) SilentTime(from, to time.Time) (d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.silences
	if !p.since.IsZero() && time.Since(p.since) > slowCommit {
		all = append(slices.Clip(all), silence{p.since, time.Now()})
	}
	for _, s := range all {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		d += max(0, s.to.Sub(s.from))
	}
	return d
}
