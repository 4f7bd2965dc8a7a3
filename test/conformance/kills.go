package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// killsRow begins the names of rows of kills.
const killsRow = "kills/"

// points are where a process is killed, in the order in which a run comes by.
var points = []struct{ name, about string }{
	{"call", "the model's answer is recorded, and the call that it wants is not asked for yet"},
	{"effect", "the ledger has the call, and the tool has not returned"},
	{"answer", "the tool has returned, and nothing is recorded of it"},
	{"stream/2", "the model's second answer is shown in part, and not recorded"},
}

// victims are what is killed at a point: the program by itself, the sidecar under it, or both.
var victims = []string{"program", "sidecar", "both"}

// policies are the pack's settings for a call with unknown outcome.
var policies = []string{"reconcile", "escalate"}

// kill is one of them.
type kill struct{ point, victim, policy string }

// rows are the names of the rows of kills: by the victim and the point.
func killRows() []string {
	var all []string
	for _, victim := range victims {
		for _, p := range points {
			all = append(all, killsRow+victim+" "+p.name)
		}
	}
	return all
}

func (k kill) row() string { return killsRow + k.victim + " " + k.point }

// killsOf are the kills of a column, each point as often: of programs n of each, and of the sidecar and
// of both one for each policy. The policies take turns.
func killsOf(n int) []kill {
	var all []kill
	for _, p := range points {
		for i := range n {
			all = append(all, kill{p.name, "program", policies[i%len(policies)]})
		}
		for _, policy := range policies {
			all = append(all, kill{p.name, "sidecar", policy}, kill{p.name, "both", policy})
		}
	}
	return all
}

// killsEach is how many programs are killed at each point in a column, of so many in all languages: a
// language with fewer modes has more of them in each, and Go half of that.
func killsEach(total int, lang language) int {
	share := total * 2 / 5
	if lang.name == "go" {
		share /= 2
	}
	return max(share/len(lang.modes)/len(points), 1)
}

// runKills kills programs and sidecars in all columns, and adds what came of it.
func runKills(ctx context.Context, set *settings, columns []*column) {
	var running sync.WaitGroup
	for _, c := range columns {
		todo := make(chan kill, 1000)
		for _, k := range killsOf(killsEach(set.killCount, c.lang)) {
			todo <- k
		}
		close(todo)
		for range set.parallel {
			running.Go(func() {
				l := &lane{set: set, lang: c.lang, mode: c.mode, spareDrivers: make(chan started, 1)}
				c.fail(l.killAll(ctx, todo, c))
			})
		}
	}
	running.Wait()
}

// killFlags are those of a sidecar under which programs are killed.
var killFlags = append([]string{"--step-grace", "1s", "--restart-grace", "2s"}, sharedFlags...)

// killAll makes kills one after the other, on a sidecar of its own.
func (l *lane) killAll(ctx context.Context, todo <-chan kill, c *column) (err error) {
	if l.sidecar, err = newSidecar(l.set, killFlags, nil, nil, nil); err != nil {
		return err
	}
	l.startAhead()
	defer l.close()
	k := &killer{playthrough: &playthrough{
		lane: l, scenario: &scenario{}, sidecar: l.sidecar, id: rand.Text(), workers: map[string]*worker{}, otherDrivers: map[string]*driver{},
	}}
	defer func() { err = errors.Join(err, k.playthrough.close(false)) }()
	if err := k.open(); err != nil {
		return err
	}
	for one := range todo {
		began, err := time.Now(), ctx.Err()
		if err == nil {
			err = k.make(one)
		}
		c.add(one.row(), err, time.Since(began))
		if err != nil {
			c.fail(k.part())
		}
	}
	return l.sidecar.verify()
}

// part ends the process, so that the next kill starts with a new one.
func (k *killer) part() error {
	d := k.process
	k.process = nil
	if d == nil {
		return nil
	}
	return d.kill()
}

// add adds a kill to its row.
func (c *column) add(row string, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.results[row]
	r.count++
	r.err = errors.Join(r.err, err)
	r.passed = r.err == nil
	r.word = fmt.Sprintf("ok (%d)", r.count)
	r.took += took
	c.results[row] = r
}

// killer kills what executes runs, again and again; what goes on with a run is what is killed next.
type killer struct {
	*playthrough
	main    *driver
	process *driver
	// created counts processes and runs.
	created int
}

// killPack is the pack of a policy.
func killPack(policy string) (string, error) {
	pack := map[string]any{
		"prompts": map[string]any{"a": map[string]any{"tools": []any{"charge"}}},
		"tools":   map[string]any{"charge": nil, "status": nil},
		"workflow": map[string]any{
			"entry": "a",
			"engine": map[string]any{"x_pawl": map[string]any{
				"tools": map[string]any{"charge": map[string]any{"attempts": 3, "on_unknown": policy}},
			}},
			"states": map[string]any{
				"a":   map[string]any{"on_event": map[string]any{"Done": "end"}},
				"end": map[string]any{"terminal": true},
			},
		},
	}
	if policy == "reconcile" {
		charge := pack["workflow"].(map[string]any)["engine"].(map[string]any)["x_pawl"].(map[string]any)["tools"].(map[string]any)["charge"].(map[string]any)
		charge["reconcile"] = "status"
	}
	if err := fillPack(pack, "kills-"+policy); err != nil {
		return "", err
	}
	text, err := json.Marshal(pack)
	return string(text), err
}

// killScript is the script of the processes: a model calls a tool, which charges; the model answers with a text, and the
// run ends. The tool that reconciles a call reads the ledger.
var killScript = map[string]any{
	"capacity": 4,
	"turns": map[string]any{
		"a": []any{map[string]any{
			"rounds": []any{
				map[string]any{
					"ask": map[string]any{"model": "m", "messages": []any{map[string]any{"conversation": map[string]any{}}}}, "stream": []any{"I ", "pay."},
					"told":  []any{map[string]any{"answer": map[string]any{"calls": []any{map[string]any{"id": "c0", "name": "charge", "arguments": "{}"}}}}},
					"calls": []any{map[string]any{"tool": "charge", "payload": map[string]any{}}},
				},
				map[string]any{
					"ask":    map[string]any{"model": "m", "previous_step": 1, "messages": []any{map[string]any{"result": map[string]any{"step": 2, "call_id": "c0"}}}},
					"stream": []any{"It is ", "paid."}, "told": []any{map[string]any{"answer": map[string]any{"text": "It is paid."}}},
				},
			},
			"event": "Done",
		}},
		"end": []any{map[string]any{}},
	},
	"tools": map[string]any{
		"charge": []any{map[string]any{"result": map[string]any{"paid": 1}}}, "status": []any{map[string]any{"seen": "charge"}},
	},
}

// open makes the ledger, the driver of calls and the packs.
func (k *killer) open() error {
	if err := k.openLedger(); err != nil {
		return err
	}
	var err error
	if k.main, err = k.lane.main(); err != nil {
		return err
	}
	if err := k.reset(k.main, ""); err != nil {
		return err
	}
	for _, policy := range policies {
		text, err := killPack(policy)
		if err != nil {
			return err
		}
		if _, err := ask(k.main, "register", map[string]any{"content": text, "filename": "kills.json"}); err != nil {
			return err
		}
	}
	return nil
}

// ask makes a call that must not fail.
func ask(d *driver, op string, args map[string]any) (map[string]any, error) {
	r, err := d.call(op, args)
	if err == nil && r.Error != nil {
		err = fmt.Errorf("%s: %s", op, short(r.Error))
	}
	fields, _ := r.Result.(map[string]any)
	return fields, err
}

// launch starts the process that executes runs, where there is none.
func (k *killer) launch() error {
	if k.process != nil {
		return nil
	}
	k.created++
	name := fmt.Sprintf("p%d", k.created)
	d, err := k.playthrough.launch(name, step{verb: "worker", args: map[string]any{}})
	if err != nil {
		return err
	}
	args := maps.Clone(killScript)
	args["name"], args["packs"] = name, []any{"kills-reconcile", "kills-escalate"}
	_, err = ask(d, "worker", args)
	k.process = d
	return err
}

// serve has the process execute a run by its name, in the modes that do.
func (k *killer) serve(run string, start map[string]any) error {
	if !k.lane.mode.serves {
		return nil
	}
	args := maps.Clone(start)
	args["run_id"], args["attach"] = run, k.created%2 == 0
	_, err := ask(k.process, "serve", args)
	return err
}

// make begins a run, makes a kill in its midst and judges what came of it.
func (k *killer) make(one kill) error {
	if err := k.launch(); err != nil {
		return err
	}
	how := "die"
	if one.victim != "program" {
		how = "hold"
	}
	if _, err := ask(k.process, "arm", map[string]any{"name": one.point, "how": how}); err != nil {
		return err
	}
	k.created++
	start := map[string]any{"pack": "kills-" + one.policy, "execution": "workers", "id": fmt.Sprintf("%s-%d", k.id, k.created), "input": "Pay.", "as": fmt.Sprint(k.created)}
	if k.lane.mode.serves {
		start["execution"] = "caller"
	}
	run, err := ask(k.main, "start", start)
	if err != nil {
		return err
	}
	id, _ := run["run_id"].(string)
	if err := k.serve(id, start); err != nil {
		return err
	}
	if err := k.killAndResume(one, id, start); err != nil {
		return fmt.Errorf("%s: %w", one.policy, err)
	}
	ended, err := ask(k.main, "wait", map[string]any{"run": start["as"], "seconds": 45})
	if err == nil {
		err = k.check(one, id, start["as"], ended)
	}
	if err != nil {
		return fmt.Errorf("%s: run %s: %w", one.policy, id, err)
	}
	return nil
}

// killAndResume kills at the point, and lets the run go on.
func (k *killer) killAndResume(one kill, run string, start map[string]any) error {
	if one.victim == "program" {
		return errors.Join(k.process.awaitExit(), k.startSuccessor(run, start))
	}
	_, _, err := k.process.await(map[string]any{"kind": "holding", "name": one.point}, 0, nil)
	if err != nil {
		return err
	}
	k.process.forget()
	if err := k.sidecar.kill(); err != nil {
		return err
	}
	if one.victim == "both" {
		if err := errors.Join(k.process.kill(), k.sidecar.start()); err != nil {
			return err
		}
		return k.startSuccessor(run, start)
	}
	// The handler goes on without a sidecar, and what it says waits for the next one.
	_, err = ask(k.process, "release", map[string]any{"name": one.point})
	return errors.Join(err, k.sidecar.start())
}

// startSuccessor starts the process that goes on with the run.
func (k *killer) startSuccessor(run string, start map[string]any) error {
	k.process = nil
	if err := k.launch(); err != nil {
		return err
	}
	return k.serve(run, start)
}
