package output

import (
	"fmt"
	"strings"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// ModelText returns the text of a record about a model call, evals, a tool's effect or an intervention (for example a
// steering message). It returns "" for other records.
func ModelText(r *pawlv1.Record) string {
	asks := pawlv1.StepKind_STEP_KIND_MODEL
	switch body := r.GetBody().(type) {
	case *pawlv1.Record_StepRequested:
		if s := body.StepRequested; s.GetKind() == asks {
			return stepRequestedText(s)
		}
	case *pawlv1.Record_StepResolved:
		if s := body.StepResolved; s.GetKind() == asks {
			return fmt.Sprintf("%s #%d attempt %d %s", s.GetTool(), s.GetStep(), s.GetAttempt(), stepResolvedText(r.GetAt().AsTime(), s))
		}
	case *pawlv1.Record_StepRejected:
		if s := body.StepRejected; s.GetKind() == asks {
			return fmt.Sprintf("%s refused: %s %s", s.GetTool(), s.GetDenial().GetCode(), s.GetDenial().GetMessage())
		}
	case *pawlv1.Record_StepCancelled:
		if s := body.StepCancelled; s.GetKind() == asks {
			return fmt.Sprintf("%s #%d cancelled: %s", s.GetTool(), s.GetStep(), s.GetReason())
		}
	case *pawlv1.Record_ModelUpdated:
		return modelUpdatedText(body.ModelUpdated)
	case *pawlv1.Record_Evaluated:
		return evaluatedText(body.Evaluated)
	}
	if text := effectText(r); text != "" {
		return text
	}
	return interventionText(r)
}

// evaluatedText returns how many evals passed, and why the others did not.
func evaluatedText(e *pawlv1.Evaluated) string {
	passed, others := 0, ""
	for _, r := range e.GetResults() {
		switch {
		case r.GetPassed():
			passed++
		case r.GetError() != "":
			others += "; " + r.GetId() + " has no score: " + r.GetError()
		default:
			others += fmt.Sprintf("; %s %v: %s", r.GetId(), r.GetScore(), r.GetExplanation())
		}
	}
	return fmt.Sprintf("%d of %d evals passed", passed, len(e.GetResults())) + others
}

// effectText returns the text of a record about an unknown outcome or a compensation.
func effectText(r *pawlv1.Record) string {
	switch body := r.GetBody().(type) {
	case *pawlv1.Record_StepResolved:
		if s := body.StepResolved; s.GetUnknown() {
			return fmt.Sprintf("%s #%d attempt %d: may have happened (%s)", s.GetTool(), s.GetStep(), s.GetAttempt(), s.GetError().GetCode())
		}
	case *pawlv1.Record_StepOutcomeUnknown:
		s := body.StepOutcomeUnknown
		return fmt.Sprintf("%s #%d attempt %d: outcome unknown (%s), #%d asks", s.GetTool(), s.GetStep(), s.GetAttempt(), s.GetError().GetCode(), s.GetBy())
	case *pawlv1.Record_CompensationStarted:
		c := body.CompensationStarted
		then := "before " + c.GetEvent()
		if c.GetStatus() != pawlv1.RunStatus_RUN_STATUS_UNSPECIFIED {
			then = fmt.Sprintf("before the run ends %s (%s)", strings.TrimPrefix(c.GetStatus().String(), "RUN_STATUS_"), c.GetReason())
		}
		return fmt.Sprintf("effects of the steps %v are undone %s", c.GetEffects(), then)
	case *pawlv1.Record_StepRequested:
		if about := body.StepRequested.GetAbout(); about != nil {
			word := map[pawlv1.StepRole]string{pawlv1.StepRole_STEP_ROLE_RECONCILE: "asks whether it happened", pawlv1.StepRole_STEP_ROLE_COMPENSATE: "undoes it"}[about.GetRole()]
			return fmt.Sprintf("%s #%d of %s #%d: %s", body.StepRequested.GetTool(), body.StepRequested.GetStep(), about.GetTool(), about.GetStep(), word)
		}
	case *pawlv1.Record_Ended:
		return uncompensatedText(body.Ended.GetUncompensated())
	}
	return ""
}

// uncompensatedText lists the effects that could not be undone. It returns "" if there are none.
func uncompensatedText(list []*pawlv1.UncompensatedEffect) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s #%d (%s)", s.GetTool(), s.GetStep(), s.GetCode()))
	}
	if out == nil {
		return ""
	}
	return "stands: " + strings.Join(out, ", ")
}

// interventionText returns the text of a record about an intervention: a steering message of a person, a stopped
// turn, or a notice of the sidecar.
func interventionText(r *pawlv1.Record) string {
	switch body := r.GetBody().(type) {
	case *pawlv1.Record_Steered:
		return fmt.Sprintf("%q, %s", body.Steered.GetText(), strings.ToLower(strings.TrimPrefix(body.Steered.GetWhen().String(), "STEER_WHEN_")))
	case *pawlv1.Record_Stopped:
		text := "what was under way was put away"
		if note := body.Stopped.GetNote(); note != "" {
			text += ": " + note
		}
		return text
	case *pawlv1.Record_NoticeAdded:
		return body.NoticeAdded.GetCode() + " " + body.NoticeAdded.GetText()
	}
	return ""
}

func stepRequestedText(s *pawlv1.StepRequested) string {
	text := fmt.Sprintf("%s #%d attempt %d asked, %s", s.GetTool(), s.GetStep(), s.GetAttempt(), s.GetKey())
	if s.GetRequestChanged() {
		text += ", request changed"
	}
	return text
}

// stepResolvedText returns the text of a step's answer. The usage comes first, because a table cuts off the end.
func stepResolvedText(at time.Time, s *pawlv1.StepResolved) string {
	used := usageText(s.GetUsage())
	if !s.GetOk() {
		failed := strings.TrimSpace("failed" + used + ": " + s.GetError().GetCode() + " " + s.GetError().GetMessage())
		if s.GetNext() > 0 {
			failed += fmt.Sprintf("; attempt %d after %s", s.GetNext(), max(0, s.GetNotBefore().AsTime().Sub(at)).Round(time.Millisecond))
		}
		return failed
	}
	var parts []string
	for _, call := range s.GetAnswer().GetCalls() {
		parts = append(parts, "calls "+call.GetName())
	}
	for _, part := range s.GetAnswer().GetParts() {
		parts = append(parts, part.GetText())
	}
	return strings.TrimSpace("answered" + used + ", " + s.GetAnswer().GetFinishReason() + ": " + strings.Join(append(parts, s.GetAnswer().GetRefusal()), " "))
}

func modelUpdatedText(n *pawlv1.ModelUpdated) string {
	text := fmt.Sprintf("#%d attempt %d", n.GetStep(), n.GetAttempt())
	switch {
	case n.GetRequestChanged():
		return text + " request changed; the recorded answer counts"
	case n.GetUsage() != nil:
		return text + " came too late" + usageText(n.GetUsage())
	}
	return text + " is made as " + n.GetResponseId()
}

// usageText returns the usage with a space before it. It returns "" if no usage was reported.
func usageText(u *pawlv1.Usage) string {
	if u == nil {
		return ""
	}
	text := fmt.Sprintf(" (%d in", u.GetInputTokens())
	if n := u.GetCachedTokens(); n > 0 {
		text += fmt.Sprintf(", %d of them cached", n)
	}
	text += fmt.Sprintf(", %d out", u.GetOutputTokens())
	if n := u.GetReasoningTokens(); n > 0 {
		text += fmt.Sprintf(", %d of them reasoning", n)
	}
	if n := u.GetCostMicroUsd(); n > 0 {
		text += ", " + Dollars(n)
	}
	if u.GetEstimated() {
		text += ", estimated"
	}
	return text + ")"
}

// Dollars returns millionths of a US dollar as text in dollars.
func Dollars(micro int64) string { return fmt.Sprintf("$%d.%06d", micro/1e6, micro%1e6) }

// ModelStepText returns the text about an active model call, for the display of a run.
func ModelStepText(s *pawlv1.Step) string {
	text := fmt.Sprintf("%s #%d, %s, attempt %d", s.GetTool(), s.GetStep(), s.GetKey(), s.GetAttempt())
	return text + ", " + strings.ToLower(Bare("StepStatus", s.GetStatus().String()))
}
