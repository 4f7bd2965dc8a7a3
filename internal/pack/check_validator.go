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

// Enforced is a validator of a prompt that the sidecar enforces.
type Enforced struct {
	// ID is the id in the pack, or the type if the validator has no id.
	ID string
	// Message is the pack's text for a hit; "" = none.
	Message string
	Check   *assertion.Check
}

// unenforced is a validator that only another program can enforce.
type unenforced struct{ pointer, typ, why string }

// maxValidators bounds the validators of one prompt, because each answer is checked by all of them.
const maxValidators = 100

// Validators returns the enabled validators of a prompt, in their order. The list must not be changed.
func (p *Pack) Validators(prompt string) []Enforced { return p.validators[prompt] }

// validators compiles the enabled validators of a prompt (RFC 0006, RFC 0015).
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
			c.p.unenforced[key] = append(c.p.unenforced[key], unenforced{pointer: at + pointer(index(i)), typ: v.Type, why: why})
			c.f.tightened(ruleValidator, at, "Merge some of them: a list of words is one validator.", "the prompt %s has more than %d validators", quote(key), maxValidators)
			return
		}
		c.validator(key, at+pointer(index(i)), v, patterns)
	}
}

// validator compiles one enabled validator.
func (c *checker) validator(key, at string, v *Validator, patterns *cost.Patterns) {
	check, err := assertion.Compile(v.Type, v.Params, func(raw json.RawMessage) (func(any) []string, error) { return valueFaults(raw, patterns) })
	if err == nil {
		id := v.ID
		if id == "" {
			id = v.Type
		}
		c.p.validators[key] = append(c.p.validators[key], Enforced{ID: id, Message: source.Clip(v.Message, 300), Check: check})
		return
	}
	place, hint := pointer("type"), "Use a known one, or write the rule as an eval; enabled: false switches the validator off."
	unknown, _ := errors.AsType[*assertion.UnknownError](err)
	param, _ := errors.AsType[*assertion.ParamError](err)
	switch {
	case param != nil:
		place, hint = pointer("params", param.Param), "The parameters of "+v.Type+" are "+strings.Join(assertion.Params(v.Type), ", ")+"."
	case unknown != nil && unknown.Param != "":
		place = pointer("params", unknown.Param)
	}
	at += place
	c.p.unenforced[key] = append(c.p.unenforced[key], unenforced{pointer: at, typ: v.Type, why: err.Error()})
	if param != nil && !param.Missing {
		c.f.tightened(ruleValidator, at, hint, "the validator %s cannot be used: %v", quote(v.Type), err)
		return
	}
	c.f.warn(ruleUnenforced, at, hint, "the validator %s is not enforced here, so no run that can reach the prompt %s begins: %v", quote(v.Type), quote(key), err)
}

// deprecatedFlag warns of the flag that no runtime may read (RFC 0015).
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

// valueFaults compiles a JSON Schema of a validator.
func valueFaults(raw json.RawMessage, patterns *cost.Patterns) (func(any) []string, error) {
	s, err := compileParameters("validator", patterns, raw)
	if err != nil {
		return nil, fmt.Errorf("%s", schemaFaults(err)[0].msg)
	}
	if err := cost.Check(s.compiled); err != nil {
		return nil, fmt.Errorf("it costs too much to check: %w", err)
	}
	return func(value any) []string {
		if !cost.Affordable(s.compiled, value) {
			return []string{fmt.Sprintf("checking it takes more than %d applications of the schema", cost.MaxApplications)}
		}
		var out []string
		for _, f := range s.validate(value) {
			out = append(out, source.Clip(strings.TrimPrefix(f.pointer+": "+f.msg, ": "), 200))
		}
		return out
	}, nil
}

// enforces returns an error if the prompt has a validator that nothing here enforces.
func (p *Pack) enforces(prompt string) error {
	for _, u := range p.unenforced[prompt] {
		return &UnsupportedError{
			Code: ruleUnenforced, Pointer: u.pointer,
			Message: fmt.Sprintf("the validator %s of the prompt %s is not enforced here: %s", quote(u.typ), quote(prompt), u.why),
			Hint:    "Use a known type, switch the validator off by enabled: false, or begin at an agent that does not reach the prompt.",
		}
	}
	return nil
}
