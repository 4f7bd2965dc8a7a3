package codec

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	pb "github.com/pawl-dev/pawl/internal/store/storagepb"
)

// sameAsGenerated holds our bytes against protobuf's own code: it
// knows every field, and writes the same bytes.
func sameAsGenerated(t *testing.T, got []byte, into proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(got, into); err != nil {
		t.Fatalf("%T: %v", into, err)
	}
	err := protorange.Range(into.ProtoReflect(), func(p protopath.Values) error {
		m, ok := p.Index(-1).Value.Interface().(protoreflect.Message)
		if ok && len(m.GetUnknown()) > 0 {
			t.Errorf("%s has fields that the schema does not know: %x", m.Descriptor().FullName(), m.GetUnknown())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(into)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%T: ours     %x\nprotobuf %x, %v", into, got, want, err)
	}
}

func TestEncodingFollowsTheSchema(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		for _, full := range []bool{false, true} {
			f := &filler{rnd: rand.New(rand.NewPCG(seed, 3)), full: full}
			for _, command := range commands {
				value := encode(t, f.entry(command, bodiesAll...))
				sameAsGenerated(t, value[entryAt:], &pb.Entry{})
			}
			sameAsGenerated(t, EncodeHead(f.state(), [32]byte{1})[stateAt:], &pb.State{})
		}
	}
}

func TestRowsFollowTheSchema(t *testing.T) {
	t.Parallel()
	d := machine.Dedupe{Scope: machine.PerPrincipal, RunID: "r", BodyHash: [32]byte{9}, First: 1, Last: 3}
	sameAsGenerated(t, EncodeDedupe(&d)[1:], &pb.Dedupe{})
	sameAsGenerated(t, EncodeVersions([]machine.ArtifactVersion{{Mode: machine.Append, Bytes: 9, Seq: 300}, {Bytes: 1, Seq: 301}})[1:], &pb.ArtifactVersions{})
	sameAsGenerated(t, AppendEntryRef(AppendEntryRef(nil, "run", 300), "other", 1)[1:], &pb.Places{})
	sameAsGenerated(t, EncodeHolder(machine.StepHolder{Principal: "p", Worker: "w", Instance: "i"})[1:], &pb.StepHolder{})
	if !bytes.Equal(EncodeHolder(machine.StepHolder{}), Mark) {
		t.Error("a step that nobody holds has another row than before there were holders")
	}
	p := machine.PackRow{Digest: "sha256:00", ID: "id", Version: "1", RegisteredAt: 7, Canonical: []byte("{}"), Source: []byte("{ }")}
	sameAsGenerated(t, EncodePackName(&p)[1:], &pb.PackName{})
	sameAsGenerated(t, EncodePackBytes(&p)[1:], &pb.PackBytes{})
}

// TestEveryKindHasASample: what the tests of this package fill, freeze and fuzz is every
// command and every record that the schema has.
func TestEveryKindHasASample(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for _, c := range commands {
		e := &pb.Entry{}
		if err := proto.Unmarshal(encode(t, oneRecord(c, &machine.TurnReady{}))[entryAt:], e); err != nil {
			t.Fatal(err)
		}
		kinds[chosenField(e.GetInput(), "command")]++
	}
	for _, b := range bodiesAll {
		e := &pb.Entry{}
		if err := proto.Unmarshal(encode(t, oneRecord(machine.Pause{}, b))[entryAt:], e); err != nil {
			t.Fatal(err)
		}
		kinds[chosenField(e.GetRecords()[0], "body")]++
	}
	for _, one := range []protoreflect.OneofDescriptor{
		(&pb.Input{}).ProtoReflect().Descriptor().Oneofs().ByName("command"),
		(&pb.Record{}).ProtoReflect().Descriptor().Oneofs().ByName("body"),
	} {
		for i := range one.Fields().Len() {
			if name := string(one.Fields().Get(i).FullName()); kinds[name] != 1 {
				t.Errorf("%s has %d samples, want one", name, kinds[name])
			}
		}
	}
}

// chosenField names the field of a oneof that a message has.
func chosenField(m proto.Message, one protoreflect.Name) string {
	r := m.ProtoReflect()
	return string(r.WhichOneof(r.Descriptor().Oneofs().ByName(one)).FullName())
}

// TestCorpusHasEveryField: every field of an entry and of a head is in some frozen sample,
// those that kinds were given after their first one too.
func TestCorpusHasEveryField(t *testing.T) {
	t.Parallel()
	set := map[protoreflect.FullName]bool{}
	for _, s := range readCorpus(t) {
		var m proto.Message = &pb.Entry{}
		at := entryAt
		switch {
		case strings.HasPrefix(s.name, "step holder"):
			continue
		case strings.HasPrefix(s.name, "head"):
			m, at = &pb.State{}, stateAt
		}
		if err := proto.Unmarshal(s.value[at:], m); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		err := protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
			if f := p.Path.Index(-1).FieldDescriptor(); p.Path.Index(-1).Kind() == protopath.FieldAccessStep {
				set[f.FullName()] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := map[protoreflect.FullName]bool{}
	var walk func(protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if !set[f.FullName()] {
				t.Errorf("no sample has %s: make one in freshSamples, and run TestCorpus with -extend", f.FullName())
			}
			if f.Message() != nil {
				walk(f.Message())
			}
		}
	}
	walk((&pb.Entry{}).ProtoReflect().Descriptor())
	walk((&pb.State{}).ProtoReflect().Descriptor())
}
