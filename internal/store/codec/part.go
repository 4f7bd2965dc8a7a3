package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func appendParts(b []byte, num protowire.Number, parts []machine.Part) []byte {
	for i := range parts {
		p := &parts[i]
		var mark int
		b, mark = open(b, num)
		b = appendUint(b, 1, uint64(p.Kind))
		b = appendString(b, 2, p.Text)
		b = appendBytes(b, 3, p.Data)
		b = appendString(b, 4, p.MediaType)
		b = appendString(b, 5, p.Filename)
		b = appendBytes(b, 6, p.Metadata)
		b = shut(b, mark)
	}
	return b
}

func (s *scan) part() machine.Part {
	var p machine.Part
	f := newScan("part", s.message())
	for f.next() {
		switch f.num {
		case 1:
			p.Kind = machine.PartKind(f.enum(uint8(machine.PartURI)))
		case 2:
			p.Text = f.string()
		case 3:
			p.Data = f.bytes()
		case 4:
			p.MediaType = f.string()
		case 5:
			p.Filename = f.string()
		case 6:
			p.Metadata = f.bytes()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return p
}

func appendMessages(b []byte, num protowire.Number, msgs []machine.Message) []byte {
	for i := range msgs {
		m := &msgs[i]
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, m.Role)
		b = appendParts(b, 2, m.Parts)
		b = appendBytes(b, 3, m.ToolCalls)
		b = appendString(b, 4, m.ToolCallID)
		b = appendEnvelope(b, 30, m.Envelope)
		b = shut(b, mark)
	}
	return b
}

func (s *scan) conversationMessage() machine.Message {
	var m machine.Message
	f := newScan("message", s.message())
	for f.next() {
		switch f.num {
		case 1:
			m.Role = f.string()
		case 2:
			m.Parts = append(m.Parts, f.part())
		case 3:
			m.ToolCalls = f.bytes()
		case 4:
			m.ToolCallID = f.string()
		case 30:
			m.Envelope = f.envelope()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return m
}

// appendFault writes a Fault, or a Denial as one without a trace.
func appendFault(b []byte, num protowire.Number, v machine.Fault) []byte {
	if v == (machine.Fault{}) {
		return b
	}
	return appendPresentFault(b, num, v)
}

// appendPresentFault writes it even when empty: its presence means something.
func appendPresentFault(b []byte, num protowire.Number, v machine.Fault) []byte {
	b, mark := open(b, num)
	b = appendString(b, 1, v.Code)
	b = appendString(b, 2, v.Message)
	b = appendString(b, 3, v.Trace)
	return shut(b, mark)
}

func (s *scan) fault() machine.Fault {
	var v machine.Fault
	f := newScan("fault", s.message())
	for f.next() {
		switch f.num {
		case 1:
			v.Code = f.string()
		case 2:
			v.Message = f.string()
		case 3:
			v.Trace = f.string()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return v
}

// faultOf is a denial in the form that it is stored in.
func faultOf(d machine.Denial) machine.Fault { return machine.Fault{Code: d.Code, Message: d.Message} }

func (s *scan) denial() machine.Denial {
	v := s.fault()
	return machine.Denial{Code: v.Code, Message: v.Message}
}

func appendUsage(b []byte, num protowire.Number, u machine.Usage) []byte {
	if u == (machine.Usage{}) {
		return b
	}
	b, mark := open(b, num)
	b = appendInt(b, 1, u.InputTokens)
	b = appendInt(b, 2, u.OutputTokens)
	b = appendInt(b, 3, u.CostMicro)
	b = appendInt(b, 4, int64(u.ToolCalls))
	return shut(b, mark)
}

func (s *scan) usage() machine.Usage {
	var u machine.Usage
	f := newScan("usage", s.message())
	for f.next() {
		switch f.num {
		case 1:
			u.InputTokens = f.int64()
		case 2:
			u.OutputTokens = f.int64()
		case 3:
			u.CostMicro = f.int64()
		case 4:
			u.ToolCalls = f.int()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return u
}

// appendAssignment writes a present assignment; nil is left out.
func appendAssignment(b []byte, num protowire.Number, a *machine.Assignment) []byte {
	if a == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendString(b, 1, a.Worker)
	b = appendInt(b, 2, int64(a.Delivery))
	b = appendTime(b, 3, a.At)
	return shut(b, mark)
}

func (s *scan) assignment() machine.Assignment {
	var a machine.Assignment
	f := newScan("assignment", s.message())
	for f.next() {
		switch f.num {
		case 1:
			a.Worker = f.string()
		case 2:
			a.Delivery = f.int()
		case 3:
			a.At = f.time()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return a
}

func (s *scan) assigned() *machine.Assignment {
	a := s.assignment()
	return &a
}
