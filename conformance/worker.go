package main

import (
	"fmt"
	"maps"
	"syscall"
)

// worker is a process of the scenario's language that executes turns and steps.
type worker struct {
	driver *driver
	// seen is how many of its events were awaited.
	seen int
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
func (p *play) launch(name string, s step) (*driver, error) {
	if p.workers[name] != nil {
		return nil, fmt.Errorf("there is a process %s", name)
	}
	d, err := p.lane.take()
	if err != nil {
		return nil, err
	}
	p.workers[name] = &worker{driver: d}
	by, _ := s.args["by"].(string)
	return d, p.reset(d, by)
}

// worker starts a worker process.
func (p *play) worker(s step) (any, error) {
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
	return r.Result, err
}

// program starts a process that drives the run of a start's id, a new one or one that another
// process began. It is not waited for: join with its name does that.
func (p *play) program(s step) (any, error) {
	name := nameOf(s, "name")
	d, err := p.launch(name, s)
	if err != nil {
		return nil, err
	}
	args := maps.Clone(s.args)
	fill(args, map[string]any{"pack": p.pack})
	begun, err := d.call("start", map[string]any{"pack": p.pack, "id": args["id"]})
	if err != nil {
		return nil, err
	}
	if begun.Error != nil {
		return nil, fmt.Errorf("%s", short(begun.Error))
	}
	answer, err := d.send("drive", args)
	p.calls[name] = call{s, d, answer}
	return begun.Result, err
}

func (p *play) workerOf(s step, key string) (*worker, error) {
	w := p.workers[nameOf(s, key)]
	if w == nil {
		return nil, fmt.Errorf("no worker %s", nameOf(s, key))
	}
	return w, nil
}

// await waits for an event of a worker, behind the last one that was awaited.
func (p *play) await(s step) (any, error) {
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
	seen, event, err := w.driver.await(want, w.seen)
	if err == nil {
		w.seen = seen
	}
	return event, err
}

// killWorker sends SIGKILL to a worker.
func (p *play) killWorker(s step) (any, error) {
	w, err := p.workerOf(s, "name")
	if err != nil {
		return nil, err
	}
	return nil, w.driver.kill()
}

// freeze stops a worker's process as it is: it neither works nor sends heartbeats.
func (p *play) freeze(s step) (any, error) { return nil, p.signal(s, syscall.SIGSTOP) }

// thaw lets it go on.
func (p *play) thaw(s step) (any, error) { return nil, p.signal(s, syscall.SIGCONT) }

func (p *play) signal(s step, signal syscall.Signal) error {
	w, err := p.workerOf(s, "name")
	if err != nil {
		return err
	}
	return w.driver.cmd.Process.Signal(signal)
}

// stopWorker drains a worker.
func (p *play) stopWorker(s step) (any, error) { return p.tell(s, "name", "stop") }

// release lets a handler of a worker go on that holds.
func (p *play) release(s step) (any, error) { return p.tell(s, "worker", "release") }

func (p *play) tell(s step, key, op string) (any, error) {
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
func (p *play) executions(s step) (any, error) {
	return p.counted("executions", s, func(map[string]any) any { return new(int) })
}

// effects counts what the tools changed in a world that takes each idempotency key
// once, whichever worker came with it.
func (p *play) effects(s step) (any, error) {
	return p.counted("effects", s, func(event map[string]any) any { return event["idempotency_key"] })
}

// counted counts the different executions of the tools, as key tells them apart.
func (p *play) counted(what string, s step, key func(map[string]any) any) (any, error) {
	different := map[string]map[any]bool{}
	for name := range s.args {
		different[name] = map[any]bool{}
	}
	for _, w := range p.workers {
		events, err := w.driver.settled()
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
