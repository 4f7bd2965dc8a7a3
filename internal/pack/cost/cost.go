package cost

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// These constants bound the cost of checking payloads with a tool's parameters. Even a small schema can
// need much work. For example, 24 definitions, each of which refers twice to the previous one, need
// 2^24 checks of one value. One application of a schema to a value takes about a microsecond.
const (
	// maxApplied bounds how many schemas a pack may apply to the same value.
	maxApplied = 4096
	// MaxApplications bounds the work of checking one payload. It corresponds to about a quarter of a
	// second. The work is counted and not timed, so that the result does not depend on the load of the
	// machine.
	MaxApplications = 250_000
	// constantsPerApplication is the number of enum values, or of required names, that count as one application of a schema.
	constantsPerApplication = 16
)

// schemaCost counts how many schemas a compiled schema applies to one value. If this number is not
// finite, its error names the schema.
type schemaCost map[*jsonschema.Schema]int

// inProgress marks a schema whose cost is being counted.
const inProgress = -1

// Check returns an error if the schema, or one that it applies, applies itself to the same value, applies more than maxApplied schemas to
// one value, or has a dynamic reference.
func Check(s *jsonschema.Schema) error { return schemaCost{}.check(s) }

// check visits all schemas that a schema can apply, and returns an error if one of them has no bound.
func (c schemaCost) check(s *jsonschema.Schema) error {
	if s == nil {
		return nil
	}
	if _, seen := c[s]; seen {
		return nil
	}
	if _, err := c.applied(s); err != nil {
		return err
	}
	for _, sub := range append(sameValue(s), innerValue(s)...) {
		if err := c.check(sub); err != nil {
			return err
		}
	}
	return nil
}

// applied returns the number of schemas that are applied to one value. The schema itself is counted.
func (c schemaCost) applied(s *jsonschema.Schema) (int, error) {
	switch n := c[s]; {
	case n == inProgress:
		return 0, fmt.Errorf("%s applies itself to the same value", location(s))
	case n > 0:
		return n, nil
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return 0, fmt.Errorf("%s: dynamic references are not supported; allowed: $ref", location(s))
	}
	c[s] = inProgress
	total := weight(s)
	for _, sub := range sameValue(s) {
		n, err := c.applied(sub)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxApplied {
			return 0, fmt.Errorf("%s applies more than %d schemas to one value", location(s), maxApplied)
		}
	}
	c[s] = total
	return total, nil
}

// location returns the position of a schema in the document.
func location(s *jsonschema.Schema) string {
	for i := range s.Location {
		if s.Location[i] == '#' {
			return fmt.Sprintf("%q", source.Clip(s.Location[i:], 80))
		}
	}
	return fmt.Sprintf("%q", source.Clip(s.Location, 80))
}

// weight returns the work of the keywords of a schema, without the schemas that it applies. The unit is
// one application of a schema.
func weight(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.DependentRequired)
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	return 1 + n/constantsPerApplication
}

// sameValue returns the schemas that a schema applies to the same value as itself.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	out := make([]*jsonschema.Schema, 0, 4)
	for _, sub := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			out = append(out, sub)
		}
	}
	out = append(append(append(out, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, sub := range s.DependentSchemas {
		out = append(out, sub)
	}
	for _, dep := range s.Dependencies {
		if sub, ok := dep.(*jsonschema.Schema); ok {
			out = append(out, sub)
		}
	}
	return out
}

// innerValue returns the schemas that a schema applies to members and items of its value.
func innerValue(s *jsonschema.Schema) []*jsonschema.Schema {
	out := append(everyMember(s), presentSchemas(s.PropertyNames)...)
	for _, sub := range s.Properties {
		out = append(out, sub)
	}
	for _, sub := range s.PatternProperties {
		out = append(out, sub)
	}
	return append(append(out, everyItem(s)...), placedItems(s)...)
}

// everyMember returns the schemas for any member of an object.
func everyMember(s *jsonschema.Schema) []*jsonschema.Schema {
	return presentSchemas(s.AdditionalProperties, s.UnevaluatedProperties)
}

// everyItem returns the schemas for any item of an array.
func everyItem(s *jsonschema.Schema) []*jsonschema.Schema {
	return presentSchemas(s.Items, s.AdditionalItems, s.Items2020, s.Contains, s.UnevaluatedItems)
}

// placedItems returns the schemas for items at fixed positions.
func placedItems(s *jsonschema.Schema) []*jsonschema.Schema {
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		return items
	}
	return s.PrefixItems
}

// presentSchemas returns those keywords that contain a schema. Keywords may also be absent or booleans.
func presentSchemas(keywords ...any) []*jsonschema.Schema {
	out := make([]*jsonschema.Schema, 0, len(keywords)+4)
	for _, k := range keywords {
		if sub, ok := k.(*jsonschema.Schema); ok && sub != nil {
			out = append(out, sub)
		}
	}
	return out
}

// applications counts the work of one check, up to a limit.
type applications struct{ n, limit int }

// countSchema adds the applications of a schema to a value and to the values inside it. It counts all
// alternatives, so the count is never lower than the work of the library. It returns false if the limit
// is exceeded.
func (a *applications) countSchema(s *jsonschema.Schema, value any) bool {
	if a.n += weight(s); a.n > a.limit {
		return false
	}
	for _, sub := range sameValue(s) {
		if !a.countSchema(sub, value) {
			return false
		}
	}
	switch v := value.(type) {
	case map[string]any:
		return a.members(s, v)
	case []any:
		return a.items(s, v)
	case string:
		return s.Pattern == nil || a.add(weighPattern(s.Pattern, v))
	}
	return true
}

// add adds n to the counted work. It returns false if the limit is exceeded.
func (a *applications) add(n int) bool {
	a.n += n
	return a.n <= a.limit
}

// members counts the applications of the schema to the members of an object. It returns false if the limit is
// exceeded.
func (a *applications) members(s *jsonschema.Schema, object map[string]any) bool {
	every := everyMember(s)
	for name, value := range object {
		if sub := s.Properties[name]; sub != nil && !a.countSchema(sub, value) {
			return false
		}
		for pattern, sub := range s.PatternProperties {
			if !a.add(weighPattern(pattern, name)) || pattern.MatchString(name) && !a.countSchema(sub, value) {
				return false
			}
		}
		if s.PropertyNames != nil && !a.countSchema(s.PropertyNames, name) {
			return false
		}
		if !a.countAll(every, value) {
			return false
		}
	}
	return true
}

func (a *applications) items(s *jsonschema.Schema, list []any) bool {
	every, placed := everyItem(s), placedItems(s)
	for i, value := range list {
		if i < len(placed) && !a.countSchema(placed[i], value) {
			return false
		}
		if !a.countAll(every, value) {
			return false
		}
	}
	return true
}

func (a *applications) countAll(schemas []*jsonschema.Schema, value any) bool {
	for _, sub := range schemas {
		if !a.countSchema(sub, value) {
			return false
		}
	}
	return true
}

// Affordable reports whether checking a value needs at most [MaxApplications].
func Affordable(s *jsonschema.Schema, value any) bool {
	return AffordableWithin(s, value, MaxApplications)
}

// AffordableWithin reports whether checking a value needs at most limit applications of schemas.
func AffordableWithin(s *jsonschema.Schema, value any, limit int) bool {
	a := applications{limit: limit}
	return a.countSchema(s, value)
}
