//go:build sim

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/simulation/disk"
	"github.com/pawl-dev/pawl/test/simulation/pg"
)

// node is a machine with a sidecar. Its disk and its clock outlive the processes.
type node struct {
	world *world
	name  string
	// space is the namespace of a ward. "" means that the node is no ward and uses the default namespace.
	space string
	dir   string
	disk  *disk.Disk
	// database stores the node's data instead of the disk. nil means that the disk does.
	database *pg.Server
	// cluster is set if several sidecars use the database. nil means that there is one sidecar or no
	// database.
	cluster *cluster
	clock   *clock
	other   *node
	wires   *wires
	// calls is the connection of all callers over the wire. It leads to the present process.
	calls *grpc.ClientConn
	runs  pawlv1.RunServiceClient

	mu   sync.Mutex
	live *process
	// booting means that a process is being started. A machine has at most one process.
	booting bool
	// buried counts processes that end in the background.
	buried sync.WaitGroup
	// lives counts processes.
	lives int
	// raises count how often the operator let tenants spend more.
	raises int64
	// agendaSince are the times at which the node's schedules may have begun: before and after each
	// attempt to set them, up to the first attempt that was answered.
	agendaSince []time.Time
	agendaKnown bool
	// visits are the callers of the members of a cluster. nil means that there is no cluster.
	visits *visits
	// gap is how long the store has had no owner. part is the partition of its namespace, or nil if it
	// is unknown. Both are used only in a cluster.
	gap  gap
	part *int32
}

func newNode(w *world, name string) *node {
	n := &node{world: w, name: name, dir: fmt.Sprintf("/sim/%s", name), clock: newClock(w.knobs.evening)}
	n.disk = disk.New(n.dir)
	n.disk.SetFaults(func(f *disk.Faults) { f.Free, f.Sync = plenty, w.knobs.sync })
	n.wires = &wires{late: w.knobs.late, repeat: true, dice: rand.New(rand.NewPCG(w.seed, 7))}
	if at, members := clustered(w.seed); at >= 0 && name == [2]string{"n0", "n1"}[at] {
		n.cluster = newCluster(n, members)
	} else if w.onDatabase(name) {
		n.database = pg.NewServer(n.url())
		n.database.SetFaults(func(f *pg.Faults) { f.Sync = w.knobs.sync })
	}
	return n
}

// call connects the callers to the node.
func (n *node) call() {
	conn, err := n.dial()
	if err != nil {
		n.world.fail("dial", "%v", err)
		return
	}
	n.calls, n.runs = conn, pawlv1.NewRunServiceClient(conn)
	if n.cluster != nil && n.space == "" {
		n.cluster.call()
	}
}

const plenty = 1 << 40

// process returns the living process, or nil if the node is down.
func (n *node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live
}

// begin reserves the node for starting a process. It returns false if a process lives or is being
// started. The caller must call end.
func (n *node) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil || n.booting {
		return false
	}
	n.booting = true
	return true
}

func (n *node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.booting = false
}

// start boots the node if it is down.
func (n *node) start() {
	if n.cluster != nil {
		n.cluster.start()
		return
	}
	if !n.begin() {
		return
	}
	defer n.end()
	p, err := n.boot()
	// A process whose disk fails while it starts ends, and is started again.
	if full(err) || away(err) || errors.Is(err, machine.ErrIndeterminate) {
		n.world.later(time.Second, n.start)
		return
	}
	n.lives++
	if err != nil {
		n.world.fail("start", "%s does not start in life %d: %v", n.name, n.lives, err)
		return
	}
	n.world.note("%s lives (%d)", n.name, n.lives)
	for _, document := range [][]byte{packDocument, tillDocument} {
		n.registers(p, document)
	}
	n.mu.Lock()
	n.live = p
	n.mu.Unlock()
	go n.watchOver(p)
}

// registers registers a pack at a process. It repeats a registration with an unknown outcome, unless
// the store has failed, which ends the process.
func (n *node) registers(p *process, document []byte) {
	for {
		err := p.register(context.Background(), document)
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if !errors.Is(err, machine.ErrIndeterminate) {
			n.world.fail("register", "%s: %v", n.name, err)
			return
		}
		select {
		case <-p.house.Failed():
			return
		case <-n.world.over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// rot kills the process and removes synced data from the disk. The next start must report the loss and
// change nothing. Then the disk gets its data back.
func (n *node) rot() {
	p := n.process()
	if p == nil || n.database != nil {
		return
	}
	n.crash(p, false)
	n.buried.Wait()
	if !n.begin() {
		return
	}
	defer n.end()
	heal, lost := n.disk.Rot()
	defer heal()
	if !lost {
		return
	}
	p, err := n.boot()
	if err == nil {
		n.world.fail("a damaged store is named", "%s starts without the last group that it acknowledged", n.name)
		p.bury()
		return
	}
	if !errors.Is(err, layout.ErrDamaged) && !full(err) {
		n.world.fail("a damaged store is named", "%s: %v", n.name, err)
	}
	n.world.note("%s names the damage", n.name)
}

// full reports whether a start failed for lack of space, which must happen before any change.
func full(err error) bool {
	refusal, ok := errors.AsType[*machine.Error](err)
	return ok && refusal.Reason == datadir.DiskLow
}

// watchOver ends a process whose store has failed, as package server does. An event of the simulation starts
// it again.
func (n *node) watchOver(p *process) {
	select {
	case <-p.house.Failed():
		n.world.note("%s has failed", n.name)
		n.crash(p, false)
	case <-p.ctx.Done():
	}
}

// crash kills a process if it is the living one. With power, unsynced data is lost.
func (n *node) crash(p *process, power bool) {
	n.mu.Lock()
	if p == nil || n.live != p {
		n.mu.Unlock()
		return
	}
	if n.cluster != nil {
		n.mu.Unlock()
		p.life.of.kill()
		return
	}
	n.live = nil
	n.mu.Unlock()
	n.disk.Crash(power, n.world.dice)
	if n.database != nil {
		n.database.Kill()
	}
	n.world.note("%s is dead, power %v", n.name, power)
	p.halt()
	n.wires.cut()
	n.buried.Go(p.bury)
}

// hooks returns functions that report to the disk which groups were answered or synced.
func (n *node) hooks() store.Hooks {
	life := n.disk.Life()
	of := func(note func()) func(store.Group) {
		return func(store.Group) {
			if n.disk.Life() == life {
				note()
			}
		}
	}
	settled := of(n.disk.Settled)
	return store.Hooks{Answered: of(n.disk.Answered), AfterCommit: func(g store.Group) error {
		settled(g)
		return nil
	}}
}
