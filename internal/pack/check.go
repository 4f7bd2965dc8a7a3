package pack

import (
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/cost"
)

// checker applies the rules that a schema cannot express. The document may have schema errors.
// Therefore every rule tolerates missing and empty values, and does not report faults again that the
// schema reports.
type checker struct {
	p   *Pack
	doc *Document
	f   *findings
	tpl *templates
	// lists caches the lists of names that messages contain, so that each list is made only once.
	lists map[string]string
	// listed are the tools in the list of at least one prompt. The method xpawl adds the tools that the sidecar itself calls.
	listed map[string]bool
	// earlier are the tools that a model may already have called before a terminal state: the tools of
	// all states with events. It is nil until it is needed.
	earlier map[string]bool
	// requireBounded means that a possibly endless loop is an error instead of a warning.
	requireBounded bool
	// bound are the provider keys to which the operator has bound a model.
	bound map[string]bool
	// sources are the skill sources, sorted. It is nil until it is needed.
	sources []string
}

// check applies all rules and resolves the templates and schemas of the pack.
func (p *Pack) check(found *findings, opts *Options) {
	c := &checker{requireBounded: opts.RequireBounded, bound: set(opts.Providers), p: p, doc: p.Doc, f: found, tpl: newTemplates(p.Doc.Fragments), lists: map[string]string{}, listed: map[string]bool{}}
	p.uses, p.schemas, p.slots = map[string]*templateUse{}, map[string]*schema{}, map[string]bool{}
	p.turnEvals = map[string][]ScoredEval{}
	p.validators, p.unenforced = map[string][]EnforcedValidator{}, map[string][]unenforced{}
	if w := p.Doc.Workflow; w != nil {
		for _, s := range w.States {
			for name := range s.Artifacts {
				p.slots[name] = true
			}
		}
	}
	c.templateEngine()
	c.fragments()
	c.tools()
	c.evals("", "/evals", c.doc.Evals)
	for _, key := range keys(c.doc.Prompts) {
		c.prompt(key, c.doc.Prompts[key])
	}
	c.skills()
	c.compositions()
	c.agents()
	c.workflow()
	c.entries()
	c.providers()
	c.governance()
}

// doubleBraces matches {{variable}} with any variable name.
var doubleBraces = regexp.MustCompile(`^\{\{ ?[a-zA-Z_][a-zA-Z0-9_]* ?\}\}$`)

// templateEngine reports template features that the renderer does not support.
func (c *checker) templateEngine() {
	te := &c.doc.TemplateEngine
	if te.Syntax != "" && !doubleBraces.MatchString(te.Syntax) {
		c.f.err(ruleSyntaxKind, "/template_engine/syntax", "Rewrite the templates with double braces.",
			"the template syntax %s is not supported; allowed: {{variable}}", quote(te.Syntax))
	}
	for i, feature := range te.Features {
		switch feature {
		case "conditionals", "loops", "filters":
			c.f.err(ruleFeature, pointer("template_engine", "features", index(i)), "Move the logic into the workflow or the prompts.",
				"the template feature %s is not supported; allowed: basic_substitution, fragments", quote(feature))
		}
	}
}

// fragments resolves every fragment, including fragments that no template uses.
func (c *checker) fragments() {
	for _, name := range keys(c.doc.Fragments) {
		at := pointer("fragments", name)
		if !identifier(name) {
			c.f.warn(ruleUnnameable, at, "Use letters, digits and underscores.", "no template can name the fragment %s", quote(name))
		}
		if _, err := c.tpl.fragment(name); err != nil {
			c.f.err(ruleFragment, at, "", "fragment %s: %v", quote(name), err)
		}
	}
}

// tools compiles the parameters of every tool, and compares its name with its key.
func (c *checker) tools() {
	all := cost.NewPatterns()
	for _, name := range keys(c.doc.Tools) {
		if as := c.doc.Tools[name].Name; as != "" && as != name {
			hint := "Give the tool one name: write the key here as well, or rename the key."
			if strings.ContainsAny(as, " \t\n") {
				hint = "Write the key " + quote(name) + " here as well: a name with blanks is refused by the schema of the format (--strict) and by models."
			}
			c.f.warn(ruleToolName, pointer("tools", name, "name"), hint,
				"the tool is %s to models, workers, the allowlist and x_pawl.tools; its name %s has no effect, and what is written for that name does not bind it", quote(name), quote(as))
		}
		raw := c.doc.Tools[name].Parameters
		if raw == nil {
			continue
		}
		s, err := compileParameters(name, all, raw)
		if err != nil {
			for _, f := range schemaFaults(err) {
				c.f.err(ruleToolSchema, pointer("tools", name, "parameters")+f.pointer, "", "not a usable JSON Schema: %s", f.msg)
			}
			continue
		}
		c.p.schemas[name] = s
		if err := cost.Check(s.compiled); err != nil {
			c.f.reportTightened(ruleToolSchema, pointer("tools", name, "parameters"), "", "the schema costs too much to check: %v", err)
		}
	}
}

// isTool reports whether a name can be called: it is a tool of the pack or an agent.
func (c *checker) isTool(name string) bool {
	return c.doc.Tools[name] != nil || c.isMember(name)
}

func (c *checker) isMember(name string) bool {
	a := c.doc.Agents
	return a != nil && (a.Members[name] != nil || a.Entry == name)
}

// list returns the names of a map as a text for messages. It makes the text once for each document.
func list[V any](c *checker, what string, m map[string]V) string {
	text, ok := c.lists[what]
	if !ok {
		text = names(keys(m))
		c.lists[what] = text
	}
	return text
}

func (c *checker) promptNames() string { return list(c, "prompts", c.doc.Prompts) }
func (c *checker) toolNames() string   { return list(c, "tools", c.doc.Tools) }
func (c *checker) memberNames() string { return list(c, "members", set(c.p.Members())) }

func (c *checker) compositionNames() string {
	return list(c, "compositions", c.doc.Compositions)
}

func (c *checker) stateNames() string {
	if c.doc.Workflow == nil {
		return "none"
	}
	return list(c, "states", c.doc.Workflow.States)
}
