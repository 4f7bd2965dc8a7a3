package store

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// keyConstants reads the kinds of keys from the source. It returns the letter of each name.
func keyConstants(t *testing.T) map[string]byte {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "layout/keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]byte)
	ast.Inspect(file, func(n ast.Node) bool {
		if group, ok := n.(*ast.GenDecl); ok && group.Tok != token.CONST {
			return false
		}
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		letter, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || len(letter) != 1 {
			t.Fatalf("%s is no letter: %v", spec.Names[0].Name, err)
		}
		out[spec.Names[0].Name] = letter[0]
		return true
	})
	return out
}

// tableKinds returns the kinds in the table. The table in the source is a composite literal with the names of
// the kinds.
func tableKinds(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "layout/keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok && strings.HasPrefix(name.Name, "Kind") {
				out[name.Name] = true
			}
		}
		return true
	})
	return out
}

// TestEveryKindIsInTheTable: each kind of key is in the table, which says whether preconditions may use it.
// No two kinds have the same letter.
func TestEveryKindIsInTheTable(t *testing.T) {
	t.Parallel()
	named, have, letters := keyConstants(t), tableKinds(t), make(map[byte]string)
	if len(named) < 25 {
		t.Fatalf("only %d kinds found in layout/keys.go", len(named))
	}
	for name, letter := range named {
		if !have[name] {
			t.Errorf("%s is not in the table of kinds", name)
		}
		if other := letters[letter]; other != "" {
			t.Errorf("%s and %s are both %q", name, other, letter)
		}
		letters[letter] = name
	}
}

// TestLargeKindsAreInTheTable: the table says for each kind of key whether its values may be large. A commit
// that removes a large value must not run while a value log is being rewritten.
func TestLargeKindsAreInTheTable(t *testing.T) {
	t.Parallel()
	small := strings.Fields(`KindFormat KindWatermark KindReady KindIndex KindCursor KindTimer KindOutbox KindRunID KindCallerID
		KindPackName KindPackRef KindPackBare KindBlob KindBlobRef KindUpload KindImport KindNamespace KindSubscription KindDrop
		KindDeleted KindErased KindAccount KindBackup KindRunKeys KindEffect KindSchedule KindUsage`)
	for name, letter := range keyConstants(t) {
		key := append(layout.Prefix(nil, letter, 0), "key"...)
		removes := Writes{ops: []layout.Op{{Key: key}, {Key: key, Delete: true}}}
		if removes.removesLargeValues() == slices.Contains(small, name) {
			t.Errorf("%s: removing it buries a value: %v", name, removes.removesLargeValues())
		}
		if sets := (Writes{ops: []layout.Op{{Key: key}}}); sets.removesLargeValues() {
			t.Errorf("%s: setting it buries a value", name)
		}
	}
}

// guardedKeys returns one key of each guarded kind.
func guardedKeys() map[string][]byte {
	out := make(map[string][]byte)
	for kind := range layout.Kinds {
		if layout.Kinds[kind].Guarded {
			// The key is long enough for a key of a queue.
			out[fmt.Sprintf("%c", kind)] = append(layout.Prefix(nil, byte(kind), 0), "\x01\x80\x00\x00\x00\x00\x00\x00\x01key"...)
		}
	}
	return out
}

var errMiss = errors.New("the precondition does not hold")

// putIf sets a key if it has the given value. nil means that the key must be absent.
func putIf(key, is, value []byte) *Writes {
	return &Writes{entry: -1, ops: []layout.Op{{Key: key, Value: value, Delete: value == nil}}, expects: []expect{{key: key, value: is, err: errMiss}}}
}

// TestGuardsHoldAtEveryDistance: for each guarded kind, a precondition is checked against the changes of its
// own group, of the group in flight and of the synced groups. After a group of which all batches were
// refused, it is checked against the synced groups.
func TestGuardsHoldAtEveryDistance(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	ctx := context.Background()
	start := func(w *Writes) chan error {
		done := make(chan error, 1)
		if err := s.checkSize(w); err != nil {
			t.Fatal(err)
		}
		s.committer.queue <- &request{w: w, done: done}
		return done
	}
	for kind, key := range guardedKeys() {
		one, two := []byte("1"), []byte("2")
		first := make(chan error, 1)
		st.hold(func() { first <- s.write(ctx, putIf(key, nil, one)) })
		// One batch is in flight and refuses the first of these batches, which is the only one of its group
		// so far. The last batch is refused by its own group.
		stale, next, late := start(putIf(key, nil, two)), start(putIf(key, one, two)), start(putIf(key, one, one))
		st.release()
		for i, c := range []struct {
			done chan error
			want error
		}{{first, nil}, {stale, errMiss}, {next, nil}, {late, errMiss}} {
			if err := <-c.done; !errors.Is(err, c.want) {
				t.Errorf("kind %s, batch %d: %v, want %v", kind, i, err, c.want)
			}
		}
		// A refused batch is alone in its group, while nothing else is written.
		for range 3 {
			if err := s.write(ctx, putIf(key, one, one)); !errors.Is(err, errMiss) {
				t.Errorf("kind %s, a stale value: %v", kind, err)
			}
		}
		if err := s.write(ctx, putIf(key, two, one)); err != nil {
			t.Errorf("kind %s, after refusals: %v", kind, err)
		}
		if err := s.write(ctx, putIf(key, one, nil)); err != nil {
			t.Errorf("kind %s, at last: %v", kind, err)
		}
	}
}

// TestGuardsSeeTheGroupInFlight: for each guarded kind, the changes of the group that is being synced count
// as stored. A group of which all batches were refused keeps no view open.
func TestGuardsSeeTheGroupInFlight(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	one, two := []byte("1"), []byte("2")
	for kind, key := range guardedKeys() {
		c := newCommitter(s, s.readTimestamps.durable(), nil)
		sent := &group{}
		if err := c.open(sent, &Writes{}); err != nil {
			t.Fatal(err)
		}
		if err := c.checkPreconditions(sent, &request{w: putIf(key, nil, one)}); err != nil {
			t.Fatal(err)
		}
		c.closeView(sent)
		c.flight, c.sentGuarded = sent, sent.guarded
		next, held := &group{}, (*request)(nil)
		c.enqueue(next, &request{w: putIf(key, nil, two)}, &held)
		if len(sent.refusals) != 1 || next.txn != nil {
			t.Errorf("kind %s: stale writes were admitted, or leave a read point", kind)
		}
		c.enqueue(next, &request{w: putIf(key, one, two)}, &held)
		c.enqueue(next, &request{w: putIf(key, one, nil)}, &held)
		if len(next.requests) != 1 || len(next.refusals) != 1 {
			t.Errorf("kind %s: %d admitted and %d refused, want 1 and 1", kind, len(next.requests), len(next.refusals))
		}
		c.closeView(next)
	}
}

// TestRefusedGroupReadsAnew: a batch is refused while a group is in flight, and is the only batch of its
// group. It has no influence on the check of a later batch.
func TestRefusedGroupReadsAnew(t *testing.T) {
	t.Parallel()
	for kind, key := range guardedKeys() {
		s, st := newStalledStore(t)
		ctx := context.Background()
		first, stale := make(chan error, 1), make(chan error, 1)
		st.hold(func() { first <- s.write(ctx, putIf(key, nil, []byte("1"))) })
		go func() { stale <- s.write(ctx, putIf(key, []byte("0"), []byte("2"))) }()
		waitFor(t, "the stale batch is there", func() bool { return len(s.committer.queue) == 1 })
		st.release()
		if err := errors.Join(<-first); err != nil {
			t.Fatal(err)
		}
		if err := <-stale; !errors.Is(err, errMiss) {
			t.Errorf("kind %s: %v", kind, err)
		}
		if err := s.write(ctx, putIf(key, []byte("1"), nil)); err != nil {
			t.Errorf("kind %s: what is stored is not what the next batch is judged by: %v", kind, err)
		}
		if n := len(s.readTimestamps.active); n != 0 {
			t.Errorf("kind %s: %d reads are left open", kind, n)
		}
	}
}

// TestPreconditionsNeedAGuard: a precondition on a kind without a guard is refused, for any stored value.
func TestPreconditionsNeedAGuard(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	for name, letter := range keyConstants(t) {
		if layout.Kinds[letter].Guarded {
			continue
		}
		key := append(layout.Prefix(nil, letter, 0), "\x01\x80\x00\x00\x00\x00\x00\x00\x01key"...)
		w := &Writes{entry: -1, expects: []expect{{key: key, err: machine.ErrConsumed}}}
		if err := s.write(context.Background(), w); err == nil || errors.Is(err, machine.ErrConsumed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
