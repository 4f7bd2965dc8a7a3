package testkit

import (
	"cmp"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// disk is what outlives a crash.
type disk struct {
	mu       sync.RWMutex
	epoch    [16]byte
	runs     map[runKey]*runRows
	order    map[uint32][]string
	journal  map[uint32][]machine.Entry
	consumed map[dedupeKey]machine.Dedupe
	effects  map[effectKey]machine.Effect
	timers   []machine.Timer
	outbox   map[machine.OutboxRow]machine.StepHolder
	ready    map[runKey]struct{}
	index    map[indexKey]struct{}
	packs    map[uint32]*packRows
	usage    []machine.UsageRow

	subscriptions map[machine.SubscriptionKey]machine.Subscription
	deadLetters   map[machine.SubscriptionKey][]machine.DeadLetter
}

type runKey struct {
	ns uint32
	id string
}

// runRows is all that is kept of one run.
type runRows struct {
	head    *machine.State
	entries []machine.Entry
	// checkpoints are copies of the head, in order.
	checkpoints []*machine.State
	writes      map[string][]machine.ArtifactVersion
	messages    map[string][]machine.MessageRow
}

type indexKey struct {
	ns                uint32
	index, value, run string
}

type dedupeKey struct {
	ns        uint32
	scope     machine.DedupeScope
	kind      machine.CommandKind
	principal string
	run, id   string
}

// packRows is one namespace's packs.
type packRows struct {
	byDigest map[string]machine.PackRow
	names    map[string]string
	defaults map[string]string
}

// Reopen implements [Backend].
func (d *disk) Reopen() Backend { return d }

// epochs numbers the stores of one process, so that their cursors differ.
var epochs struct {
	sync.Mutex
	last byte
}

func newDisk() *disk {
	epochs.Lock()
	defer epochs.Unlock()
	epochs.last++
	d := &disk{
		runs: make(map[runKey]*runRows), order: make(map[uint32][]string),
		journal: make(map[uint32][]machine.Entry), consumed: make(map[dedupeKey]machine.Dedupe),
		effects: make(map[effectKey]machine.Effect),
		outbox:  make(map[machine.OutboxRow]machine.StepHolder), ready: make(map[runKey]struct{}),
		index: make(map[indexKey]struct{}), packs: make(map[uint32]*packRows),
		subscriptions: make(map[machine.SubscriptionKey]machine.Subscription),
		deadLetters:   make(map[machine.SubscriptionKey][]machine.DeadLetter),
	}
	d.epoch[0] = epochs.last
	return d
}

// effectKey is a business key in a namespace.
type effectKey struct {
	ns  uint32
	key [32]byte
}

// consumedKey leaves out what does not count in the row's scope.
func consumedKey(ns uint32, row machine.Dedupe) dedupeKey {
	key := dedupeKey{ns: ns, scope: row.Scope, kind: row.Kind, id: row.ID}
	if row.Scope == machine.PerPrincipal {
		key.principal = row.Principal
	} else {
		key.run = row.RunID
	}
	return key
}

func compareTimers(a, b machine.Timer) int {
	return cmp.Or(
		cmp.Compare(a.Due, b.Due), cmp.Compare(a.Namespace, b.Namespace), strings.Compare(a.RunID, b.RunID),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Turn, b.Turn),
	)
}
