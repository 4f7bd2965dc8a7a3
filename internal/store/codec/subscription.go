package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// EncodeSubscription makes the value of a subscription's row; its key has the rest.
func EncodeSubscription(s *machine.Subscription) []byte {
	b := appendString(append(make([]byte, 0, 256), Format), 1, s.Owner)
	b = appendTime(b, 2, s.CreatedAt)
	b = appendString(b, 3, s.URL)
	b = appendString(b, 4, s.Token)
	b = appendString(b, 5, s.Scheme)
	b = appendString(b, 6, s.Credentials)
	b = appendBytes(b, 7, s.Secret)
	b = appendFilter(b, 8, &s.Filter)
	kinds := make([]uint32, len(s.Kinds))
	for i, k := range s.Kinds {
		kinds[i] = uint32(k)
	}
	b = appendPacked(b, 9, kinds)
	b = appendUint(b, 10, s.After)
	b = appendUint(b, 11, uint64(s.Index))
	b = appendInt(b, 12, int64(s.Attempts))
	b = appendTime(b, 13, s.NextAt)
	b = appendString(b, 14, s.LastError)
	b = appendBool(b, 15, s.Done)
	return appendUint(b, 16, s.Dead)
}

func appendFilter(b []byte, num protowire.Number, f *machine.RunFilter) []byte {
	b, mark := open(b, num)
	b = appendString(b, 1, f.Pack)
	b = appendString(b, 2, f.State)
	b = appendLabels(b, 3, f.Labels)
	b = appendString(b, 4, f.Parent)
	status := make([]uint32, len(f.Status))
	for i, st := range f.Status {
		status[i] = uint32(st)
	}
	b = appendPacked(b, 5, status)
	return shut(b, mark)
}

// DecodeSubscription is the inverse of [EncodeSubscription], less the key.
func DecodeSubscription(value []byte) (machine.Subscription, error) {
	var out machine.Subscription
	if err := checkFormat("subscription", value, 1); err != nil {
		return out, err
	}
	s := newScan("subscription", value[1:])
	for s.next() {
		if s.num <= 9 {
			s.subscriber(&out)
		} else {
			s.progress(&out)
		}
	}
	return out, s.err
}

func (s *scan) subscriber(out *machine.Subscription) {
	switch s.num {
	case 1:
		out.Owner = s.string()
	case 2:
		out.CreatedAt = s.time()
	case 3:
		out.URL = s.string()
	case 4:
		out.Token = s.string()
	case 5:
		out.Scheme = s.string()
	case 6:
		out.Credentials = s.string()
	case 7:
		out.Secret = s.bytes()
	case 8:
		out.Filter = s.filter()
	case 9:
		for _, k := range packed[uint32](s) {
			out.Kinds = append(out.Kinds, machine.RecordKind(k))
		}
	}
}

func (s *scan) progress(out *machine.Subscription) {
	switch s.num {
	case 10:
		out.After = s.uint()
	case 11:
		out.Index = uint16(s.uint())
	case 12:
		out.Attempts = s.int()
	case 13:
		out.NextAt = s.time()
	case 14:
		out.LastError = s.string()
	case 15:
		out.Done = s.bool()
	case 16:
		out.Dead = s.uint()
	default:
		s.unknown()
	}
}

func (s *scan) filter() (out machine.RunFilter) {
	f := newScan("filter", s.message())
	for f.next() {
		switch f.num {
		case 1:
			out.Pack = f.string()
		case 2:
			out.State = f.string()
		case 3:
			out.Labels = append(out.Labels, f.label())
		case 4:
			out.Parent = f.string()
		case 5:
			for _, st := range packed[uint32](f) {
				out.Status = append(out.Status, machine.Status(st))
			}
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return out
}

// EncodeDeadLetter makes the value of a dead letter's row; its number is in the key.
func EncodeDeadLetter(d *machine.DeadLetter) []byte {
	b := appendTime(append(make([]byte, 0, 64+len(d.Body)), Format), 1, d.At)
	b = appendString(b, 2, d.Event)
	b = appendString(b, 3, d.Type)
	b = appendBytes(b, 4, d.Body)
	return appendString(b, 5, d.Error)
}

// DecodeDeadLetter is the inverse of [EncodeDeadLetter], less the number.
func DecodeDeadLetter(value []byte) (machine.DeadLetter, error) {
	var out machine.DeadLetter
	if err := checkFormat("dead letter", value, 1); err != nil {
		return out, err
	}
	s := newScan("dead letter", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			out.At = s.time()
		case 2:
			out.Event = s.string()
		case 3:
			out.Type = s.string()
		case 4:
			out.Body = s.bytes()
		case 5:
			out.Error = s.string()
		default:
			s.unknown()
		}
	}
	return out, s.err
}
