package codec

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// commands and bodies have one value of each kind, to be filled.
var (
	commands = []machine.Command{
		machine.Start{}, machine.EmitEvent{}, machine.SendInput{}, machine.SetArtifacts{}, machine.CompleteTurn{},
		machine.FailTurn{}, machine.SuspendTurn{}, machine.RequestSteps{}, machine.ResolveStep{}, machine.FireTimer{},
		machine.Pause{}, machine.Resume{}, machine.Cancel{}, machine.LoseTurn{}, machine.LoseStep{}, machine.Fork{},
		machine.WriteOutput{}, machine.NoteDelegation{},
		machine.RequestModel{}, machine.AnswerModel{}, machine.UpdateModelCall{},
		machine.RaiseBudget{},
		machine.Steer{}, machine.Stop{},
		machine.DecideStep{},
	}
	bodiesAll = []machine.Body{
		&machine.Transition{}, &machine.InputReceived{}, &machine.TurnOpened{}, &machine.TurnAssigned{}, &machine.TurnCompleted{},
		&machine.TurnFailed{}, &machine.TurnAbandoned{}, &machine.TurnSuspended{}, &machine.StepRequested{}, &machine.StepResolved{},
		&machine.StepRejected{}, &machine.StepCancelled{}, &machine.ArtifactsSet{}, &machine.Paused{}, &machine.Resumed{},
		&machine.Origin{}, &machine.Ended{}, &machine.TurnReady{},
		&machine.OutputWritten{}, &machine.StepDelegated{}, &machine.NoChange{},
		&machine.ModelUpdated{},
		&machine.BudgetRaised{},
		&machine.Steered{}, &machine.Stopped{}, &machine.NoticeAdded{},
		&machine.StepDecided{}, &machine.Evaluated{},
		&machine.StepOutcomeUnknown{}, &machine.CompensationStarted{},
	}
)

// enums are the types whose numbers form a closed set, with their last.
var enums = map[reflect.Type]uint64{
	reflect.TypeFor[machine.PartKind]():   uint64(machine.PartURI),
	reflect.TypeFor[machine.Execution]():  uint64(machine.Sidecar),
	reflect.TypeFor[machine.TimerKind]():  uint64(machine.TimerStep),
	reflect.TypeFor[machine.Cause]():      uint64(machine.CauseBudget),
	reflect.TypeFor[machine.Status]():     uint64(machine.Cancelled),
	reflect.TypeFor[machine.StepStatus](): uint64(machine.StepStatusCancelled),
	reflect.TypeFor[machine.Mode]():       uint64(machine.Append),
	reflect.TypeFor[machine.Awaiting]():   uint64(machine.AwaitAuth),
	reflect.TypeFor[machine.Sending]():    uint64(machine.SentNot),
	reflect.TypeFor[machine.Verdict]():    uint64(machine.Expired),
}

// filler gives every field of a machine type some value, by reflection: a field
// that the codec forgets makes a round trip fail.
type filler struct {
	rnd *rand.Rand
	// full leaves nothing empty.
	full bool
}

func (f *filler) fill(v reflect.Value) {
	if last, ok := enums[v.Type()]; ok {
		v.SetUint(f.rnd.Uint64N(last + 1))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			// What a caller claims of a value is not stored, nor is what rows lack.
			if v.Type() == reflect.TypeFor[machine.ArtifactWrite]() && i >= 2 ||
				v.Type() == reflect.TypeFor[machine.State]() && slices.Contains([]string{"Unlisted", "Key", "Erased"}, v.Type().Field(i).Name) {
				continue
			}
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		f.fillSlice(v)
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Pointer:
		if f.full || f.rnd.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	default:
		f.fillScalar(v)
	}
}

// fillSlice leaves nil what gets no elements.
func (f *filler) fillSlice(v reflect.Value) {
	n := f.rnd.IntN(4)
	if v.Type().Elem().Kind() == reflect.Uint8 {
		n = []int{0, 1, 5, 40, 300}[f.rnd.IntN(5)]
	}
	if f.full {
		n = 1 + n%2
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = 6
		}
	}
	if n == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		f.fill(v.Index(i))
	}
}

func (f *filler) fillScalar(v reflect.Value) {
	if !f.full && f.rnd.IntN(4) == 0 {
		return
	}
	bits := f.rnd.Uint64() >> f.rnd.UintN(64)
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		if f.full {
			v.SetString("tool_error:run_tests"[:3+f.rnd.IntN(17)])
			return
		}
		v.SetString([]string{"plan", "Δ läuft", "a\x00b", "tool_error:run_tests", strings.Repeat("x", 200)}[f.rnd.IntN(5)])
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(bits))
	case reflect.Uint8:
		v.SetUint(bits & 0xFF)
	case reflect.Uint16:
		v.SetUint(bits & 0xFFFF)
	case reflect.Uint32:
		v.SetUint(bits & 0xFFFFFFFF)
	case reflect.Uint64:
		v.SetUint(bits)
	default:
		panic("no filling for " + v.Type().String())
	}
}

func (f *filler) command(kind machine.Command) machine.Command {
	v := reflect.New(reflect.TypeOf(kind)).Elem()
	f.fill(v)
	return v.Interface().(machine.Command)
}

func (f *filler) body(kind machine.Body) machine.Body {
	v := reflect.New(reflect.TypeOf(kind).Elem())
	f.fill(v.Elem())
	return v.Interface().(machine.Body)
}

func (f *filler) state() *machine.State {
	st := &machine.State{}
	f.fill(reflect.ValueOf(st).Elem())
	return st
}

// entry fills an input and records of the given kinds.
func (f *filler) entry(command machine.Command, kinds ...machine.Body) machine.Entry {
	var e machine.Entry
	f.fill(reflect.ValueOf(&e.PrevHash).Elem())
	e.First = 1 + f.rnd.Uint64N(1000)
	e.Input = machine.Input{At: f.rnd.Int64(), Principal: "anonymous", Command: f.command(command)}
	f.fill(reflect.ValueOf(&e.Input.ID).Elem())
	f.fill(reflect.ValueOf(&e.Input.BodyHash).Elem())
	for i, kind := range kinds {
		r := machine.Record{Seq: e.First + uint64(i), At: e.Input.At, Principal: e.Input.Principal, Body: f.body(kind)}
		if f.rnd.IntN(4) == 0 {
			r.At, r.Principal = e.Input.At+f.rnd.Int64N(1000)-500, ""
		}
		if f.rnd.IntN(2) == 0 {
			echo(r.Body, e.Input.Command)
		}
		e.Records = append(e.Records, r)
	}
	return e
}

// echo makes a record repeat what its input brought, as the machine's do.
func echo(body machine.Body, command machine.Command) {
	switch c := command.(type) {
	case machine.Start:
		setField(body, "Parts", c.Input)
	case machine.EmitEvent:
		setField(body, "Artifacts", c.Artifacts)
	case machine.SetArtifacts:
		setField(body, "Artifacts", c.Artifacts)
	case machine.Fork:
		setField(body, "State", c.From)
		setField(body, "Conversations", c.Conversations)
		setField(body, "Steps", c.Steps)
		setField(body, "Artifacts", append(slices.Clip(c.Values), c.Changes...))
		if len(c.Queued) > 0 {
			setField(body, "Parts", c.Queued[len(c.Queued)-1].Parts)
		}
	case machine.SendInput:
		setField(body, "Parts", c.Parts)
	case machine.WriteOutput:
		setField(body, "Piece", c.Piece)
	case machine.NoteDelegation:
		setField(body, "Question", c.Question)
	case machine.CompleteTurn:
		setField(body, "Artifacts", c.Artifacts)
		setField(body, "Output", c.Output)
		setField(body, "Messages", c.Messages)
	case machine.FailTurn:
		setField(body, "Error", c.Error)
	case machine.RequestSteps:
		if len(c.Requests) > 0 {
			setField(body, "Payload", c.Requests[len(c.Requests)-1].Payload)
		}
	case machine.ResolveStep:
		setField(body, "Result", c.Result)
		setField(body, "Error", c.Error)
		setField(body, "Artifacts", []machine.ArtifactWrite{{Name: "bound", Value: c.Result}})
	case machine.RequestModel:
		setField(body, "Model", c.Model)
	case machine.AnswerModel:
		setField(body, "Answer", c.Answer)
		setField(body, "Error", c.Error)
	}
}

func setField(body machine.Body, field string, value any) {
	if v := reflect.ValueOf(body).Elem().FieldByName(field); v.IsValid() && v.Type() == reflect.TypeOf(value) {
		v.Set(reflect.ValueOf(value))
	}
}
