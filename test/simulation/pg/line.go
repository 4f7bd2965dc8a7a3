package pg

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// session is the connection of commits of one owner.
type session struct {
	server         *Server
	part           int32
	life, line     int
	owner, address string
	lease          time.Duration
}

var _ fencing.Server[*batch] = (*session)(nil)

// talk executes one statement on the partition. If durable is set, the standby must confirm it.
func (l *session) talk(durable bool, do func(s *part) error) error {
	l.server.stopped(l.address)
	// The answer may reach a process that was stopped in the meantime.
	defer l.server.stopped(l.address)
	l.server.pass()
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if err := l.answers(); err != nil {
		return err
	}
	if err := do(l.server.now.parts[l.part]); err != nil {
		return err
	}
	if durable {
		l.server.standby = l.server.now.clone()
	}
	return nil
}

// answers returns an error if the process must not get an answer. It is called with the server's lock.
// An ended process learns nothing.
func (l *session) answers() error {
	err := l.server.alive(l.life, l.address)
	if errors.Is(err, disk.ErrCrashed) {
		return &fencing.FinalError{Err: err}
	}
	if err == nil && l.server.muted(l.address, l.part) {
		return errAway
	}
	if err == nil && l.line != l.server.lines {
		return errCut
	}
	return err
}

// Acquire opens a new connection and takes the partition.
func (l *session) Acquire(again bool) (st fencing.State, err error) {
	l.server.mu.Lock()
	l.line = l.server.lines
	l.server.mu.Unlock()
	err = l.talk(true, func(s *part) error {
		now := time.Now()
		if st.Ours = s.owner == l.owner || !again && !s.lease.After(now); st.Ours {
			s.epoch++
			l.server.newest[l.part] = s.epoch
			s.owner, s.address, s.lease = l.owner, l.address, now.Add(l.lease)
		}
		st.Epoch, st.Commit, st.Owner, st.Address, st.Lease, st.Left = s.epoch, s.commit, s.owner, s.address, s.lease, max(0, s.lease.Sub(now))
		if st.Ours {
			l.server.follow(l.part)
		}
		return nil
	})
	return st, err
}

// Commit is one statement. It may fail in each of the simulated ways.
func (l *session) Commit(epoch, number uint64, b *batch) error {
	store := func(s *part) error {
		if s.epoch != epoch || s.commit != number-1 {
			return fencing.ErrNoFence
		}
		if newest := l.server.newest[l.part]; epoch < newest && l.server.report != nil {
			l.server.report(fmt.Sprintf("group %d of partition %d is stored under epoch %d, and %d was taken", number, l.part, epoch, newest))
		}
		b.store(s, number)
		s.lease = time.Now().Add(l.lease)
		return nil
	}
	switch l.server.next() {
	case DelayedStatement:
		late := *l
		time.AfterFunc(l.lease/2, func() { _ = late.talk(true, store) }) // no caller receives the result
		return errCut
	case LostAnswer:
		if err := l.talk(true, store); err != nil {
			return err
		}
		return errCut
	case NoStandby:
		if err := l.talk(false, store); err != nil {
			return err
		}
		return errNotice
	case Straggler:
		l.server.straggles(l.part, store)
		return errCut
	case None:
	}
	lives := l.lives()
	err := l.talk(true, func(s *part) error {
		if l.server.faults.Full {
			return errFull
		}
		return store(s)
	})
	if lives && errors.Is(err, disk.ErrCrashed) {
		l.afterlife(store)
	}
	return err
}

// lives reports whether the process can still send statements.
func (l *session) lives() bool {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	return !errors.Is(l.answers(), disk.ErrCrashed)
}

// afterlife executes a commit that was in progress when its process was killed.
func (l *session) afterlife(store func(s *part) error) {
	l.server.mu.Lock()
	late := l.server.faults.Afterlife
	l.server.mu.Unlock()
	if late == 0 {
		return
	}
	time.AfterFunc(late, func() {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		if store(l.server.now.parts[l.part]) == nil {
			l.server.standby = l.server.now.clone()
		}
	})
}

// Renew executes only the check of the epoch.
func (l *session) Renew(epoch, number uint64) error {
	return l.talk(true, func(s *part) error {
		if s.epoch != epoch || s.commit != number {
			return fencing.ErrNoFence
		}
		s.lease = time.Now().Add(l.lease)
		return nil
	})
}

// Release releases the partition.
func (l *session) Release(epoch uint64) error {
	return l.talk(true, func(s *part) error {
		if s.epoch == epoch {
			s.owner, s.address, s.lease = "", "", time.Time{}
		}
		return nil
	})
}

// Close is not needed.
func (l *session) Close() {}
