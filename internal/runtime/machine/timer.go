package machine

// fire takes a durable timer that came due. One that no longer matches the
// state was replaced or cleared meanwhile and changes nothing.
func (t *txn) fire(c *FireTimer) Disposition {
	if t.s.Status.Terminal() {
		return IgnoredTerminal
	}
	// A timer that fired proves that its time has come, whatever a clock that
	// was set back says.
	at := t.in.At
	t.in.At = max(at, c.Due)
	disposition := t.fireOne(c)
	if disposition == IgnoredStale {
		t.in.At = at
	}
	return disposition
}

// fireOne acts on the timer if it is one of the state's own.
func (t *txn) fireOne(c *FireTimer) Disposition {
	switch c.Kind {
	case TimerWall:
		if timer := wallTimer(t.s); timer.Due != 0 && timer.Due == c.Due {
			t.end(ending{status: BudgetExhausted, reason: "max_wall_time_sec"})
			return Accepted
		}
	case TimerRetry:
		if timer := retryTimer(t.s); timer.Due != 0 && timer.Due == c.Due && timer.Turn == c.Turn {
			t.offerAgain()
			return Accepted
		}
	case TimerState:
		if timer := stateTimer(t.s); timer.Due != 0 && timer.Due == c.Due {
			t.abandonTurn(whyStateTimeout)
			t.move(t.node().Timeout.Event, CauseTimeout, nil)
			return Accepted
		}
	case TimerStep:
		i := findStep(t.s.Steps, c.Step)
		if i >= 0 && t.s.Steps[i].Status == StepStatusPending && t.s.Steps[i].Deadline == c.Due {
			return t.unknown(i, Fault{Code: "DEADLINE_EXCEEDED", Message: "no answer within the step's deadline"}, "")
		}
	}
	return IgnoredStale
}
