package work

// workerName is a worker over its reconnects: nobody else can be it.
type workerName struct{ principal, id string }

// maxSticky bounds the runs whose last worker is remembered.
const maxSticky = 8192

// stickyNames remembers which worker had a run last.
type stickyNames struct {
	names map[string]workerName
	ring  []string
	next  int
}

func newStickyNames() stickyNames { return stickyNames{names: make(map[string]workerName)} }

func (s *stickyNames) of(run string) workerName { return s.names[run] }

func (s *stickyNames) put(run string, name workerName) {
	if _, known := s.names[run]; known {
		s.names[run] = name
		return
	}
	if len(s.ring) < maxSticky {
		s.ring = append(s.ring, run)
	} else {
		delete(s.names, s.ring[s.next])
		s.ring[s.next] = run
		s.next = (s.next + 1) % maxSticky
	}
	s.names[run] = name
}

// maxPastSteps bounds, per worker, the steps that are remembered after they were
// its own.
const maxPastSteps = 1024

// pastSteps are steps that a worker had: an answer that comes too late is told
// what became of it, not that it never had a say.
type pastSteps struct {
	byToken map[string]StepLease
	ring    []string
	next    int
}

func (p *pastSteps) put(lease StepLease) {
	if p.byToken == nil {
		p.byToken = make(map[string]StepLease)
	}
	if _, known := p.byToken[lease.Token]; known {
		return
	}
	if len(p.ring) < maxPastSteps {
		p.ring = append(p.ring, lease.Token)
	} else {
		delete(p.byToken, p.ring[p.next])
		p.ring[p.next] = lease.Token
		p.next = (p.next + 1) % maxPastSteps
	}
	p.byToken[lease.Token] = lease
}
