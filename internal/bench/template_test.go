package bench

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func be(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func captured() ([]pair, identity) {
	of := identity{run: "01RUN", id: "event-07", first: 8}
	return []pair{
		{[]byte("j" + of.run + be(of.first)), []byte("entry")},
		{[]byte("a" + of.run + be(of.first+1)), []byte("version")},
		{[]byte("d" + of.run + of.id + "\x00"), []byte("row")},
	}, of
}

func TestTemplateGivesTheCapturedKeysBack(t *testing.T) {
	t.Parallel()
	pairs, of := captured()
	tmpl, err := newTemplate(pairs, of, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range tmpl.fill(of) {
		if !bytes.Equal(p.key, pairs[i].key) || !bytes.Equal(p.value, pairs[i].value) {
			t.Errorf("pair %d: %q = %q, want %q = %q", i, p.key, p.value, pairs[i].key, pairs[i].value)
		}
	}
}

func TestTemplateFillsAnotherTransition(t *testing.T) {
	t.Parallel()
	pairs, of := captured()
	tmpl, err := newTemplate(pairs, of, 2)
	if err != nil {
		t.Fatal(err)
	}
	got := tmpl.fill(identity{run: "02RUN", id: "event-99", first: 77})
	want := []string{"j02RUN" + be(77), "a02RUN" + be(78), "d02RUNevent-99\x00"}
	for i, p := range got {
		if string(p.key) != want[i] {
			t.Errorf("key %d: %q, want %q", i, p.key, want[i])
		}
	}
	if string(pairs[0].key) != "j01RUN"+be(8) {
		t.Error("filling changed the captured keys")
	}
}

func TestTemplateRefusesKeysThatWouldBeShared(t *testing.T) {
	t.Parallel()
	pairs, of := captured()
	for name, bad := range map[string][]pair{
		"nothing written": nil,
		"a constant key":  append(pairs, pair{[]byte("constant"), nil}),
		"an unknown seq":  append(pairs, pair{[]byte("k" + of.run + be(of.first+2)), nil}),
		"a head":          append(pairs, pair{[]byte("h" + of.run), nil}),
	} {
		if _, err := newTemplate(bad, of, 2); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
