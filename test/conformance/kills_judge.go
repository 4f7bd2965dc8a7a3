package main

import (
	"fmt"
	"slices"
	"strings"
)

// entries are how often the ledger has what a run did outside: calls of the tool, and of the model by
// round. No line is taken for a repetition of another one.
func (k *killer) entries(run string) (map[string]int, error) {
	got, err := k.ledger(step{})
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, line := range got.(map[string]any)["lines"].([]any) {
		entry := line.(map[string]any)
		tool, _ := entry["tool"].(string)
		if key, _ := entry["key"].(string); strings.HasPrefix(key, run+"/") {
			counts[tool+strings.TrimPrefix(key, run)]++
		}
	}
	return counts, nil
}

// check judges a run in which a process was killed. Either the run has its effect once, or it is
// ESCALATED because the outcome of the call is unknown. No recorded answer of a model is requested
// again.
func (k *killer) check(one kill, run string, alias any, ended map[string]any) error {
	counts, err := k.entries(run)
	if err != nil {
		return err
	}
	fact, err := k.fact(alias)
	if err != nil {
		return err
	}
	escalated := ended["status"] == "ESCALATED"
	switch {
	case counts["charge/2"] != 1:
		return fmt.Errorf("charged %d times, ended %v", counts["charge/2"], ended["status"])
	case counts["model/1"] != 1:
		return fmt.Errorf("a recorded answer was asked for %d times", counts["model/1"])
	case escalated && (one.policy != "escalate" || !fact || ended["reason"] != "tool_error:charge" || counts["model/2"] != 0):
		return fmt.Errorf("escalated by %v, the record has the unknown call: %t, %v", ended["reason"], fact, counts)
	case escalated != one.expectsEscalation() && one.victim != "sidecar":
		return fmt.Errorf("ended %v by %v", ended["status"], ended["reason"])
	case !escalated && (ended["status"] != "COMPLETED" || !one.allowsRequests(counts["model/2"])):
		return fmt.Errorf("ended %v by %v, %v", ended["status"], ended["reason"], counts)
	}
	return nil
}

// expectsEscalation reports whether the outcome of the call is unknown, and the pack escalates this.
func (k kill) expectsEscalation() bool {
	return k.policy == "escalate" && (k.point == "effect" || k.point == "answer")
}

// allowsRequests tells whether the model may be asked for its second answer so often: an answer of which only a
// part came is asked for again, by another process.
func (k kill) allowsRequests(times int) bool {
	switch {
	case k.point != "stream/2":
		return times == 1
	case k.victim == "sidecar":
		return times == 1 || times == 2
	}
	return times == 2
}

// fact reports whether the record of a run contains a call with unknown outcome.
func (k *killer) fact(alias any) (bool, error) {
	got, err := ask(k.main, "records", map[string]any{"run": alias, "kinds": []any{"STEP_RESOLVED"}})
	if err != nil {
		return false, err
	}
	records, _ := got["records"].([]any)
	return slices.ContainsFunc(records, func(record any) bool {
		return match("", map[string]any{"body": map[string]any{"tool": "charge", "unknown": true}}, record) == nil
	}), nil
}
