package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	upstream "github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Config has the fields that the store sets. Fields that describe the connection to a real server have
// no effect.
type Config struct {
	URL                    dsn.URL
	Schema, Owner, Address string
	Part                   int32
	Hot                    func(kind byte) bool
	Readers                int32
	Lease                  time.Duration
	Logger                 *slog.Logger
	Unread                 func(error) error
	Timeouts               Timeouts
	Pool                   *Pool
	RenewedEpoch           *atomic.Uint64
	Formats                Formats
}

// Pool is the type of the real package. It has no effect in a simulation.
type Pool = upstream.Pool

// Formats is the type of the real package. A simulation has one program, so there is one format.
type Formats = upstream.Formats

// Timeouts are those of the package that it stands for; all are required.
type Timeouts = upstream.Timeouts

// DB is the access of a process to a server.
type DB struct {
	cfg    Config
	server *Server
	life   int
	owner  *fencing.Owner[*batch]
}

var _ kv.KV = (*DB)(nil)

// Open opens a partition of the server at the URL. It creates the partition if there is none.
func Open(cfg Config) (*DB, error) {
	found, ok := servers.Load(cfg.URL.String())
	if !ok {
		return nil, fmt.Errorf("there is no simulated server at %s", cfg.URL)
	}
	d := &DB{cfg: cfg, server: found.(*Server)}
	d.server.mu.Lock()
	d.life = d.server.life
	d.server.seed(cfg.Part)
	d.server.mu.Unlock()
	var err error
	d.owner, err = fencing.Acquire(&session{server: d.server, life: d.life, part: cfg.Part, owner: cfg.Owner, address: cfg.Address, lease: cfg.Lease}, fencing.Config{
		Lease: cfg.Lease, GracePeriod: cfg.Timeouts.GracePeriod, CloseTimeout: cfg.Timeouts.CloseTimeout, RenewedEpoch: cfg.RenewedEpoch, OnEvent: func(string, error) {},
	})
	return d, err
}

// IsFull: the server has no room.
func IsFull(err error) bool { return errors.Is(err, errFull) }

// Format returns the newest format, because no older program uses the server.
func (d *DB) Format() uint32 { return d.cfg.Formats.Newest }

// LastKey is the newest group.
func (d *DB) LastKey() uint64 { return d.owner.LastKey() }

// Bounds returns small bounds, so that groups are split.
func (d *DB) Bounds() kv.Bounds { return kv.Bounds{Keys: 13_000, Key: 2600, Bytes: 8 << 20} }

// View shows what the server has.
func (d *DB) View(group uint64) kv.Snapshot { return &snapshot{db: d, minGroup: group} }

// Hold keeps a version of the data that the server has now.
func (d *DB) Hold(group uint64) (kv.HeldGroup, error) {
	s := &snapshot{db: d, minGroup: group}
	return held{s}, s.begin()
}

type held struct{ *snapshot }

func (h held) View() kv.Snapshot {
	other := *h.snapshot
	return &other
}

// Batch begins a group.
func (d *DB) Batch() kv.Batch { return &batch{db: d, pairs: make(map[string][]byte)} }

// Release does nothing.
func (d *DB) Release(uint64) {}

// Owner returns the side of the commit protocol.
func (d *DB) Owner() Owner { return d.owner }

// Owner says how the partition is.
type Owner interface {
	Unavailable() error
	Failed() <-chan struct{}
	Err() error
	BeginClose()
}

// Sizes returns 0, because nothing is on a disk.
func (d *DB) Sizes() (int64, error) { return 0, nil }

// Close releases the partition.
func (d *DB) Close() error { return d.owner.Close() }

// waitStored waits until a group is known to be stored.
func (d *DB) waitStored(group uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeouts.Read)
	defer cancel()
	return d.owner.WaitStored(ctx, group)
}

// batch collects a group.
type batch struct {
	db *DB
	// pairs are set; nil: removed.
	pairs map[string][]byte
}

func (b *batch) Set(key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	b.pairs[string(key)] = value
}

func (b *batch) Delete(key []byte) { b.pairs[string(key)] = nil }

func (b *batch) Commit(group uint64, done func(kv.Result)) { b.db.owner.Commit(group, b, done) }

func (b *batch) store(s *part, group uint64) {
	for key, value := range b.pairs {
		if value == nil {
			s.pairs.Delete(key)
			continue
		}
		s.pairs.Set(key, pair{value: value, group: group})
	}
	s.commit = group
}

// Keys are bytes of the server.
func (d *DB) Keys(func(what string) error) keyring.Medium { return &keys{d} }
