package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// playthrough is one scenario under way in one language.
type playthrough struct {
	lane     *lane
	scenario *scenario
	sidecar  *sidecar
	// ownsSidecar means that no other scenario uses the sidecar.
	ownsSidecar bool
	relay       proxy
	// pack is the id of the pack, known at the latest when it is registered.
	pack string
	// id is part of the ids of the starts, of which each play has its own.
	id      string
	workers map[string]*worker
	// runs are those that processes of the scenario are to execute by name.
	runs []*servedRun
	// calls are those that are not waited for yet, by name.
	calls map[string]call
	// otherDrivers are the processes of other principals by name, known the ids of the runs that they started.
	otherDrivers map[string]*driver
	known        map[string]string
	// entries is the file in which the tools of all drivers write down that they were called.
	entries string
}

// proxy is what stands between clients and the sidecar.
type proxy interface {
	address() string
	close() error
}

// call is a call of the driver under way.
type call struct {
	step step
	// args are those that were sent.
	args   map[string]any
	driver *driver
	answer <-chan reply
}

// open gives the scenario its sidecar, way, client and pack.
func (p *playthrough) open() error {
	if err := p.openLedger(); err != nil {
		return err
	}
	if len(p.scenario.Flags)+len(p.scenario.Scopes) > 0 {
		flags := p.scenario.Flags
		if len(flags) == 0 {
			flags = sharedFlags
		}
		var err error
		if p.sidecar, err = newSidecar(p.lane.set, flags, p.scenario.Scopes, p.scenario.Principals, p.scenario.Files); err != nil {
			return err
		}
		p.ownsSidecar = true
	}
	if err := p.openProxy(); err != nil {
		return err
	}
	d, err := p.lane.main()
	if err != nil {
		return err
	}
	if err := p.reset(d, ""); err != nil {
		return err
	}
	return p.make(step{verb: "register", args: map[string]any{}})
}

func (p *playthrough) openProxy() (err error) {
	switch p.scenario.Via {
	case viaRelay:
		p.relay, err = startRelay(p.sidecar.address())
	case viaNewer:
		p.relay, err = startNewer(p.sidecar.address())
	}
	return err
}

func (p *playthrough) address() string {
	if p.relay != nil {
		return p.relay.address()
	}
	return p.sidecar.address()
}

// reset points a driver at the sidecar and lets it forget what was. It speaks by the token of a
// principal of the scenario; "": of the scenario's own.
func (p *playthrough) reset(d *driver, principal string) error {
	token, known := p.sidecar.tokens[principal]
	if !known && principal != "" {
		return fmt.Errorf("by: %s is none of the principals", principal)
	}
	if principal == "" {
		token = p.sidecar.token
	}
	r, err := d.call("reset", map[string]any{
		"address": p.address(), "token": token, "ledger": p.entries, "serves": p.lane.mode.serves, "async": p.lane.mode.async,
	})
	if err != nil {
		return err
	}
	if r.Error != nil {
		return fmt.Errorf("reset: %s", short(r.Error))
	}
	return nil
}

// make makes one step and judges what came of it.
func (p *playthrough) make(s step) error {
	if own := runnerVerbs[s.verb]; own != nil {
		got, err := own(p, s)
		if err != nil || s.verb == "join" {
			return err
		}
		return p.compareReply(s, reply{Result: got})
	}
	d, err := p.speaker(s)
	if err != nil {
		return err
	}
	args := p.arguments(s)
	answer, err := d.send(s.verb, args)
	if err != nil {
		return errors.Join(err, p.lane.dismiss())
	}
	if s.later != "" {
		p.calls[s.later] = call{s, args, d, answer}
		return nil
	}
	return p.finish(call{s, args, d, answer})
}

// speaker is the process that makes a call: the one of the principal that `by` names, else the main one.
func (p *playthrough) speaker(s step) (*driver, error) {
	name, _ := s.args["by"].(string)
	if name == "" {
		return p.lane.main()
	}
	if d := p.otherDrivers[name]; d != nil {
		return d, nil
	}
	d, err := p.lane.take()
	if err != nil {
		return nil, err
	}
	p.otherDrivers[name] = d
	return d, p.reset(d, name)
}

// arguments adds the pack to the calls that are about it.
func (p *playthrough) arguments(s step) map[string]any {
	args := maps.Clone(s.args)
	switch s.verb {
	case "register":
		fill(args, map[string]any{"content": p.scenario.document, "filename": p.scenario.filename})
	case "start":
		fill(args, map[string]any{"pack": p.pack})
		if p.isServedStart(s) {
			args["execution"] = "caller"
			fill(args, map[string]any{"id": p.id + "-" + aliasOf(s, "as")})
		}
	}
	if id := p.known[aliasOf(s, "run")]; id != "" && s.verb != "start" {
		fill(args, map[string]any{"run_id": id})
	}
	return args
}

// aliasOf is the name of a run that a step has under a key.
func aliasOf(s step, key string) string {
	if alias, ok := s.args[key].(string); ok {
		return alias
	}
	return "run"
}

// finish waits for the answer of a call and judges it.
func (p *playthrough) finish(c call) error {
	r, err := c.driver.receive(c.step.verb, c.answer)
	if err != nil {
		return errors.Join(err, p.lane.dismiss())
	}
	if c.step.verb == "register" && r.Error == nil && p.pack == "" {
		fields, _ := r.Result.(map[string]any)
		p.pack, _ = fields["id"].(string)
	}
	if c.step.verb == "start" && r.Error == nil {
		fields, _ := r.Result.(map[string]any)
		id, _ := fields["run_id"].(string)
		if c.step.args["by"] != nil {
			p.known[aliasOf(c.step, "as")] = id
		}
		if p.isServedStart(c.step) {
			if err := p.toServe(id, c.args); err != nil {
				return err
			}
		}
	}
	return p.compareReply(c.step, r)
}

// compareReply is the function compareReply, of names of workers as they are in the mode.
func (p *playthrough) compareReply(s step, r reply) error {
	s.expect = p.lane.mode.named(s.expect)
	return compareReply(s, r)
}

// compareReply compares an answer with what is expected of it.
func compareReply(s step, r reply) error {
	if r.Error != nil {
		if s.fault == nil {
			return fmt.Errorf("error %s", short(r.Error))
		}
		return match("error", s.fault, r.Error)
	}
	if s.fault != nil {
		return fmt.Errorf("want the error %s, got %s", short(s.fault), short(r.Result))
	}
	if s.expect == nil {
		return nil
	}
	return match(s.verb, s.expect, summarizeRecords(r.Result))
}

// summarizeRecords adds kinds and seqs to a result with records, to compare them at once.
func summarizeRecords(result any) any {
	fields, ok := result.(map[string]any)
	records, listed := fields["records"].([]any)
	if !ok || !listed {
		return result
	}
	kinds, seqs := []any{}, []any{}
	for _, one := range records {
		record, _ := one.(map[string]any)
		kinds, seqs = append(kinds, record["kind"]), append(seqs, record["seq"])
	}
	fields["kinds"], fields["seqs"] = kinds, seqs
	return fields
}

// join waits for a call that was made before.
func (p *playthrough) join(s step) (any, error) {
	name, _ := s.args["name"].(string)
	c, ok := p.calls[name]
	if !ok {
		return nil, fmt.Errorf("no call %q is under way", name)
	}
	delete(p.calls, name)
	c.step.expect, c.step.fault = s.expect, s.fault
	return nil, p.finish(c)
}

// restart kills the sidecar and starts it again on the same data.
func (p *playthrough) restart(s step) (any, error) {
	if _, err := p.stopSidecar(s); err != nil {
		return nil, err
	}
	return p.startSidecar(s)
}

func (p *playthrough) stopSidecar(step) (any, error) { return nil, p.sidecar.kill() }

func (p *playthrough) startSidecar(step) (any, error) { return nil, p.sidecar.start() }

// cut cuts every connection of the relay.
func (p *playthrough) cut(step) (any, error) {
	r, ok := p.relay.(*relay)
	if !ok {
		return nil, fmt.Errorf("cut needs via: %s", viaRelay)
	}
	return map[string]any{"connections": float64(r.cut())}, nil
}

// close ends the processes and streams of the scenario. well means that no step failed.
func (p *playthrough) close(well bool) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(p.workers)) {
		faults = append(faults, p.workers[name].end(p.lane, well))
	}
	for _, name := range slices.Sorted(maps.Keys(p.otherDrivers)) {
		p.lane.reuse(p.otherDrivers[name])
	}
	if len(p.calls) > 0 {
		// Work that the driver has not finished must not reach the next scenario.
		faults = append(faults, p.lane.dismiss())
	}
	if p.relay != nil {
		faults = append(faults, p.relay.close())
	}
	if p.entries != "" {
		faults = append(faults, os.Remove(p.entries))
	}
	if p.ownsSidecar {
		faults = append(faults, p.sidecar.verify())
		p.sidecar.remove()
	}
	return errors.Join(faults...)
}
