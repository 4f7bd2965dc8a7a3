package pgkv

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/sim/disk"
)

// Member is a row of the table of nodes.
type Member struct {
	ID, Address string
	Key         [32]byte
	Leaving     bool
	// Speaks is the newest format that it keeps the store in; here there is one.
	Speaks uint32
}

type row struct {
	Member
	lease time.Time
}

// Seen is what a beat tells: who lives in the order in which they came, who has the store, and
// what is left of the lease.
type Seen struct {
	Nodes []Member
	Owner Member
	Lease time.Duration
}

// Client is how a process reaches the server, by the address that it gives.
type Client struct {
	// Dead: what it still does reaches nothing. Cut: it is not answered.
	Dead, Cut bool
	// Stopped waits while it is stopped; nil: it never is.
	Stopped func()
}

// SetClient says how a process is from now on.
func (s *Server) SetClient(address string, set func(c *Client)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		s.clients = map[string]*Client{}
	}
	if s.clients[address] == nil {
		s.clients[address] = &Client{}
	}
	set(s.clients[address])
}

// Reaches says whether a process is answered.
func (s *Server) Reaches(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.faults.Away && s.reaches(address) == nil
}

// stopped waits while a process is.
func (s *Server) stopped(address string) {
	s.mu.Lock()
	var wait func()
	if c := s.clients[address]; c != nil {
		wait = c.Stopped
	}
	s.mu.Unlock()
	if wait != nil {
		wait()
	}
}

// reaches is called with the lock: what keeps a process from being answered.
func (s *Server) reaches(address string) error {
	switch c := s.clients[address]; {
	case c == nil:
		return nil
	case c.Dead:
		return disk.ErrCrashed
	case c.Cut:
		return errAway
	}
	return nil
}

// unanswered is how long a beat waits in vain.
const unanswered = 500 * time.Millisecond

// Beat is the statement of internal/store/pgkv/members; kept is the epoch under which the process
// has the store.
func (s *Server) Beat(me Member, kept uint64, lease time.Duration) (seen Seen, err error) {
	err = s.rows(me.Address, func(now time.Time) {
		s.now.write(row{me, now.Add(lease)})
		owner, _, _ := strings.Cut(s.now.owner, ".")
		if owner == me.ID && s.now.epoch == kept && s.now.lease.Before(now.Add(lease*5/6)) {
			s.now.lease = now.Add(lease)
		}
		had := s.now.lease.After(now)
		seen.Lease = s.now.lease.Sub(now)
		if had {
			seen.Owner = Member{ID: owner, Address: s.now.address}
		}
		for _, r := range s.now.nodes {
			if r.lease.After(now) {
				seen.Nodes = append(seen.Nodes, r.Member)
			}
			if had && r.ID == owner {
				seen.Owner = r.Member
			}
		}
	})
	return seen, err
}

// Leave takes the row of a node away.
func (s *Server) Leave(me Member) error {
	return s.rows(me.Address, func(time.Time) {
		var rest []row
		for _, r := range s.now.nodes {
			if r.ID != me.ID {
				rest = append(rest, r)
			}
		}
		s.now.nodes = rest
	})
}

// rows does something with the rows of nodes, as one statement.
func (s *Server) rows(address string, do func(now time.Time)) error {
	s.stopped(address)
	s.pass()
	s.mu.Lock()
	err := s.reaches(address)
	if err == nil && s.faults.Away {
		err = errAway
	}
	if err == nil {
		do(time.Now())
		s.standby = s.now.clone()
	}
	s.mu.Unlock()
	if err != nil {
		time.Sleep(unanswered)
	}
	s.stopped(address)
	return err
}

// write puts a row in the place of the one with its id, or behind all others.
func (s *state) write(r row) {
	all := append([]row(nil), s.nodes...)
	for i := range all {
		if all[i].ID == r.ID {
			all[i] = r
			s.nodes = all
			return
		}
	}
	all = append(all, r)
	s.nodes = all
}
