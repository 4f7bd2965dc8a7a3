package pack

import (
	"regexp"
	"slices"
	"strings"
)

var (
	curiePrefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	absoluteIRI = regexp.MustCompile("^[A-Za-z][A-Za-z0-9+.-]*:[^\\s<>\"{}|\\\\^`]+$")
)

// wellKnown are the prefixes of terms (prefix:name) from vocabularies that a pack can use without declaring them.
var wellKnown = set([]string{
	"dpv", "eu-aiact", "ai", "pd", "risk", "tech", "legal-eu-gdpr", "legal-us", "sector-health", "sector-finance",
	"sector-education", "sector-law", "sector-publicservices", "sector-infra", "hipaa", "pp",
})

// governanceFields are the properties of governance that an obligation can name as its fulfilment (control).
var governanceFields = []string{
	"accountable_owner", "approved_environments", "autonomy_level", "capabilities", "extensions", "foreseeable_misuse",
	"independent_of", "intended_deployment_contexts", "intended_purpose", "obligations", "operator_role",
	"requires_ai_disclosure", "reviews", "risk_classification", "vocabularies",
}

// gating are the governance properties by which a runtime with support for governance decides what may run. This
// product does not enforce them.
var gating = []string{"approved_environments", "autonomy_level", "independent_of", "requires_ai_disclosure"}

// governance checks the governance declarations of the pack, its agents and its tools. A pack that was registered before a rule existed
// gets only a warning from this rule.
func (c *checker) governance() {
	g := governanceCheck{checker: c, evals: map[string]bool{}, validators: map[string]bool{}}
	g.identifiers()
	own := c.doc.governance()
	if own != nil {
		g.object("/metadata/governance", effective{own: own})
	}
	if a := c.doc.Agents; a != nil {
		for _, key := range keys(a.Members) {
			if def := a.Members[key]; def.Governance != nil {
				g.object(pointer("agents", "members", key, "governance"), effective{own: def.Governance, base: own})
			}
		}
	}
	if own == nil {
		own = &Governance{}
	}
	for _, name := range keys(c.doc.Tools) {
		scope := c.doc.Tools[name].ActionScope
		if scope == nil {
			continue
		}
		at := pointer("tools", name, "action_scope")
		for i, class := range scope.DataClasses {
			g.term("PP0013-5", at+pointer("data_classes", index(i)), class, effective{own: own})
		}
		c.f.warn(ruleScope, at, "Hold the calls that matter by workflow.engine.x_pawl.tools.TOOL.approve.",
			"the action_scope of the tool %s is kept and shown; no call is held because of it", quote(name))
	}
}

// governanceCheck is the state of the check of one pack's governance.
type governanceCheck struct {
	*checker
	// evals and validators are the ids of all evals and validators in the pack.
	evals, validators map[string]bool
}

// identifiers collects the ids that obligations refer to. The ids of validators must be unique in the pack, even if no obligation refers
// to them.
func (g *governanceCheck) identifiers() {
	for i := range g.doc.Evals {
		g.evals[g.doc.Evals[i].ID] = true
	}
	for _, key := range keys(g.doc.Prompts) {
		p := g.doc.Prompts[key]
		for i := range p.Evals {
			g.evals[p.Evals[i].ID] = true
		}
		for i := range p.Validators {
			id := p.Validators[i].ID
			if id != "" && g.validators[id] {
				g.f.err("PP0016-5", pointer("prompts", key, "validators", index(i), "id"), "Rename one of them.",
					"the validator id %s is used twice in the pack", quote(id))
			}
			g.validators[id] = true
		}
	}
	delete(g.validators, "")
}

// object checks one governance object, merged with the object of the pack.
func (g *governanceCheck) object(at string, e effective) {
	own := e.own
	g.vocabularies(at, own)
	terms := func(code, field, value string) { g.term(code, at+field, value, e) }
	terms("PP0013-5", "/operator_role", own.OperatorRole)
	terms("PP0013-5", "/risk_classification", own.RiskClassification)
	for i, v := range own.Contexts {
		terms("PP0013-5", pointer("intended_deployment_contexts", index(i)), v)
	}
	for i, v := range own.Capabilities {
		terms("PP0013-5", pointer("capabilities", index(i)), v)
	}
	seen := map[string]bool{}
	for i := range own.Obligations {
		o, here := &own.Obligations[i], pointer("obligations", index(i))
		if seen[o.ID] {
			g.f.reportTightened("PP0016-2", at+here+"/id", "Rename one of them.", "the obligation %s is given twice", quote(o.ID))
		}
		seen[o.ID] = true
		terms("PP0016-10", here+"/obligation", o.Obligation)
		for _, field := range keys(o.AppliesTo) {
			terms("PP0016-10", here+pointer("applies_to", field), o.AppliesTo[field])
		}
		for j, control := range o.Controls {
			g.control(at+here+pointer("controls", index(j)), control, e)
		}
	}
	g.reviews(at, e, terms)
	var gates []string
	for _, name := range gating {
		if own.declared[name] {
			gates = append(gates, name)
		}
	}
	if len(own.declared) == 0 {
		return
	}
	what := "it gates nothing here"
	if len(gates) > 0 {
		what += ": nothing is refused or held because of " + strings.Join(gates, ", ")
	}
	g.f.warn(ruleGovernance, at, "Hold calls by workflow.engine.x_pawl.tools.TOOL.approve; keep packs out of an environment by who may register them.",
		"governance is kept and shown, and %s", what)
}

func (g *governanceCheck) vocabularies(at string, own *Governance) {
	for _, prefix := range keys(own.Vocabularies) {
		here := at + pointer("vocabularies", prefix)
		if !curiePrefix.MatchString(prefix) {
			g.f.reportTightened("PP0013-4", here, "Use letters, digits, _, . and -, a letter first.", "the prefix %s cannot stand before a term", quote(prefix))
		}
		if iri := own.Vocabularies[prefix]; !absoluteIRI.MatchString(iri) {
			g.f.reportTightened("PP0013-4", here, "For example https://example.org/terms#.", "the prefix %s stands for %s, which is not an absolute IRI", quote(prefix), quote(iri))
		}
	}
}

// term reports a value of the form prefix:name whose prefix is unknown. An IRI with // or a URN does
// not have this form.
func (g *governanceCheck) term(code, at, value string, e effective) {
	prefix, rest, ok := strings.Cut(value, ":")
	if !ok || strings.HasPrefix(rest, "//") || !curiePrefix.MatchString(prefix) || strings.EqualFold(prefix, "urn") {
		return
	}
	if wellKnown[prefix] || e.hasPrefix(prefix) {
		return
	}
	g.f.warn(code, at, "Declare it under vocabularies of governance, or check the spelling.",
		"the prefix %s of %s is neither declared nor well known", quote(prefix), quote(value))
}

// control checks the eval, the validator or the governance field that an obligation names as its fulfilment
// (control).
func (g *governanceCheck) control(at string, control map[string]string, e effective) {
	for _, kind := range keys(control) {
		name, here := control[kind], at+pointer(kind)
		switch kind {
		case "eval":
			g.eval(here, name)
		case "validator":
			if !g.validators[name] {
				g.f.reportTightened("PP0016-5", here, "Give a validator that id, or check the spelling.",
					"no validator of the pack has the id %s; ids: %s", quote(name), list(g.checker, "validator ids", g.validators))
			}
		case "field":
			if !slices.Contains(governanceFields, name) {
				g.f.reportTightened("PP0016-6", here, "Check the spelling.", "%s is not a property of governance; allowed: %s", quote(name), names(governanceFields))
			} else if !e.declares(name) {
				g.f.reportTightened("PP0016-6", here, "Declare it.", "the property %s of governance is not declared", quote(name))
			}
		}
	}
}

func (g *governanceCheck) eval(at, id string) {
	if !g.evals[id] {
		g.f.reportTightened("PP0016-4", at, "Declare the eval, or check the spelling.",
			"the eval %s is neither of the pack nor of a prompt; evals: %s", quote(id), list(g.checker, "eval ids", g.evals))
	}
}

// reviews reports the faults of the reviews of one governance object: equal ids, unknown evals, and obligations
// that do not apply.
func (g *governanceCheck) reviews(at string, e effective, terms func(code, field, value string)) {
	own, duties, seen := e.own, e.obligations(), map[string]bool{}
	for i := range own.Reviews {
		r, here := &own.Reviews[i], pointer("reviews", index(i))
		if seen[r.ID] {
			g.f.reportTightened("PP0016-2", at+here+"/id", "Rename one of them.", "the review %s is given twice", quote(r.ID))
		}
		seen[r.ID] = true
		terms("PP0016-10", here+"/type", r.Type)
		if r.Eval != nil {
			g.eval(at+here+"/eval", *r.Eval)
		}
		for j, id := range r.Satisfies {
			if !duties.duty(id) {
				g.f.reportTightened("PP0016-7", at+here+pointer("satisfies", index(j)), "Check the spelling, or add it to obligations.",
					"%s is not the id of an obligation that holds here", quote(id))
			}
		}
	}
}
