package pg

import (
	"maps"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// Those of the package that it stands for. A format is none: here there is one.
type (
	// Member is a row of the table of nodes.
	Member = members.Node
	// Partition is a row of the table of partitions.
	Partition = members.Partition
	// Seen is the answer to a heartbeat.
	Seen = members.View
	// Epochs are those under which a process has partitions.
	Epochs = members.Epochs
)

type row struct {
	Member
	lease, since time.Time
}

// member converts a row to the form of a heartbeat's answer.
func (r row) member(lease time.Duration) Member {
	m := r.Member
	m.New = r.lease.Sub(r.since) < 2*lease
	return m
}

// Client is the connection of a process to the server, by the address of the process.
type Client struct {
	// Dead means that the later statements of the process have no effect. Cut means that the process
	// gets no answers.
	Dead, Cut bool
	// Mute has a bit for each partition for which the statements of the owner get no answer.
	Mute uint64
	// Stopped waits while the process is stopped. nil means that it never is.
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

// Muted says whether a process is not answered about a partition.
func (s *Server) Muted(address string, part int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.muted(address, part)
}

// muted is called with the lock.
func (s *Server) muted(address string, part int32) bool {
	c := s.clients[address]
	return c != nil && c.Mute&(1<<part) != 0
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

// reaches returns the error that keeps a process from getting answers. It is called with the lock.
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

// unanswered is how long a heartbeat waits for an answer that never comes.
const unanswered = 500 * time.Millisecond

// Heartbeat is the statement of internal/store/pg/members; kept are the epochs under which the process
// has partitions.
func (s *Server) Heartbeat(me Member, kept *Epochs, lease time.Duration) (seen Seen, err error) {
	err = s.rows(me.Address, func(now time.Time) {
		s.now.write(row{me, now.Add(lease), now})
		for _, r := range s.now.nodes {
			if r.lease.After(now) {
				seen.Nodes = append(seen.Nodes, r.member(lease))
			}
		}
		for id, p := range s.now.parts {
			if p == nil {
				continue
			}
			if p.node() == me.ID && p.epoch == kept[id].Load() && p.lease.Before(now.Add(lease*5/6)) {
				p.lease = now.Add(lease)
			}
			seen.Parts = append(seen.Parts, s.now.seen(int32(id), now, lease))
		}
	})
	return seen, err
}

// node returns the node whose process owns the partition.
func (p *part) node() string {
	id, _, _ := strings.Cut(p.owner, ".")
	return id
}

// seen converts a partition to the form of a heartbeat's answer.
func (s *state) seen(id int32, now time.Time, lease time.Duration) Partition {
	p, told := s.parts[id], Partition{ID: id}
	if !p.lease.After(now) {
		return told
	}
	told.Owner, told.Lease = Member{ID: p.node(), Address: p.address}, p.lease.Sub(now)
	for _, r := range s.nodes {
		if r.ID == told.Owner.ID {
			told.Owner = r.member(lease)
		}
	}
	return told
}

// Place is that of internal/store/pg/members, said by the process at an address.
func (s *Server) Place(address string, names []string, key func(name string) []byte) (at map[string]int32, err error) {
	err = s.rows(address, func(time.Time) {
		at = members.Assign(s.now.partitionOf, names, func(name string) bool { return s.now.stored(key(name)) })
		for _, name := range names {
			s.seed(at[name])
		}
		places := maps.Clone(at)
		maps.Copy(places, s.now.partitionOf)
		s.now.partitionOf = places
	})
	return at, err
}

// stored: the store of partition 0 has a key.
func (s *state) stored(key []byte) bool {
	if s.parts[0] == nil {
		return false
	}
	_, there := s.parts[0].pairs.Get(string(key))
	return there
}

// Deregister takes the row of a node away.
func (s *Server) Deregister(me Member) error {
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

// write replaces the row with the same id, or appends the row.
func (s *state) write(r row) {
	all := append([]row(nil), s.nodes...)
	for i := range all {
		if all[i].ID == r.ID {
			r.since = all[i].since
			all[i] = r
			s.nodes = all
			return
		}
	}
	all = append(all, r)
	s.nodes = all
}
