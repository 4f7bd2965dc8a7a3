package codec

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// readRecord is the inverse of appendRecord; seq comes from the record's place.
func readRecord(b []byte, in *machine.Input, of *bodies, seq uint64) (machine.Record, error) {
	r := machine.Record{Seq: seq, At: in.At, Principal: in.Principal}
	s := newScan("record", b)
	for s.next() {
		switch s.num {
		case 1:
			r.At = in.At + s.sint()
		case 2:
			r.Principal = s.string()
		default:
			if !isRecord(s.num) || r.Body != nil {
				s.unknown()
				break
			}
			r.Body = s.record(machine.RecordKind(s.num-2), of)
		}
	}
	if s.err == nil && r.Body == nil {
		return r, fmt.Errorf("%w: record %d without body", ErrCorrupt, seq)
	}
	return r, s.err
}

// isRecord: the field is that of a kind of record.
func isRecord(num protowire.Number) bool {
	return num >= recordField(machine.RecTransition) && num <= recordField(machine.RecTurnReady) ||
		num == recordField(machine.RecOutputWritten) || num == recordField(machine.RecStepDelegated) ||
		num == recordField(machine.RecNoted)
}

// record reads the nested message of a body's kind.
func (s *scan) record(kind machine.RecordKind, of *bodies) machine.Body {
	f := newScan("body", s.message())
	var body machine.Body
	switch kind {
	case machine.RecTransition:
		body = f.transition(of)
	case machine.RecInputReceived:
		body = f.inputReceived(of)
	case machine.RecArtifactsSet:
		body = f.artifactsSet(of)
	case machine.RecPaused:
		body = &machine.Paused{Note: f.note()}
	case machine.RecResumed:
		body = &machine.Resumed{Note: f.note()}
	case machine.RecOrigin:
		body = f.origin(of)
	case machine.RecEnded:
		body = f.ended(of)
	case machine.RecNoted:
		body = f.noted()
	default:
		body = f.turnBody(kind, of)
	}
	s.keep(f.err)
	return body
}

// turnBody reads the records of turns and steps.
func (s *scan) turnBody(kind machine.RecordKind, of *bodies) machine.Body {
	switch kind {
	case machine.RecTurnOpened:
		return s.turnOpened()
	case machine.RecTurnAssigned:
		return s.turnAssigned()
	case machine.RecTurnCompleted:
		return s.turnCompleted(of)
	case machine.RecTurnFailed:
		return s.turnFailed(of)
	case machine.RecTurnAbandoned:
		return s.turnAbandoned()
	case machine.RecTurnSuspended:
		return s.turnSuspended()
	case machine.RecTurnReady:
		return s.turnReady()
	case machine.RecStepRequested:
		return s.stepRequested(of)
	case machine.RecStepResolved:
		return s.stepResolved(of)
	case machine.RecStepRejected:
		return s.stepRejected()
	case machine.RecOutputWritten:
		return s.outputWritten(of)
	case machine.RecStepDelegated:
		return s.stepDelegated(of)
	default:
		return s.stepCancelled()
	}
}

func (s *scan) transition(of *bodies) *machine.Transition {
	r, intended := &machine.Transition{}, false
	for s.next() {
		switch s.num {
		case 1:
			r.From = s.string()
		case 2:
			r.Event = s.string()
		case 3:
			r.To = s.string()
		case 4:
			r.Intended, intended = s.string(), true
		case 5:
			r.Redirects = append(r.Redirects, s.redirect())
		case 6:
			r.Visit = s.int()
		case 7:
			r.Total = s.int()
		case 8:
			r.Cause = machine.Cause(s.enum(uint8(machine.CauseTimeout)))
		case 9:
			r.Artifacts = append(r.Artifacts, s.write(of))
		case 10:
			r.Artifacts = s.writesOfInput(of)
		default:
			s.unknown()
		}
	}
	if !intended {
		r.Intended = r.To
	}
	return r
}

func (s *scan) redirect() (r machine.Redirect) {
	f := newScan("redirect", s.message())
	for f.next() {
		switch f.num {
		case 1:
			r.State = f.string()
		case 2:
			r.Guard = f.string()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return r
}

// writesOfInput reads the flag that stands for the input's own list.
func (s *scan) writesOfInput(of *bodies) []machine.ArtifactWrite {
	if !s.bool() {
		return nil
	}
	return of.artifacts
}

func (s *scan) inputReceived(of *bodies) *machine.InputReceived {
	r := &machine.InputReceived{}
	for s.next() {
		switch s.num {
		case 1:
			r.Parts = append(r.Parts, s.part())
		case 2:
			if s.bool() {
				r.Parts = of.parts
			}
		case 3:
			r.MessageID = s.string()
		case 4:
			r.Queued = s.bool()
		case 20:
			r.Parts = s.queuedOfInput(of)
		case 30:
			r.Envelope = s.envelope()
		case 31:
			r.Step = s.uint32()
		case 32:
			r.Scopes = append(r.Scopes, s.string())
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) artifactsSet(of *bodies) *machine.ArtifactsSet {
	r := &machine.ArtifactsSet{}
	for s.next() {
		switch s.num {
		case 1:
			r.Artifacts = append(r.Artifacts, s.write(of))
		case 2:
			r.Artifacts = s.writesOfInput(of)
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) ended(of *bodies) *machine.Ended {
	r := &machine.Ended{}
	for s.next() {
		switch s.num {
		case 1:
			r.Status = machine.Status(s.enum(uint8(machine.Cancelled)))
		case 2:
			r.Reason = s.string()
		case 3:
			r.Redirects = append(r.Redirects, s.redirect())
		case 4:
			r.Artifacts = append(r.Artifacts, s.write(of))
		case 5:
			r.Artifacts = s.writesOfInput(of)
		case 6:
			r.Event = s.string()
		case 7:
			r.Intended = s.string()
		default:
			s.unknown()
		}
	}
	return r
}

func (s *scan) noted() *machine.Noted {
	r := &machine.Noted{}
	for s.next() {
		switch s.num {
		case 1:
			r.Command = machine.CommandKind(s.enum(math.MaxUint8))
		case 2:
			r.ID = s.string()
		default:
			s.unknown()
		}
	}
	return r
}
