package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// step is one thing that a scenario does, and what must come of it.
type step struct {
	verb string
	args map[string]any
	// later names a call that is not waited for; a join with that name does.
	later string
	// only is the one kind of mode in which the step is made; because is the reason.
	only, because string
	// expect must be contained in the result; fault in the error. Neither: no error.
	expect, fault any
}

// driverVerbs are made by the driver of the language through its own client.
// test/conformance/README.md says what each of them does.
var driverVerbs = []string{
	"answer_model", "approvals", "artifacts", "cancel", "complete", "decide", "emit", "fail", "flood", "fork", "info", "input", "model_step",
	"update_model_call", "output", "pause", "raise_budget", "records", "register", "request", "request_model", "resolve", "resume", "set",
	"start", "steer", "stop_run", "suspend", "turn", "verify", "wait", "watch", "watched",
}

// runnerVerbs are made by the runner, each by a function of its own.
var runnerVerbs = map[string]func(*playthrough, step) (any, error){
	"await":      (*playthrough).await,
	"cut":        (*playthrough).cut,
	"down":       (*playthrough).stopSidecar,
	"effects":    (*playthrough).effects,
	"executions": (*playthrough).executions,
	"freeze":     (*playthrough).freeze,
	"join":       (*playthrough).join,
	"kill":       (*playthrough).killWorker,
	"ledger":     (*playthrough).ledger,
	"release":    (*playthrough).release,
	"restart":    (*playthrough).restart,
	"stop":       (*playthrough).stopWorker,
	"thaw":       (*playthrough).resumeProcess,
	"up":         (*playthrough).startSidecar,
	"worker":     (*playthrough).worker,
}

// parseStep reads the one verb of a step and what goes with it.
func parseStep(fields map[string]any) (step, error) {
	var s step
	for key, value := range fields {
		value, err := expand(value)
		if err != nil {
			return s, err
		}
		switch key {
		case "expect":
			s.expect = value
		case "error":
			if word, ok := value.(string); ok {
				value = map[string]any{"reason": word}
			}
			s.fault = value
		case "later":
			s.later, _ = value.(string)
		case "only":
			s.only, _ = value.(string)
		case "because":
			s.because, _ = value.(string)
		default:
			if err := s.take(key, value); err != nil {
				return s, err
			}
		}
	}
	if s.only != "" && s.only != onlyWorker && s.only != onlyRun {
		return s, fmt.Errorf("only: %s or %s, not %q", onlyWorker, onlyRun, s.only)
	}
	if (s.only == "") != (s.because == "") {
		return s, fmt.Errorf("only and because belong together")
	}
	if s.verb == "" {
		return s, fmt.Errorf("no verb; there are %s", strings.Join(verbs(), ", "))
	}
	return s, nil
}

func (s *step) take(verb string, value any) error {
	if s.verb != "" {
		return fmt.Errorf("two verbs: %s and %s", s.verb, verb)
	}
	if !slices.Contains(verbs(), verb) {
		return fmt.Errorf("%s is no verb; there are %s", verb, strings.Join(verbs(), ", "))
	}
	s.verb = verb
	switch args := value.(type) {
	case nil:
		s.args = map[string]any{}
	case map[string]any:
		s.args = args
	case string:
		// The name of what it is about, in short.
		s.args = map[string]any{"name": args}
	default:
		return fmt.Errorf("%s: a mapping or a name", verb)
	}
	return nil
}

func verbs() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(runnerVerbs)), driverVerbs...)))
}

// expand gives a value the form of JSON, and makes the long text of every
// {$repeat: TEXT, times: N}.
func expand(v any) (any, error) {
	v, err := toJSONForm(v)
	return expandLong(v), err
}

func expandLong(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["$repeat"].(string); ok {
			times, _ := v["times"].(float64)
			return strings.Repeat(text, int(times))
		}
		for key := range v {
			v[key] = expandLong(v[key])
		}
	case []any:
		for i := range v {
			v[i] = expandLong(v[i])
		}
	}
	return v
}
