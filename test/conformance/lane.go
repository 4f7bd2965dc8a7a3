package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// lane runs scenarios one after the other in one language, on a sidecar of its own.
// A column has several of them, as many scenarios wait more than they work.
type lane struct {
	set  *settings
	lang language
	mode mode

	sidecar *sidecar
	driver  *driver
	// spareDrivers is a driver that was started ahead of its use, as it takes a while.
	spareDrivers chan started
	// idle are processes that ended their work well, for another scenario.
	idle []*driver
}

type started struct {
	driver *driver
	err    error
}

// result is what became of one scenario; it did not apply if neither.
type result struct {
	passed bool
	// word stands in the table of one that passed; "": ok.
	word string
	// same means that the column executes the same code as another one.
	same bool
	err  error
	// count is of how much it is, where it is of more than one.
	count int
	took  time.Duration
}

// column is the results of a language in one mode by scenario, and what became of its journals.
type column struct {
	lang language
	mode mode

	mu      sync.Mutex
	results map[string]result
	journal error
}

// note adds a result.
func (c *column) note(name string, r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[name] = r
}

// fail adds what is wrong with a lane or its journal.
func (c *column) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal = errors.Join(c.journal, err)
}

// sharedFlags are those of the sidecar of a column.
var sharedFlags = []string{"--allow-tool", "*", "--log-level", "warn"}

// runColumns runs all languages in all their modes side by side.
func runColumns(ctx context.Context, set *settings) []*column {
	var columns []*column
	var running sync.WaitGroup
	for _, lang := range set.languages {
		for _, m := range lang.modes {
			c := &column{lang: lang, mode: m, results: map[string]result{}}
			columns = append(columns, c)
			todo := make(chan *scenario, len(set.scenarios))
			for _, s := range set.scenarios {
				if s.applies(lang, m) {
					todo <- s
				}
			}
			close(todo)
			for range min(set.parallel, len(todo)) {
				running.Go(func() {
					l := &lane{set: set, lang: lang, mode: m, spareDrivers: make(chan started, 1)}
					l.run(ctx, todo, c)
				})
			}
		}
	}
	running.Wait()
	return columns
}

func (l *lane) run(ctx context.Context, todo <-chan *scenario, c *column) {
	var err error
	if l.sidecar, err = newSidecar(l.set, sharedFlags, nil, nil, nil); err != nil {
		c.fail(err)
		return
	}
	l.startAhead()
	defer l.close()
	for s := range todo {
		began, err := time.Now(), ctx.Err()
		if err == nil {
			err = l.runScenario(s)
		}
		c.note(s.Name, result{passed: err == nil, err: err, took: time.Since(began)})
	}
	c.fail(l.sidecar.verify())
}

// runScenario runs one scenario.
func (l *lane) runScenario(s *scenario) (err error) {
	p := &playthrough{
		lane: l, scenario: s, sidecar: l.sidecar, pack: s.id, id: rand.Text(),
		workers: map[string]*worker{}, calls: map[string]call{}, otherDrivers: map[string]*driver{}, known: map[string]string{},
	}
	defer func() { err = errors.Join(err, p.close(err == nil)) }()
	if err := p.open(); err != nil {
		return err
	}
	for i, st := range s.steps {
		if !l.mode.accepts(st.only) {
			continue
		}
		if err := p.make(st); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, st.verb, err)
		}
	}
	return nil
}

// startAhead starts a driver for later.
func (l *lane) startAhead() {
	go func() {
		d, err := startDriver(l.lang, l.set.processes)
		l.spareDrivers <- started{d, err}
	}()
}

// reuse takes a process that ended its work well, for another scenario.
func (l *lane) reuse(d *driver) {
	d.forget()
	l.idle = append(l.idle, d)
}

// take gives a process that is idle, or one that was started ahead, and starts the next.
func (l *lane) take() (*driver, error) {
	if n := len(l.idle); n > 0 {
		d := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return d, nil
	}
	got := <-l.spareDrivers
	l.startAhead()
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
	for _, d := range l.idle {
		_ = d.kill()
	}
	if got := <-l.spareDrivers; got.driver != nil {
		_ = got.driver.kill()
	}
	l.sidecar.remove()
}
