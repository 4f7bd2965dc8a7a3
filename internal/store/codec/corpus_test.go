package codec

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// extend appends samples of kinds that the corpus does not have. It never
// changes a sample that is there: those bytes lie on people's disks.
var extend = flag.Bool("extend", false, "append missing samples to the golden corpus")

const corpusFile = "testdata/v1.txt"

// sample is one value of the corpus and what it means.
type sample struct {
	name  string
	value []byte
	// meaning is the decoded value, one line per field that is not zero.
	meaning string
}

// TestCorpus: bytes that were stored once are read the same for ever, and
// written the same.
func TestCorpus(t *testing.T) {
	t.Parallel()
	samples := readCorpus(t)
	if *extend {
		samples = extendCorpus(t, samples)
	}
	have := make(map[string]bool)
	for _, s := range samples {
		have[s.name] = true
		meaning, again := decodeSample(t, s.name, s.value)
		if meaning != s.meaning {
			t.Errorf("%s now reads\n%s\nit was\n%s", s.name, meaning, s.meaning)
		}
		if !bytes.Equal(again, s.value) {
			t.Errorf("%s is now written %x, it was %x", s.name, again, s.value)
		}
	}
	for name := range freshSamples(t) {
		if !have[name] {
			t.Errorf("no sample %q: run the test with -extend", name)
		}
	}
}

// grownCommands and grownBodies got fields after their first sample was stored.
var (
	grownCommands = []machine.Command{
		machine.Start{}, machine.SendInput{}, machine.CompleteTurn{}, machine.FailTurn{}, machine.ResolveStep{},
	}
	grownBodies = []machine.Body{&machine.InputReceived{}, &machine.TurnCompleted{}}
	// And again, by who answers.
	answerCommands = []machine.Command{machine.SendInput{}, machine.ResolveStep{}}
	answerBodies   = []machine.Body{&machine.InputReceived{}}
)

// usedCommands and usedBodies tell of models and prices, and when a step is tried again.
var (
	usedCommands = []machine.Command{machine.CompleteTurn{}, machine.FailTurn{}, machine.ResolveStep{}}
	usedBodies   = []machine.Body{&machine.TurnCompleted{}, &machine.TurnFailed{}, &machine.StepResolved{}}
)

// modelCommands and modelBodies were grown by calls of models: what a model asked for is a
// step, a step is one of a model, and what it said joins the conversation.
var (
	modelCommands = []machine.Command{machine.RequestSteps{}, machine.CompleteTurn{}}
	modelBodies   = []machine.Body{
		&machine.StepRequested{}, &machine.StepResolved{}, &machine.StepRejected{}, &machine.StepCancelled{}, &machine.TurnCompleted{},
	}
)

// repeating are records with the input that they repeat; the last repeats nothing.
var repeating = []struct {
	command machine.Command
	body    machine.Body
}{
	{machine.EmitEvent{}, &machine.Transition{}}, {machine.SendInput{}, &machine.InputReceived{}}, {machine.Fork{}, &machine.InputReceived{}},
	{machine.FailTurn{}, &machine.TurnFailed{}}, {machine.RequestSteps{}, &machine.StepRequested{}}, {machine.WriteOutput{}, &machine.OutputWritten{}},
	{machine.NoteDelegation{}, &machine.StepDelegated{}}, {machine.Pause{}, &machine.ArtifactsSet{}},
}

// validatorCommands and validatorBodies name the validator that what a turn said violates.
var (
	validatorCommands = []machine.Command{machine.EmitEvent{}, machine.CompleteTurn{}, machine.AnswerModel{}, machine.RequestModel{}}
	validatorBodies   = []machine.Body{&machine.TurnFailed{}}
)

// evalSamples have results of evals, in the input and in the record, repeated and not.
func evalSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	for i, own := range []bool{true, false} {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 42)), full: true}
		e := f.entry(machine.CompleteTurn{}, &machine.Evaluated{})
		f.fill(reflect.ValueOf(&e.Input.Evals).Elem())
		if own {
			e.Records[0].Body = &machine.Evaluated{Results: e.Input.Evals}
		}
		fresh[fmt.Sprintf("entry with evals, %d", i)] = encode(t, e)
	}
}

// freshSamples are made with every field set, one per command and record kind.
func freshSamples(t *testing.T) map[string][]byte {
	fresh := make(map[string][]byte)
	for i, c := range commands {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 4)), full: true}
		fresh[fmt.Sprintf("entry %T", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	for i, b := range bodiesAll {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 5)), full: true}
		fresh[fmt.Sprintf("entry %T", b)] = encode(t, f.entry(machine.CompleteTurn{}, b))
	}
	evalSamples(t, fresh)
	controlSamples(t, fresh)
	for i, c := range validatorCommands {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 40)), full: true}
		fresh[fmt.Sprintf("entry %T, validators", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	for i, b := range validatorBodies {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 41)), full: true}
		fresh[fmt.Sprintf("entry %T, validators", b)] = encode(t, f.entry(machine.CompleteTurn{}, b))
	}
	for i, c := range grownCommands {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 7)), full: true}
		fresh[fmt.Sprintf("entry %T, agents", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	for i, b := range grownBodies {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 8)), full: true}
		fresh[fmt.Sprintf("entry %T, agents", b)] = encode(t, f.entry(machine.CompleteTurn{}, b))
	}
	for i, c := range answerCommands {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 10)), full: true}
		fresh[fmt.Sprintf("entry %T, answers", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	for i, b := range answerBodies {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 11)), full: true}
		fresh[fmt.Sprintf("entry %T, answers", b)] = encode(t, f.entry(machine.CompleteTurn{}, b))
	}
	for i, c := range usedCommands {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 14)), full: true}
		fresh[fmt.Sprintf("entry %T, prices", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	for i, b := range usedBodies {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 15)), full: true}
		fresh[fmt.Sprintf("entry %T, prices", b)] = encode(t, f.entry(machine.CompleteTurn{}, b))
	}
	for i, c := range modelCommands {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 16)), full: true}
		fresh[fmt.Sprintf("entry %T, models", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	for i, b := range modelBodies {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 17)), full: true}
		fresh[fmt.Sprintf("entry %T, models", b)] = encode(t, f.entry(machine.Pause{}, b))
	}
	forkedModels := &filler{rnd: rand.New(rand.NewPCG(4, 5)), full: true}
	fresh["entry of a fork, models"] = encode(t, forkedModels.entry(machine.Fork{}, &machine.Origin{}))
	models := &filler{rnd: rand.New(rand.NewPCG(1, 18)), full: true}
	fresh["head, models"] = EncodeHead(models.state(), [32]byte{9})
	steered := &filler{rnd: rand.New(rand.NewPCG(1, 21)), full: true}
	fresh["head, steering"] = EncodeHead(steered.state(), [32]byte{10})
	fresh["entry of a request, steering"] = encode(t, steered.entry(machine.RequestModel{}, &machine.StepRequested{}))
	fresh["entry of a fork, steering"] = encode(t, steered.entry(machine.Fork{}, &machine.Origin{}))
	bounds := &filler{rnd: rand.New(rand.NewPCG(1, 71)), full: true}
	fresh["head, bounds"] = EncodeHead(bounds.state(), [32]byte{71})
	fresh["entry of an answer, bounds"] = encode(t, bounds.entry(machine.AnswerModel{}, &machine.ModelUpdated{}))
	called := &filler{rnd: rand.New(rand.NewPCG(1, 73)), full: true}
	fresh["head, calls of tools"] = EncodeHead(called.state(), [32]byte{73})
	again := &filler{rnd: rand.New(rand.NewPCG(1, 72)), full: true}
	fresh["entry of an answer that is told again"] = encode(t, again.entry(machine.AnswerModel{}, &machine.ModelUpdated{}))
	f := &filler{rnd: rand.New(rand.NewPCG(3, 10)), full: true}
	fresh["entry with semantics"] = encode(t, f.entry(machine.ResolveStep{}, &machine.StepResolved{}, &machine.Ended{}))
	grown := &filler{rnd: rand.New(rand.NewPCG(1, 9)), full: true}
	fresh["head, agents"] = EncodeHead(grown.state(), [32]byte{8})
	forked := &filler{rnd: rand.New(rand.NewPCG(2, 5)), full: true}
	fresh["entry of a fork"] = encode(t, forked.entry(machine.Fork{}, &machine.Origin{}, &machine.InputReceived{}))
	f = &filler{rnd: rand.New(rand.NewPCG(1, 6)), full: true}
	fresh["head"] = EncodeHead(f.state(), [32]byte{7})
	fresh["step holder"] = EncodeHolder(machine.StepHolder{Principal: "build", Worker: "w-1"})
	fresh["step holder with delivery"] = EncodeHolder(machine.StepHolder{Principal: "build", Worker: "w-1", Instance: "i", Delivery: 300})
	fresh["step holder with instance"] = EncodeHolder(machine.StepHolder{Principal: "build", Worker: "w-1", Instance: "i"})
	loops := &filler{rnd: rand.New(rand.NewPCG(1, 19)), full: true}
	fresh["head, loops"] = EncodeHead(loops.state(), [32]byte{10})
	for i, pair := range repeating {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 20)), full: true}
		e := f.entry(pair.command, pair.body)
		echo(e.Records[0].Body, e.Input.Command)
		if moved, ok := e.Records[0].Body.(*machine.Transition); ok {
			moved.Cause = machine.CauseTimeout
		}
		e.Input.Semantics = machine.SemanticsEnds
		fresh[fmt.Sprintf("entry %T of %T", pair.body, pair.command)] = encode(t, e)
	}
	ledgerSamples(t, fresh)
	policySamples(t, fresh)
	payerSamples(t, fresh)
	sendingSamples(t, fresh)
	callerSamples(t, fresh)
	repeatableSamples(t, fresh)
	rejectedSamples(t, fresh)
	normalSamples(t, fresh)
	effectSamples(t, fresh)
	approvalSamples(t, fresh)
	accounts := &filler{rnd: rand.New(rand.NewPCG(1, 230)), full: true}
	billed := accounts.entry(machine.Cancel{}, &machine.Ended{})
	accounts.fill(reflect.ValueOf(&billed.Input.Billed).Elem())
	fresh["entry with accounts"] = encode(t, billed)
	fresh["head, accounts"] = EncodeHead(accounts.state(), [32]byte{23})
	awaits := &filler{rnd: rand.New(rand.NewPCG(1, 94)), full: true}
	asks := awaits.state()
	asks.TurnAwaiting = machine.AwaitAuth
	fresh["head, asked"] = EncodeHead(asks, [32]byte{24})
	asked, answered := modelBodiesOfInputs()
	fresh["entry that repeats its request"], fresh["entry that repeats its answer"] = encode(t, asked), encode(t, answered)
	return fresh
}

// modelBodiesOfInputs are entries whose records have the very request, or answer, of their
// input, as the machine makes them: it is stored once.
func modelBodiesOfInputs() (asked, answered machine.Entry) {
	f := &filler{rnd: rand.New(rand.NewPCG(2, 18)), full: true}
	request := f.command(machine.RequestModel{}).(machine.RequestModel)
	answer := f.command(machine.AnswerModel{}).(machine.AnswerModel)
	return oneRecord(request, &machine.StepRequested{Step: 1, Kind: machine.KindModel, Model: request.Model}),
		oneRecord(answer, &machine.StepResolved{Step: 1, Kind: machine.KindModel, OK: true, Answer: answer.Answer, Error: answer.Error})
}

func extendCorpus(t *testing.T, samples []sample) []sample {
	have := make(map[string]bool)
	for _, s := range samples {
		have[s.name] = true
	}
	for name, value := range freshSamples(t) {
		if !have[name] {
			meaning, _ := decodeSample(t, name, value)
			samples = append(samples, sample{name, value, meaning})
		}
	}
	var out strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&out, "== %s\n%x\n%s", s.name, s.value, s.meaning)
	}
	if err := os.WriteFile(corpusFile, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return samples
}

func decodeSample(t *testing.T, name string, value []byte) (meaning string, again []byte) {
	t.Helper()
	if strings.HasPrefix(name, "step holder") {
		holder, err := DecodeHolder(value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return describe(holder), EncodeHolder(holder)
	}
	if strings.HasPrefix(name, "head") {
		st, err := DecodeHead(bytes.Clone(value))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return describe(st), EncodeHead(st, st.PrevHash)
	}
	e, err := DecodeEntry("run", bytes.Clone(value))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	again, hash, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
	if err != nil || hash != e.Hash {
		t.Fatalf("%s: hash %x, stored %x, %v", name, hash, e.Hash, err)
	}
	return describe(e), again
}

func readCorpus(t *testing.T) []sample {
	t.Helper()
	text, err := os.ReadFile(corpusFile)
	if err != nil {
		t.Fatal(err)
	}
	var samples []sample
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "== "); ok {
			if !lines.Scan() {
				t.Fatalf("%s: no bytes", name)
			}
			value, err := hex.DecodeString(lines.Text())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			samples = append(samples, sample{name: name, value: value})
			continue
		}
		last := &samples[len(samples)-1]
		last.meaning += lines.Text() + "\n"
	}
	return samples
}

// describe lists the fields that are not zero, by path. Fields that are added to
// the types later are zero in old bytes and do not show.
func describe(v any) string {
	var out strings.Builder
	describeValue(&out, "", reflect.ValueOf(v))
	return out.String()
}

func describeValue(out *strings.Builder, path string, v reflect.Value) {
	switch {
	case v.IsZero():
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		if v.Kind() == reflect.Interface {
			path += "(" + strings.TrimPrefix(v.Elem().Type().String(), "*") + ")"
		}
		describeValue(out, path, v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			describeValue(out, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case v.Kind() == reflect.Array || v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		fmt.Fprintf(out, "%s %x\n", path, v.Interface())
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			describeValue(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case v.Kind() == reflect.String:
		fmt.Fprintf(out, "%s %q\n", path, v.String())
	default:
		fmt.Fprintf(out, "%s %d\n", path, number(v))
	}
}

func number(v reflect.Value) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	}
	return map[bool]int{true: 1}[v.Bool()]
}
