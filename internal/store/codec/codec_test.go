package codec

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func encode(t testing.TB, e machine.Entry) []byte {
	t.Helper()
	value, hash, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
	if err != nil {
		t.Fatal(err)
	}
	if !Chained(value) || hash != sha256.Sum256(append(bytes.Clone(e.PrevHash[:]), value[entryAt:]...)) {
		t.Fatal("hash is not SHA-256(prev_hash ‖ entry)")
	}
	return value
}

// TestEntryRoundTrip: every command with every record reads back as it was, also
// where the record repeats the input, and the encoding is the only one.
func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &filler{rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))}
		command := rapid.SampledFrom(commands).Draw(t, "command")
		kinds := rapid.SliceOfN(rapid.SampledFrom(bodiesAll), 1, 4).Draw(t, "records")
		e := f.entry(command, kinds...)
		value, hash, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
		if err != nil {
			t.Fatal(err)
		}
		SetCursor(value, 77)
		got, err := DecodeEntry("run", value)
		if err != nil {
			t.Fatal(err)
		}
		e.RunID, e.Cursor, e.Hash = "run", 77, hash
		if !reflect.DeepEqual(got, e) {
			t.Fatalf("got\n%s\nwant\n%s", describe(got), describe(e))
		}
		again, _, err := EncodeEntry(got.PrevHash, got.First, &got.Input, got.Records)
		SetCursor(again, 77)
		if err != nil || !bytes.Equal(again, value) {
			t.Fatalf("encoded differently the second time, %v", err)
		}
	})
}

func TestHeadRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &filler{rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))}
		st, hash := f.state(), [32]byte{1, 2, 3}
		value := EncodeHead(st, hash)
		got, err := DecodeHead(value)
		if err != nil {
			t.Fatal(err)
		}
		st.PrevHash = hash
		if !reflect.DeepEqual(got, st) {
			t.Fatalf("got\n%s\nwant\n%s", describe(got), describe(st))
		}
		if seq, err := HeadSeq(value); err != nil || seq != st.Seq {
			t.Fatalf("seq %d, %v; want %d", seq, err, st.Seq)
		}
	})
}

// TestBodiesAreStoredOnce: a value of the input that a record repeats is in the
// entry one time.
func TestBodiesAreStoredOnce(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat("x", 1000))
	text := machine.Part{Kind: machine.PartText, Text: string(body)}
	asked := machine.RequestModel{Model: &machine.ModelRequest{Messages: []machine.ModelMessage{{Message: &machine.Message{Parts: []machine.Part{text}}}}}}
	answer := machine.AnswerModel{Answer: &machine.ModelAnswer{Parts: []machine.Part{text}}}
	for name, e := range map[string]machine.Entry{
		"artifact": oneRecord(
			machine.EmitEvent{Artifacts: []machine.ArtifactWrite{{Name: "a", Value: body}}},
			&machine.Transition{To: "b", Intended: "b", Artifacts: []machine.ArtifactWrite{{Name: "a", Value: bytes.Clone(body)}}}),
		"some of the artifacts": oneRecord(
			machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "z"}, {Name: "a", Value: body}}},
			&machine.ArtifactsSet{Artifacts: []machine.ArtifactWrite{{Name: "a", Value: body}}}),
		"output": oneRecord(machine.CompleteTurn{Output: []machine.Part{text}}, &machine.TurnCompleted{Output: []machine.Part{text}}),
		"messages": oneRecord(
			machine.CompleteTurn{Messages: []machine.Message{{Role: "user", Parts: []machine.Part{text}}}},
			&machine.TurnCompleted{Messages: []machine.Message{{Role: "user", Parts: []machine.Part{text}}}}),
		"parts":   oneRecord(machine.SendInput{Parts: []machine.Part{text}}, &machine.InputReceived{Parts: []machine.Part{text}}),
		"payload": oneRecord(machine.RequestSteps{Requests: []machine.StepRequest{{Payload: body}}}, &machine.StepRequested{Payload: body}),
		"result": oneRecord(machine.ResolveStep{Result: body}, &machine.StepResolved{
			Result: body, Artifacts: []machine.ArtifactWrite{{Name: "report", Value: body}},
		}),
		"fault": oneRecord(
			machine.FailTurn{Error: machine.Fault{Message: string(body)}},
			&machine.TurnFailed{Error: machine.Fault{Message: string(body)}}),
		"request": oneRecord(asked, &machine.StepRequested{Kind: machine.KindModel, Model: asked.Model}),
		"answer":  oneRecord(answer, &machine.StepResolved{Kind: machine.KindModel, OK: true, Answer: answer.Answer}),
	} {
		value := encode(t, e)
		if n := bytes.Count(value, body); n != 1 {
			t.Errorf("%s: stored %d times in %d bytes", name, n, len(value))
		}
		if got, err := DecodeEntry("", value); err != nil || !reflect.DeepEqual(got.Records, e.Records) {
			t.Errorf("%s: read back %+v, %v", name, got.Records, err)
		}
	}
}

func oneRecord(c machine.Command, b machine.Body) machine.Entry {
	return machine.Entry{First: 1, Input: machine.Input{Command: c}, Records: []machine.Record{{Seq: 1, Body: b}}}
}

func TestEncodeRefusesWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	in := machine.Input{Command: machine.Pause{}}
	paused := machine.Record{Seq: 1, Body: &machine.Paused{}}
	for name, c := range map[string]struct {
		in      machine.Input
		records []machine.Record
		want    string
	}{
		"no command":   {machine.Input{}, []machine.Record{paused}, "no command"},
		"no records":   {in, nil, "no records"},
		"gap":          {in, []machine.Record{paused, {Seq: 3, Body: &machine.Resumed{}}}, "seq 3, want 2"},
		"no body":      {in, []machine.Record{{Seq: 1}}, "no body"},
		"not a value":  {machine.Input{Command: &machine.Pause{}}, []machine.Record{paused}, "unknown command"},
		"wrong origin": {in, []machine.Record{{Seq: 2, Body: &machine.Paused{}}}, "seq 2, want 1"},
	} {
		if _, _, err := EncodeEntry([32]byte{}, 1, &c.in, c.records); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestDecodeRefusesOtherBytes: what this version would not have written is an
// error that wraps ErrCorrupt.
func TestDecodeRefusesOtherBytes(t *testing.T) {
	t.Parallel()
	good := encode(t, oneRecord(machine.Pause{Note: "n"}, &machine.Paused{Note: "n"}))
	change := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(good)) }
	for name, value := range map[string][]byte{
		"empty":         nil,
		"short":         good[:entryAt-1],
		"newer format":  change(func(b []byte) []byte { b[0] = Format + 1; return b }),
		"cut":           good[:len(good)-1],
		"unknown field": append(bytes.Clone(good), 0x78, 1),
		"no records":    good[:entryAt+2],
		"wire type":     change(func(b []byte) []byte { b[entryAt] = 0x0D; return b }),
	} {
		if _, err := DecodeEntry("run", value); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeHead([]byte{Format, 0, 0}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("short head: %v", err)
	}
	head := EncodeHead(&machine.State{Seq: 3}, [32]byte{})
	head[8] = 4
	if _, err := DecodeHead(head); !errors.Is(err, ErrCorrupt) {
		t.Errorf("head with two seqs: %v", err)
	}
}

// TestNumbersFitTheirTypes: a number that its type cannot hold is refused, not cut,
// and so is a reference to a body that the input did not bring.
func TestNumbersFitTheirTypes(t *testing.T) {
	t.Parallel()
	sub := func(field ...byte) []byte { return append([]byte{Format}, field...) }
	for name, value := range map[string][]byte{
		"index of 17 bits":      sub(0x58, 0x80, 0x80, 0x04),
		"record kind of 9 bits": sub(0x4a, 2, 0x80, 0x02),
		"status of 9 bits":      sub(0x42, 4, 0x2a, 2, 0x80, 0x02),
	} {
		if got, err := DecodeSubscription(value); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, body := range map[string][]byte{
		"artifacts of a pause": {0x7a, 2, 0x10, 1},
		"parts of a pause":     {0x22, 2, 0x10, 1},
		"queued of no fork":    {0x22, 3, 0xa0, 0x01, 1},
		"payload of a pause":   {0x5a, 2, 0x38, 1},
		"state of no fork":     {0x92, 0x01, 2, 0x28, 1},
		"request of a pause":   {0x5a, 2, 0x68, 1},
		"answer of a pause":    {0x62, 3, 0x88, 0x01, 1},
	} {
		value := encode(t, oneRecord(machine.Pause{}, &machine.Paused{}))
		// The record, field 3, is the last: its body becomes another one.
		value = append(value[:bytes.LastIndexByte(value, 0x1a)], append([]byte{0x1a, byte(len(body))}, body...)...)
		if got, err := DecodeEntry("run", value); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "reference") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestRowsRoundTrip(t *testing.T) {
	t.Parallel()
	d := machine.Dedupe{Scope: machine.PerPrincipal, Kind: machine.CmdStart, Principal: "p", RunID: "r", ID: "i", BodyHash: [32]byte{9}, First: 1, Last: 3}
	key := machine.Dedupe{Scope: d.Scope, Kind: d.Kind, Principal: d.Principal, ID: d.ID}
	if got, err := DecodeDedupe(key, EncodeDedupe(&d)); err != nil || got != d {
		t.Errorf("dedupe %+v, %v", got, err)
	}
	versions := []machine.ArtifactVersion{{Name: "n", Seq: 4, Mode: machine.Append, Bytes: 70000}, {Name: "n", Seq: 1 << 40}}
	if got, err := DecodeVersions("n", EncodeVersions(versions)); err != nil || !slices.Equal(got, versions) {
		t.Errorf("versions %+v, %v", got, err)
	}
	if got, err := DecodeNumber(EncodeNumber(1 << 63)); err != nil || got != 1<<63 {
		t.Errorf("number %d, %v", got, err)
	}
	places := []EntryRef{{"run", 5}, {strings.Repeat("long", 40), 1 << 40}}
	value := AppendEntryRef(AppendEntryRef(nil, places[0].Run, places[0].First), places[1].Run, places[1].First)
	if got, err := DecodeEntryRefs(value); err != nil || !slices.Equal(got, places) {
		t.Errorf("places %+v, %v", got, err)
	}
	if _, err := DecodeEntryRefs(Mark); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a row without places: %v", err)
	}
	p := machine.PackRow{Digest: "sha256:00", ID: "id", Version: "1", RegisteredAt: -5}
	if got, err := DecodePackName(EncodePackName(&p)); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("pack name %+v, %v", got, err)
	}
	p.Canonical, p.Source = []byte("{}"), []byte("{ }")
	var got machine.PackRow
	if err := DecodePackBytes(&got, EncodePackBytes(&p)); err != nil || string(got.Canonical) != "{}" || string(got.Source) != "{ }" {
		t.Errorf("pack bytes %+v, %v", got, err)
	}
}

// TestHeadCurrent: the name of the state is read without the rest, and bad bytes are an
// error before it.
func TestHeadCurrent(t *testing.T) {
	t.Parallel()
	f := &filler{rnd: rand.New(rand.NewPCG(4, 2)), full: true}
	for range 20 {
		st := f.state()
		if got, err := HeadCurrent(EncodeHead(st, [32]byte{})); err != nil || string(got) != st.Current {
			t.Errorf("%q, %v; want %q", got, err, st.Current)
		}
	}
	if got, err := HeadCurrent(EncodeHead(&machine.State{Seq: 3, VisitSeq: 2}, [32]byte{})); err != nil || len(got) > 0 {
		t.Errorf("a head without a state: %q, %v", got, err)
	}
	head := EncodeHead(&machine.State{Current: "plan"}, [32]byte{})
	for _, bad := range [][]byte{nil, head[:stateAt-1], head[:len(head)-1], append([]byte{Format + 1}, head[1:]...)} {
		if _, err := HeadCurrent(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}
