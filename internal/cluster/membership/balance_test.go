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

// membersOf returns nodes from their descriptions: a name, then "-" if the node leaves or "+" if it is new,
// then ":" and the partitions that it takes if it does not take all.
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

// viewOf returns a view of nodes and of the owners of partitions by number. An owner is a name, "." for
// none, or "?" for a process that is not a node.
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

// TestHeirs: which node takes which partition without an owner.
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

// TestMoves: which partitions move so that all nodes have the same number.
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
		for _, m := range viewOf(c.nodes, c.owners).balancingMoves() {
			got = append(got, fmt.Sprintf("%d:%s>%s", m.part, m.from, m.to))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// TestOlderFormatsAreNotShared: a node with an older format than that of a partition does not receive the
// partition.
func TestOlderFormatsAreNotShared(t *testing.T) {
	t.Parallel()
	v := viewOf("a b", "a a a a .")
	v.Nodes[1].Speaks = 1
	if moves, heirs := v.balancingMoves(), v.successors("a", nil); len(moves) > 0 || heirs[4] != "a" {
		t.Errorf("%v, %v", moves, heirs)
	}
}

// TestSharesAreEven: nodes that start together share the partitions. Ten seconds after another node starts,
// no node has two partitions more than another node, and after that no partition moves.
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

// taken returns how often partitions were taken.
func (w *world) taken() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.parts {
		n += len(of.owners)
	}
	return n
}

// TestADeadNodesShareIsShared: the other nodes take the partitions of a dead node as soon as its leases
// have ended.
func TestADeadNodesShareIsShared(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		all := []*process{w.start(), w.start(), w.start()}
		time.Sleep(10 * time.Second)
		w.mustBeEven(all)
		all[0].kill()
		left := all[1:]
		took := w.until(func() bool { return all[1].countServed()+all[2].countServed() == len(w.parts) })
		// A node opens only a few partitions at once. The others wait.
		if most := lease + 2*opens; took > most {
			w.t.Errorf("seed %d: after %v", w.seed, took)
		}
		time.Sleep(3 * time.Second)
		w.mustBeHad(left)
		w.mustBeEven(left)
	})
}

// TestALeavingNodesShareIsShared: the other nodes take the partitions of a leaving node at once.
func TestALeavingNodesShareIsShared(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		all := []*process{w.start(), w.start(), w.start()}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := all[0].Node.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		w.until(func() bool { return all[1].countServed()+all[2].countServed() == len(w.parts) })
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("seed %d: nobody had one of %d for %v", w.seed, len(w.parts), took)
		}
		w.mustBeEven(all[1:])
	})
}

// TestWhatIsGivenInVain: a node that cannot open partitions is offered one once a minute at most.
func TestWhatIsGivenInVain(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		w.divide(4)
		p := w.cluster(1)[0]
		broken := w.start()
		broken.set(func() { broken.broken = true })
		time.Sleep(10 * time.Second)
		if p.countServed() != 4 || w.taken() > 10 {
			t.Errorf("seed %d: it has %d, after %d tries", w.seed, p.countServed(), w.taken())
		}
		before := w.taken()
		time.Sleep(40 * time.Second)
		if now := w.taken(); now != before {
			t.Errorf("seed %d: something is given on and on", w.seed)
		}
		time.Sleep(10 * time.Minute)
		if tries := w.taken() - before; tries > 3*2*3 { // three pauses, each for two partitions, with two tries and the way back
			t.Errorf("seed %d: it is given something in vain as often as ever: %d", w.seed, tries)
		}
		broken.set(func() { broken.broken = false })
		time.Sleep(8 * minRefusalPause)
		w.mustBeEven([]*process{p, broken})
	})
}

// TestADeadNodeTiesNobody: a partition that comes back from a killed node does not count as refused. A node
// that starts in place of the killed one receives its share as soon as any new node.
func TestADeadNodeTiesNobody(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		remaining := []*process{w.start(), w.start()}
		time.Sleep(10 * time.Second)
		for range 2 {
			third := w.start()
			all := append(slices.Clip(remaining), third)
			time.Sleep(10 * time.Second)
			w.mustBeHad(all)
			w.mustBeEven(all)
			third.kill()
			w.until(func() bool { return remaining[0].countServed()+remaining[1].countServed() == len(w.parts) })
		}
	})
}

// TestWhoComesAgainAndAgain: a process that starts every two seconds and dies does not keep other nodes
// from receiving their share.
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

// TestANewNodeInheritsNothing: a node that starts in place of a killed one takes none of the killed node's
// partitions, and receives its share soon after.
func TestANewNodeInheritsNothing(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		remaining := []*process{w.start(), w.start()}
		killed := w.start()
		time.Sleep(10 * time.Second)
		killed.kill()
		time.Sleep(w.randomDuration(lease / 2))
		restarted := w.start()
		w.until(func() bool { return remaining[0].countServed()+remaining[1].countServed() == len(w.parts) })
		if n := restarted.countServed(); n > 0 {
			w.t.Errorf("seed %d: it has %d of %d", w.seed, n, len(w.parts))
		}
		time.Sleep(10 * time.Second)
		w.mustBeEven(append(remaining, restarted))
	})
}

// TestACutOffNodeTiesNobody: a partition that comes back from a node without a connection to the database
// does not count as refused either.
func TestACutOffNodeTiesNobody(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.divide(4 + w.roll(12))
		remaining := []*process{w.start(), w.start()}
		time.Sleep(10 * time.Second)
		third := w.start()
		all := append(slices.Clip(remaining), third)
		time.Sleep(10 * time.Second)
		w.mustBeEven(all)
		third.set(func() { third.cut = true })
		w.until(func() bool { return remaining[0].countServed()+remaining[1].countServed() == len(w.parts) })
		time.Sleep(w.randomDuration(2 * time.Second))
		third.set(func() { third.cut = false })
		time.Sleep(10 * time.Second)
		w.mustBeHad(all)
		w.mustBeEven(all)
	})
}
