package pack

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// DefaultProvider is the key of the primary model. A pack does not have to declare it. A prompt that names
// no provider uses it.
const DefaultProvider = "default"

const roleLLM = "llm"

// ProviderKey matches the keys of provider requirements (PromptPack RFC 0012).
var ProviderKey = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

var providerRoles = []string{roleLLM, "embedding", "tts", "stt", "image", "inference"}

// providers checks the requirements for providers (PromptPack RFC 0012), and the references to them
// (PromptPack RFC 0017).
func (c *checker) providers() {
	known := c.requirements()
	c.p.requirements = known
	chats := map[string]bool{}
	if w := c.doc.Workflow; w != nil {
		for _, s := range w.States {
			if s.Orchestration != "composition" {
				chats[s.PromptTask] = true
			}
		}
	}
	for _, key := range keys(c.doc.Prompts) {
		at, provider := pointer("prompts", key), c.doc.Prompts[key].Provider
		if provider != "" {
			at = pointer("prompts", key, "provider")
		}
		r := c.provider(at, known, provider)
		if r != nil && r.Role != roleLLM && chats[key] {
			c.f.warn("PP0017-5", at, "Name a requirement of the role llm.",
				"the prompt %s is a state's, whose turns need a conversation; the provider %s has the role %s", quote(key), quote(r.Key), quote(r.Role))
		}
		c.warnUnserved(at, key, known[cmp.Or(provider, DefaultProvider)])
	}
	for _, name := range keys(c.doc.Compositions) {
		c.stepProviders(pointer("compositions", name, "steps"), c.doc.Compositions[name].Steps, known)
	}
}

// warnUnserved warns that the sidecar cannot execute the turns of a prompt: either its provider key is not bound to a model, or the role
// of the requirement r does not fit a model. r is nil if the pack does not declare the key. A prompt whose model the pack sets is not
// reported.
func (c *checker) warnUnserved(at, prompt string, r *ProviderRequirement) {
	switch {
	case r == nil || c.p.XPawl().ModelOf(prompt) != "":
	case !ServedByModel(r.Role):
		c.f.warn("PP0017-3", at, "Name a requirement of the role llm.",
			"the prompt %s names the provider %s of the role %s, and a model answers with text: no run that the sidecar executes starts where it can reach the prompt",
			quote(prompt), quote(r.Key), quote(r.Role))
	case r.Key != DefaultProvider && !c.bound[r.Key]:
		c.f.warn(ruleRouted, at, "Bind the key with --provider KEY=MODEL, or name the model in workflow.engine.x_pawl.models; workers find the key in the turn's settings.",
			"the prompt %s names the provider %s, to which no model is bound here: no run that the sidecar executes starts where it can reach the prompt", quote(prompt), quote(r.Key))
	}
}

// ServedByModel reports whether a model can meet a requirement of a role. A model answers with text, so it
// cannot meet the roles whose answer is something else. A role that is not known is assumed to be met.
func ServedByModel(role string) bool {
	return !slices.Contains([]string{"embedding", "tts", "stt", "image"}, role)
}

// requirements checks the requirements of the pack for its host. It returns the declared providers by
// key.
func (c *checker) requirements() map[string]*ProviderRequirement {
	known := map[string]*ProviderRequirement{}
	if c.doc.Requires == nil || len(c.doc.Requires.Providers) == 0 {
		return known
	}
	list := c.doc.Requires.Providers
	at := func(i int, field string) string {
		if list[i].Short {
			return pointer("requires", "providers", index(i))
		}
		return pointer("requires", "providers", index(i), field)
	}
	for i := range list {
		r := &list[i]
		if known[r.Key] != nil {
			c.f.err("PP0012-1", at(i, "key"), "Remove it, or give it a key of its own.", "the requirement %s is given twice", quote(r.Key))
		}
		known[r.Key] = r
		if r.Short && !ProviderKey.MatchString(r.Key) {
			c.f.warn("PP0012-3", at(i, "key"), "Use letters, digits, _ and -.", "the key %s has characters that a key in its long form cannot have", quote(r.Key))
		}
		if r.Role != "" && !slices.Contains(providerRoles, r.Role) && !strings.HasPrefix(r.Role, "x-") {
			c.f.warn("PP0012-2", at(i, "role"), "Check the spelling; a role of your own begins with x-.",
				"the role %s of %s is not one of the usual: %s", quote(r.Role), quote(r.Key), names(providerRoles))
		}
	}
	var unbound []string
	for _, key := range keys(known) {
		if key != DefaultProvider && !c.bound[key] {
			unbound = append(unbound, key)
		}
	}
	if len(unbound) > 0 {
		c.f.warn(ruleBound, "/requires/providers", "Bind each key with --provider KEY=MODEL, or let workers choose by it.",
			"the requirements %s are bound to no model here", names(unbound))
	}
	return known
}

// provider checks one reference to a provider. It returns nil for an invalid reference, and for the primary model if the pack does not
// declare it.
func (c *checker) provider(at string, known map[string]*ProviderRequirement, key string) *ProviderRequirement {
	if key == "" {
		key = DefaultProvider
	}
	r := known[key]
	if r == nil && key != DefaultProvider {
		c.f.err("PP0017-1", at, "Declare it under requires.providers, or check the spelling.",
			"the provider %s is not a requirement of the pack; allowed: default, and %s", quote(key), list(c, "requirements", known))
	}
	if r != nil && !r.Required {
		c.f.warn("PP0017-4", at, "Make it required, or do not name it.",
			"the requirement %s is optional, and what names it cannot run without it", quote(key))
	}
	return r
}

// stepProviders checks a list of steps and their nested steps.
func (c *checker) stepProviders(at string, steps []Step, known map[string]*ProviderRequirement) {
	for i := range steps {
		s, here := &steps[i], at+pointer(index(i))
		switch s.Kind {
		case "prompt", "agent":
			c.stepProvider(here, s, known)
		default:
			if s.misplaced {
				c.f.warn("PP0017-2", here+"/provider", "Remove it.", "a step of the kind %s has no provider", quote(s.Kind))
			}
		}
		c.stepProviders(here+"/branches", s.Branches, known)
	}
}

func (c *checker) stepProvider(at string, s *Step, known map[string]*ProviderRequirement) {
	key, place := s.Provider, at+"/provider"
	if key == "" {
		place = at
		if p := c.doc.Prompts[s.PromptTask]; p != nil {
			key = p.Provider
		}
	}
	r := c.provider(place, known, key)
	if r != nil && r.Role != roleLLM && s.Kind == "prompt" && s.OutputSchema == "" {
		c.f.warn("PP0017-5", place, "Add output_schema, or name a requirement of the role llm.",
			"the step %s puts out free text, and the provider %s has the role %s", quote(s.ID), quote(r.Key), quote(r.Role))
	}
}
