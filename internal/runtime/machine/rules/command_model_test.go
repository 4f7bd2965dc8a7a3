package rules

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// modelCommand reads
//
//	ask MODEL [`heeds`=SEQ+…] [round=1] [key=] [worker=] [system=TEXT] [tokens_in= tokens_out= cost= price=]
//	answer step=1 [try=1] [says=CALLS] [response=ID] [worker=]
//	unanswered step=1 [try=1] [code=BUSY] [final] [after=SECONDS] [worker=]
//	response ID step=1 [try=1] [worker=]
//
// each with turn= and attempt= of the execution; the input is the new message, or the answer.
func (a args) modelCommand() machine.Command {
	turn, attempt := a.turn()
	step, try := uint32(a.number("step", 0)), int(a.number("try", 1))
	switch a.d.Cmd {
	case "ask":
		bound := a.usage()
		bound.Model = a.firstWord()
		var denied *machine.Denial
		if a.has("denied") {
			denied = &machine.Denial{Code: "MAX_ROUNDS", Message: "the turn has 1 answers of a model, and tool_policy.max_rounds is 1"}
		}
		return machine.RequestModel{
			Denied:  denied,
			TurnSeq: turn, Attempt: attempt, Round: int(a.number("round", 1)), Key: a.text("key"), Model: a.modelRequest(), Bound: bound, Assigned: a.assignment(),
		}
	case "response":
		return machine.UpdateModelCall{TurnSeq: turn, TurnAttempt: attempt, Step: step, Attempt: try, ResponseID: a.firstWord(), Assigned: a.assignment()}
	}
	c := machine.AnswerModel{TurnSeq: turn, TurnAttempt: attempt, Step: step, Attempt: try, Usage: a.usage(), Assigned: a.assignment()}
	if a.d.Cmd == "answer" {
		c.Answer = &machine.ModelAnswer{ResponseID: a.text("response"), Calls: make([]machine.ModelCall, a.number("says", 0))}
		if a.d.Input != "" {
			c.Answer.Parts = textPart(string(value(a.d.Input)))
		}
		c.Violation = a.violation()
		return c
	}
	c.Error, c.Final, c.RetryAfter = machine.Fault{Code: "BUSY"}, a.has("final"), time.Duration(a.number("after", 0))*time.Second
	if a.has("code") {
		c.Error.Code = a.text("code")
	}
	return c
}

// modelRequest is a request whose digest is that of the model and of its one message.
func (a args) modelRequest() *machine.ModelRequest {
	r := &machine.ModelRequest{Model: a.firstWord(), Hash: sha256.Sum256([]byte(a.firstWord() + a.d.Input))}
	for _, seq := range strings.FieldsFunc(a.text("heeds"), func(r rune) bool { return r == '+' }) {
		n, _ := strconv.ParseUint(seq, 10, 64)
		r.IncludedSeqs, r.Hash = append(r.IncludedSeqs, n), sha256.Sum256(append(r.Hash[:], seq...))
	}
	if text := a.text("system"); text != "" {
		r.System = machine.ModelText{Hash: sha256.Sum256([]byte(text)), Text: text}
	}
	if a.d.Input != "" {
		r.Messages = []machine.ModelMessage{{Message: &machine.Message{Role: "user", Parts: textPart(string(value(a.d.Input)))}}}
	}
	return r
}

// violation reads violates=ID: the validator with that id refuses what the turn said.
func (a args) violation() *machine.Violation {
	if !a.has("violates") {
		return nil
	}
	return &machine.Violation{ID: a.text("violates"), Type: "banned_words", Place: "output, characters 1 to 3", Reason: `the text contains "foo", which is not allowed`}
}
