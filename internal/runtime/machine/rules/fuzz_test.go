package rules

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fuzzGraphs are the graphs that FuzzStep chooses from.
var fuzzGraphs = []string{`
entry s0
state s0: E0->s1 E1->s0 max=3 exit=s2 iter=E1:1
state s1: E0->s0 E1->s3 hybrid timeout=5s:E0 persistent
state s2: E0->s0 external max=1 exit=s0
state s3: terminal
artifact text text/plain
artifact list application/json append
tool t0 timeout=3s attempts=2 on_unknown=retry bind=list
tool t1 agent on_error=escalate
budget max_total_visits=9 max_tool_calls=5 wall=60s steps=4 reframes=1 tokens=100 cost=100
options pending=2 artifact_bytes=20 excludes_waiting`, `
entry s0
state s0: E0->s0
tool t0`, `
entry s0
state s0: terminal external timeout=5s:E0`, `
entry s0
state s0: E0->s0 E1->s1 timeout=9s:E1
state s1: E0->s0 hybrid
tool t0 timeout=3s attempts=2 on_unknown=reconcile reconcile=w compensate=k cost=7 approve=x held=4s
tool t1 agent compensate=k approve approve_escalate
tool w timeout=2s
tool k attempts=2 on_unknown=reconcile reconcile=w
budget tokens=100 cost=100
options pending=3 compensate_on=E1 no_progress=3:ac`}

// FuzzStep turns bytes into arbitrary inputs. It checks that there is no panic, that the invariants
// hold, that refused inputs change nothing, that rows agree with the state, and that the journal
// replays to the same state (the ledger makes these checks).
func FuzzStep(f *testing.F) {
	f.Add([]byte{})
	f.Add(askAndAnswer(f))
	for kind := range fuzzCommands {
		f.Add([]byte{0, 1, 2, 3, byte(kind), 1, 1, 1, 1, 1, 1, 1, 1, 1, byte(kind), 0, 0, 0, 2, 2, 2, 2, 1, 2, 1, 2, 1})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := &source{data: data}
		g, err := parseGraph(fuzzGraphs[src.byte()%len(fuzzGraphs)])
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, g)
		start := machine.Start{RunID: "R", Execution: machine.Caller + machine.Execution(src.byte()%2)}
		if _, err := l.apply(machine.Input{At: epoch, Command: start}); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			if len(src.data) == 0 {
				break
			}
			in := machine.Input{At: src.int(), Principal: src.text(), Command: src.command(), Semantics: machine.Semantics(src.byte() % (int(machine.Current) + 2))}
			in.BodyHash = bodyHash(in.Command)
			if src.byte()%3 == 0 {
				in.ID = src.text()
			}
			_, _ = l.apply(in)
		}
		l.replay()
	})
}

// FuzzStart starts runs with arbitrary fields of Start, as a caller may send them.
func FuzzStart(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		src := &source{data: data}
		g, err := parseGraph(fuzzGraphs[src.byte()%len(fuzzGraphs)])
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, g)
		var start machine.Start
		src.fill(reflect.ValueOf(&start).Elem())
		_, _ = l.apply(machine.Input{At: src.int(), Command: start})
		l.replay()
	})
}

// FuzzModel drives TestModel's property by the fuzzer's coverage.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkModel)) }

// fuzzCommands are all commands but Start; FireTimer stands twice for timers of
// its own.
var fuzzCommands = []machine.Command{
	machine.EmitEvent{}, machine.SendInput{}, machine.SetArtifacts{}, machine.CompleteTurn{}, machine.FailTurn{}, machine.SuspendTurn{}, machine.RequestSteps{}, machine.ResolveStep{},
	machine.FireTimer{}, machine.Pause{}, machine.Resume{}, machine.Cancel{}, machine.LoseTurn{}, machine.LoseStep{}, machine.Start{}, nil,
	machine.WriteOutput{}, machine.NoteDelegation{}, machine.RequestModel{}, machine.AnswerModel{}, machine.UpdateModelCall{},
	machine.RaiseBudget{}, machine.Steer{}, machine.Stop{}, machine.DecideStep{},
}

// askAndAnswer is a seed: a call of a model that is answered.
func askAndAnswer(f *testing.F) []byte {
	f.Helper()
	asks := func(c machine.Command) byte {
		return byte(slices.IndexFunc(fuzzCommands, func(o machine.Command) bool { return o != nil && reflect.TypeOf(o) == reflect.TypeOf(c) }))
	}
	request := append([]byte{1, 0, asks(machine.RequestModel{}), 1, 1, 1, 0, 1, 0}, make([]byte, 16)...)
	answer := append([]byte{1, 0, asks(machine.AnswerModel{}), 1, 1, 1, 1, 1, 1}, make([]byte, 40)...)
	return slices.Concat([]byte{0, 0}, request, answer)
}

// source reads values from the fuzzer's bytes; past their end all are zero.
type source struct{ data []byte }

func (s *source) byte() int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b)
}

// int is small in most cases, else an edge or anything.
func (s *source) int() int64 {
	switch b := s.byte(); {
	case b < 200:
		return int64(b % 8)
	case b < 220:
		return epoch + int64(b-200)*1e9
	case b < 230:
		return []int64{math.MaxInt64, math.MinInt64, -1, math.MaxInt32, 1 << 30, 0, 1, 300, 65537, -2}[b-220]
	}
	var raw [8]byte
	s.data = s.data[copy(raw[:], s.data):]
	return int64(binary.BigEndian.Uint64(raw[:]))
}

var fuzzWords = []string{"", "E0", "E1", "t0", "t1", "text", "list", "1", "k", "[1,2]", `"s"`, "{}", "w", "\xff", "E2", "null"}

func (s *source) text() string { return fuzzWords[s.byte()%len(fuzzWords)] }

func (s *source) command() machine.Command {
	proto := fuzzCommands[s.byte()%len(fuzzCommands)]
	if proto == nil {
		return nil
	}
	v := reflect.New(reflect.TypeOf(proto)).Elem()
	s.fill(v)
	return v.Interface().(machine.Command)
}

// fill writes every field of a command.
func (s *source) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			s.fill(field)
		}
	case reflect.Pointer:
		if s.byte()%2 == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			s.fill(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(s.text()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), s.byte()%4, 4))
		for i := range v.Len() {
			s.fill(v.Index(i))
		}
	case reflect.Array:
		v.Index(0).SetUint(uint64(s.byte() % 2))
	case reflect.String:
		v.SetString(s.text())
	case reflect.Bool:
		v.SetBool(s.byte()%2 == 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(s.int()))
	default:
		v.SetInt(s.int())
	}
}
