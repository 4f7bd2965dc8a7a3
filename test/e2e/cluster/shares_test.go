package cluster

import (
	"syscall"
	"testing"
	"time"
)

// TestSharesAreBalanced lets two sidecars share seven namespaces. A third one gets its share soon
// after it serves. If one ends or is killed, the others serve its share, while callers in each
// namespace at each node get no error. The length of each standstill is logged.
func TestSharesAreBalanced(t *testing.T) {
	c := newCluster(t, 2, 7)
	t.Logf("two share evenly %v after both serve", c.awaitEvenShares(time.Now(), shared))
	all := c.calling("before", 1, c.nodes...)
	all.awaitCalls()
	all.resetGaps()
	all.awaitCalls()
	machine := all.longestGap(allNamespaces)
	t.Logf("while nothing happens calls take up to %v: that is the machine's", machine)
	all.resetGaps()
	third := c.join()
	began := time.Now()
	late := c.calling("after", 1, third)
	t.Logf("a third one has its share %v after it serves", c.awaitEvenShares(began, shared+machine))
	all.awaitCalls()
	late.awaitCalls()
	all.end()
	late.end()
	t.Logf("longest standstill of a caller meanwhile: %v; of those at the third one %v", all.longestGap(allNamespaces), late.longestGap(allNamespaces))
	for _, one := range []struct {
		victim *node
		sig    syscall.Signal
	}{{c.nodes[0], syscall.SIGTERM}, {c.nodes[1], syscall.SIGKILL}, {third, syscall.SIGTERM}, {third, syscall.SIGKILL}} {
		had := len(c.ownedPartitions(one.victim))
		moved, rest := c.moved(one.sig.String()+one.victim.name, one.victim, 1, one.sig)
		t.Logf("%v of %s, which had %d partitions: longest standstill of a caller at another node %v; in the rest %v", one.sig, one.victim.name, had, moved, rest)
		if moved > bound()+machine || rest > bound()+machine {
			t.Errorf("%v of %s: callers stood still for %v, in what others had for %v", one.sig, one.victim.name, moved, rest)
		}
		t.Logf("it has its share again %v after it serves", c.awaitEvenShares(time.Now(), shared+machine))
	}
	c.stopped()
}
