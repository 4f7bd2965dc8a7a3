package pack

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// FieldError describes the fault in one field of a request.
type FieldError struct {
	// Field is a path, for example "variables.name".
	Field string
	// Message contains the limit and the allowed values.
	Message string
}

func (e FieldError) Error() string { return e.Field + ": " + e.Message }

// DeclaredVariable is a variable of a run. It combines all declarations of the name in the prompts that can be
// reached from the entry.
type DeclaredVariable struct {
	Name string
	// Type is the declared type. It is "" for a name that is used without a declaration. The value is checked only if the type is string,
	// number, boolean, object or array.
	Type string
	// Required is set if one of the declarations sets it.
	Required bool
	// Default is the first default in the order of the prompt keys. It is nil if there is none.
	Default     json.RawMessage
	Description string
	// checks are the validations of all declarations. A value must satisfy all of them.
	checks []*Validation
}

// Variables returns the variables of an entry by name. It includes variables that a template uses
// without a declaration. Errors: [*EntryError].
func (p *Pack) Variables(entry Entry) ([]DeclaredVariable, error) {
	start, err := p.Start(entry)
	if err != nil {
		return nil, err
	}
	byName := map[string]*DeclaredVariable{}
	prompts := p.promptsFrom(start)
	for _, key := range prompts {
		for i := range p.Doc.Prompts[key].Variables {
			v := &p.Doc.Prompts[key].Variables[i]
			d := byName[v.Name]
			if d == nil {
				d = &DeclaredVariable{Name: v.Name, Type: v.Type, Description: v.Description}
				byName[v.Name] = d
			}
			d.merge(v)
		}
	}
	for _, key := range prompts {
		for name := range p.uses[key].variables {
			if byName[name] == nil {
				byName[name] = &DeclaredVariable{Name: name}
			}
		}
	}
	out := make([]DeclaredVariable, 0, len(byName))
	for _, name := range keys(byName) {
		out = append(out, *byName[name])
	}
	return out, nil
}

func (d *DeclaredVariable) merge(v *Variable) {
	d.Required = d.Required || v.Required
	if d.Default == nil {
		d.Default = v.Default
	}
	if v.Validation != nil {
		d.checks = append(d.checks, v.Validation)
	}
}

// promptsFrom returns the prompts that can be reached from an entry, sorted.
func (p *Pack) promptsFrom(s Start) []string {
	if s.Prompt {
		return []string{s.Agent}
	}
	found := map[string]bool{}
	for _, name := range p.reachableStates(s.State) {
		if task := p.Doc.Workflow.States[name].PromptTask; p.Doc.Prompts[task] != nil {
			found[task] = true
		}
	}
	return keys(found)
}

// CheckVariables checks the variables at the start of a run. object is one JSON object; empty means {}.
// The result contains the variables and the default values as canonical JSON. Faults are ordered by
// field. If there are faults, the result is nil. Errors: [*EntryError].
func (p *Pack) CheckVariables(entry Entry, object []byte) ([]byte, []FieldError, error) {
	declared, err := p.Variables(entry)
	if err != nil {
		return nil, nil, err
	}
	given, fault := readObject("variables", object)
	if fault != nil {
		return nil, []FieldError{*fault}, nil
	}
	c := variableCheck{value: given, values: map[string]any{}}
	known := map[string]bool{}
	allowed := make([]string, len(declared))
	for i := range declared {
		known[declared[i].Name] = true
		allowed[i] = declared[i].Name
		c.variable(&declared[i])
	}
	for _, m := range given.Members {
		if !known[m.Name] {
			c.fault(m.Name, "unknown variable; allowed: %s", names(allowed))
		}
	}
	if len(c.faults) > 0 {
		slices.SortStableFunc(c.faults, func(a, b FieldError) int { return compareField(a.Field, b.Field) })
		return nil, c.faults, nil
	}
	out, err := canonical(c.values)
	return out, nil, err
}

func compareField(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// readObject reads a JSON object of a request within the limits of a pack.
func readObject(field string, raw []byte) (*source.Node, *FieldError) {
	if len(raw) == 0 {
		return &source.Node{Kind: source.Object}, nil
	}
	found := newFindings()
	root, f := source.ReadJSON(raw, DefaultLimits(), found.reportDuplicate)
	switch {
	case f != nil:
		return nil, &FieldError{field, f.Error()}
	case len(found.list) > 0:
		d := found.list[0]
		return nil, &FieldError{field, fmt.Sprintf("%d:%d: %s", d.Line, d.Column, d.Message)}
	case root.Kind != source.Object:
		return nil, &FieldError{field, "must be a JSON object"}
	}
	return root, nil
}

// variableCheck collects the values and faults of the variables of one start.
type variableCheck struct {
	value  *source.Node
	values map[string]any
	faults []FieldError
}

func (c *variableCheck) fault(name, format string, args ...any) {
	c.faults = append(c.faults, FieldError{"variables." + source.Clip(name, 100), fmt.Sprintf(format, args...)})
}

// variable checks the value that the request sets for one variable. If the request sets none, it reports a required variable, and uses the
// default of another one.
func (c *variableCheck) variable(d *DeclaredVariable) {
	v := c.value.Get(d.Name)
	if v == nil {
		switch {
		case d.Required:
			c.fault(d.Name, "required variable is missing (type %s)", d.Type)
		case d.Default != nil:
			c.values[d.Name] = d.Default
		}
		return
	}
	if msg := checkType(d.Type, v); msg != "" {
		c.fault(d.Name, "%s", msg)
		return
	}
	for _, check := range d.checks {
		if msg := check.check(v); msg != "" {
			c.fault(d.Name, "%s", msg)
		}
	}
	c.values[d.Name] = v.Plain()
}

// variableTypes maps the types of PromptPack RFC 0003 to the types of JSON.
var variableTypes = map[string]source.Kind{
	"string": source.String, "number": source.Number, "boolean": source.Bool, "object": source.Object, "array": source.Array,
}

var kindNames = map[source.Kind]string{
	source.Null: "null", source.String: "string", source.Number: "number", source.Bool: "boolean", source.Object: "object", source.Array: "array",
}

// checkType returns the reason why a value does not have the type. It returns "" if it has the type.
func checkType(want string, v *source.Node) string {
	kind, known := variableTypes[want]
	if !known || kind == v.Kind {
		return ""
	}
	return fmt.Sprintf("got %s, want %s", kindNames[v.Kind], want)
}

// check returns the reason why a value of the right type does not satisfy a validation. It returns ""
// if it satisfies it.
func (val *Validation) check(v *source.Node) string {
	switch v.Kind {
	case source.String:
		if msg := val.checkString(v.Text); msg != "" {
			return msg
		}
	case source.Number:
		if val.Minimum != nil && v.Num < *val.Minimum {
			return fmt.Sprintf("%v is less than the minimum %v", v.Num, *val.Minimum)
		}
		if val.Maximum != nil && v.Num > *val.Maximum {
			return fmt.Sprintf("%v is more than the maximum %v", v.Num, *val.Maximum)
		}
	}
	if val.Enum == nil {
		return ""
	}
	return checkEnum(val.Enum, v)
}

// checkString checks the length in characters and the pattern. The pattern may match anywhere in the
// value, as in JSON Schema.
func (val *Validation) checkString(s string) string {
	n := int64(utf8.RuneCountInString(s))
	if val.MinLength != nil && n < *val.MinLength {
		return fmt.Sprintf("has %d characters; the minimum is %d", n, *val.MinLength)
	}
	if val.MaxLength != nil && n > *val.MaxLength {
		return fmt.Sprintf("has %d characters; the maximum is %d", n, *val.MaxLength)
	}
	if val.Pattern == "" {
		return ""
	}
	re, err := cost.Compile(val.Pattern)
	if err != nil {
		return "the pack's pattern is not a regular expression: " + source.Clip(err.Error(), 200)
	}
	if !re.Affordable(s) {
		return fmt.Sprintf("has %d bytes, too many to match against %s", len(s), quote(val.Pattern))
	}
	if !re.MatchString(s) {
		return "does not match " + quote(val.Pattern)
	}
	return ""
}

// checkEnum returns why a value is not one of the allowed values. "" means that it is one.
func checkEnum(enum []json.RawMessage, v *source.Node) string {
	form, err := canonical(v.Plain())
	if err != nil {
		return err.Error()
	}
	allowed := make([]string, len(enum))
	for i, e := range enum {
		// Equal values have equal bytes here, because the document was decoded from its canonical form, so its members
		// have the canonical form, too.
		if string(e) == string(form) {
			return ""
		}
		allowed[i] = source.Clip(string(e), 80)
	}
	return "not one of the allowed values: " + names(allowed)
}

// Enum returns the values that the first validation with a list of values allows. It returns nil if no
// validation has such a list.
func (d *DeclaredVariable) Enum() []json.RawMessage {
	for _, check := range d.checks {
		if check.Enum != nil {
			return check.Enum
		}
	}
	return nil
}
