package main

import (
	"fmt"
	"slices"
	"strings"
)

// level says how much of the contract a scenario needs. A driver of a level plays the scenarios of
// that level and of those below it.
type level int

const (
	// coreLevel: packs, runs, turns, events, artifacts, input, records; a sidecar that is killed.
	coreLevel level = iota
	// stepsLevel: tool calls, approvals, budgets, steering, forks, streams of records.
	stepsLevel
	// workerLevel: processes that execute turns and tools over the worker protocol.
	workerLevel
	// modelsLevel: calls of models as steps, and the answers of model endpoints.
	modelsLevel
)

// levels are the words of the levels, the lowest first.
var levels = []string{"core", "steps", "worker", "models"}

func (l level) String() string { return levels[l] }

// levelOf reads a word of a level.
func levelOf(word string) (level, error) {
	i := slices.Index(levels, word)
	if i < 0 {
		return 0, fmt.Errorf("level: %s, not %q", strings.Join(levels, ", "), word)
	}
	return level(i), nil
}

// verbLevels are the levels of verbs; a verb that is not here is of the core.
var verbLevels = map[string]level{
	"approvals": stepsLevel, "decide": stepsLevel, "effects": stepsLevel, "executions": stepsLevel, "flood": stepsLevel, "fork": stepsLevel,
	"ledger": stepsLevel, "output": stepsLevel, "raise_budget": stepsLevel, "request": stepsLevel, "resolve": stepsLevel, "steer": stepsLevel,
	"stop_run": stepsLevel, "verify": stepsLevel, "watch": stepsLevel, "watched": stepsLevel,
	"await": workerLevel, "freeze": workerLevel, "kill": workerLevel, "release": workerLevel, "stop": workerLevel, "thaw": workerLevel,
	"worker":       workerLevel,
	"answer_model": modelsLevel, "model_step": modelsLevel, "request_model": modelsLevel, "update_model_call": modelsLevel,
}

// level is the highest level of the verbs of a scenario. A worker whose script calls models is of
// the models.
func (s *scenario) level() level {
	most := coreLevel
	for _, st := range s.steps {
		most = max(most, verbLevels[st.verb])
		if st.verb == "worker" && hasKey(st.args, "rounds") {
			most = modelsLevel
		}
	}
	return most
}

// hasKey reports whether a key is anywhere in a value.
func hasKey(v any, key string) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, value := range v {
			if k == key || hasKey(value, key) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(value any) bool { return hasKey(value, key) })
	}
	return false
}
