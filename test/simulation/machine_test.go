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
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/simulation/disk"
	"github.com/pawl-dev/pawl/test/simulation/pg"
)

// node is a machine with a sidecar: its disk and clock outlive processes.
type node struct {
	world *world
	name  string
	// space is the namespace of a ward; "": it is no ward, and the default one is meant.
	space string
	dir   string
	disk  *disk.Disk
	// database keeps the store in the disk's place; nil: the disk does.
	database *pg.Server
	// cluster: the database is of several sidecars; nil: of one, or there is none.
	cluster *cluster
	clock   *clock
	other   *node
	wires   *wires
	// calls is everybody's connection for calls over the wire, whichever process is there.
	calls *grpc.ClientConn
	runs  pawlv1.RunServiceClient

	mu   sync.Mutex
	live *process
	// booting: somebody starts a process; a machine has one.
	booting bool
	// buried counts processes that end in the background.
	buried sync.WaitGroup
	// lives counts processes.
	lives int
	// raises count how often the operator let tenants spend more.
	raises int64
	// agendaSince are when its schedules may have begun: before and behind each try to set them, up
	// to the first that was answered.
	agendaSince []time.Time
	agendaKnown bool
	// visits are who calls any member of a cluster; nil: there is none.
	visits *visits
	// gap is how long nobody has had it, part the partition of its namespace; nil: nobody has said yet.
	// Both are of a cluster.
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

// call connects everybody to the node.
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

// process is the living one; nil: the node is down.
func (n *node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live
}

// begin takes the node to boot it; false: it lives, or somebody does. What begins ends with end.
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

// registers gives a process a pack; of whose commit nobody knows is given again, unless the store has
// failed by that, which ends the process.
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

// rot kills the process, and the disk loses what it had synced: the start must say so and
// leave everything as it is. Then the disk has it again.
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

// full: there is no room to start, which is said before anything is touched.
func full(err error) bool {
	refusal, ok := errors.AsType[*machine.Error](err)
	return ok && refusal.Reason == diskspace.DiskLow
}

// watchOver ends a process whose store has failed, as package server does; somebody starts it again.
func (n *node) watchOver(p *process) {
	select {
	case <-p.house.Failed():
		n.world.note("%s has failed", n.name)
		n.crash(p, false)
	case <-p.ctx.Done():
	}
}

// crash kills a process, if it is the living one; with power, what was not synced is lost.
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

// hooks tell the disk which groups callers know of.
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
