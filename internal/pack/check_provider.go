package pack

import (
	"regexp"
	"slices"
	"strings"
)

const (
	// defaultProvider is the key of the primary model. A pack does not have to declare it.
	defaultProvider = "default"
	roleLLM         = "llm"
)

var (
	providerKey   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	providerRoles = []string{roleLLM, "embedding", "tts", "stt", "image", "inference"}
)

// providers checks the requirements for providers (RFC 0012), and the references to them (RFC 0017).
func (c *checker) providers() {
	known := c.requirements()
	used := map[string]bool{}
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
		r := c.provider(at, known, provider, used)
		if r != nil && r.Role != roleLLM && chats[key] {
			c.f.warn("PP0017-5", at, "Name a requirement of the role llm.",
				"the prompt %s is a state's, whose turns need a conversation; the provider %s has the role %s", quote(key), quote(r.Key), quote(r.Role))
		}
	}
	for _, name := range keys(c.doc.Compositions) {
		c.stepProviders(pointer("compositions", name, "steps"), c.doc.Compositions[name].Steps, known, used)
	}
	if len(used) > 1 {
		c.f.warn(ruleRouted, "/prompts", "Name the model of each prompt in workflow.engine.x_pawl.models, or let the executor read provider from the turn's settings.",
			"prompts and steps name %d providers, %s, and nothing here routes by them", len(used), names(keys(used)))
	}
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
		if r.Short && !providerKey.MatchString(r.Key) {
			c.f.warn("PP0012-3", at(i, "key"), "Use letters, digits, _ and -.", "the key %s has characters that a key in its long form cannot have", quote(r.Key))
		}
		if r.Role != "" && !slices.Contains(providerRoles, r.Role) && !strings.HasPrefix(r.Role, "x-") {
			c.f.warn("PP0012-2", at(i, "role"), "Check the spelling; a role of your own begins with x-.",
				"the role %s of %s is not one of the usual: %s", quote(r.Role), quote(r.Key), names(providerRoles))
		}
	}
	c.f.warn(ruleBound, "/requires/providers", "Name models in workflow.engine.x_pawl.models, or let the executor choose them.",
		"the requirements %s are kept and shown; nothing here binds them, or checks that they can be met", names(keys(known)))
	return known
}

// provider checks one reference to a provider. It returns nil for the primary model, and for an invalid
// reference.
func (c *checker) provider(at string, known map[string]*ProviderRequirement, key string, used map[string]bool) *ProviderRequirement {
	if key == "" {
		key = defaultProvider
	}
	used[key] = true
	r := known[key]
	if r == nil && key != defaultProvider {
		delete(used, key)
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
func (c *checker) stepProviders(at string, steps []Step, known map[string]*ProviderRequirement, used map[string]bool) {
	for i := range steps {
		s, here := &steps[i], at+pointer(index(i))
		switch s.Kind {
		case "prompt", "agent":
			c.stepProvider(here, s, known, used)
		default:
			if s.misplaced {
				c.f.warn("PP0017-2", here+"/provider", "Remove it.", "a step of the kind %s has no provider", quote(s.Kind))
			}
		}
		c.stepProviders(here+"/branches", s.Branches, known, used)
	}
}

func (c *checker) stepProvider(at string, s *Step, known map[string]*ProviderRequirement, used map[string]bool) {
	key, place := s.Provider, at+"/provider"
	if key == "" {
		place = at
		if p := c.doc.Prompts[s.PromptTask]; p != nil {
			key = p.Provider
		}
	}
	r := c.provider(place, known, key, used)
	if r != nil && r.Role != roleLLM && s.Kind == "prompt" && s.OutputSchema == "" {
		c.f.warn("PP0017-5", place, "Add output_schema, or name a requirement of the role llm.",
			"the step %s puts out free text, and the provider %s has the role %s", quote(s.ID), quote(r.Key), quote(r.Role))
	}
}
