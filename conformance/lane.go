package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// lane runs scenarios one after the other in one language, on a sidecar of its own.
type lane struct {
	set  *settings
	lang language

	sidecar *sidecar
	driver  *driver
	// spare is a driver that was started ahead of its use, as it takes a while.
	spare chan started
}

type started struct {
	driver *driver
	err    error
}

// result is what became of one scenario; it did not apply if neither.
type result struct {
	passed bool
	err    error
}

// column is a language's results by scenario; the last is that of its journal.
type column struct {
	lang    language
	results map[string]result
	journal error
}

// sharedFlags are those of the sidecar of a column.
var sharedFlags = []string{"--allow-tool", "*", "--log-level", "warn"}

// runLanes runs all languages side by side.
func runLanes(ctx context.Context, set *settings) []column {
	columns := make([]column, len(set.languages))
	var running sync.WaitGroup
	for i, lang := range set.languages {
		running.Go(func() {
			l := &lane{set: set, lang: lang, spare: make(chan started, 1)}
			columns[i] = l.run(ctx)
		})
	}
	running.Wait()
	return columns
}

func (l *lane) run(ctx context.Context) column {
	c := column{lang: l.lang, results: map[string]result{}}
	l.ahead()
	var err error
	if l.sidecar, err = newSidecar(l.set.binary, sharedFlags, nil); err != nil {
		c.journal = err
		return c
	}
	defer l.close()
	for _, s := range l.set.scenarios {
		if s.appliesTo(l.lang.name) {
			err := ctx.Err()
			if err == nil {
				err = l.play(s)
			}
			c.results[s.Name] = result{passed: err == nil, err: err}
		}
	}
	c.journal = l.sidecar.verify()
	return c
}

// play runs one scenario.
func (l *lane) play(s *scenario) (err error) {
	p := &play{lane: l, scenario: s, sidecar: l.sidecar, pack: s.id, workers: map[string]*worker{}, calls: map[string]call{}}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.open(); err != nil {
		return err
	}
	for i, st := range s.steps {
		if err := p.make(st); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, st.verb, err)
		}
	}
	return nil
}

// ahead starts a driver for later.
func (l *lane) ahead() {
	go func() {
		d, err := startDriver(l.lang)
		l.spare <- started{d, err}
	}()
}

// take gives a driver that was started ahead, and starts the next.
func (l *lane) take() (*driver, error) {
	got := <-l.spare
	l.ahead()
	return got.driver, got.err
}

// main is the driver that makes the calls of scenarios; a new one if it is gone.
func (l *lane) main() (*driver, error) {
	if l.driver == nil {
		d, err := l.take()
		if err != nil {
			return nil, err
		}
		l.driver = d
	}
	return l.driver, nil
}

// dismiss ends the driver of calls, so that the next scenario has a new one.
func (l *lane) dismiss() error {
	d := l.driver
	l.driver = nil
	if d == nil {
		return nil
	}
	return d.kill()
}

func (l *lane) close() {
	_ = l.dismiss()
	if got := <-l.spare; got.driver != nil {
		_ = got.driver.kill()
	}
	l.sidecar.remove()
}
