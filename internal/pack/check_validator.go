package pack

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/assertion"
	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// EnforcedValidator is a validator of a prompt that the sidecar enforces.
type EnforcedValidator struct {
	// ID is the id in the pack, or the type if the validator has no id.
	ID string
	// Message is the pack's text for an answer that fails the check. "" means none.
	Message string
	Check   *assertion.Check
}

// unenforced is a validator that the sidecar cannot enforce. Only another program can.
type unenforced struct{ pointer, typ, reason string }

// maxValidators bounds the validators of one prompt, because each answer is checked by all of them.
const maxValidators = 100

// Validators returns the validators of a prompt that the sidecar enforces, in their order. The list must not be changed.
func (p *Pack) Validators(prompt string) []EnforcedValidator { return p.validators[prompt] }

// validators compiles the enabled validators of a prompt (PromptPack RFC 0006 and RFC 0015).
func (c *checker) validators(key, at string, list []Validator) {
	patterns := cost.NewPatterns()
	enabled := 0
	for i := range list {
		v := &list[i]
		c.deprecatedFlag(at+pointer(index(i), "fail_on_violation"), v)
		if v.Enabled != nil && !*v.Enabled {
			continue
		}
		if enabled++; enabled > maxValidators {
			why := fmt.Sprintf("it is one of more than %d", maxValidators)
			c.p.unenforced[key] = append(c.p.unenforced[key], unenforced{pointer: at + pointer(index(i)), typ: v.Type, reason: why})
			c.f.reportTightened(ruleValidator, at, "Merge some of them: a list of words is one validator.", "the prompt %s has more than %d validators", quote(key), maxValidators)
			return
		}
		c.validator(key, at+pointer(index(i)), v, patterns)
	}
}

// validator compiles one enabled validator.
func (c *checker) validator(key, at string, v *Validator, patterns *cost.Patterns) {
	check, err := assertion.Compile(v.Type, v.Params, schemasWithin(cost.MaxApplications, patterns))
	if err == nil {
		id := v.ID
		if id == "" {
			id = v.Type
		}
		c.p.validators[key] = append(c.p.validators[key], EnforcedValidator{ID: id, Message: source.Clip(v.Message, 300), Check: check})
		return
	}
	place, hint, unusable := paramFault(v.Type, err)
	if hint == "" {
		hint = "Use a known one, or write the rule as an eval; enabled: false switches the validator off."
	}
	at += place
	c.p.unenforced[key] = append(c.p.unenforced[key], unenforced{pointer: at, typ: v.Type, reason: err.Error()})
	if unusable {
		c.f.reportTightened(ruleValidator, at, hint, "the validator %s cannot be used: %v", quote(v.Type), err)
		return
	}
	c.f.warn(ruleUnenforced, at, hint, "the validator %s is not enforced here, so no run that can reach the prompt %s begins: %v", quote(v.Type), quote(key), err)
}

// paramFault describes an error of [assertion.Compile]. It returns the place of the fault in the check, a hint for a wrong value, and
// whether a parameter has a value that cannot be used.
func paramFault(typ string, err error) (place, hint string, unusable bool) {
	unknown, _ := errors.AsType[*assertion.UnknownError](err)
	param, _ := errors.AsType[*assertion.ParamError](err)
	switch {
	case param != nil:
		return pointer("params", param.Param), "The parameters of " + typ + " are " + strings.Join(assertion.Params(typ), ", ") + ".", !param.Missing
	case unknown != nil && unknown.Param != "":
		return pointer("params", unknown.Param), "", false
	}
	return "/type", "", false
}

// deprecatedFlag warns of the flag that no runtime may read (PromptPack RFC 0015).
func (c *checker) deprecatedFlag(at string, v *Validator) {
	switch given := v.FailOnViolation; {
	case given == nil:
	case *given:
		c.f.warn("PP0015-3", at, "Remove it.", "fail_on_violation is deprecated and not read: a validator that is on always enforces")
	default:
		c.f.warn("PP0015-3", at, "Remove it; to only watch, write the rule as an eval. enabled: false switches the validator off.",
			"fail_on_violation: false is not read: since 1.7.0 the validator %s enforces", quote(v.Type))
	}
}

// schemasWithin returns a compiler for the JSON Schemas of validators and evals. limit is the maximum number of applications of a schema in
// one check.
func schemasWithin(limit int, patterns *cost.Patterns) assertion.Schemas {
	return func(raw json.RawMessage) (assertion.Faults, error) { return valueFaults(raw, patterns, limit) }
}

// valueFaults compiles a JSON Schema of a validator or an eval.
func valueFaults(raw json.RawMessage, patterns *cost.Patterns, limit int) (assertion.Faults, error) {
	s, err := compileParameters("validator", patterns, raw)
	if err != nil {
		return nil, fmt.Errorf("%s", schemaFaults(err)[0].msg)
	}
	if err := cost.Check(s.compiled); err != nil {
		return nil, fmt.Errorf("it costs too much to check: %w", err)
	}
	return func(value any) ([]string, error) {
		if !cost.AffordableWithin(s.compiled, value, limit) {
			return nil, fmt.Errorf("checking the JSON value takes more than %d applications of the schema", limit)
		}
		var out []string
		for _, f := range s.validate(value) {
			out = append(out, source.Clip(strings.TrimPrefix(f.pointer+": "+f.msg, ": "), 200))
		}
		return out, nil
	}, nil
}

// checkEnforced returns an error if the prompt has a validator that the sidecar cannot enforce. The error describes the first one.
func (p *Pack) checkEnforced(prompt string) error {
	for _, u := range p.unenforced[prompt] {
		return &UnsupportedError{
			Code: ruleUnenforced, Pointer: u.pointer,
			Message: fmt.Sprintf("the validator %s of the prompt %s is not enforced here: %s", quote(u.typ), quote(prompt), u.reason),
			Hint:    "Use a known type, switch the validator off by enabled: false, or begin at an agent that does not reach the prompt.",
		}
	}
	return nil
}
