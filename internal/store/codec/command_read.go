package codec

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func readInput(b []byte) (machine.Input, error) {
	var in machine.Input
	s := newScan("input", b)
	for s.next() {
		switch s.num {
		case 1:
			in.At = s.time()
		case 2:
			in.Principal = s.string()
		case 3:
			in.ID = s.string()
		case 4:
			s.hash(&in.BodyHash)
		case 36:
			in.Semantics = machine.Semantics(s.uint32())
		default:
			if !isCommand(s.num) || in.Command != nil {
				s.unknown()
				break
			}
			in.Command = s.command(machine.CommandKind(s.num - 4))
		}
	}
	if s.err == nil && in.Command == nil {
		return in, fmt.Errorf("%w: input without command", ErrCorrupt)
	}
	return in, s.err
}

// isCommand: the field is that of a kind of command. The numbers between those
// that drive a run and the other groups are not used.
func isCommand(num protowire.Number) bool {
	return num >= commandField(machine.CmdStart) && num <= commandField(machine.CmdLoseStep) || num == commandField(machine.CmdFork) ||
		num == commandField(machine.CmdWriteOutput) || num == commandField(machine.CmdNoteDelegation)
}

// command reads the nested message of a command's kind.
func (s *scan) command(kind machine.CommandKind) machine.Command {
	f := newScan("command", s.message())
	var c machine.Command
	switch kind {
	case machine.CmdStart:
		c = f.start()
	case machine.CmdEmitEvent:
		c = f.emitEvent()
	case machine.CmdSendInput:
		c = f.sendInput()
	case machine.CmdSetArtifacts:
		c = f.setArtifacts()
	case machine.CmdCompleteTurn:
		c = f.completeTurn()
	case machine.CmdFailTurn:
		c = f.failTurn()
	case machine.CmdSuspendTurn:
		c = f.suspendTurn()
	case machine.CmdRequestSteps:
		c = f.requestSteps()
	case machine.CmdResolveStep:
		c = f.resolveStep()
	case machine.CmdFireTimer:
		c = f.fireTimer()
	case machine.CmdPause:
		c = machine.Pause{Note: f.note()}
	case machine.CmdResume:
		c = machine.Resume{Note: f.note()}
	case machine.CmdCancel:
		c = machine.Cancel{Note: f.note()}
	case machine.CmdLoseTurn:
		c = f.loseTurn()
	case machine.CmdLoseStep:
		c = f.loseStep()
	case machine.CmdFork:
		c = f.fork()
	case machine.CmdWriteOutput:
		c = f.writeOutput()
	case machine.CmdNoteDelegation:
		c = f.noteDelegation()
	}
	s.keep(f.err)
	return c
}

func (s *scan) start() (c machine.Start) {
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
			c.Input = append(c.Input, s.part())
		case 7:
			c.Labels = append(c.Labels, s.label())
		case 8:
			c.Limits = s.limits()
		case 9:
			c.Parent = s.parent()
		case 10:
			c.Depth = s.int()
		case 11:
			c.MaxWallTime = time.Duration(s.int64())
		case 12:
			c.MaxSteps = s.int()
		case 30:
			c.Task = s.task()
		case 31:
			c.Envelope = s.envelope()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) emitEvent() (c machine.EmitEvent) {
	for s.next() {
		switch s.num {
		case 1:
			c.Event = s.string()
		case 2:
			c.Artifacts = append(c.Artifacts, s.write(nil))
		case 3:
			c.ExpectedSeq = s.uint()
		case 4:
			c.Outside = s.bool()
		case 5:
			c.Assigned = s.assigned()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) sendInput() (c machine.SendInput) {
	for s.next() {
		switch s.num {
		case 1:
			c.Parts = append(c.Parts, s.part())
		case 2:
			c.ExpectedSeq = s.uint()
		case 30:
			c.Envelope = s.envelope()
		case 31:
			c.Step = s.uint32()
		case 32:
			c.Scopes = append(c.Scopes, s.string())
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) setArtifacts() (c machine.SetArtifacts) {
	for s.next() {
		switch s.num {
		case 1:
			c.Artifacts = append(c.Artifacts, s.write(nil))
		case 2:
			c.ExpectedSeq = s.uint()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) completeTurn() (c machine.CompleteTurn) {
	for s.next() {
		switch s.num {
		case 1:
			c.TurnSeq = s.uint()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Output = append(c.Output, s.part())
		case 4:
			c.Messages = append(c.Messages, s.conversationMessage())
		case 5:
			c.Usage = s.usage()
		case 6:
			c.Event = s.string()
		case 7:
			c.Artifacts = append(c.Artifacts, s.write(nil))
		case 8:
			c.ExpectedSeq = s.uint()
		case 9:
			c.Outside = s.bool()
		case 10:
			c.Assigned = s.assigned()
		case 30:
			c.Await = machine.Awaiting(s.enum(uint8(machine.AwaitAuth)))
		case 31:
			c.Reply = s.bool()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) failTurn() (c machine.FailTurn) {
	for s.next() {
		switch s.num {
		case 1:
			c.TurnSeq = s.uint()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Error = s.fault()
		case 4:
			c.Retryable = s.bool()
		case 5:
			c.Usage = s.usage()
		case 6:
			c.Assigned = s.assigned()
		case 30:
			c.Reject = s.bool()
		default:
			s.unknown()
		}
	}
	return c
}

func (s *scan) suspendTurn() (c machine.SuspendTurn) {
	for s.next() {
		switch s.num {
		case 1:
			c.TurnSeq = s.uint()
		case 2:
			c.Attempt = s.int()
		case 3:
			c.Assigned = s.assigned()
		default:
			s.unknown()
		}
	}
	return c
}
