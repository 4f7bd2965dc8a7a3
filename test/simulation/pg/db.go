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

// Config has the fields that the store sets; those of them that say how a real server is spoken
// to mean nothing.
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

// Pool is that of the package that it stands for, and means nothing here.
type Pool = upstream.Pool

// Formats are those of the package that it stands for; there is one program.
type Formats = upstream.Formats

// Timeouts are those of the package that it stands for; all are required.
type Timeouts = upstream.Timeouts

// DB is a process's hold of a server.
type DB struct {
	cfg    Config
	server *Server
	life   int
	owner  *fencing.Owner[*batch]
}

var _ kv.KV = (*DB)(nil)

// Open takes a partition of the server at the URL, which it makes if there is none.
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

// Format is the newest: nobody else is there.
func (d *DB) Format() uint32 { return d.cfg.Formats.Newest }

// Last is the newest group.
func (d *DB) Last() uint64 { return d.owner.Last() }

// Bounds are small, so that groups are cut.
func (d *DB) Bounds() kv.Bounds { return kv.Bounds{Keys: 13_000, Key: 2600, Bytes: 8 << 20} }

// View shows what the server has.
func (d *DB) View(group uint64) kv.Snapshot { return &snapshot{db: d, minGroup: group} }

// Hold keeps what it has.
func (d *DB) Hold(group uint64) (kv.Held, error) {
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

// Release has nothing to let go of.
func (d *DB) Release(uint64) {}

// Owner is the protocol's side.
func (d *DB) Owner() Owner { return d.owner }

// Owner says how the partition is.
type Owner interface {
	Away() error
	Failed() <-chan struct{}
	Err() error
	BeginClose()
}

// Sizes are none on a disk.
func (d *DB) Sizes() (int64, error) { return 0, nil }

// Close gives the partition back.
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
