package codec

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A fork's input holds all that is copied; its Origin record refers to it.

func appendFork(b []byte, c *machine.Fork) []byte {
	b = appendUint(b, 1, uint64(c.Namespace))
	b = appendString(b, 2, c.RunID)
	b = appendBool(b, 3, c.EntryOverride)
	b = appendUint(b, 4, uint64(c.Execution))
	b = appendBytes(b, 5, c.Variables)
	b = appendLabels(b, 6, c.Labels)
	b = appendLimits(b, 7, &c.Limits)
	b = appendInt(b, 8, int64(c.MaxWallTime))
	b = appendInt(b, 9, int64(c.MaxSteps))
	b = appendUint(b, 10, c.Seq)
	b = appendSource(b, 11, c.From)
	b = appendWrites(b, 12, c.Values, nil)
	b = appendWrites(b, 13, c.Changes, nil)
	b = appendTalks(b, 14, c.Conversations)
	for i := range c.Queued {
		var mark int
		b, mark = open(b, 15)
		b = appendParts(b, 1, c.Queued[i].Parts)
		b = appendString(b, 2, c.Queued[i].MessageID)
		b = shut(b, mark)
	}
	b = appendBool(b, 16, c.ReuseSteps)
	return appendTaken(b, 17, c.Steps)
}

func appendSource(b []byte, num protowire.Number, st *machine.State) []byte {
	if st == nil {
		return b
	}
	b, mark := open(b, num)
	return shut(appendState(b, st, &st.PrevHash), mark)
}

func appendTalks(b []byte, num protowire.Number, talks []machine.Talk) []byte {
	for i := range talks {
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, talks[i].State)
		b = appendMessages(b, 2, talks[i].Messages)
		b = shut(b, mark)
	}
	return b
}

func appendTaken(b []byte, num protowire.Number, steps []machine.TakenStep) []byte {
	for i := range steps {
		var mark int
		b, mark = open(b, num)
		b = appendUint(b, 1, uint64(steps[i].Step))
		b = appendBytes(b, 2, steps[i].Payload)
		b = appendBytes(b, 3, steps[i].Result)
		b = appendFault(b, 4, steps[i].Error)
		b = shut(b, mark)
	}
	return b
}

func appendForked(b []byte, num protowire.Number, f *machine.Forked) []byte {
	if f == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendString(b, 1, f.RunID)
	b = appendUint(b, 2, f.Seq)
	b = appendInt(b, 3, int64(f.Visits))
	b = appendUint(b, 4, uint64(f.Steps))
	b = appendUint(b, 5, f.Keys)
	return shut(b, mark)
}

// appendOrigin writes what is the input's own as flags.
func appendOrigin(b []byte, of *bodies, r *machine.Origin) []byte {
	state, talks, steps := of.origin(r)
	b = appendString(b, 1, r.RunID)
	b = appendUint(b, 2, r.Seq)
	if !state {
		b = appendSource(b, 3, r.State)
	}
	b = appendWrites(b, 4, r.Artifacts, of)
	b = appendBool(b, 5, state)
	if !talks {
		b = appendTalks(b, 6, r.Conversations)
	}
	b = appendBool(b, 7, talks)
	if !steps {
		b = appendTaken(b, 8, r.Steps)
	}
	return appendBool(b, 9, steps)
}

// origin says which parts of an Origin are the fork's own.
func (o *bodies) origin(r *machine.Origin) (state, talks, steps bool) {
	if o.fork == nil {
		return false, false, false
	}
	state = r.State != nil && r.State == o.fork.From
	talks = len(r.Conversations) > 0 && slices.EqualFunc(r.Conversations, o.fork.Conversations, func(x, y machine.Talk) bool {
		return x.State == y.State && slices.EqualFunc(x.Messages, y.Messages, equalMessage)
	})
	steps = len(r.Steps) > 0 && slices.EqualFunc(r.Steps, o.fork.Steps, func(x, y machine.TakenStep) bool {
		return x.Step == y.Step && x.Error == y.Error && sameValue(x.Payload, y.Payload) && sameValue(x.Result, y.Result)
	})
	return state, talks, steps
}

// queued finds parts among the inputs that a fork brings: 1 + their place.
func (o *bodies) queued(parts []machine.Part) uint64 {
	if o.fork == nil {
		return 0
	}
	for i := range o.fork.Queued {
		if sameParts(parts, o.fork.Queued[i].Parts) {
			return uint64(i) + 1
		}
	}
	return 0
}

func (s *scan) queuedOfInput(of *bodies) []machine.Part {
	ref := s.uint()
	if of.fork == nil || ref == 0 || ref > uint64(len(of.fork.Queued)) {
		s.fail("reference to an input that the fork does not have")
		return nil
	}
	return of.fork.Queued[ref-1].Parts
}

func (s *scan) fork() (c machine.Fork) {
	for s.next() {
		switch s.num {
		case 1:
			c.Namespace = s.uint32()
		case 2:
			c.RunID = s.string()
		case 3:
			c.EntryOverride = s.bool()
		case 4:
			c.Execution = machine.Execution(s.enum(uint8(machine.Workers)))
		case 5:
			c.Variables = s.bytes()
		case 6:
			c.Labels = append(c.Labels, s.label())
		case 7:
			c.Limits = s.limits()
		case 8:
			c.MaxWallTime = time.Duration(s.int64())
		case 9:
			c.MaxSteps = s.int()
		default:
			s.source(&c)
		}
	}
	return c
}

// source reads the part of a fork that is copied.
func (s *scan) source(c *machine.Fork) {
	switch s.num {
	case 10:
		c.Seq = s.uint()
	case 11:
		c.From = s.state()
	case 12:
		c.Values = append(c.Values, s.write(nil))
	case 13:
		c.Changes = append(c.Changes, s.write(nil))
	case 14:
		c.Conversations = append(c.Conversations, s.talk())
	case 15:
		c.Queued = append(c.Queued, s.queuedInput())
	case 16:
		c.ReuseSteps = s.bool()
	case 17:
		c.Steps = append(c.Steps, s.takenStep())
	default:
		s.unknown()
	}
}

func (s *scan) state() *machine.State {
	state, err := readState(s.message())
	s.keep(err)
	return state
}

func (s *scan) talk() (t machine.Talk) {
	f := newScan("conversation", s.message())
	for f.next() {
		switch f.num {
		case 1:
			t.State = f.string()
		case 2:
			t.Messages = append(t.Messages, f.conversationMessage())
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return t
}

func (s *scan) queuedInput() (q machine.QueuedInput) {
	f := newScan("queued input", s.message())
	for f.next() {
		switch f.num {
		case 1:
			q.Parts = append(q.Parts, f.part())
		case 2:
			q.MessageID = f.string()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return q
}

func (s *scan) takenStep() (t machine.TakenStep) {
	f := newScan("taken step", s.message())
	for f.next() {
		switch f.num {
		case 1:
			t.Step = f.uint32()
		case 2:
			t.Payload = f.bytes()
		case 3:
			t.Result = f.bytes()
		case 4:
			t.Error = f.fault()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return t
}

func (s *scan) forked() *machine.Forked {
	r := &machine.Forked{}
	f := newScan("forked", s.message())
	for f.next() {
		switch f.num {
		case 1:
			r.RunID = f.string()
		case 2:
			r.Seq = f.uint()
		case 3:
			r.Visits = f.int()
		case 4:
			r.Steps = f.uint32()
		case 5:
			r.Keys = f.uint()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return r
}

func (s *scan) origin(of *bodies) *machine.Origin {
	r := &machine.Origin{}
	for s.next() {
		switch s.num {
		case 1:
			r.RunID = s.string()
		case 2:
			r.Seq = s.uint()
		case 3:
			r.State = s.state()
		case 4:
			r.Artifacts = append(r.Artifacts, s.write(of))
		case 6:
			r.Conversations = append(r.Conversations, s.talk())
		case 8:
			r.Steps = append(r.Steps, s.takenStep())
		default:
			s.originOfInput(r, of)
		}
	}
	return r
}

// originOfInput reads the flags that stand for parts of the fork.
func (s *scan) originOfInput(r *machine.Origin, of *bodies) {
	if s.num != 5 && s.num != 7 && s.num != 9 {
		s.unknown()
		return
	}
	num := s.num
	switch on := s.bool(); {
	case !on:
	case of.fork == nil:
		s.fail("reference to a fork")
	case num == 5:
		r.State = of.fork.From
	case num == 7:
		r.Conversations = of.fork.Conversations
	default:
		r.Steps = of.fork.Steps
	}
}
