package codec

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// FuzzDecodeEntry: foreign bytes are an error or an entry, never a panic, and
// what was decoded can be encoded.
func FuzzDecodeEntry(f *testing.F) {
	for seed := range uint64(8) {
		fill := &filler{rnd: rand.New(rand.NewPCG(seed, 7))}
		for _, command := range commands {
			e := fill.entry(command, bodiesAll[seed], bodiesAll[seed+8], bodiesAll[(seed+16)%uint64(len(bodiesAll))])
			value, _, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(value)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := DecodeEntry("run", bytes.Clone(value))
		if err != nil {
			return
		}
		again, _, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		if _, err := DecodeEntry("run", again); err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
	})
}

func FuzzDecodeHead(f *testing.F) {
	for seed := range uint64(8) {
		fill := &filler{rnd: rand.New(rand.NewPCG(seed, 8))}
		f.Add(EncodeHead(fill.state(), [32]byte{}))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		st, err := DecodeHead(bytes.Clone(value))
		if err != nil {
			return
		}
		if _, err := DecodeHead(EncodeHead(st, st.PrevHash)); err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
	})
}

func FuzzDecodeRows(f *testing.F) {
	f.Add(EncodeDedupe(&machine.Dedupe{Scope: machine.PerPrincipal, RunID: "r", First: 1, Last: 2}))
	f.Add(EncodeVersions([]machine.ArtifactVersion{{Mode: machine.Append, Bytes: 3, Seq: 9}}))
	f.Add(AppendEntryRef(nil, "run", 3))
	f.Add(EncodePackName(&machine.PackRow{Digest: "d", ID: "i", Version: "v", RegisteredAt: 1}))
	f.Add(EncodePackBytes(&machine.PackRow{Canonical: []byte("{}"), Source: []byte("{}")}))
	f.Add(EncodeNumber(7))
	f.Add(EncodeHolder(machine.StepHolder{Principal: "p", Worker: "w", Instance: "i"}))
	f.Add(EncodeBlob(&machine.Blob{Size: 3, Chunks: 1, MediaType: "text/html", At: 9}))
	f.Add(EncodeUpload(&machine.Upload{Size: 3, Chunks: 1, At: 9}))
	f.Add(EncodeDeadLetter(&machine.DeadLetter{At: 9, Event: "e", Type: "t", Body: []byte("b"), Error: "x"}))
	fill := &filler{rnd: rand.New(rand.NewPCG(1, 9)), full: true}
	var sub machine.Subscription
	fill.fill(reflect.ValueOf(&sub).Elem())
	f.Add(EncodeSubscription(&sub))
	f.Fuzz(func(t *testing.T, value []byte) {
		_, _ = DecodeDedupe(machine.Dedupe{}, value)
		_, _ = DecodeVersions("n", value)
		_, _, _ = EntrySpan(value)
		_, _ = DecodeEntryRefs(value)
		_, _ = DecodePackName(value)
		_ = DecodePackBytes(&machine.PackRow{}, value)
		_, _ = DecodeNumber(value)
		_, _ = DecodeHolder(value)
		_, _ = DecodeBlob(value)
		_, _ = DecodeUpload(value)
		_, _ = DecodeSubscription(value)
		_, _ = DecodeDeadLetter(value)
	})
}
