package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

func (s *scan) requestSteps() (c machine.RequestSteps) {
	for s.next() {
		switch s.num {
		case 1:
			c.TurnSeq = s.uint()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Requests = append(c.Requests, s.stepRequest())
		case 4:
			c.Assigned = s.assigned()
		case 5:
			c.First = s.int()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) stepRequest() (r machine.StepRequest) {
	f := newScan("step request", s.message())
	for f.next() {
		switch f.num {
		case 1:
			r.Key = f.string()
		case 2:
			r.Tool = f.string()
		case 3:
			r.Payload = f.bytes()
		case 4:
			f.hash(&r.PayloadHash)
		case 5:
			r.Reframe = f.bool()
		case 6:
			d := f.denial()
			r.Denied = &d
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return r
}

func (s *scan) resolveStep() (c machine.ResolveStep) {
	for s.next() {
		switch s.num {
		case 1:
			c.Step = s.uint32()
		case 2:
			c.Tool = s.string()
		case 3:
			c.Attempt = s.int()
		case 4:
			c.OK = s.bool()
		case 5:
			c.Result = s.bytes()
		case 6:
			c.Error = s.fault()
		case 7:
			c.Worker = s.string()
		case 30:
			c.Final = s.bool()
		case 31:
			c.Usage = s.usage()
		case 40:
			c.Unknown = s.bool()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) fireTimer() (c machine.FireTimer) {
	for s.next() {
		switch s.num {
		case 1:
			c.Kind = machine.TimerKind(s.enum(uint8(machine.TimerStep)))
		case 2:
			c.Step = s.uint32()
		case 3:
			c.Turn = s.uint()
		case 4:
			c.Due = s.time()
		default:
			s.unknown()
		}
	}
	return c
}

// note reads the one field of Pause, Resume, Cancel and their records.
func (s *scan) note() (note string) {
	for s.next() {
		if s.num != 1 {
			s.unknown()
			break
		}
		note = s.string()
	}
	return note
}

func (s *scan) loseTurn() (c machine.LoseTurn) {
	for s.next() {
		switch s.num {
		case 1:
			c.TurnSeq = s.uint()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.LeaseExpired = s.bool()
		case 4:
			c.Undeliverable = s.bool()
		case 5:
			c.Assigned = s.assigned()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) loseStep() (c machine.LoseStep) {
	for s.next() {
		switch s.num {
		case 1:
			c.Step = s.uint32()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Worker = s.string()
		default:
			s.unknown()
		}
	}
	return c
}
