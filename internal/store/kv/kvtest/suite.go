package kvtest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Open opens an empty storage engine, and closes it at the end of the test t.
type Open func(t *testing.T) kv.KV

// Run tests whether a storage engine satisfies the requirements of package kv.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, kv.KV){
		"Empty": empty, "LastCallCounts": lastCallCounts, "ViewsStandStill": viewsStandStill, "HeldMoment": heldMoment,
		"GroupsAreWhole": groupsAreWhole, "LikeASortedMap": likeASortedMap, "Since": since, "ValuesAreTheCallers": valuesAreTheCallers,
		"Bounds": bounds, "ManyReaders": manyReaders, "ManyCursors": manyCursors, "Counts": counts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// Commit stores pairs as the next commit group and waits for the result. A nil value removes the key.
func Commit(tb testing.TB, db kv.KV, pairs map[string][]byte) uint64 {
	tb.Helper()
	group := db.LastKey() + 1
	batch := db.Batch()
	for key, value := range pairs {
		if value == nil {
			batch.Delete([]byte(key))
		} else {
			batch.Set([]byte(key), value)
		}
	}
	results := make(chan kv.Result, 2)
	batch.Commit(group, func(r kv.Result) { results <- r })
	if r := <-results; r.Outcome != kv.Stored || r.Err != nil {
		tb.Fatalf("group %d: %+v", group, r)
	}
	if last := db.LastKey(); last != group {
		tb.Fatalf("the last group is %d, want %d", last, group)
	}
	return group
}

// Pairs returns all pairs that a view shows, and closes the view.
func Pairs(tb testing.TB, view kv.View) map[string]string {
	tb.Helper()
	defer view.Close()
	pairs := map[string]string{}
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		value, err := it.Value()
		if err != nil {
			tb.Fatalf("%x: %v", it.Key(), err)
		}
		pairs[string(it.Key())] = string(value)
	}
	if view.Err() != nil {
		tb.Fatal(view.Err())
	}
	return pairs
}

func see(t *testing.T, view kv.View, want map[string]string) {
	t.Helper()
	if got := Pairs(t, view); !maps.Equal(got, want) {
		t.Fatalf("there is %q, want %q", got, want)
	}
}

func empty(t *testing.T, db kv.KV) {
	t.Helper()
	if last := db.LastKey(); last != 0 {
		t.Fatalf("the last group is %d", last)
	}
	view := kv.On(db.View(0))
	if value, err := view.Get([]byte("a")); value != nil || err != nil {
		t.Errorf("%q, %v", value, err)
	}
	if there, err := view.Has([]byte("a")); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	see(t, view, map[string]string{})
}

// lastCallCounts checks that if a batch sets or deletes a key several times, the last call applies.
func lastCallCounts(t *testing.T, db kv.KV) {
	t.Helper()
	Commit(t, db, map[string][]byte{"gone": []byte("1"), "back": []byte("1")})
	batch := db.Batch()
	batch.Set([]byte("a"), []byte("1"))
	batch.Set([]byte("a"), []byte("2"))
	batch.Delete([]byte("back"))
	batch.Set([]byte("back"), []byte("2"))
	batch.Set([]byte("gone"), []byte("2"))
	batch.Delete([]byte("gone"))
	batch.Delete([]byte("never"))
	done := make(chan kv.Result, 1)
	batch.Commit(2, func(r kv.Result) { done <- r })
	if r := <-done; r.Outcome != kv.Stored {
		t.Fatalf("%+v", r)
	}
	see(t, kv.On(db.View(2)), map[string]string{"a": "2", "back": "2"})
}

// viewsStandStill checks that an open view does not change, and that a batch is not visible before it
// is stored.
func viewsStandStill(t *testing.T, db kv.KV) {
	t.Helper()
	first := Commit(t, db, map[string][]byte{"a": []byte("1"), "b": []byte("1")})
	batch := db.Batch()
	batch.Set([]byte("a"), []byte("never"))
	view := kv.On(db.View(first))
	if view.Group() != first {
		t.Fatalf("it shows group %d, want %d", view.Group(), first)
	}
	it := view.Scan(kv.Range{})
	it.Rewind()
	Commit(t, db, map[string][]byte{"a": []byte("2"), "b": nil, "c": []byte("2")})
	var keys strings.Builder
	for ; it.Valid(); it.Next() {
		value, err := it.ValueCopy()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&keys, "%s=%s of %d ", it.KeyCopy(), value, it.Group())
	}
	it.Close()
	if keys.String() != "a=1 of 1 b=1 of 1 " {
		t.Errorf("it shows %s", keys.String())
	}
	see(t, view, map[string]string{"a": "1", "b": "1"})
	see(t, kv.On(db.View(2)), map[string]string{"a": "2", "c": "2"})
}

// heldMoment checks that a commit group that Hold keeps stays readable after later groups, and that the newest group is
// still readable after the held group was closed and released.
func heldMoment(t *testing.T, db kv.KV) {
	t.Helper()
	group := Commit(t, db, map[string][]byte{"a": []byte("1"), "b": []byte("1")})
	held, err := db.Hold(group)
	if err != nil || held.Group() != group {
		t.Fatalf("group %d, %v", held.Group(), err)
	}
	for n := range 3 {
		Commit(t, db, map[string][]byte{"a": fmt.Append(nil, n), "b": nil})
		view := kv.On(held.View())
		if view.Group() != group {
			t.Errorf("it shows group %d, want %d", view.Group(), group)
		}
		see(t, view, map[string]string{"a": "1", "b": "1"})
	}
	held.Close()
	db.Release(db.LastKey())
	see(t, kv.On(db.View(db.LastKey())), map[string]string{"a": "2"})
}

// counts checks that a storage engine which implements [kv.Counter] counts the right number of keys. Any other
// engine passes.
func counts(t *testing.T, db kv.KV) {
	t.Helper()
	pairs := map[string][]byte{"b": []byte("1"), "b\xff": []byte("1"), "b\xff\xff": []byte("1"), "c": []byte("1")}
	for n := range 10 {
		pairs[fmt.Sprintf("b%d", n)] = []byte("1")
	}
	group := Commit(t, db, pairs)
	held, err := db.Hold(group)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	Commit(t, db, map[string][]byte{"b3": nil, "b10": []byte("1"), "c1": []byte("1")})
	for _, at := range []struct {
		view kv.View
		want map[string]int
	}{
		{kv.On(held.View()), map[string]int{"a": 0, "b": 13, "b\xff": 2, "b1": 1, "c": 1}},
		{kv.On(db.View(db.LastKey())), map[string]int{"a": 0, "b": 13, "b\xff": 2, "b1": 2, "c": 2}},
	} {
		for prefix, want := range at.want {
			for _, most := range []int{1, 3, max(1, want), 100} {
				if got := countKeys(t, &at.view, prefix, most); at.view.Counts() && got != want {
					t.Errorf("%q, %d at once: %d keys, want %d", prefix, most, got, want)
				}
			}
		}
		at.view.Close()
	}
}

// countKeys counts the keys that begin with a prefix, in steps of at most most keys.
func countKeys(t *testing.T, view *kv.View, prefix string, most int) (sum int) {
	t.Helper()
	for behind, more := []byte(nil), view.Counts(); more; more = behind != nil {
		n, last, err := view.Count([]byte(prefix), behind, most)
		if err != nil {
			t.Fatal(err)
		}
		if n > most || last != nil && (n != most || !strings.HasPrefix(string(last), prefix)) {
			t.Errorf("%q, %d at once: %d up to %q", prefix, most, n, last)
		}
		sum, behind = sum+n, last
	}
	return sum
}

// groupsAreWhole checks that concurrent readers see whole commit groups, and the requested group or a
// later one.
func groupsAreWhole(t *testing.T, db kv.KV) {
	t.Helper()
	const groups = 60
	var stored atomic.Uint64
	stored.Store(Commit(t, db, map[string][]byte{"x": []byte("1"), "y": []byte("1")}))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for seen := uint64(0); seen < groups; {
				asked := stored.Load()
				view := kv.On(db.View(asked))
				x, errX := view.Get([]byte("x"))
				y, errY := view.Get([]byte("y"))
				seen = view.Group()
				view.Close()
				if errX != nil || errY != nil || !bytes.Equal(x, y) || string(x) != fmt.Sprint(seen) || seen < asked {
					t.Errorf("group %d, asked for %d, shows %s and %s, %v %v", seen, asked, x, y, errX, errY)
					return
				}
			}
		})
	}
	for n := 2; n <= groups; n++ {
		stored.Store(Commit(t, db, map[string][]byte{"x": fmt.Append(nil, n), "y": fmt.Append(nil, n)}))
	}
	readers.Wait()
}

// since checks that Range.Since excludes older pairs and does not show keys that were removed since.
func since(t *testing.T, db kv.KV) {
	t.Helper()
	Commit(t, db, map[string][]byte{"a": []byte("1"), "b": []byte("1"), "c": []byte("1")})
	Commit(t, db, map[string][]byte{"b": []byte("2"), "d": []byte("2")})
	last := Commit(t, db, map[string][]byte{"d": nil, "e": []byte("3")})
	for group, want := range map[uint64]string{0: "a1 b2 c1 e3 ", 1: "b2 e3 ", 2: "e3 ", 3: ""} {
		view, got := kv.On(db.View(last)), ""
		it := view.Scan(kv.Range{Since: group})
		for it.Rewind(); it.Valid(); it.Next() {
			got += fmt.Sprintf("%s%d ", it.Key(), it.Group())
		}
		it.Close()
		view.Close()
		if got != want {
			t.Errorf("since %d: %s, want %s", group, got, want)
		}
	}
}

// valuesAreTheCallers checks that a caller may change a returned value, and that later reads do not
// change it.
func valuesAreTheCallers(t *testing.T, db kv.KV) {
	t.Helper()
	large := bytes.Repeat([]byte("large"), 20_000)
	last := Commit(t, db, map[string][]byte{"a": []byte("first"), "b": []byte("other"), "empty": {}, "large": large})
	view := kv.On(db.View(last))
	defer view.Close()
	a, err := view.Get([]byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	iterator := view.Scan(kv.Range{})
	defer iterator.Close()
	iterator.Rewind()
	copied, err := iterator.ValueCopy()
	if err != nil {
		t.Fatal(err)
	}
	key := iterator.KeyCopy()
	copy(a, "XXXXX")
	iterator.Next()
	if b, err := iterator.Value(); err != nil || string(b) != "other" || iterator.Size() != 5 || iterator.StoredSize() < 6 {
		t.Errorf("%q, %v, %d, %d", b, err, iterator.Size(), iterator.StoredSize())
	}
	if string(copied) != "first" || string(key) != "a" {
		t.Errorf("copies are %q of %q", copied, key)
	}
	iterator.Next()
	if none, err := iterator.ValueCopy(); err != nil || none == nil || len(none) != 0 {
		t.Errorf("an empty value is %v, %v", none, err)
	}
	iterator.Next()
	if value, err := iterator.Value(); err != nil || !bytes.Equal(value, large) || iterator.Size() < int64(len(large))-32 || iterator.Size() > int64(len(large))+32 {
		t.Errorf("%d bytes of about %d, %v", len(value), iterator.Size(), err)
	}
	again, err := view.Get([]byte("a"))
	none, errNone := view.Get([]byte("empty"))
	if string(again) != "first" || none == nil || len(none) != 0 || err != nil || errNone != nil {
		t.Errorf("read again: %q and %v, %v %v", again, none, err, errNone)
	}
}

// bounds checks that the storage engine accepts a commit group near each of its limits: the number of keys, the
// size of a key, and the total bytes. It tries at most 60 000 keys and 4 MiB.
func bounds(t *testing.T, db kv.KV) {
	t.Helper()
	b := db.Bounds()
	pairs := map[string][]byte{}
	for n := range min(b.Keys, 60_000) {
		pairs[fmt.Sprintf("key %d", n)] = []byte("v")
	}
	Commit(t, db, pairs)
	long := bytes.Repeat([]byte{0xFF}, b.Key)
	Commit(t, db, map[string][]byte{string(long): []byte("long")})
	const most = 4 << 20
	pairs = map[string][]byte{}
	for n := range min(b.Bytes, most) / (8<<10 + 64) {
		pairs[fmt.Sprintf("bytes %d", n)] = make([]byte, 8<<10)
	}
	last := Commit(t, db, pairs)
	view := kv.On(db.View(last))
	defer view.Close()
	if value, err := view.Get(long); err != nil || string(value) != "long" {
		t.Errorf("%q, %v", value, err)
	}
}

// manyReaders checks that several goroutines can read at once, each with its own view.
func manyReaders(t *testing.T, db kv.KV) {
	t.Helper()
	want := map[string]string{}
	pairs := map[string][]byte{}
	for n := range 500 {
		key := fmt.Sprintf("%03d", n)
		want[key], pairs[key] = key, []byte(key)
	}
	last := Commit(t, db, pairs)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := Pairs(t, kv.On(db.View(last))); !maps.Equal(got, want) {
				t.Errorf("%d pairs, want %d", len(got), len(want))
			}
		})
	}
	wg.Wait()
}

// manyCursors checks that several cursors of one view can be used alternately.
func manyCursors(t *testing.T, db kv.KV) {
	t.Helper()
	last := Commit(t, db, map[string][]byte{"a1": {}, "a2": {}, "b1": {}, "b2": {}, "c": {}})
	view := kv.On(db.View(last))
	defer view.Close()
	as, bs, back := view.Scan(kv.Range{Prefix: []byte("a")}), view.Scan(kv.Range{Prefix: []byte("b"), KeysOnly: true}), view.Scan(kv.Range{Reverse: true})
	var got strings.Builder
	as.Rewind()
	bs.Rewind()
	back.Seek([]byte("z"))
	for as.Valid() && bs.Valid() && back.Valid() {
		fmt.Fprintf(&got, "%s%s%s ", as.Key(), bs.Key(), back.Key())
		as.Next()
		bs.Next()
		back.Next()
	}
	if got.String() != "a1b1c a2b2b2 " || as.Valid() || bs.Valid() || !back.Valid() || view.Err() != nil {
		t.Errorf("%s, %v", got.String(), view.Err())
	}
	for _, it := range []*kv.Iterator{as, bs, back} {
		it.Close()
	}
}

// likeASortedMap commits random groups and compares all kinds of scans with a sorted map as a model.
func likeASortedMap(t *testing.T, db kv.KV) {
	t.Helper()
	dice := rand.New(rand.NewPCG(7, 7))
	model := map[string]string{}
	for range 30 {
		pairs := map[string][]byte{}
		for range 1 + dice.IntN(20) {
			key := randomKey(dice)
			if dice.IntN(4) == 0 {
				pairs[key] = nil
				delete(model, key)
				continue
			}
			value := fmt.Sprint(dice.IntN(1000))
			pairs[key], model[key] = []byte(value), value
		}
		last := Commit(t, db, pairs)
		compare(t, dice, kv.On(db.View(last)), model)
	}
}

// randomKey returns a short key that often contains the lowest and the highest bytes.
func randomKey(dice *rand.Rand) string {
	letters := []byte{0, 1, 'a', 'b', 0xFE, 0xFF}
	key := make([]byte, 1+dice.IntN(3))
	for i := range key {
		key[i] = letters[dice.IntN(len(letters))]
	}
	return string(key)
}

// compare compares random reads and scans of a view with the model, which maps keys to values. It closes the view.
func compare(t *testing.T, dice *rand.Rand, view kv.View, model map[string]string) {
	t.Helper()
	defer view.Close()
	for range 10 {
		key := randomKey(dice)
		value, err := view.Get([]byte(key))
		there, errHas := view.Has([]byte(key))
		if want, ok := model[key]; err != nil || errHas != nil || there != ok || (value != nil) != ok || string(value) != want {
			t.Fatalf("%x is %q, %v, %v %v; want %q, %v", key, value, there, err, errHas, want, ok)
		}
	}
	for range 20 {
		r := kv.Range{Reverse: dice.IntN(2) == 0, KeysOnly: dice.IntN(3) == 0}
		if dice.IntN(3) > 0 {
			key := randomKey(dice)
			r.Prefix = []byte(key[:min(len(key), 1+dice.IntN(2))])
		}
		from := string(r.Prefix) + randomKey(dice)
		if !r.Reverse && dice.IntN(3) == 0 {
			from = ""
		}
		if got, want := keysFrom(t, &view, r, from), scanModel(model, r, from); !slices.Equal(got, want) {
			t.Fatalf("%+v from %x: %q, want %q", r, from, got, want)
		}
	}
}

// keysFrom returns the keys that a scan of a view finds, from the key from on, with their values unless the range
// has only keys.
func keysFrom(t *testing.T, view *kv.View, r kv.Range, from string) (out []string) {
	t.Helper()
	it := view.Scan(r)
	defer it.Close()
	if from == "" {
		it.Rewind()
	} else {
		it.Seek([]byte(from))
	}
	for ; it.Valid(); it.Next() {
		line := string(it.Key())
		if !r.KeysOnly {
			value, err := it.Value()
			if err != nil {
				t.Fatal(err)
			}
			line += "=" + string(value)
		}
		out = append(out, line)
	}
	return out
}

// scanModel returns the keys that a scan with the range r would find in the model.
func scanModel(model map[string]string, r kv.Range, from string) (out []string) {
	keys := slices.Sorted(maps.Keys(model))
	if r.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		before := key < from
		if r.Reverse {
			before = key > from
		}
		switch {
		case before || !bytes.HasPrefix([]byte(key), r.Prefix):
		case r.KeysOnly:
			out = append(out, key)
		default:
			out = append(out, key+"="+model[key])
		}
	}
	return out
}
