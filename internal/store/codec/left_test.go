package codec

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// remainingTexts are the fields whose texts remain after an erasure. All other texts are values, which an
// erasure removes.
var remainingTexts = []string{
	"Assignment.Worker", "Bill.Account", "Charge.Account", "Count.State", "EdgeCount.Event", "EdgeCount.State", "EmitEvent.Event", "CompleteTurn.Event",
	"EvalResult.ID", "EvalResult.Type", "EvalResult.Prompt", "EvalResult.Trigger", "EvalResult.Groups", "EvalResult.Threshold", "EvalMetric.Name", "EvalMetric.Kind",
	"Ended.Event", "Ended.Intended", "Ended.Reason", "Fork.RunID", "Forked.RunID", "InputReceived.MessageID", "InputReceived.Scopes",
	"Input.ID", "Input.Principal", "Label.Key", "Label.Value", "LoseStep.Worker", "NoChange.ID", "Origin.RunID", "Parent.Origin", "Parent.RunID",
	"About.Tool", "CompensationStarted.Event", "CompensationStarted.Intended", "CompensationStarted.Reason", "StepOutcomeUnknown.Tool", "StepOutcomeUnknown.Worker", "UncompensatedEffect.Tool",
	"Record.Principal", "ToolPolicy.Allow", "ToolPolicy.Block", "Redirect.Guard", "Redirect.State", "ResolveStep.Tool", "ResolveStep.Worker", "SendInput.Scopes", "Start.RunID",
	"Violation.ID", "Violation.Type", "State.Agent", "State.Current", "State.Digest", "State.Entry", "State.PackID", "State.PackVersion", "State.Reason", "State.RunID",
	"StepCancelled.Tool", "StepCancelled.Why", "StepDecided.Tool", "StepDelegated.Tool", "StepRejected.Tool", "StepRequested.Tool", "StepResolved.Tool",
	"StepResolved.Worker", "Task.ContextID", "Task.Owner", "Task.Tenant", "Transition.Event", "Transition.From", "Transition.Intended",
	"Transition.To", "TurnAbandoned.Why", "TurnCompleted.Event", "TurnOpened.State",
}

// fillWithNames sets every text and all bytes of a value to the name of the field that contains them.
func fillWithNames(v reflect.Value, name string, depth int) {
	if depth > 9 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Erased" || f.Name == "PrevHash" || f.Name == "Unlisted" || f.Name == "Command" || f.Name == "Body" {
				continue
			}
			fillWithNames(v.Field(i), v.Type().Name()+"."+f.Name, depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillWithNames(v.Elem(), name, depth+1)
	case reflect.String:
		v.SetString("<" + name + ">")
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("<" + name + ">"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillWithNames(v.Index(0), name, depth+1)
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(0xEE)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	}
}

var fieldName = regexp.MustCompile(`<([A-Za-z]+\.[A-Za-z]+)>`)

// mustStay checks that the bytes that remain after an erasure contain only names from remainingTexts, and no
// hash.
func mustStay(t *testing.T, what string, left []byte, seen map[string]bool) {
	t.Helper()
	for _, m := range fieldName.FindAllSubmatch(left, -1) {
		seen[string(m[1])] = true
		if !slices.Contains(remainingTexts, string(m[1])) {
			t.Errorf("%s: %s is left", what, m[1])
		}
	}
	if bytes.Contains(left, bytes.Repeat([]byte{0xEE}, 32)) {
		t.Errorf("%s: a hash is left", what)
	}
}

// TestWhatIsLeft: an erasure leaves exactly the texts in remainingTexts, for every command, every body of a
// record and a state.
func TestWhatIsLeft(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var all []reflect.Type
	for _, c := range commands {
		all = append(all, reflect.TypeOf(c))
	}
	for _, b := range bodiesAll {
		all = append(all, reflect.TypeOf(b).Elem())
	}
	for _, c := range all {
		v := reflect.New(c).Elem()
		fillWithNames(v, v.Type().Name(), 0)
		in := machine.Input{}
		fillWithNames(reflect.ValueOf(&in).Elem(), "Input", 0)
		in.Command = machine.Pause{}
		var r machine.Record
		fillWithNames(reflect.ValueOf(&r).Elem(), "Record", 0)
		r.Seq, r.Body = 1, &machine.Paused{}
		if command, ok := reflect.TypeAssert[machine.Command](v); ok {
			in.Command = command
		} else {
			r.Body = v.Addr().Interface().(machine.Body)
		}
		leftIn := leftOfInput(&in)
		value, _, err := EncodeEntry([32]byte{}, 1, &leftIn, leftOfRecords([]machine.Record{r}))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		mustStay(t, c.String(), value[entryAt:], seen)
	}
	var st machine.State
	fillWithNames(reflect.ValueOf(&st).Elem(), "State", 0)
	mustStay(t, "state", EncodeHead(leftOfState(&st), [32]byte{}), seen)
	for _, name := range remainingTexts {
		if !seen[name] {
			t.Errorf("%s is not left", name)
		}
	}
}

// TestFlagsAreLeft: an erased record has each flag of the record, because streams and traces depend on them.
func TestFlagsAreLeft(t *testing.T) {
	t.Parallel()
	for _, b := range bodiesAll {
		v := reflect.New(reflect.TypeOf(b).Elem())
		fillWithNames(v.Elem(), v.Elem().Type().Name(), 0)
		left := reflect.ValueOf(leftOfBody(v.Interface().(machine.Body))).Elem()
		if left.Type() != v.Elem().Type() {
			t.Errorf("%s becomes a %s", v.Elem().Type(), left.Type())
			continue
		}
		for i := range left.NumField() {
			if left.Field(i).Kind() == reflect.Bool && !left.Field(i).Bool() {
				t.Errorf("%s: %s is not left", left.Type(), left.Type().Field(i).Name)
			}
		}
	}
}

// TestSealedBytesAreForeign: a sealed value that was changed or cut is refused. No value can be opened as a
// value of another kind or with another key.
func TestSealedBytesAreForeign(t *testing.T) {
	t.Parallel()
	key := testKey(t, 1)
	in := machine.Input{At: 1, Principal: "p", Command: machine.Cancel{Note: "secret"}}
	records := []machine.Record{{Seq: 1, At: 1, Principal: "p", Body: &machine.Ended{Status: machine.Cancelled, Reason: "cancelled"}}}
	plain, _, err := EncodeEntry([32]byte{}, 1, &in, records)
	if err != nil {
		t.Fatal(err)
	}
	value, opened, hash, err := SealEntry(key, [32]byte{}, 1, &in, records)
	if !bytes.Equal(opened[entryAt:], plain[entryAt:]) {
		t.Error("what is sealed is another entry")
	}
	if err != nil || !Chained(value) || EntryHash(value) != hash || strings.Contains(string(value), "secret") {
		t.Fatalf("sealed: %v", err)
	}
	if again, _, same, _ := SealEntry(key, [32]byte{}, 1, &in, records); !bytes.Equal(again, value) || same != hash {
		t.Error("sealed twice, it differs")
	}
	SetCursor(value, 7)
	e, err := ReadEntry("r", value, oneKey{key})
	if err != nil || e.Erased || e.Cursor != 7 || e.Input.Command.(machine.Cancel).Note != "secret" {
		t.Fatalf("opened: %+v, %v", e, err)
	}
	if e, err = ReadEntry("r", value, oneKey{}); err != nil || !e.Erased || e.Input.Command.(machine.Cancel).Note != "" {
		t.Fatalf("erased: %+v, %v", e, err)
	}
	for i := prevAt; i < len(value)-slotBytes; i++ {
		changed := bytes.Clone(value)
		changed[i] ^= 1
		if Chained(changed) {
			t.Errorf("byte %d changed, the hash holds", i)
		}
		if _, err := ReadEntry("r", changed, oneKey{key}); err == nil {
			t.Errorf("byte %d changed, it opens", i)
		}
	}
	for n := range value {
		if _, err := ReadEntry("r", value[:n], oneKey{key}); err == nil {
			t.Errorf("cut at %d, it opens", n)
		}
	}
	if _, err := ReadEntry("r", value, oneKey{testKey(t, 2)}); err == nil {
		t.Error("it opens under another key")
	}
	if _, err := ReadHead(value, oneKey{key}); err == nil {
		t.Error("an entry opens as a head")
	}
}
