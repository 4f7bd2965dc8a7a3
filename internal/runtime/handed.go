package runtime

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// That a turn was handed out is no record: the first record of its execution is what
// remains of it. Until then it is known to this process only, and another one hands the
// turn out anew.

// HandedOut says whether this process has given the open turn of a state to a worker, or
// to the holder of a token, also if that is lost since.
func (e *Engine) HandedOut(s *machine.State) bool {
	return s.Turn != nil && e.handedTurn(RunKey{Namespace: s.Namespace, ID: s.RunID}) == s.Turn.Seq
}

// handedTurn is the turn of a run that was handed out and is not known to be over; 0 =
// none.
func (e *Engine) handedTurn(key RunKey) uint64 {
	if turn := e.slots.holding(key); turn != 0 {
		return turn
	}
	sp := e.work.space(key.Namespace)
	if sp == nil {
		return 0
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if run := sp.runs[key.ID]; run != nil && run.turn != nil && run.turn.handed {
		return run.turn.seq
	}
	return 0
}

// handed is the turn that the watch has told of and that was handed out since; 0 = none.
func (w *Watch) handed() uint64 {
	if !w.handOuts || w.key.ID == "" {
		return 0
	}
	turn := w.e.handedTurn(w.key)
	if turn == w.handedTold || turn > w.seq {
		return 0
	}
	w.handedTold = turn
	return turn
}

// stir wakes those who watch a run for what is no record.
func (e *Engine) stir(key RunKey) {
	if e.hub.runSubs.Load() > 0 {
		e.hub.wakeRun(key)
	}
}
