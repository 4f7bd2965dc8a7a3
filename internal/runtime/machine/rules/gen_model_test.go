package rules

import (
	"crypto/sha256"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Generators of calls of models. Models have names of tools too: nothing that holds for the
// tool holds for the model.
var genModels = []string{"m", "m", "dear", "operator's", "t0", "agent"}

func genCalls(t *rapid.T) *machine.Calls {
	if chance(t, 5) {
		return nil
	}
	return &machine.Calls{Timeout: time.Duration(small(t, 40)) * time.Second, Retry: machine.RetryPolicy{
		MaxAttempts: small(t, 4), Initial: time.Duration(small(t, 5)) * time.Second, Max: time.Duration(small(t, 20)) * time.Second,
		NonRetryable: pick(t, [][]string{nil, {"X"}}),
	}, OnUnknown: pick(t, []*machine.OnFault{nil, nil, new(machine.Retry), new(machine.Return), new(machine.Escalate)})}
}

// genModelCommand answers, mostly, where a call is pending, and asks where none is.
func genModelCommand(t *rapid.T, s *machine.State, turn uint64, attempt int) machine.Command {
	pending := slices.ContainsFunc(s.Steps, func(p machine.ToolStep) bool {
		return p.Model != nil && p.Status == machine.StepStatusPending
	})
	switch n := rapid.IntRange(0, 9).Draw(t, "model"); {
	case n == 0 && len(s.Steps) > 0:
		return genNoteModel(t, s)
	case n < 6 && pending, n == 9:
		return genAnswerModel(t, s)
	}
	return genRequestModel(t, s, turn, attempt)
}

func genRequestModel(t *rapid.T, s *machine.State, turn uint64, attempt int) machine.RequestModel {
	c := machine.RequestModel{
		TurnSeq: turn, Attempt: attempt, Round: pick(t, []int{1, 1, 2, 2, 3}), Assigned: genAssigned(t, false),
		Key: pick(t, []string{"", "", "", "", "", "", "k", "1"}), Denied: genDenied(t),
	}
	r := &machine.ModelRequest{Model: pick(t, genModels), Hash: [32]byte{byte(pick(t, []int{1, 1, 1, 2}))}}
	for _, text := range []*machine.ModelText{&r.System, &r.Tools, &r.Parameters} {
		*text = genText(t, s)
	}
	for range small(t, 2) {
		r.Messages = append(r.Messages, pick(t, []machine.ModelMessage{
			{Message: &machine.Message{Role: "user", Parts: textPart("ask"), ToolCallID: "c"}}, {Conversation: &machine.ConversationRange{Next: 1, Count: 1}},
		}))
	}
	for _, h := range s.RequiredMessages {
		if chance(t, 9) {
			r.Messages, r.IncludedSeqs = append(r.Messages, machine.ModelMessage{IncludedSeq: h.Seq}), append(r.IncludedSeqs, h.Seq)
		}
	}
	c.Model, c.Bound = r, genUsage(t)
	c.Bound.Model, c.Bound.ToolCalls = r.Model, 0
	if r.Model == "operator's" {
		c.Bound.Price = &machine.Price{Input: 900_000, Cached: 70_000, Output: 1_100_000, Reasoning: 1}
	}
	return c
}

// genRejected is an answer of a model, mostly, or none.
func genRejected(t *rapid.T, s *machine.State) uint32 {
	if chance(t, 5) {
		return 0
	}
	for i := len(s.Steps) - 1; i >= 0; i-- {
		if p := &s.Steps[i]; p.Model != nil && p.Status == machine.StepStatusOK && chance(t, 7) {
			return p.Step
		}
	}
	return uint32(small(t, 1) * 3)
}

// genText is none in most cases, else a new one or one that a record has.
func genText(t *rapid.T, s *machine.State) machine.ModelText {
	switch rapid.IntRange(0, 7).Draw(t, "text") {
	case 0:
		text := pick(t, []string{"be brief", "x"})
		return machine.ModelText{Hash: sha256.Sum256([]byte(text)), Text: text}
	case 1:
		if len(s.Texts) > 0 {
			known := pick(t, s.Texts)
			return machine.ModelText{Hash: known.Hash, Seq: known.Seq}
		}
	}
	return machine.ModelText{}
}

// genExecution is the one that asked for a step, mostly.
func genExecution(t *rapid.T, s *machine.State, step uint32) (turn uint64, attempt int, by *machine.Assignment, try int) {
	turn, attempt = genTurn(t, s)
	by, try = genAssigned(t, false), rapid.IntRange(1, 2).Draw(t, "attempt")
	i := FindStep(s.Steps, step)
	if i < 0 || s.Steps[i].Model == nil || chance(t, 1) {
		return turn, attempt, by, try
	}
	m := s.Steps[i].Model
	turn, attempt, by, try = s.Steps[i].TurnSeq, max(1, m.TurnAttempt), nil, s.Steps[i].Attempt
	if m.By != (machine.Assignment{}) {
		who := m.By
		by = &who
	}
	if chance(t, 2) {
		try = max(1, try+pick(t, []int{-1, -1, 1}))
	}
	return turn, attempt, by, try
}

// genModelStep is one of a model, mostly: the last that is pending, or any.
func genModelStep(t *rapid.T, s *machine.State) uint32 {
	for i := len(s.Steps) - 1; i >= 0 && chance(t, 8); i-- {
		if p := &s.Steps[i]; p.Model != nil && (p.Status == machine.StepStatusPending || chance(t, 2)) {
			return p.Step
		}
	}
	return genStep(t, s)
}

// genDenied is the refusal of a round by the engine.
func genDenied(t *rapid.T) *machine.Denial {
	if !chance(t, 1) {
		return nil
	}
	return &machine.Denial{Code: "MAX_ROUNDS", Message: "no more"}
}

func genAnswerModel(t *rapid.T, s *machine.State) machine.AnswerModel {
	c := machine.AnswerModel{Step: genModelStep(t, s)}
	c.TurnSeq, c.TurnAttempt, c.Assigned, c.Attempt = genExecution(t, s, c.Step)
	if c.Usage = genUsage(t); chance(t, 8) && c.Usage.ToolCalls < 0 {
		c.Usage.ToolCalls = 0
	}
	c.Usage.Estimated, c.Usage.CountedBefore = chance(t, 2), chance(t, 1)
	if !chance(t, 6) {
		c.Error, c.Final = machine.Fault{Code: pick(t, []string{"E", "E", "X"})}, chance(t, 1)
		c.RetryAfter = time.Duration(pick(t, []int{0, 0, 1, 7, 100})) * time.Second
		return c
	}
	c.Answer = &machine.ModelAnswer{Parts: textPart(pick(t, []string{"", "yes", "0123456789012345678901234"})), ResponseID: pick(t, []string{"", "r1"})}
	for range rapid.IntRange(0, 2).Draw(t, "calls") {
		c.Answer.Calls = append(c.Answer.Calls, machine.ModelCall{ID: "c", Name: "t0", Arguments: "{}"})
	}
	c.Violation = genViolation(t)
	return c
}

// genViolation is the verdict of the engine about what a turn said.
func genViolation(t *rapid.T) *machine.Violation {
	if !chance(t, 1) {
		return nil
	}
	return &machine.Violation{ID: pick(t, []string{"v", "banned_words"}), Type: "banned_words", Place: "output", Reason: "no"}
}

func genNoteModel(t *rapid.T, s *machine.State) machine.UpdateModelCall {
	c := machine.UpdateModelCall{Step: genModelStep(t, s), ResponseID: pick(t, []string{"r1", "r1", "r2"})}
	c.TurnSeq, c.TurnAttempt, c.Assigned, c.Attempt = genExecution(t, s, c.Step)
	return c
}
