package main

import (
	"fmt"
	"maps"
)

// servedRun is a run that the scenario's processes execute by name.
type servedRun struct {
	id string
	// start are the arguments of its start.
	start map[string]any
	// server is the process that serves it; nil: none does.
	server *worker
}

// isServedStart tells whether a start is of a run that processes serve, in this mode.
func (p *playthrough) isServedStart(s step) bool {
	return p.lane.mode.serves && p.scenario.executesTurns() && s.verb == "start" && s.args["execution"] == "workers"
}

// toServe adds a run, for the process that executes turns.
func (p *playthrough) toServe(id string, start map[string]any) error {
	for _, known := range p.runs {
		if known.id == id {
			return nil
		}
	}
	p.runs = append(p.runs, &servedRun{id: id, start: start})
	return p.assign()
}

// assign has the newest process that executes turns serve each run that no process serves.
func (p *playthrough) assign() error {
	var newest *worker
	for _, w := range p.workers {
		if w.executes && !w.gone && (newest == nil || w.number > newest.number) {
			newest = w
		}
	}
	if newest == nil {
		return nil
	}
	for _, run := range p.runs {
		if run.server != nil && !run.server.gone {
			continue
		}
		run.server = newest
		args := maps.Clone(run.start)
		// Every second process goes on by run.drive; so does one of another principal than the start's.
		args["run_id"], args["attach"] = run.id, newest.number%2 == 0 || run.start["by"] != newest.by
		if _, err := newest.driver.send("serve", args); err != nil {
			return fmt.Errorf("serve %s: %w", run.id, err)
		}
	}
	return nil
}

// takeOver makes a process serve all runs, also runs that another process serves.
func (p *playthrough) takeOver() error {
	for _, run := range p.runs {
		run.server = nil
	}
	return p.assign()
}

// retireWorker gives the runs of a process that has stopped to execute turns to another process.
func (p *playthrough) retireWorker(w *worker) error {
	w.gone = true
	return p.assign()
}
