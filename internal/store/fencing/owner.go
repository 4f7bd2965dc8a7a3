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
	// commit for a third of this time, the owner renews the lease.
	Lease time.Duration
	// GracePeriod is how long the database may be unavailable before [Owner.Away] returns an error, and
	// before [Acquire] returns an error.
	GracePeriod time.Duration
	// CloseTimeout is how long a closing owner tries to find out the outcome of a commit.
	CloseTimeout time.Duration
	// RenewedEpoch means that other code renews the lease, if it is not nil. The owner stores in it the
	// epoch for the renewal. It stores zero while it is not certain of its epoch.
	RenewedEpoch *atomic.Uint64
	// OnEvent is called when the owner's state changes. what is a description of the event for a log.
	OnEvent func(what string, err error)
}

// The pauses between two attempts.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	leasePause = 200 * time.Millisecond
)

// Owner owns a partition. One goroutine passes commits to it, one after the other.
type Owner[G any] struct {
	server Server[G]
	cfg    Config

	commits chan commit[G]
	ended   chan struct{}
	// closing is closed when the owner must close. closeDeadline is the time at which a waiting commit
	// is then abandoned.
	closing       chan struct{}
	closeOnce     sync.Once
	closeDeadline time.Time

	// epoch is used only by the owner's goroutine.
	epoch uint64
	last  atomic.Uint64
	// moved is closed when last increases. It is nil if no caller waits for that.
	moving sync.Mutex
	moved  chan struct{}
	away   atomic.Pointer[AwayError]

	failed chan struct{}
	cause  error
}

type commit[G any] struct {
	number uint64
	group  G
	done   func(kv.Result)
}

// Acquire takes over a partition. It waits until the lease of the current owner has ended. If other
// code renews the leases (Config.RenewedEpoch), Acquire does not wait and returns a *[HeldError].
// Errors: *[HeldError], *[FinalError], *[AwayError].
func Acquire[G any](server Server[G], cfg Config) (*Owner[G], error) {
	o := &Owner[G]{
		server: server, cfg: cfg,
		commits: make(chan commit[G], 1), ended: make(chan struct{}), closing: make(chan struct{}), failed: make(chan struct{}),
	}
	st, err := o.first()
	if err != nil {
		return nil, err
	}
	o.setEpoch(st.Epoch)
	o.last.Store(st.Commit)
	go o.run()
	return o, nil
}

// first acquires the partition for the first time.
func (o *Owner[G]) first() (State, error) {
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

// Last returns the number of the newest stored group. It may be called only while no commit is running.
func (o *Owner[G]) Last() uint64 { return o.last.Load() }

// Commit stores the next group and calls done once. While the database is unavailable, Commit
// retries. After any outcome other than stored, the owner stores no more groups.
func (o *Owner[G]) Commit(number uint64, group G, done func(kv.Result)) {
	select {
	case o.commits <- commit[G]{number, group, done}:
	case <-o.ended:
		done(kv.Result{Outcome: kv.NotStored, Err: o.failure()})
	}
}

// failure returns the reason why the owner has ended.
func (o *Owner[G]) failure() error {
	select {
	case <-o.failed:
		return o.cause
	default:
		return errClosed
	}
}

var errClosed = errors.New("the partition was given back")

// Away returns an error if the database has been unavailable for longer than GracePeriod, otherwise
// nil.
func (o *Owner[G]) Away() error {
	if away := o.away.Load(); away != nil && time.Since(away.Since) >= o.cfg.GracePeriod {
		return away
	}
	return nil
}

// Failed returns a channel that is closed when the owner stores no more groups; [Owner.Err]
// returns the reason.
func (o *Owner[G]) Failed() <-chan struct{} { return o.failed }

// Err returns the reason why the owner failed: *[FencedError], *[DataLossError] or *[FinalError].
// It returns nil if the owner has not failed.
func (o *Owner[G]) Err() error {
	select {
	case <-o.failed:
		return o.cause
	default:
		return nil
	}
}

// BeginClose starts the CloseTimeout. When it has passed, the owner no longer tries to find out the
// outcome of a commit.
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

// setEpoch sets the owner's epoch and publishes it to the code that renews the lease.
func (o *Owner[G]) setEpoch(epoch uint64) {
	o.epoch = epoch
	o.publishEpoch(epoch)
}

// publishEpoch publishes the epoch to the other code that renews the lease. Zero means that this code
// must not renew it.
func (o *Owner[G]) publishEpoch(epoch uint64) {
	if o.cfg.RenewedEpoch != nil {
		o.cfg.RenewedEpoch.Store(epoch)
	}
}

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

// refuse answers all commits with the failure until the owner is closed.
func (o *Owner[G]) refuse() {
	for c := range o.commits {
		c.done(kv.Result{Outcome: kv.NotStored, Err: o.cause})
	}
}

// release ends the lease. If that fails, the lease expires by itself.
func (o *Owner[G]) release() {
	if o.away.Load() != nil {
		return
	}
	if err := o.server.Release(o.epoch); err != nil {
		o.cfg.OnEvent("releasing partition lease failed, it expires by itself", err)
	}
}

// store sends a group repeatedly until its outcome is known.
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
			return kv.Result{Outcome: kv.NotStored, Err: o.fail(fmt.Errorf("left while the group was not stored: %w", o.away.Load()))}
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
	o.away.Store(nil)
	return kv.Result{Outcome: kv.Stored}
}

// WaitStored waits until it is certain that a group is stored. A reader may see a group earlier,
// because the database may show a group that a standby does not have, if the wait for the standby was
// interrupted. A failover would undo such a group.
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
		o.away.Store(nil)
	}
}

// reacquire takes the partition under the next epoch. This fences every statement that may still be
// running. It returns the state that it found. The newest group must be either upTo or the newest
// acknowledged group. An error of reacquire is permanent.
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
			return st, o.fail(fmt.Errorf("left while its outcome was not known: %w", o.away.Load()))
		}
	}
}

// markUnavailable records the last error of the database, and the time since which the owner cannot
// store groups.
func (o *Owner[G]) markUnavailable(err error) {
	since := time.Now()
	if away := o.away.Load(); away != nil {
		since = away.Since
	}
	o.away.Store(&AwayError{since, err})
}

// wait waits for the duration pause. It returns false if the owner is closing and the deadline has
// passed.
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
