package main

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"
)

// worker is a process of the scenario's language that executes turns and steps.
type worker struct {
	driver *driver
	// seen is how many of its events were awaited. `told` are the errors among them.
	seen   int
	failed map[int]bool
	// released are the points at which its handlers hold no more.
	released map[string]bool
	// number says the how many-th of the scenario it is, from 1.
	number int
	// by is the name of its principal; nil: the scenario's own.
	by any
	// executes means that the process executes turns, gone that it has stopped to do so.
	executes, gone bool
}

// defaultWorker is the name of a worker that is given none.
const defaultWorker = "w1"

func nameOf(s step, key string) string {
	if name, ok := s.args[key].(string); ok {
		return name
	}
	return defaultWorker
}

// launch starts a process of its own that can be killed.
func (p *playthrough) launch(name string, s step) (*driver, error) {
	if p.workers[name] != nil {
		return nil, fmt.Errorf("there is a process %s", name)
	}
	d, err := p.lane.take()
	if err != nil {
		return nil, err
	}
	p.workers[name] = &worker{driver: d, failed: map[int]bool{}, released: map[string]bool{}, number: len(p.workers) + 1, by: s.args["by"], executes: executesTurns(s)}
	by, _ := s.args["by"].(string)
	return d, p.reset(d, by)
}

// worker starts a worker process.
func (p *playthrough) worker(s step) (any, error) {
	name := nameOf(s, "name")
	d, err := p.launch(name, s)
	if err != nil {
		return nil, err
	}
	args := maps.Clone(s.args)
	fill(args, map[string]any{"name": name, "packs": []any{p.pack}})
	r, err := d.call("worker", args)
	if err == nil && r.Error != nil {
		err = fmt.Errorf("%s", short(r.Error))
	}
	if err == nil && p.lane.mode.serves {
		if s.args["take_over"] == true {
			err = p.takeOver()
		} else {
			err = p.assign()
		}
	}
	return r.Result, err
}

func (p *playthrough) workerOf(s step, key string) (*worker, error) {
	w := p.workers[nameOf(s, key)]
	if w == nil {
		return nil, fmt.Errorf("no worker %s", nameOf(s, key))
	}
	return w, nil
}

// await waits for an event of a worker, behind the last one that was awaited. An error has no
// place in that order: a worker tells it at once, and what serves a run when that is over.
func (p *playthrough) await(s step) (any, error) {
	w, err := p.workerOf(s, "worker")
	if err != nil {
		return nil, err
	}
	want := map[string]any{}
	for key, value := range s.args {
		if key != "worker" {
			want[key] = value
		}
	}
	if want["kind"] == "error" {
		at, event, err := w.driver.await(want, 0, w.failed)
		w.failed[at-1] = true
		return event, err
	}
	seen, event, err := w.driver.await(want, w.seen, nil)
	if err == nil {
		w.seen = seen
	}
	return event, err
}

// killWorker sends SIGKILL to a worker.
func (p *playthrough) killWorker(s step) (any, error) {
	w, err := p.workerOf(s, "name")
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(w.driver.kill(), p.retireWorker(w))
}

// freeze stops a worker's process as it is: it neither works nor sends heartbeats.
func (p *playthrough) freeze(s step) (any, error) {
	if err := p.signal(s, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return nil, p.retireWorker(p.workers[nameOf(s, "name")])
}

// resumeProcess lets it go on.
func (p *playthrough) resumeProcess(s step) (any, error) { return nil, p.signal(s, syscall.SIGCONT) }

func (p *playthrough) signal(s step, signal syscall.Signal) error {
	w, err := p.workerOf(s, "name")
	if err != nil {
		return err
	}
	return w.driver.cmd.Process.Signal(signal)
}

// stopWorker drains a worker.
func (p *playthrough) stopWorker(s step) (any, error) {
	got, err := p.callWorker(s, "name", "stop")
	if err != nil {
		return nil, err
	}
	return got, p.retireWorker(p.workers[nameOf(s, "name")])
}

// release lets a handler of a worker go on that holds.
func (p *playthrough) release(s step) (any, error) {
	got, err := p.callWorker(s, "worker", "release")
	if name, ok := s.args["name"].(string); ok && err == nil {
		p.workers[nameOf(s, "worker")].released[name] = true
	}
	return got, err
}

// end lets a process end its work for another scenario, or kills it where that may take long.
func (w *worker) end(l *lane, well bool) error {
	if !well || w.gone || w.driver.hasHeldHandler(w.released) {
		return w.driver.kill()
	}
	answer, err := w.driver.send("stop", nil)
	if err != nil {
		return err
	}
	select {
	case r, ok := <-answer:
		if ok && r.Error == nil {
			l.reuse(w.driver)
			return nil
		}
	case <-time.After(exitTimeout): // It waits for a value that never arrives.
	}
	return w.driver.kill()
}

// exitTimeout is how long a process may take to end its work, so that it is used again.
const exitTimeout = 500 * time.Millisecond

func (p *playthrough) callWorker(s step, key, op string) (any, error) {
	w, err := p.workerOf(s, key)
	if err != nil {
		return nil, err
	}
	r, err := w.driver.call(op, s.args)
	if err == nil && r.Error != nil {
		err = fmt.Errorf("%s", short(r.Error))
	}
	return r.Result, err
}

// executions counts how often the tools were executed by all workers, the dead
// ones included.
func (p *playthrough) executions(s step) (any, error) {
	return p.counted("executions", s, func(map[string]any) any { return new(int) })
}

// effects counts what the tools changed in a world that accepts each idempotency key once, from any worker.
func (p *playthrough) effects(s step) (any, error) {
	return p.counted("effects", s, func(event map[string]any) any { return event["idempotency_key"] })
}

// counted counts the different executions of the tools, as key tells them apart.
func (p *playthrough) counted(what string, s step, key func(map[string]any) any) (any, error) {
	different := map[string]map[any]bool{}
	for name := range s.args {
		different[name] = map[any]bool{}
	}
	for _, w := range p.workers {
		events, err := w.driver.allEvents()
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if tool, ok := event["tool"].(string); ok && event["kind"] == "tool" && different[tool] != nil {
				different[tool][key(event)] = true
			}
		}
	}
	counts := map[string]any{}
	for name, keys := range different {
		counts[name] = float64(len(keys))
	}
	return counts, match(what, s.args, any(counts))
}
