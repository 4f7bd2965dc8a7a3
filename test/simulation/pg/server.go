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
	// now is what the primary has, standby what a failover leaves: whatever was acknowledged.
	now, standby state
	// lines counts what broke all connections, life the deaths of the process that uses it.
	lines, life int
	faults      Faults
	// clients are the processes that something befalls, by their addresses.
	clients map[string]*Client
	// newest are the newest epochs that were taken; told hears of what must not be.
	newest [Partitions]uint64
	// straggling are the statements that come behind the next take-over.
	straggling [Partitions][]func(s *part) error
	report     func(what string)
}

// Faults are how a server is beside itself.
type Faults struct {
	// Away: it answers nobody. Full: it stores nothing.
	Away, Full bool
	// Sync is how long a commit takes.
	Sync time.Duration
	// Next befalls the next commit.
	Next Fault
	// Afterlife: a commit that is under way when its process is killed comes so long after that.
	Afterlife time.Duration
}

// Fault of one commit.
type Fault int

// The faults: none; the answer is lost, or the statement comes late; the wait for the standby is
// broken off, so that the primary alone has it; the statement comes behind the next take-over, before
// that one's owner has said anything.
const (
	None Fault = iota
	LostAnswer
	DelayedStatement
	NoStandby
	Straggler
)

// Partitions are as many as in the package that it stands for.
const Partitions = upstream.Partitions

// state is what a server has.
type state struct {
	// parts are by their numbers; nil: there is none.
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

// seed makes a partition, for good. It is called with the lock.
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

// servers are those of this process by URL.
var servers sync.Map

// Watch has somebody told of a commit under an epoch that another one has followed.
func (s *Server) Watch(told func(what string)) { s.report = told }

// NewServer is an empty one at a URL, in place of an earlier one.
func NewServer(url string) *Server {
	s := &Server{}
	servers.Store(url, s)
	return s
}

// Forget takes a server away at the end of a simulation.
func Forget(url string) { servers.Delete(url) }

// SetFaults says how the server is from now on.
func (s *Server) SetFaults(set func(f *Faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.faults)
}

// Kill ends the process that uses it: what it still does reaches nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// Cut breaks all connections, as a restart of the primary does.
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

// alive is called with the lock: what keeps a process of that life and address from being answered.
func (s *Server) alive(life int, address string) error {
	switch {
	case life != s.life:
		return disk.ErrCrashed
	case s.faults.Away:
		return errAway
	}
	return s.reaches(address)
}

// pass takes the time of a commit.
func (s *Server) pass() {
	s.mu.Lock()
	wait := s.faults.Sync
	s.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
}

// straggles has a statement come behind the next take-over of a partition.
func (s *Server) straggles(id int32, store func(s *part) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.straggling[id] = append(s.straggling[id], store)
}

// follow has them come. It is called with the lock.
func (s *Server) follow(id int32) {
	for _, store := range s.straggling[id] {
		_ = store(s.now.parts[id]) // nobody hears of it
	}
	s.straggling[id] = nil
}

// next is what befalls a commit, once.
func (s *Server) next() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults.Next
	s.faults.Next = None
	return f
}
