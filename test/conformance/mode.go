package main

import "slices"

// mode is how the processes of a scenario execute runs: a scenario says what they do once, and is
// played in every mode.
type mode struct {
	// serves means that client.run and run.drive execute the runs. Otherwise a worker does.
	serves bool
	// async means that the asynchronous client executes the runs, in coroutines.
	async bool
}

// Values of `only`.
const (
	onlyWorker = "worker"
	onlyRun    = "run"
)

// allModes are those of a language that has an asynchronous client beside the blocking one.
var allModes = []mode{{}, {serves: true}, {async: true}, {serves: true, async: true}}

func (m mode) String() string {
	text := onlyWorker
	if m.serves {
		text = onlyRun
	}
	if m.async {
		text += "/async"
	}
	return text
}

// accepts tells whether what is only for one kind of mode is for this one.
func (m mode) accepts(only string) bool {
	return only == "" || m.serves == (only == onlyRun)
}

// applies tells whether a scenario is played in a column. A scenario whose processes execute no
// turns is the same in both kinds of mode, and is played with the workers.
func (s *scenario) applies(lang language, m mode) bool {
	if s.level() > lang.level || !s.appliesTo(lang.name) || !m.accepts(s.Only) {
		return false
	}
	return s.executesTurns() || !m.serves
}

// executesTurns tells whether a process of the scenario executes turns.
func (s *scenario) executesTurns() bool {
	return slices.ContainsFunc(s.steps, executesTurns)
}

// executesTurns tells whether a step starts a process that executes turns.
func executesTurns(s step) bool {
	return s.verb == "worker" && (s.args["turns"] != nil || s.args["agents"] != nil)
}

// named returns an expectation in the form of the mode. {$worker: NAME} is the name of a worker.
// Where runs are served, any id of the client is accepted.
func (m mode) named(want any) any {
	switch want := want.(type) {
	case map[string]any:
		if name, ok := want["$worker"]; ok {
			if m.serves {
				return map[string]any{"$set": true}
			}
			return name
		}
		other := map[string]any{}
		for key, value := range want {
			other[key] = m.named(value)
		}
		return other
	case []any:
		other := make([]any, len(want))
		for i := range want {
			other[i] = m.named(want[i])
		}
		return other
	}
	return want
}
