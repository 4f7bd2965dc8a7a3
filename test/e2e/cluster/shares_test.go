package cluster

import (
	"syscall"
	"testing"
	"time"
)

// TestSharesAreBalanced: two sidecars share seven namespaces. A third one gets its share soon after it
// serves, and what one had that ends or is killed is served by the others, while callers in each
// namespace at each node hear of no error; how long they stood still is told.
func TestSharesAreBalanced(t *testing.T) {
	c := newCluster(t, 2, 7)
	t.Logf("two share evenly %v after both serve", c.even(time.Now(), shared))
	all := c.calling("before", 1, c.nodes...)
	all.further()
	all.anew()
	all.further()
	machine := all.longest(anywhere)
	t.Logf("while nothing happens calls take up to %v: that is the machine's", machine)
	all.anew()
	third := c.join()
	began := time.Now()
	late := c.calling("after", 1, third)
	t.Logf("a third one has its share %v after it serves", c.even(began, shared+machine))
	all.further()
	late.further()
	all.end()
	late.end()
	t.Logf("longest standstill of a caller meanwhile: %v; of those at the third one %v", all.longest(anywhere), late.longest(anywhere))
	for _, one := range []struct {
		victim *node
		sig    syscall.Signal
	}{{c.nodes[0], syscall.SIGTERM}, {c.nodes[1], syscall.SIGKILL}, {third, syscall.SIGTERM}, {third, syscall.SIGKILL}} {
		had := len(c.had(one.victim))
		its, rest := c.moved(one.sig.String()+one.victim.name, one.victim, 1, one.sig)
		t.Logf("%v of %s, which had %d partitions: longest standstill of a caller at another node %v; in the rest %v", one.sig, one.victim.name, had, its, rest)
		if its > bound()+machine || rest > bound()+machine {
			t.Errorf("%v of %s: callers stood still for %v, in what others had for %v", one.sig, one.victim.name, its, rest)
		}
		t.Logf("it has its share again %v after it serves", c.even(time.Now(), shared+machine))
	}
	c.stopped()
}
