package template

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func bigEndian(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func captured() ([]Pair, Identity) {
	of := Identity{Run: "01RUN", ID: "event-07", First: 8}
	return []Pair{
		{[]byte("j" + of.Run + bigEndian(of.First)), []byte("entry")},
		{[]byte("a" + of.Run + bigEndian(of.First+1)), []byte("version")},
		{[]byte("d" + of.Run + of.ID + "\x00"), []byte("row")},
	}, of
}

func TestTemplateGivesTheCapturedKeysBack(t *testing.T) {
	t.Parallel()
	pairs, of := captured()
	tmpl, err := New(pairs, of, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range tmpl.Fill(of) {
		if !bytes.Equal(p.Key, pairs[i].Key) || !bytes.Equal(p.Value, pairs[i].Value) {
			t.Errorf("pair %d: %q = %q, want %q = %q", i, p.Key, p.Value, pairs[i].Key, pairs[i].Value)
		}
	}
}

func TestTemplateFillsAnotherTransition(t *testing.T) {
	t.Parallel()
	pairs, of := captured()
	tmpl, err := New(pairs, of, 2)
	if err != nil {
		t.Fatal(err)
	}
	got := tmpl.Fill(Identity{Run: "02RUN", ID: "event-99", First: 77})
	want := []string{"j02RUN" + bigEndian(77), "a02RUN" + bigEndian(78), "d02RUNevent-99\x00"}
	for i, p := range got {
		if string(p.Key) != want[i] {
			t.Errorf("key %d: %q, want %q", i, p.Key, want[i])
		}
	}
	if string(pairs[0].Key) != "j01RUN"+bigEndian(8) {
		t.Error("filling changed the captured keys")
	}
}

func TestTemplateRefusesKeysThatWouldBeShared(t *testing.T) {
	t.Parallel()
	pairs, of := captured()
	for name, bad := range map[string][]Pair{
		"nothing written": nil,
		"a constant key":  append(pairs, Pair{[]byte("constant"), nil}),
		"an unknown seq":  append(pairs, Pair{[]byte("k" + of.Run + bigEndian(of.First+2)), nil}),
		"a head":          append(pairs, Pair{[]byte("h" + of.Run), nil}),
	} {
		if _, err := New(bad, of, 2); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
