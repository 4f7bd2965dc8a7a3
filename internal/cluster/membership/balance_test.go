package membership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// membersOf are nodes by their words: a name, then "-" if it leaves or "+" if it is new, then ":" and the partitions that it
// takes if not all.
func membersOf(words string) (all []Member) {
	for word := range strings.FieldsSeq(words) {
		name, parts, some := strings.Cut(word, ":")
		m := Member{ID: strings.TrimRight(name, "-+"), Key: [32]byte{1}, Leaving: strings.HasSuffix(name, "-"), New: strings.HasSuffix(name, "+"), Speaks: 2, Parts: ^uint64(0)}
		if some {
			m.Parts = 0
			for part := range strings.SplitSeq(parts, ",") {
				var p int
				_, _ = fmt.Sscan(part, &p)
				m.Parts |= 1 << p
			}
		}
		all = append(all, m)
	}
	return all
}

// viewOf is a view of nodes and of the owners of partitions by number: a name, "." for nobody, "?" for
// who is no node.
func viewOf(nodes, owners string) View {
	v := View{Nodes: membersOf(nodes)}
	for word := range strings.FieldsSeq(owners) {
		part := Partition{ID: int32(len(v.Parts)), Format: 2}
		for _, m := range v.Nodes {
			if m.ID == word {
				part.Owner = m
			}
		}
		if word == "?" {
			part.Owner = Member{ID: "somebody"}
		}
		v.Parts = append(v.Parts, part)
	}
	return v
}

// TestHeirs: who takes what nobody has.
func TestHeirs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, nodes, owners, had, want string }{
		{"one takes all", "a", ". . .", "", "0=a 1=a 2=a"},
		{"the eldest first, then in turn", "a b c", ". . . .", "", "0=a 1=b 2=c 3=a"},
		{"who has fewest", "a b c", "a a b . .", "", "3=c 4=b"},
		{"not who had it last", "a b", ". .", "0=a 1=a", "0=b 1=b"},
		{"unless that is me", "me b", ". .", "0=me 1=me", "0=me 1=b"},
		{"nobody who leaves", "a- b", ". .", "", "0=b 1=b"},
		{"nobody who does not take it", "a:0 b", "b . .", "", "1=b 2=b"},
		{"nobody at all", "a:0", "a .", "", ""},
		{"not who is new", "a b c+", "a b a . .", "", "3=b 4=a"},
		{"but if all are", "a+ b+", ". .", "", "0=a 1=b"},
		{"or nobody else may", "a:0 b+", "a .", "", "1=b"},
		{"or the others are gone", "a b+", ".", "0=a", "0=b"},
	} {
		had := map[int32]string{}
		for word := range strings.FieldsSeq(c.had) {
			had[int32(word[0]-'0')] = word[2:]
		}
		heirs := viewOf(c.nodes, c.owners).successors("me", had)
		var got []string
		for _, part := range slices.Sorted(maps.Keys(heirs)) {
			got = append(got, fmt.Sprintf("%d=%s", part, heirs[part]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// TestMoves: what is given away so that all have the same.
func TestMoves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, nodes, owners, want string }{
		{"nothing to share", "a b", "a", ""},
		{"even enough", "a b", "a b a", ""},
		{"one came", "a b", "a a a a", "3:a>b 2:a>b"},
		{"the fullest gives", "a b c", "a a a b b", "2:a>c"},
		{"several give", "a b c", "a a a b b b", "5:b>c 2:a>c"},
		{"not to who does not take it", "a b:0", "a a a a", "0:a>b"},
		{"not to who leaves", "a b-", "a a a a", ""},
		{"who leaves gives by himself", "a- b", "a a a a b", ""},
		{"first what nobody has", "a b", "a a a a .", ""},
		{"nobody ever takes it", "a:0,1,2,3 b:0,1,2,3", "a a a a .", "3:a>b 2:a>b"},
		{"not to who is new", "a b c+", "a a a a b", "3:a>b"},
		{"a command has one", "a b", "a a a ?", "2:a>b"},
	} {
		var got []string
		for _, m := range viewOf(c.nodes, c.owners).moves() {
			got = append(got, fmt.Sprintf("%d:%s>%s", m.part, m.from, m.to))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// TestOlderFormatsAreNotShared: a node that speaks an older format than a partition is in takes no part of it.
func TestOlderFormatsAreNotShared(t *testing.T) {
	t.Parallel()
	v := viewOf("a b", "a a a a .")
	v.Nodes[1].Speaks = 1
	if moves, heirs := v.moves(), v.successors("a", nil); len(moves) > 0 || heirs[4] != "a" {
		t.Errorf("%v, %v", moves, heirs)
	}
}

// TestSharesAreEven: nodes that start together share what there is, and ten seconds after one came
// nobody has two more than another one; then nothing moves.
func TestSharesAreEven(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(1 + w.roll(router.Partitions))
		var all []*process
		for range 1 + w.roll(3) {
			all = append(all, w.start())
		}
		time.Sleep(5 * time.Second)
		w.mustBeHad(all)
		all = append(all, w.start())
		time.Sleep(10 * time.Second)
		w.mustBeHad(all)
		w.mustBeEven(all)
		taken := w.taken()
		time.Sleep(time.Minute)
		if now := w.taken(); now != taken {
			w.t.Errorf("seed %d: %d partitions have moved for nothing", w.seed, now-taken)
		}
	})
}

// taken is how often partitions were taken.
func (w *world) taken() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.parts {
		n += len(of.takes)
	}
	return n
}

// TestADeadNodesShareIsShared among the others as soon as its leases have ended.
func TestADeadNodesShareIsShared(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		all := []*process{w.start(), w.start(), w.start()}
		time.Sleep(10 * time.Second)
		w.mustBeEven(all)
		all[0].kill()
		left := all[1:]
		took := w.until(func() bool { return all[1].holds()+all[2].holds() == len(w.parts) })
		// More than are opened at once wait for one another.
		if most := lease + 2*opens; took > most {
			w.t.Errorf("seed %d: after %v", w.seed, took)
		}
		time.Sleep(3 * time.Second)
		w.mustBeHad(left)
		w.mustBeEven(left)
	})
}

// TestALeavingNodesShareIsShared at once.
func TestALeavingNodesShareIsShared(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		all := []*process{w.start(), w.start(), w.start()}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := all[0].Node.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		w.until(func() bool { return all[1].holds()+all[2].holds() == len(w.parts) })
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("seed %d: nobody had one of %d for %v", w.seed, len(w.parts), took)
		}
		w.mustBeEven(all[1:])
	})
}

// TestWhatIsGivenInVain: a node that opens nothing is given something once a minute, no more often.
func TestWhatIsGivenInVain(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		w.divide(4)
		p := w.cluster(1)[0]
		broken := w.start()
		broken.set(func() { broken.broken = true })
		time.Sleep(10 * time.Second)
		if p.holds() != 4 || w.taken() > 10 {
			t.Errorf("seed %d: it has %d, after %d tries", w.seed, p.holds(), w.taken())
		}
		before := w.taken()
		time.Sleep(40 * time.Second)
		if now := w.taken(); now != before {
			t.Errorf("seed %d: something is given on and on", w.seed)
		}
		time.Sleep(10 * time.Minute)
		if tries := w.taken() - before; tries > 3*2*3 { // three ties end, each of at most two with a try or two and the way back
			t.Errorf("seed %d: it is given something in vain as often as ever: %d", w.seed, tries)
		}
		broken.set(func() { broken.broken = false })
		time.Sleep(8 * minRefusalPause)
		w.mustBeEven([]*process{p, broken})
	})
}

// TestADeadNodeTiesNobody: what comes back because a node was killed was not given in vain; who is
// started in its place has its share as soon as any that comes.
func TestADeadNodeTiesNobody(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		left := []*process{w.start(), w.start()}
		time.Sleep(10 * time.Second)
		for range 2 {
			third := w.start()
			all := append(slices.Clip(left), third)
			time.Sleep(10 * time.Second)
			w.mustBeHad(all)
			w.mustBeEven(all)
			third.kill()
			w.until(func() bool { return left[0].holds()+left[1].holds() == len(w.parts) })
		}
	})
}

// TestWhoComesAgainAndAgain: a process that is started every two seconds and dies keeps nobody from
// having his share.
func TestWhoComesAgainAndAgain(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		all := []*process{w.start()}
		time.Sleep(5 * time.Second)
		all = append(all, w.start())
		for range 5 {
			short := w.start()
			time.Sleep(2 * time.Second)
			short.kill()
		}
		w.mustBeHad(all)
		w.mustBeEven(all)
	})
}

// TestANewNodeInheritsNothing: who is started in the place of a node that was killed takes nothing of
// what that one had, and has its share soon after.
func TestANewNodeInheritsNothing(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		left := []*process{w.start(), w.start()}
		killed := w.start()
		time.Sleep(10 * time.Second)
		killed.kill()
		time.Sleep(w.within(lease / 2))
		restarted := w.start()
		w.until(func() bool { return left[0].holds()+left[1].holds() == len(w.parts) })
		if n := restarted.holds(); n > 0 {
			w.t.Errorf("seed %d: it has %d of %d", w.seed, n, len(w.parts))
		}
		time.Sleep(10 * time.Second)
		w.mustBeEven(append(left, restarted))
	})
}

// TestACutOffNodeTiesNobody: nor was what comes back from a node that the database did not hear.
func TestACutOffNodeTiesNobody(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		left := []*process{w.start(), w.start()}
		time.Sleep(10 * time.Second)
		third := w.start()
		all := append(slices.Clip(left), third)
		time.Sleep(10 * time.Second)
		w.mustBeEven(all)
		third.set(func() { third.cut = true })
		w.until(func() bool { return left[0].holds()+left[1].holds() == len(w.parts) })
		time.Sleep(w.within(2 * time.Second))
		third.set(func() { third.cut = false })
		time.Sleep(10 * time.Second)
		w.mustBeHad(all)
		w.mustBeEven(all)
	})
}
