package kv_test

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

// TestAFailedReadEndsItsView: after a failed read, every read of the view returns the error, and its
// iterators are invalid. Another view of the same group can be read.
func TestAFailedReadEndsItsView(t *testing.T) {
	t.Parallel()
	db := memkv.New()
	last := kvtest.Commit(t, db, map[string][]byte{"a": []byte("1"), "b": []byte("2"), "c": []byte("3")})
	for name, fail := range map[string]func(view *kv.View, faults *kvtest.Faults){
		"get":   func(view *kv.View, faults *kvtest.Faults) { faults.FailAfter(1); _, _ = view.Get([]byte("a")) },
		"has":   func(view *kv.View, faults *kvtest.Faults) { faults.FailAfter(1); _, _ = view.Has([]byte("a")) },
		"seek":  func(view *kv.View, faults *kvtest.Faults) { faults.FailAfter(1); scan(view) },
		"next":  func(view *kv.View, faults *kvtest.Faults) { faults.FailAfter(2); scan(view) },
		"value": func(view *kv.View, faults *kvtest.Faults) { faults.FailAfter(2); readFirst(view, (*kv.Iterator).Value) },
		"copy": func(view *kv.View, faults *kvtest.Faults) {
			faults.FailAfter(2)
			readFirst(view, (*kv.Iterator).ValueCopy)
		},
	} {
		var faults kvtest.Faults
		view := kv.On(faults.On(db.View(last)))
		stands := view.Scan(kv.Range{})
		stands.Rewind()
		if !stands.Valid() || view.Err() != nil {
			t.Fatalf("%s: nothing failed yet: %v", name, view.Err())
		}
		fail(&view, &faults)
		faults.FailAfter(0)
		if unread, ok := errors.AsType[*kv.ReadError](view.Err()); !ok || !errors.Is(unread, kvtest.ErrRead) {
			t.Errorf("%s: the view's error is %v", name, view.Err())
		}
		_, errGet := view.Get([]byte("a"))
		there, errHas := view.Has([]byte("a"))
		if n := scan(&view); n != 0 || stands.Valid() || there || !errors.Is(errGet, kvtest.ErrRead) || !errors.Is(errHas, kvtest.ErrRead) {
			t.Errorf("%s: afterwards %d keys, an iterator stands: %v, get %v, has %v %v", name, n, stands.Valid(), errGet, there, errHas)
		}
		again := kv.On(faults.On(db.View(last)))
		if n := scan(&again); n != 3 || again.Err() != nil {
			t.Errorf("%s: another view has %d keys, %v", name, n, again.Err())
		}
	}
}

func scan(view *kv.View) (n int) {
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		n++
	}
	return n
}

func readFirst(view *kv.View, value func(*kv.Iterator) ([]byte, error)) {
	it := view.Scan(kv.Range{})
	defer it.Close()
	it.Rewind()
	_, _ = value(it)
}

// lossy returns no value for any key.
type lossy struct{ kv.Snapshot }

func (lossy) Get([]byte) ([]byte, error) { return nil, kv.ErrLost }

// TestALostValueIsNoFailedRead: after a lost value, the caller can read the rest of the view.
func TestALostValueIsNoFailedRead(t *testing.T) {
	t.Parallel()
	db := memkv.New()
	view := kv.On(lossy{db.View(kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")}))})
	if _, err := view.Get([]byte("a")); !errors.Is(err, kv.ErrLost) || view.Err() != nil || scan(&view) != 1 {
		t.Errorf("%v, %v", err, view.Err())
	}
}

// TestReverseRangesAreSought: Rewind of a reverse range is an error, because engines find different keys at
// the end of a range. The caller must use Seek.
func TestReverseRangesAreSought(t *testing.T) {
	t.Parallel()
	db := memkv.New()
	view := kv.On(db.View(kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})))
	it := view.Scan(kv.Range{Reverse: true})
	defer it.Close()
	if it.Rewind(); it.Valid() || view.Err() == nil {
		t.Errorf("it stands: %v, %v", it.Valid(), view.Err())
	}
}
