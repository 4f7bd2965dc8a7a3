package play

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// runOp is a call about one run, as the pure machine sees it.
type runOp struct {
	run string
	// id makes it one call however often it is sent; "" = it is sent once.
	id string
	// repeatable means that the call has no id, so that a node that forwards it may repeat it after a lost answer.
	repeatable bool
	// command is nil for a read. A read and a start do not change an existing run.
	command machine.Command
}

// runAnswer is the answer that the caller received. nil means that it received none: the call may have
// taken effect, may take effect later, or never.
type runAnswer struct {
	// reason is the reason of the refusal. The model accepts a refusal for missing rights at any time, because it changes
	// no run.
	reason    string
	authority bool
	// seq is the run's last record after the call.
	seq uint64
	// state is visited after an event or a read.
	state string
	// disposition is what became of a step's answer, step the number of a request's.
	disposition machine.Disposition
	step        uint32
}

// runModel returns a register whose value is the state of a run of the desk pack. Only rules.Step changes it.
func runModel(t *testing.T, desk string) porcupine.Model {
	t.Helper()
	graph := compiled(t, desk)
	model := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			return partition(history, func(op porcupine.Operation) string { return op.Input.(runOp).run })
		},
		Init: func() []any { return []any{(*machine.State)(nil)} },
		Step: func(state, input, output any) []any {
			s, answer := state.(*machine.State), output.(*runAnswer)
			next, want := stepRun(graph, s, input.(runOp))
			if input.(runOp).repeatable && answer != nil && *answer != want {
				next, want = stepRun(graph, next, input.(runOp))
			}
			switch {
			case answer == nil:
				return []any{s, next}
			case answer.authority:
				return []any{s}
			case *answer != want && !isLaterAnswer(input.(runOp), answer, want):
				return nil
			default:
				return []any{next}
			}
		},
		Equal:             reflect.DeepEqual,
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
	return model.ToModel()
}

// isLaterAnswer reports whether an answer fits a request for steps that was repeated after other inputs: the same steps as
// the run was then, or the reason why they are no longer given out.
func isLaterAnswer(op runOp, answer *runAnswer, want runAnswer) bool {
	if _, ok := op.command.(machine.RequestSteps); !ok || want.reason != "" {
		return false
	}
	switch answer.reason {
	case "":
		return answer.step == want.step && answer.seq > want.seq
	case "TURN_STALE", "PAUSED", "COMPENSATING", "RUN_TERMINAL":
		return true
	}
	return false
}

func compiled(t *testing.T, file string) *machine.Graph {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, faults, err := pack.Load(src, pack.Options{})
	if err != nil || p == nil {
		t.Fatalf("%v, %v", faults, err)
	}
	graph, err := p.Compile(pack.Entry{})
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

// stepRun is one call to a run that is alone in the world.
func stepRun(g *machine.Graph, s *machine.State, op runOp) (*machine.State, runAnswer) {
	if _, start := op.command.(machine.Start); start && s != nil {
		// The same request id: the first answer again.
		_, first := stepRun(g, nil, op)
		return s, first
	}
	switch {
	case op.command == nil && s == nil:
		return s, runAnswer{reason: "RUN_NOT_FOUND"}
	case op.command == nil:
		return s, runAnswer{seq: s.Seq, state: s.Current}
	}
	result, err := rules.Step(g, s, machine.Input{At: 1, Principal: "anonymous", ID: op.id, Semantics: machine.Current, Command: op.command})
	if err == nil && result.Refused != nil {
		err = result.Refused
	}
	next := result.State
	if next == nil {
		next = s
	}
	if refused, ok := errors.AsType[*machine.Error](err); ok {
		return next, runAnswer{reason: refused.Reason}
	}
	answer := runAnswer{seq: next.Seq}
	switch op.command.(type) {
	case machine.EmitEvent:
		answer.state = next.Current
	case machine.ResolveStep:
		answer.disposition = result.Disposition
	case machine.RequestSteps:
		answer.step = result.Steps[0].Step
		if result.Steps[0].Denial != nil {
			answer.reason = result.Steps[0].Denial.Code
		}
	}
	return next, answer
}

// hookOp is a call about one webhook: to put it with a URL, to delete it ("") or to read.
type hookOp struct {
	id, url string
	read    bool
}

// hookAnswer is the answer that the caller received. nil means that it received none.
type hookAnswer struct {
	created, missing bool
	url              string
}

// hookModel returns a register whose value is the URL of a webhook.
func hookModel() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			return partition(history, func(op porcupine.Operation) string { return op.Input.(hookOp).id })
		},
		Init: func() []any { return []any{""} },
		Step: func(state, input, output any) []any {
			url, op, answer := state.(string), input.(hookOp), output.(*hookAnswer)
			next, want := op.url, hookAnswer{}
			switch {
			case op.read:
				next, want = url, hookAnswer{url: url, missing: url == ""}
			case op.url == "":
				want.missing = url == ""
			default:
				want.created = url == ""
			}
			switch {
			case answer == nil:
				return []any{url, next}
			case *answer != want:
				return nil
			default:
				return []any{next}
			}
		},
	}
	return model.ToModel()
}

func partition(history []porcupine.Operation, key func(porcupine.Operation) string) (parts [][]porcupine.Operation) {
	at := map[string]int{}
	for _, op := range history {
		i, ok := at[key(op)]
		if !ok {
			i = len(parts)
			at[key(op)] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

func payloadHash(payload string) [32]byte { return sha256.Sum256([]byte(payload)) }
