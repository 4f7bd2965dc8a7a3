package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

func (s *scan) turnOpened() *machine.TurnOpened {
	r := &machine.TurnOpened{}
	for s.next() {
		switch s.num {
		case 1:
			r.State = s.string()
		case 2:
			r.Inputs = packed[uint64](s)
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) turnAssigned() *machine.TurnAssigned {
	r := &machine.TurnAssigned{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		case 3:
			r.Assigned = s.assignment()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) turnCompleted(of *bodies) *machine.TurnCompleted {
	r := &machine.TurnCompleted{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		case 3:
			r.Output = append(r.Output, s.part())
		case 4:
			if s.bool() {
				r.Output = of.output
			}
		case 5:
			r.Messages = append(r.Messages, s.conversationMessage())
		case 6:
			if s.bool() {
				r.Messages = of.messages
			}
		case 7:
			r.Usage = s.usage()
		case 8:
			r.Event = s.string()
		case 9:
			r.Artifacts = append(r.Artifacts, s.write(of))
		case 10:
			r.Artifacts = s.writesOfInput(of)
		case 30:
			r.Await = machine.Awaiting(s.enum(uint8(machine.AwaitAuth)))
		case 31:
			r.Reply = s.bool()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) turnFailed(of *bodies) *machine.TurnFailed {
	r := &machine.TurnFailed{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		case 3:
			r.Error = s.fault()
		case 4:
			if s.bool() {
				r.Error = of.fault
			}
		case 5:
			r.Retryable = s.bool()
		case 6:
			r.Next = s.int()
		case 7:
			r.NotBefore = s.time()
		case 8:
			r.Usage = s.usage()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) turnAbandoned() *machine.TurnAbandoned {
	r := &machine.TurnAbandoned{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		case 3:
			r.Why = s.string()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) turnSuspended() *machine.TurnSuspended {
	r := &machine.TurnSuspended{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		case 3:
			r.Pending = packed[uint32](s)
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) turnReady() *machine.TurnReady {
	r := &machine.TurnReady{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) stepRequested(of *bodies) *machine.StepRequested {
	r := &machine.StepRequested{}
	for s.next() {
		switch s.num {
		case 1:
			r.Step = s.uint32()
		case 2:
			r.Key = s.string()
		case 3:
			r.Tool = s.string()
		case 4:
			r.TurnSeq = s.uint()
		case 5:
			r.Attempt = s.int()
		case 6:
			r.Payload = s.bytes()
		case 7:
			r.Payload = s.reference(of)
		case 8:
			r.Reframe = s.bool()
		case 9:
			r.Deadline = s.time()
		case 10:
			r.Delegation = s.bool()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) stepResolved(of *bodies) *machine.StepResolved {
	r := &machine.StepResolved{}
	for s.next() {
		switch s.num {
		case 1:
			r.Step = s.uint32()
		case 2:
			r.Tool = s.string()
		case 3:
			r.Attempt = s.int()
		case 4:
			r.OK = s.bool()
		case 5:
			r.Result = s.bytes()
		case 6:
			r.Result = s.reference(of)
		case 7:
			r.Error = s.fault()
		case 8:
			if s.bool() {
				r.Error = of.fault
			}
		case 9:
			r.Unknown = s.bool()
		case 10:
			r.Next = s.int()
		case 11:
			r.Deadline = s.time()
		case 12:
			r.Worker = s.string()
		case 13:
			r.Artifacts = append(r.Artifacts, s.write(of))
		case 14:
			r.Usage = s.usage()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) stepRejected() *machine.StepRejected {
	r := &machine.StepRejected{}
	for s.next() {
		switch s.num {
		case 1:
			r.Key = s.string()
		case 2:
			r.Tool = s.string()
		case 3:
			r.TurnSeq = s.uint()
		case 4:
			r.Denial = s.denial()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) stepCancelled() *machine.StepCancelled {
	r := &machine.StepCancelled{}
	for s.next() {
		switch s.num {
		case 1:
			r.Step = s.uint32()
		case 2:
			r.Tool = s.string()
		case 3:
			r.Why = s.string()
		default:
			s.unknown()
		}
	}
	return r
}
