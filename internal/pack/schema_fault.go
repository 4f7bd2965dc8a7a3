package pack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// schemaFault is one fault in a validation error: an error that has no further causes, one missing or unknown property, or all causes of
// one oneOf or anyOf together.
type schemaFault struct {
	pointer, keyword string
	// missing is the missing property, for a fault of the keyword required.
	missing   string
	msg, hint string
}

// code returns the diagnostic code of a fault. For a fault in x_pawl, it is the code of the rule of this product. For some faults in
// compositions, it is the code of a rule of the RFC. Otherwise it is the code of the keyword.
func (f schemaFault) code() string {
	switch {
	case strings.HasPrefix(f.pointer, "/workflow/engine/x_pawl"):
		return ruleXPawl
	case !strings.HasPrefix(f.pointer, "/compositions/"):
	case f.keyword == "pattern" && strings.HasSuffix(f.pointer, "/id"):
		return "PP0010-6"
	case f.missing == "termination" || strings.HasSuffix(f.pointer, "/termination"):
		return "PP0010-12"
	case f.missing == "branches" || f.missing == "reduce" || strings.HasSuffix(f.pointer, "/branches") || strings.HasSuffix(f.pointer, "/reduce"):
		return "PP0010-13"
	case f.missing == "predicate" || strings.HasSuffix(f.pointer, "/predicate") || strings.Contains(f.pointer, "/predicate/"):
		return "PP0010-14"
	}
	return schemaPrefix + f.keyword
}

var english = message.NewPrinter(language.English)

// validate returns the faults of a document ordered by pointer.
func (s *schema) validate(root any) []schemaFault {
	err := s.compiled.Validate(root)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return []schemaFault{{keyword: "schema", msg: source.Clip(err.Error(), 300)}}
	}
	faults := s.leafFaults(ve, nil)
	slices.SortFunc(faults, func(a, b schemaFault) int {
		return cmp.Or(cmp.Compare(a.pointer, b.pointer), cmp.Compare(a.keyword, b.keyword), cmp.Compare(a.msg, b.msg))
	})
	return slices.Compact(faults)
}

// leafFaults collects the faults under an error. The alternatives of oneOf and anyOf are reported together,
// because it is not known which of them the author meant.
func (s *schema) leafFaults(ve *jsonschema.ValidationError, out []schemaFault) []schemaFault {
	switch k := ve.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		return append(out, s.alternatives(ve))
	case *kind.Required:
		for _, name := range k.Missing {
			f := fault1(ve, "required", fmt.Sprintf("the required property %s is missing", quote(name)), "Add "+quote(name)+".")
			f.missing = name
			out = append(out, f)
		}
		return out
	case *kind.AdditionalProperties:
		allowed := s.propertiesAt(ve.SchemaURL)
		for _, name := range k.Properties {
			elsewhere := correctPlace(name)
			hint := "Remove it or check its spelling. If a version of the format after " + Newest + " has it, use a newer Pawl."
			if ve.SchemaURL != "" && strings.Contains(ve.SchemaURL, "/XPawl") {
				hint = "Remove it or check its spelling."
			}
			if since := sinceOf(ve.SchemaURL, name); since != "" {
				elsewhere, hint = " (the format has it since "+since+")", "Remove it, or apply that version or a later one."
			}
			f := fault1(ve, "additionalProperties", fmt.Sprintf("the property %s is not known here%s; allowed: %s", quote(name), elsewhere, strings.Join(allowed, ", ")), hint)
			f.pointer += pointer(name)
			out = append(out, f)
		}
		return out
	}
	if len(ve.Causes) > 0 {
		for _, c := range ve.Causes {
			out = s.leafFaults(c, out)
		}
		return out
	}
	return append(out, s.leaf(ve))
}

func fault1(ve *jsonschema.ValidationError, keyword, msg, hint string) schemaFault {
	return schemaFault{pointer: pointer(ve.InstanceLocation...), keyword: keyword, msg: msg, hint: hint}
}

// leaf returns the fault for a validation error that has no causes.
func (s *schema) leaf(ve *jsonschema.ValidationError) schemaFault {
	switch k := ve.ErrorKind.(type) {
	case *kind.Type:
		return fault1(ve, "type", fmt.Sprintf("got %s, want %s", k.Got, strings.Join(k.Want, " or ")), typeHint(k))
	case *kind.Enum:
		return fault1(ve, "enum", fmt.Sprintf("%s is not allowed; allowed: %s", shortJSON(k.Got), shortList(k.Want)), enumHint(ve))
	case *kind.Const:
		return fault1(ve, "const", fmt.Sprintf("%s is not allowed; allowed: %s", shortJSON(k.Got), shortJSON(k.Want)), "")
	case *kind.Pattern:
		return fault1(ve, "pattern", fmt.Sprintf("%s does not match %s", quote(k.Got), k.Want), patternHint(k))
	case *kind.Format:
		why := ""
		if k.Want == "regex" && k.Err != nil {
			why = ": " + source.Clip(k.Err.Error(), 200)
		}
		return fault1(ve, "format", fmt.Sprintf("%s is not a valid %s%s", shortJSON(k.Got), k.Want, why), "")
	}
	keyword := "schema"
	if path := ve.ErrorKind.KeywordPath(); len(path) > 0 {
		keyword = path[len(path)-1]
	}
	return fault1(ve, keyword, source.Clip(ve.ErrorKind.LocalizedString(english), 300), "")
}

// enumHint returns the hint for a value that is not in the list of allowed values. Outside of x_pawl, the hint mentions that a newer
// version of the format may allow the value.
func enumHint(ve *jsonschema.ValidationError) string {
	if strings.Contains(ve.SchemaURL, "/XPawl") {
		return "Use one of the allowed values."
	}
	return "Use one of the allowed values. If a version of the format after " + Newest + " has it, use a newer Pawl."
}

var (
	notInNames = regexp.MustCompile(`[^a-zA-Z0-9]+`)
	leadDigit  = regexp.MustCompile(`^[0-9]`)
)

// patternHint returns a hint for a text that does not match a pattern, usually a name with blanks. The hint proposes a
// similar text that matches. It is "" if no similar text matches.
func patternHint(k *kind.Pattern) string {
	pattern, err := regexp.Compile(k.Want)
	if err != nil || len(k.Got) > 80 {
		return ""
	}
	snake := leadDigit.ReplaceAllString(strings.Trim(notInNames.ReplaceAllString(k.Got, "_"), "_"), "_$0")
	for _, mended := range []string{snake, strings.ToLower(strings.ReplaceAll(snake, "_", "-"))} {
		if mended != "" && pattern.MatchString(mended) {
			return "Write " + quote(mended) + ": blanks and the other characters are not allowed here."
		}
	}
	return ""
}

// typeHint returns the hint for a scalar of the wrong type. It describes the usual reason in YAML.
func typeHint(k *kind.Type) string {
	if k.Got != "object" && k.Got != "array" && slices.Contains(k.Want, "string") {
		return "Put the value in quotes."
	}
	return ""
}

// alternatives returns the fault for a value that matches none of several forms (oneOf or anyOf), or more than one (oneOf).
func (s *schema) alternatives(ve *jsonschema.ValidationError) schemaFault {
	_, keyword, _ := strings.Cut(fmt.Sprintf("%T", ve.ErrorKind), ".")
	keyword = strings.ToLower(keyword[:1]) + keyword[1:]
	what := "the allowed forms"
	for suffix, text := range map[string]string{
		"/SkillSource":          "a path, {path, preload} or {name, description, instructions}",
		"/Predicate":            "{path, op, value}, {path, exists}, {all_of}, {any_of} or {not}",
		"/StepInput":            "a \"${…}\" reference or an object",
		"/TerminationPredicate": "at least one of max_steps and tool_called",
		"/Step":                 "a prompt, agent, tool, branch or parallel step with its required fields, or a vendor's own like acme.judge",
		"/ProviderRequirement":  "a key, or {key, role, required, description, capabilities}",
	} {
		if strings.HasSuffix(ve.SchemaURL, suffix) {
			what = text
		}
	}
	verb := "matches none of: "
	if k, ok := ve.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) > 0 {
		verb = "matches more than one of: "
	}
	return fault1(ve, keyword, "the value "+verb+what, "")
}

// sinceOf returns the version of the format that added a property at a place in the schemas. It returns "" if the place is not in a
// published schema, or if the newest one does not say since when it has the property.
func sinceOf(location, name string) string {
	if !strings.Contains(location, "/schema/promptpack-") {
		return ""
	}
	newest, err := publishedSchema(Newest)
	if err != nil {
		return ""
	}
	property, _ := newest.valueAt(location, "properties", name).(map[string]any)
	since, _ := property[sinceKey].(string)
	return since
}

// valueAt returns the value of the schema at a location "url#/pointer", followed by the tokens in below.
func (s *schema) valueAt(location string, below ...string) any {
	_, frag, _ := strings.Cut(location, "#")
	cur := s.doc
	for _, tok := range append(source.PointerTokens(frag), below...) {
		obj, ok := cur.(map[string]any)
		if !ok {
			return nil
		}
		cur = obj[tok]
	}
	return cur
}

// propertiesAt returns the properties of the schema at a location "url#/pointer".
func (s *schema) propertiesAt(location string) []string {
	obj, _ := s.valueAt(location).(map[string]any)
	props, _ := obj["properties"].(map[string]any)
	names := make([]string, 0, len(props))
	for name := range props {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// shortJSON returns a JSON value for use in a message.
func shortJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	return source.Clip(string(b), 80)
}

func shortList(vs []any) string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = shortJSON(v)
	}
	return strings.Join(out, ", ")
}
