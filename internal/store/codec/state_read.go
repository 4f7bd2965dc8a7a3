package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

func readState(b []byte) (*machine.State, error) {
	st := &machine.State{}
	s := newScan("state", b)
	for s.next() {
		switch {
		case s.num <= 13:
			s.identity(st)
		case s.num <= 22:
			s.position(st)
		case s.num <= 34:
			s.counts(st)
		default:
			s.work(st)
		}
	}
	return st, s.err
}

func (s *scan) identity(st *machine.State) {
	switch s.num {
	case 1:
		st.Namespace = s.uint32()
	case 2:
		st.RunID = s.string()
	case 3:
		st.Digest = s.string()
	case 4:
		st.PackID = s.string()
	case 5:
		st.PackVersion = s.string()
	case 6:
		st.Entry = s.string()
	case 7:
		st.Agent = s.string()
	case 8:
		st.EntryOverride = s.bool()
	case 9:
		st.Execution = machine.Execution(s.enum(uint8(machine.Workers)))
	case 10:
		st.Labels = append(st.Labels, s.label())
	case 11:
		st.Limits = s.limits()
	case 12:
		st.Parent = s.parent()
	case 13:
		st.Depth = s.int()
	}
}

func (s *scan) position(st *machine.State) {
	switch s.num {
	case 14:
		st.Seq = s.uint()
	case 15:
		s.hash(&st.PrevHash)
	case 16:
		st.CreatedAt = s.time()
	case 17:
		st.At = s.time()
	case 18:
		st.Status = machine.Status(s.enum(uint8(machine.Cancelled)))
	case 19:
		st.Reason = s.string()
	case 20:
		st.Paused = s.bool()
	case 21:
		st.Current = s.string()
	case 22:
		st.VisitSeq = s.uint()
	}
}

func (s *scan) counts(st *machine.State) {
	switch s.num {
	case 23:
		st.Visits = append(st.Visits, s.count())
	case 24:
		st.Edges = append(st.Edges, s.edgeCount())
	case 25:
		st.TotalVisits = s.int()
	case 26:
		st.Transitions = s.int()
	case 27:
		st.ToolCalls = s.int()
	case 28:
		st.Reframes = s.int()
	case 29:
		st.Tokens = s.int64()
	case 30:
		st.CostMicro = s.int64()
	case 31:
		st.Deadline = s.time()
	case 32:
		st.WallLeft = s.int64()
	case 33:
		st.StateTimeoutAt = s.time()
	case 34:
		st.MaxSteps = s.int()
	}
}

func (s *scan) work(st *machine.State) {
	switch s.num {
	case 35:
		st.Turn = s.turn()
	case 36:
		st.Queue = packed[uint64](s)
	case 37:
		st.Steps = append(st.Steps, s.toolStep())
	case 38:
		st.LastStep = s.uint32()
	case 39:
		st.Artifacts = append(st.Artifacts, s.artifactHead())
	case 40:
		st.ArtifactBytes = s.int64()
	case 41:
		st.Conversations = append(st.Conversations, s.conversation())
	case 42:
		st.MessageBytes = s.int64()
	case 80:
		st.Forked = s.forked()
	case 81:
		st.Imported = s.bool()
	case 90:
		st.Task = s.task()
	case 91:
		st.Awaiting = machine.Awaiting(s.enum(uint8(machine.AwaitAuth)))
	case 92:
		st.StatusAt = s.time()
	default:
		s.unknown()
	}
}

func (s *scan) label() (l machine.Label) {
	f := newScan("label", s.message())
	for f.next() {
		switch f.num {
		case 1:
			l.Key = f.string()
		case 2:
			l.Value = f.string()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return l
}

func (s *scan) limits() (l machine.Limits) {
	f := newScan("limits", s.message())
	for f.next() {
		switch f.num {
		case 1:
			l.MaxTransitions = f.int()
		case 2:
			l.MaxArtifactBytes = f.int64()
		case 3:
			l.MaxRunArtifactBytes = f.int64()
		case 4:
			l.MaxMessageBytes = f.int64()
		case 5:
			l.MaxQueuedInputs = f.int()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return l
}

func (s *scan) parent() *machine.Parent {
	p := &machine.Parent{}
	f := newScan("parent", s.message())
	for f.next() {
		switch f.num {
		case 1:
			p.RunID = f.string()
		case 2:
			p.Step = f.uint32()
		case 3:
			p.Attempt = f.int()
		case 4:
			p.Origin = f.string()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return p
}

func (s *scan) count() (c machine.Count) {
	f := newScan("count", s.message())
	for f.next() {
		switch f.num {
		case 1:
			c.State = f.string()
		case 2:
			c.N = f.int()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return c
}

func (s *scan) edgeCount() (c machine.EdgeCount) {
	f := newScan("edge count", s.message())
	for f.next() {
		switch f.num {
		case 1:
			c.State = f.string()
		case 2:
			c.Event = f.string()
		case 3:
			c.N = f.int()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return c
}

func (s *scan) turn() *machine.Turn {
	t := &machine.Turn{}
	f := newScan("turn", s.message())
	for f.next() {
		switch f.num {
		case 1:
			t.Seq = f.uint()
		case 2:
			t.Attempt = f.int()
		case 3:
			t.NotBefore = f.time()
		case 4:
			t.Suspended = f.bool()
		case 5:
			t.Requests = f.int()
		case 6:
			t.Calls = f.int()
		case 7:
			f.hash(&t.LastFailure)
		case 8:
			t.Assigned = f.assignment()
		case 20:
			t.Keys = f.uint()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return t
}

func (s *scan) toolStep() (t machine.ToolStep) {
	f := newScan("step", s.message())
	for f.next() {
		switch f.num {
		case 1:
			t.Step = f.uint32()
		case 2:
			t.Key = f.string()
		case 3:
			t.Tool = f.string()
		case 4:
			f.hash(&t.PayloadHash)
		case 5:
			t.Status = machine.StepStatus(f.enum(uint8(machine.StepStatusCancelled)))
		case 6:
			t.Attempt = f.int()
		case 7:
			t.TurnSeq = f.uint()
		case 8:
			t.RequestSeq = f.uint()
		case 9:
			t.AnswerSeq = f.uint()
		case 10:
			f.hash(&t.AnswerHash)
		case 11:
			t.Deadline = f.time()
		case 12:
			t.Delegation = f.bool()
		case 30:
			t.Remote = f.remote()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return t
}

func (s *scan) artifactHead() (a machine.ArtifactHead) {
	f := newScan("artifact head", s.message())
	for f.next() {
		switch f.num {
		case 1:
			a.Name = f.string()
		case 2:
			a.Type = f.string()
		case 3:
			a.Mode = machine.Mode(f.enum(uint8(machine.Append)))
		case 4:
			a.Seq = f.uint()
		case 5:
			a.Writes = f.int()
		case 6:
			a.Bytes = f.int64()
		case 7:
			f.hash(&a.Hash)
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return a
}

func (s *scan) conversation() (c machine.Conversation) {
	f := newScan("conversation", s.message())
	for f.next() {
		switch f.num {
		case 1:
			c.State = f.string()
		case 2:
			c.From = f.uint()
		case 3:
			c.Next = f.uint()
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return c
}
