package pg

import (
	"errors"
	"sync"
	"time"

	"github.com/tidwall/btree"

	upstream "github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// Server is a primary with its standby. Safe for concurrent use.
type Server struct {
	mu sync.Mutex
	// now is the data of the primary. standby is the data after a failover, which includes everything
	// that was acknowledged.
	now, standby state
	// lines counts the losses of all connections. life counts the deaths of the process that uses the
	// server.
	lines, life int
	faults      Faults
	// clients are the processes with a fault, by their addresses.
	clients map[string]*Client
	// newest are the newest epochs of the partitions. report is called for a commit that must not succeed.
	newest [Partitions]uint64
	// straggling are the statements that are executed after the next change of the owner.
	straggling [Partitions][]func(s *part) error
	report     func(what string)
}

// Faults are the faults of a server.
type Faults struct {
	// Away means that the server answers no caller. Full means that it stores nothing.
	Away, Full bool
	// Sync is how long a commit takes.
	Sync time.Duration
	// Next is the fault of the next commit.
	Next Fault
	// Afterlife is the time after which a commit is executed that was in progress when its process was
	// killed.
	Afterlife time.Duration
}

// Fault of one commit.
type Fault int

// These are the faults of a commit: none; the answer is lost or the statement comes late; the wait for
// the standby is aborted, so that only the primary has the commit; the statement is executed after the
// next change of the owner, before the new owner has sent a statement.
const (
	None Fault = iota
	LostAnswer
	DelayedStatement
	NoStandby
	Straggler
)

// Partitions is the number of partitions, as in the package that this package replaces.
const Partitions = upstream.Partitions

// state is the data of a server.
type state struct {
	// parts are the partitions by their numbers. nil means that the partition does not exist.
	parts [Partitions]*part
	// nodes and places are never changed in place.
	nodes       []row
	partitionOf map[string]int32
}

// part is a partition.
type part struct {
	pairs          *btree.Map[string, pair]
	epoch, commit  uint64
	owner, address string
	lease          time.Time
	keys           []byte
}

type pair struct {
	value []byte
	group uint64
}

func (s *state) clone() state {
	other := *s
	for i, p := range s.parts {
		if p != nil {
			other.parts[i] = p.clone()
		}
	}
	return other
}

func (p *part) clone() *part {
	other := *p
	other.pairs = p.pairs.Copy()
	other.keys = append([]byte(nil), p.keys...)
	return &other
}

// seed creates a partition, which is never removed. It is called with the lock.
func (s *Server) seed(id int32) {
	if s.now.parts[id] == nil {
		s.now.parts[id] = &part{pairs: new(btree.Map[string, pair])}
		s.standby = s.now.clone()
	}
}

var (
	errAway   = errors.New("the simulated server does not answer")
	errFull   = errors.New("the simulated server has no room")
	errCut    = errors.New("the simulated connection is cut")
	errNotice = errors.New("a success with a warning: the wait for the standby was broken off")
)

// servers are the servers of this process, by URL.
var servers sync.Map

// Watch sets the function that is called for a commit under an epoch that a newer one has replaced.
func (s *Server) Watch(told func(what string)) { s.report = told }

// NewServer returns an empty server at a URL. It replaces an earlier one.
func NewServer(url string) *Server {
	s := &Server{}
	servers.Store(url, s)
	return s
}

// Forget removes a server at the end of a simulation.
func Forget(url string) { servers.Delete(url) }

// SetFaults changes the faults of the server.
func (s *Server) SetFaults(set func(f *Faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.faults)
}

// Kill ends the process that uses the server. The process gets no answers afterwards.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// Cut breaks all connections, like a restart of the primary.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
}

// Failover makes the standby the primary.
func (s *Server) Failover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
	s.now, s.straggling = s.standby.clone(), [Partitions][]func(s *part) error{}
	for i, p := range s.now.parts {
		s.newest[i] = 0
		if p != nil {
			s.newest[i] = p.epoch
		}
	}
}

// alive returns the error that keeps a process of that life and address from getting answers. It is
// called with the lock.
func (s *Server) alive(life int, address string) error {
	switch {
	case life != s.life:
		return disk.ErrCrashed
	case s.faults.Away:
		return errAway
	}
	return s.reaches(address)
}

// pass waits for the duration of a commit.
func (s *Server) pass() {
	s.mu.Lock()
	wait := s.faults.Sync
	s.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
}

// straggles delays a statement until after the next change of the partition's owner.
func (s *Server) straggles(id int32, store func(s *part) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.straggling[id] = append(s.straggling[id], store)
}

// follow executes the delayed statements. It is called with the lock.
func (s *Server) follow(id int32) {
	for _, store := range s.straggling[id] {
		_ = store(s.now.parts[id]) // no caller receives the result
	}
	s.straggling[id] = nil
}

// next returns the fault of the next commit and removes it.
func (s *Server) next() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults.Next
	s.faults.Next = None
	return f
}
