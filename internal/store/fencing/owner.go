package fencing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Config configures an owner. All fields except RenewedEpoch are required.
type Config struct {
	// Lease is how long the owner keeps the partition after its last commit or renewal. If there is no
	// commit for a third of this time, the owner renews its lease.
	Lease time.Duration
	// GracePeriod is how long the database may be unavailable before [Owner.Unavailable] and [Acquire] return
	// an error.
	GracePeriod time.Duration
	// CloseTimeout is how long a closing owner tries to find out the outcome of a running commit.
	CloseTimeout time.Duration
	// RenewedEpoch is set if other code renews the lease. The owner stores in it the epoch under which
	// to renew, or zero if the lease must not be renewed. If RenewedEpoch is nil, the owner itself
	// renews the lease.
	RenewedEpoch *atomic.Uint64
	// OnEvent is called when the owner's state changes. what describes the event for a log. err is the
	// cause or nil.
	OnEvent func(what string, err error)
}

// These are the pauses between two attempts to reach the database, and between two attempts to get the
// lease.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	leasePause = 200 * time.Millisecond
)

// Owner owns a partition of the database: only its commits are accepted. One goroutine passes commits
// to it, one after the other.
type Owner[G any] struct {
	server Server[G]
	cfg    Config

	commits chan commit[G]
	ended   chan struct{}
	// closing is closed when the owner must close. closeDeadline is the time at which it then stops
	// retrying a commit.
	closing       chan struct{}
	closeOnce     sync.Once
	closeDeadline time.Time

	// epoch is the number of this ownership. Only the owner's goroutine uses it. last is the number of
	// the newest stored commit group.
	epoch uint64
	last  atomic.Uint64
	// moving protects moved. moved is closed when a newer commit group is stored. It is nil if no
	// goroutine waits for that.
	moving      sync.Mutex
	moved       chan struct{}
	unavailable atomic.Pointer[AwayError]

	failed chan struct{}
	cause  error
}

type commit[G any] struct {
	number uint64
	group  G
	done   func(kv.Result)
}

// Acquire takes over a partition. It waits until the lease of the current owner has ended. If other code renews
// the leases (Config.RenewedEpoch), Acquire does not wait and returns a *[HeldError]. It also returns this
// error if the owner renews the lease, or another one takes it, while Acquire waits. Errors: *[HeldError],
// *[FinalError], *[AwayError].
func Acquire[G any](server Server[G], cfg Config) (*Owner[G], error) {
	o := &Owner[G]{
		server: server, cfg: cfg,
		commits: make(chan commit[G], 1), ended: make(chan struct{}), closing: make(chan struct{}), failed: make(chan struct{}),
	}
	st, err := o.acquireFirst()
	if err != nil {
		return nil, err
	}
	o.setEpoch(st.Epoch)
	o.last.Store(st.Commit)
	go o.run()
	return o, nil
}

// acquireFirst acquires the partition for the first time, and waits for the lease of another owner.
func (o *Owner[G]) acquireFirst() (State, error) {
	begin, pause := time.Now(), firstPause
	var held State
	var until time.Time
	for {
		st, err := o.server.Acquire(false)
		switch {
		case err == nil && st.Ours:
			return st, nil
		case err == nil && o.cfg.RenewedEpoch != nil:
			return st, &HeldError{st.Owner, st.Address, st.Lease}
		case err == nil && until.IsZero():
			held, until = st, time.Now().Add(st.Left+lastPause)
			o.cfg.OnEvent("partition lease held by another owner, waiting", &HeldError{st.Owner, st.Address, st.Lease})
		case err == nil && (st.Owner != held.Owner || st.Lease.After(held.Lease) || time.Now().After(until)):
			return st, &HeldError{st.Owner, st.Address, st.Lease}
		case isFinal(err):
			return st, err
		case err != nil && time.Since(begin) > o.cfg.GracePeriod:
			return st, &AwayError{begin, err}
		}
		if err == nil {
			pause = leasePause
		}
		time.Sleep(pause)
		pause = min(2*pause, lastPause)
	}
}

func isFinal(err error) bool {
	_, ok := errors.AsType[*FinalError](err)
	return ok
}

// LastKey returns the number of the newest stored group of commits. It may be called only while no commit
// is running.
func (o *Owner[G]) LastKey() uint64 { return o.last.Load() }

// Commit stores the next group of commits and calls done once. While the database is unavailable,
// Commit retries. If the outcome is not that the group is stored, the owner stores no further groups.
func (o *Owner[G]) Commit(number uint64, group G, done func(kv.Result)) {
	select {
	case o.commits <- commit[G]{number, group, done}:
	case <-o.ended:
		done(kv.Result{Outcome: kv.NotStored, Err: o.failure()})
	}
}

// failure returns the error with which the owner refuses commits after it has failed or was closed.
func (o *Owner[G]) failure() error {
	select {
	case <-o.failed:
		return o.cause
	default:
		return errClosed
	}
}

var errClosed = errors.New("the partition was given back")

// Unavailable returns an error if the database has been unavailable for at least GracePeriod. Otherwise it
// returns nil.
func (o *Owner[G]) Unavailable() error {
	if away := o.unavailable.Load(); away != nil && time.Since(away.Since) >= o.cfg.GracePeriod {
		return away
	}
	return nil
}

// Failed returns a channel that is closed when the owner has failed and can store no more commit groups. Close
// does not close it. [Owner.Err] returns the reason.
func (o *Owner[G]) Failed() <-chan struct{} { return o.failed }

// Err returns the reason why the owner failed: *[FencedError], *[DataLossError] or *[FinalError]. If the owner
// was closing, it may be an error that wraps *[AwayError]. It returns nil if the owner has not failed.
func (o *Owner[G]) Err() error {
	select {
	case <-o.failed:
		return o.cause
	default:
		return nil
	}
}

// BeginClose tells the owner that it will be closed. After CloseTimeout the owner stops retrying a
// commit, and stops finding out the outcome of a commit.
func (o *Owner[G]) BeginClose() {
	o.closeOnce.Do(func() {
		o.closeDeadline = time.Now().Add(o.cfg.CloseTimeout)
		close(o.closing)
	})
}

// Close releases the partition, so that the next owner does not have to wait for the end of the lease.
// No commit may be running.
func (o *Owner[G]) Close() error {
	o.BeginClose()
	close(o.commits)
	<-o.ended
	return nil
}

// setEpoch sets the owner's epoch and passes it to the code that renews the lease.
func (o *Owner[G]) setEpoch(epoch uint64) {
	o.epoch = epoch
	o.publishEpoch(epoch)
}

// publishEpoch passes the epoch to the other code that renews the lease, if there is any. Zero means
// that this code must not renew it.
func (o *Owner[G]) publishEpoch(epoch uint64) {
	if o.cfg.RenewedEpoch != nil {
		o.cfg.RenewedEpoch.Store(epoch)
	}
}

// run stores the commits that the owner receives, one after the other, until the channel is closed or the owner
// fails. While no commit comes, it renews the lease, unless other code renews it.
func (o *Owner[G]) run() {
	defer close(o.ended)
	defer o.server.Close()
	idle := time.NewTimer(o.cfg.Lease / 3)
	defer idle.Stop()
	if o.cfg.RenewedEpoch != nil {
		idle.Stop()
	}
	for o.Err() == nil {
		select {
		case c, open := <-o.commits:
			if !open {
				o.publishEpoch(0)
				o.release()
				return
			}
			c.done(o.store(c))
		case <-idle.C:
			o.renew()
		}
		if o.cfg.RenewedEpoch == nil {
			idle.Reset(o.cfg.Lease / 3)
		}
	}
	o.refuse()
}

// refuse answers all commits with the owner's failure until the owner is closed.
func (o *Owner[G]) refuse() {
	for c := range o.commits {
		c.done(kv.Result{Outcome: kv.NotStored, Err: o.cause})
	}
}

// release ends the lease. If that fails, or if the database is unavailable, the lease expires by itself.
func (o *Owner[G]) release() {
	if o.unavailable.Load() != nil {
		return
	}
	if err := o.server.Release(o.epoch); err != nil {
		o.cfg.OnEvent("releasing partition lease failed, it expires by itself", err)
	}
}

// store sends a group of commits repeatedly until it is stored or the owner fails. The outcome is unknown if
// the owner failed before it could find out.
func (o *Owner[G]) store(c commit[G]) kv.Result {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.server.Commit(o.epoch, c.number, c.group)
		if err == nil {
			return o.stored(c.number)
		}
		if isFinal(err) {
			return kv.Result{Outcome: kv.NotStored, Err: o.fail(err)}
		}
		st, err := o.reacquire(fmt.Errorf("commit of group %d: %w", c.number, err), c.number)
		switch {
		case err != nil:
			return kv.Result{Outcome: kv.Unknown, Err: err}
		case st.Commit == c.number:
			o.cfg.OnEvent("commit confirmed after a lost response", nil)
			return o.stored(c.number)
		}
		o.cfg.OnEvent("commit not stored, retrying", nil)
		if !o.wait(pause) {
			return kv.Result{Outcome: kv.NotStored, Err: o.fail(fmt.Errorf("left while the group was not stored: %w", o.unavailable.Load()))}
		}
	}
}

func (o *Owner[G]) stored(number uint64) kv.Result {
	o.moving.Lock()
	o.last.Store(number)
	if o.moved != nil {
		close(o.moved)
		o.moved = nil
	}
	o.moving.Unlock()
	o.unavailable.Store(nil)
	return kv.Result{Outcome: kv.Stored}
}

// WaitStored waits until it is certain that a commit group is stored. If the commit's wait for a
// standby was interrupted, a reader may see the group although the standby does not have it. A failover
// would undo such a group.
func (o *Owner[G]) WaitStored(ctx context.Context, number uint64) error {
	for {
		o.moving.Lock()
		if o.last.Load() >= number {
			o.moving.Unlock()
			return nil
		}
		if o.moved == nil {
			o.moved = make(chan struct{})
		}
		moved := o.moved
		o.moving.Unlock()
		select {
		case <-moved:
		case <-o.failed:
			return o.cause
		case <-ctx.Done():
			return fmt.Errorf("group %d is in the database, which has not acknowledged it: %w", number, ctx.Err())
		}
	}
}

// renew renews the lease of an idle partition.
func (o *Owner[G]) renew() {
	err := o.server.Renew(o.epoch, o.last.Load())
	if err != nil {
		_, err = o.reacquire(fmt.Errorf("renewal of the lease: %w", err), o.last.Load())
	}
	if err == nil {
		o.unavailable.Store(nil)
	}
}

// reacquire takes the partition under the next epoch after the outcome of a commit became unknown, or after a
// renewal failed. The new epoch fences every statement that may still be running. reacquire returns the state
// that it found. The newest commit group in it must be upTo or the newest acknowledged group. After an error of
// reacquire the owner has failed.
func (o *Owner[G]) reacquire(cause error, upTo uint64) (State, error) {
	o.cfg.OnEvent("partition reacquired", cause)
	o.markUnavailable(cause)
	o.publishEpoch(0)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		st, err := o.server.Acquire(true)
		switch acked := o.last.Load(); {
		case isFinal(err):
			return st, o.fail(err)
		case err != nil:
			o.markUnavailable(err)
		case st.Commit < acked:
			return st, o.fail(&DataLossError{Acked: acked, Found: st.Commit})
		case !st.Ours || st.Commit > upTo:
			return st, o.fail(&FencedError{Owner: st.Owner, Address: st.Address, Epoch: st.Epoch, Ours: o.epoch})
		default:
			o.setEpoch(st.Epoch)
			return st, nil
		}
		if !o.wait(pause) {
			return st, o.fail(fmt.Errorf("left while its outcome was not known: %w", o.unavailable.Load()))
		}
	}
}

// markUnavailable records the last error of the database, and since when the owner cannot store commit
// groups.
func (o *Owner[G]) markUnavailable(err error) {
	since := time.Now()
	if away := o.unavailable.Load(); away != nil {
		since = away.Since
	}
	o.unavailable.Store(&AwayError{since, err})
}

// wait waits for the duration pause and then reports whether the caller may continue. It returns false
// if the owner is closing and closeDeadline has passed.
func (o *Owner[G]) wait(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.closing:
		<-timer.C
		return time.Now().Before(o.closeDeadline)
	}
}

func (o *Owner[G]) fail(err error) error {
	o.publishEpoch(0)
	o.cause = err
	close(o.failed)
	return err
}
