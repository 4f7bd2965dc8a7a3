package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

func (s *scan) writeOutput() (c machine.WriteOutput) {
	for s.next() {
		switch s.num {
		case 1:
			c.TurnSeq = s.uint()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Piece = s.piece(nil)
		case 4:
			c.Assigned = s.assigned()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) noteDelegation() (c machine.NoteDelegation) {
	for s.next() {
		switch s.num {
		case 1:
			c.Step = s.uint32()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Remote = *s.remote()
		case 4:
			c.Question = append(c.Question, s.part())
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) outputWritten(of *bodies) *machine.OutputWritten {
	r := &machine.OutputWritten{}
	for s.next() {
		switch s.num {
		case 1:
			r.TurnSeq = s.uint()
		case 2:
			r.Attempt = s.int()
		case 3:
			r.Piece = s.piece(of)
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) stepDelegated(of *bodies) *machine.StepDelegated {
	r := &machine.StepDelegated{}
	for s.next() {
		switch s.num {
		case 1:
			r.Step = s.uint32()
		case 2:
			r.Tool = s.string()
		case 3:
			r.Attempt = s.int()
		case 4:
			r.Remote = *s.remote()
		case 5:
			r.Question = append(r.Question, s.part())
		case 6:
			if s.bool() {
				r.Question = of.parts
			}
		default:
			s.unknown()
		}
	}
	return r
}

// piece reads a piece of output; of is nil inside an input, which refers to
// nothing.
func (s *scan) piece(of *bodies) (p machine.OutputPiece) {
	f := newScan("output piece", s.message())
	for f.next() {
		switch f.num {
		case 1:
			p.ID = f.string()
		case 2:
			p.Name = f.string()
		case 3:
			p.Description = f.string()
		case 4:
			p.Parts = append(p.Parts, f.part())
		case 5:
			p.Parts = f.partsOfInput(of)
		case 6:
			p.Append = f.bool()
		case 7:
			p.Last = f.bool()
		case 8:
			p.Metadata = f.bytes()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return p
}

// partsOfInput reads the flag that stands for the input's own parts.
func (s *scan) partsOfInput(of *bodies) []machine.Part {
	if of == nil {
		s.fail("reference outside a record")
		return nil
	}
	if !s.bool() {
		return nil
	}
	return of.parts
}

func (s *scan) task() *machine.Task {
	t := &machine.Task{}
	f := newScan("task", s.message())
	for f.next() {
		switch f.num {
		case 1:
			t.ContextID = f.string()
		case 2:
			t.Owner = f.string()
		case 3:
			t.Tenant = f.string()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return t
}

func (s *scan) envelope() *machine.Envelope {
	e := &machine.Envelope{}
	f := newScan("envelope", s.message())
	for f.next() {
		switch f.num {
		case 1:
			e.MessageID = f.string()
		case 2:
			e.ContextID = f.string()
		case 3:
			e.References = append(e.References, f.string())
		case 4:
			e.Extensions = append(e.Extensions, f.string())
		case 5:
			e.Metadata = f.bytes()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return e
}

func (s *scan) remote() *machine.Remote {
	r := &machine.Remote{}
	f := newScan("remote", s.message())
	for f.next() {
		switch f.num {
		case 1:
			r.TaskID = f.string()
		case 2:
			r.ContextID = f.string()
		case 3:
			r.CardURL = f.string()
		case 4:
			r.Asking = machine.Awaiting(f.enum(uint8(machine.AwaitAuth)))
		case 5:
			r.Answer = f.uint()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return r
}
