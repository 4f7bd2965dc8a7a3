package pack

import "encoding/json"

// Governance contains declarations about the design of an agent (PromptPack RFC 0013 and RFC 0016). This product does
// not enforce them.
type Governance struct {
	Vocabularies       map[string]string `json:"vocabularies"`
	OperatorRole       string            `json:"operator_role"`
	RiskClassification string            `json:"risk_classification"`
	Contexts           []string          `json:"intended_deployment_contexts"`
	Capabilities       []string          `json:"capabilities"`
	Obligations        []Obligation      `json:"obligations"`
	Reviews            []Review          `json:"reviews"`

	// declared are the names of all properties that the object has.
	declared map[string]bool
	// duties are the ids of the obligations. The map is nil until it is needed.
	duties map[string]bool
}

// Obligation is a duty and the control that fulfils it.
type Obligation struct {
	ID         string              `json:"id"`
	Obligation string              `json:"obligation"`
	AppliesTo  map[string]string   `json:"applies_to"`
	Controls   []map[string]string `json:"controls"`
}

// Review is a periodic review of the agent.
type Review struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Satisfies []string `json:"satisfies"`
	// Eval is the id of the eval with which the review is made. nil means that no eval is named.
	Eval *string `json:"eval"`
}

// UnmarshalJSON also stores the names of the declared properties.
func (g *Governance) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	type plain Governance
	if err := unmarshalExact(raw, (*plain)(g)); err != nil {
		return err
	}
	g.declared = make(map[string]bool, len(members))
	for name := range members {
		g.declared[name] = true
	}
	return nil
}

// effective is the governance of an agent. It consists of the agent's own declarations and, for fields that the agent does not declare,
// those of the pack. Only vocabularies are merged. The declarations are not copied, because a pack may have thousands of agents and
// declarations.
type effective struct{ own, base *Governance }

func (e effective) declares(name string) bool {
	return e.own.declared[name] || e.base != nil && e.base.declared[name]
}

func (e effective) hasPrefix(prefix string) bool {
	if _, ok := e.own.Vocabularies[prefix]; ok {
		return true
	}
	if e.base == nil {
		return false
	}
	_, ok := e.base.Vocabularies[prefix]
	return ok
}

// obligations returns the governance object whose obligations apply: the agent's own or, if it declares none, that of
// the pack.
func (e effective) obligations() *Governance {
	if e.base != nil && !e.own.declared["obligations"] {
		return e.base
	}
	return e.own
}

// duty reports whether the object has an obligation with the id.
func (g *Governance) duty(id string) bool {
	if g.duties == nil {
		g.duties = make(map[string]bool, len(g.Obligations))
		for i := range g.Obligations {
			g.duties[g.Obligations[i].ID] = true
		}
	}
	return g.duties[id]
}

// governance returns the governance object of the pack. It returns nil if there is none or if its form
// is wrong. The schema reports a wrong form.
func (d *Document) governance() *Governance {
	var metadata map[string]json.RawMessage
	if len(d.Metadata) == 0 || json.Unmarshal(d.Metadata, &metadata) != nil {
		return nil
	}
	raw := metadata["governance"]
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	g := new(Governance)
	if json.Unmarshal(raw, g) != nil {
		return nil
	}
	return g
}
