package pack

import (
	"encoding/json"
	"regexp"

	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/prompt"
)

func identifier(name string) bool { return prompt.IsIdentifier(name) }

// prompt checks one prompt (PromptPack RFC 0001, 0003, 0004, 0006).
func (c *checker) prompt(key string, p *Prompt) {
	at := func(tokens ...string) string { return pointer(append([]string{"prompts", key}, tokens...)...) }
	if p.ID != "" && p.ID != key {
		c.f.warn("PP0001-2", at("id"), "Give the prompt and its key the same name; the key is what counts.",
			"the prompt's id %s is not its key %s", quote(p.ID), quote(key))
	}
	for i, tool := range p.Tools {
		c.listed[tool] = true
		c.promptTool(at("tools", index(i)), tool)
	}
	if pol := p.ToolPolicy; pol != nil {
		for i, tool := range pol.Blocklist {
			if !c.isTool(tool) {
				c.f.warn("PP0001-1", at("tool_policy", "blocklist", index(i)), "Check the spelling.", "the blocked tool %s does not exist", quote(tool))
			}
		}
	}
	c.variables(at("variables"), p.Variables)
	c.evals(key, at("evals"), p.Evals)
	c.bindings(at("variables"), p.Variables)
	c.validators(key, at("validators"), p.Validators)
	c.media(at("media"), p.Media)
	use := c.promptTemplates(key, p)
	c.p.uses[key] = use
	for _, a := range keys(use.artifacts) {
		if !c.p.slots[a] {
			c.f.warn(ruleArtifact, at("system_template"), "Declare it in a state, or it is always empty.",
				"the template uses the artifact %s, which no state declares", quote(a))
		}
	}
}

// promptTool checks that a listed tool exists. The examples of PromptPack RFC 0007 list tools that do not exist, so a
// pack with agents only gets a warning.
func (c *checker) promptTool(at, tool string) {
	if c.isTool(tool) {
		return
	}
	hint := "Declare it under tools."
	if c.doc.Agents != nil {
		c.f.warn("PP0001-1", at, hint, "the tool %s is neither a tool of the pack nor an agent member; tools: %s; members: %s",
			quote(tool), c.toolNames(), c.memberNames())
		return
	}
	c.f.err("PP0001-1", at, hint, "the tool %s is not declared; the pack has: %s", quote(tool), c.toolNames())
}

// promptTemplates checks the templates of a prompt: its system template and those of its model overrides. It returns
// the variables and artifacts that they use.
func (c *checker) promptTemplates(key string, p *Prompt) *templateUse {
	all := &templateUse{variables: map[string]bool{}, artifacts: map[string]bool{}}
	add := func(at, src string) {
		u, err := c.tpl.use(src)
		if err != nil {
			c.f.err(ruleFragment, at, "", "%v", err)
		}
		if u.literal != "" {
			c.f.warn(ruleLiteral, at, "A placeholder is {{name}}, {{artifacts.name}} or {{fragments.name}}, with .member and [index] parts.",
				"the braces at %s are no placeholder and stay literal text", quote(u.literal))
		}
		all.include(u)
	}
	add(pointer("prompts", key, "system_template"), p.SystemTemplate)
	for _, model := range keys(p.ModelOverrides) {
		o, at := p.ModelOverrides[model], func(f string) string { return pointer("prompts", key, "model_overrides", model, f) }
		add(at("system_template_prefix"), o.Prefix)
		add(at("system_template_suffix"), o.Suffix)
		add(at("system_template"), o.Template)
	}
	return all
}

// variables checks the declarations of one prompt (PromptPack RFC 0003).
func (c *checker) variables(at string, vars []Variable) {
	seen := map[string]bool{}
	for i := range vars {
		v, here := &vars[i], at+pointer(index(i))
		if seen[v.Name] {
			c.f.err("PP0003-4", here+"/name", "Remove one of them.", "the variable %s is declared twice", quote(v.Name))
		}
		seen[v.Name] = true
		if _, known := variableTypes[v.Type]; !known && v.Type != "" {
			c.f.warn("PP0003-5", here+"/type", "", "values of type %s are not checked; known: string, number, boolean, object, array", quote(v.Type))
		}
		if v.Name == "artifacts" || v.Name == "fragments" {
			c.f.warn("PP0003-6", here+"/name", "Rename the variable.", "the members of a variable called %s cannot be reached: the name is a namespace", v.Name)
		}
		if v.Required && v.Default != nil {
			c.f.warn("PP0003-2", here+"/default", "Remove the default, or make the variable optional.",
				"the variable %s is required, so that its default is never used", quote(v.Name))
		}
		c.validation(here, v)
	}
}

// validation checks that some value can satisfy a validation, and that the default and the example
// satisfy it.
func (c *checker) validation(at string, v *Variable) {
	val := v.Validation
	if val == nil {
		val = &Validation{}
	}
	bad := func(field, format string, args ...any) {
		c.f.err("PP0003-3", at+"/validation"+field, "", format, args...)
	}
	if _, err := cost.Compile(val.Pattern); err != nil {
		bad("/pattern", "not a regular expression (RE2): %s", source.Clip(err.Error(), 200))
		return
	}
	if val.MinLength != nil && val.MaxLength != nil && *val.MinLength > *val.MaxLength {
		bad("/min_length", "min_length %d is more than max_length %d", *val.MinLength, *val.MaxLength)
	}
	if val.Minimum != nil && val.Maximum != nil && *val.Minimum > *val.Maximum {
		bad("/minimum", "minimum %v is more than maximum %v", *val.Minimum, *val.Maximum)
	}
	if val.Enum != nil && len(val.Enum) == 0 {
		bad("/enum", "an empty enum allows no value")
	}
	if msg := valueFault(v.Type, val, v.Default); msg != "" && string(v.Default) != "null" {
		c.f.err("PP0003-3", at+"/default", "", "the default of %s: %s", quote(v.Name), msg)
	}
	if msg := valueFault(v.Type, val, v.Example); msg != "" {
		c.f.warn("PP0003-3", at+"/example", "", "the example of %s: %s", quote(v.Name), msg)
	}
}

// valueFault returns the reason why a default or an example does not fit its declaration. It returns "" if it fits.
func valueFault(typ string, val *Validation, raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	v, f := source.ParseJSON(raw, func(source.DuplicateName) {})
	if f != nil {
		return f.Msg
	}
	if msg := checkType(typ, v); msg != "" {
		return msg
	}
	return val.check(v)
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9_]*(:[a-z0-9_]+)*$`)

// bindings reports bindings of variables, because in this product no program fills variables. The
// caller must supply all values.
func (c *checker) bindings(at string, vars []Variable) {
	for i := range vars {
		if vars[i].Binding != nil && string(vars[i].Binding) != "null" {
			c.f.warn(ruleBinding, at+pointer(index(i), "binding"), "Give the value at the start of the run.",
				"the binding of the variable %s fills nothing here", quote(vars[i].Name))
		}
	}
}

// mediaConfig is the part of Prompt.Media that the checks read.
type mediaConfig struct {
	SupportedTypes []string `json:"supported_types"`
	Examples       []struct {
		Parts []mediaPart `json:"parts"`
	} `json:"examples"`
}

type mediaPart struct {
	Type  string  `json:"type"`
	Text  *string `json:"text"`
	Media *struct {
		FilePath *string `json:"file_path"`
		URL      *string `json:"url"`
		Base64   *string `json:"base64"`
	} `json:"media"`
}

// media checks the media configuration of a prompt (PromptPack RFC 0004).
func (c *checker) media(at string, raw json.RawMessage) {
	var cfg mediaConfig
	var members map[string]json.RawMessage
	if raw == nil || json.Unmarshal(raw, &members) != nil || unmarshalExact(raw, &cfg) != nil {
		return
	}
	for i, typ := range cfg.SupportedTypes {
		if _, ok := members[typ]; !ok && typ != "text" {
			c.f.err("PP0004-1", at+pointer("supported_types", index(i)), "Add the object, or remove the type.",
				"the supported type %s has no configuration object", quote(typ))
		}
	}
	for i := range cfg.Examples {
		for j := range cfg.Examples[i].Parts {
			c.mediaPart(at+pointer("examples", index(i), "parts", index(j)), &cfg.Examples[i].Parts[j])
		}
	}
}

// mediaPart reports the faults of one part of an example: it needs a text or exactly one source of media.
func (c *checker) mediaPart(at string, p *mediaPart) {
	switch {
	case p.Type == "text" && p.Text == nil:
		c.f.err("PP0004-2", at, "Add text.", "a part of type text has no text")
	case p.Type != "text" && p.Type != "" && p.Media == nil:
		c.f.err("PP0004-2", at, "Add media.", "a part of type %s has no media", quote(p.Type))
	}
	if p.Media == nil {
		return
	}
	n := 0
	for _, source := range []*string{p.Media.FilePath, p.Media.URL, p.Media.Base64} {
		if source != nil {
			n++
		}
	}
	if n != 1 {
		c.f.err("PP0004-3", at+"/media", "", "media names %d of file_path, url and base64; it must name exactly one", n)
	}
}
