package oidc

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// Limits of the claims of a token.
const (
	maxNameBytes = 256
	maxValues    = 1000
)

// claims are the claims of a token as decoded JSON.
type claims map[string]any

// at returns a claim by its name. For a nested claim, the name consists of the names of the claims,
// joined with dots.
func (c claims) at(name string) any {
	if value, ok := c[name]; ok {
		return value
	}
	first, rest, inside := strings.Cut(name, ".")
	if below, ok := c[first].(map[string]any); ok && inside {
		return claims(below).at(rest)
	}
	return nil
}

// values returns the texts of a claim. If the claim is a list, these are its elements. If it is a text,
// these are its words.
func (c claims) values(name string) []string {
	switch value := c.at(name).(type) {
	case string:
		return bounded(strings.Fields(value))
	case []any:
		var out []string
		for _, one := range value {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return bounded(out)
	}
	return nil
}

func bounded(values []string) []string { return values[:min(len(values), maxValues)] }

// principal returns the principal of a token's holder. The rules of the issuer determine it.
func (i *Issuer) principal(c claims) (runtime.Principal, error) {
	text, _ := c.at(i.Principal).(string)
	p := runtime.Principal{Subject: i.Prefix + text, Proof: policy.ByIssuer}
	switch {
	case text == "" || len(p.Subject) > maxNameBytes || !printable(text) || !policy.IsPrincipalName(p.Subject):
		return p, refused("the claim " + i.Principal + " is no name of printable text within 256 bytes")
	case slices.Contains(i.Deny, p.Subject):
		return p, refused("the principal is denied")
	}
	for _, value := range c.values(i.Scopes.Claim) {
		scopes, _ := scopesOf(i.Scopes.Map[value]) // the names were checked
		p.Scopes |= scopes
	}
	if i.Namespaces.All {
		return p, nil
	}
	if p.Namespaces = i.Namespaces.namespaces(c); len(p.Namespaces) == 0 {
		return p, refused("the token is for no namespace")
	}
	return p, nil
}

// namespaces returns the fixed namespaces if there are any. Otherwise it returns those of the token without duplicates,
// in the order of the token.
func (s Spaces) namespaces(c claims) []string {
	if len(s.Fixed) > 0 {
		return s.Fixed
	}
	var out []string
	for _, value := range c.values(s.Claim) {
		names := []string{value}
		if s.Map != nil {
			names = s.Map[value]
		}
		for _, name := range names {
			if namespaceForm.MatchString(name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// mayGive reports whether the rules of an issuer give at least one of these scopes to some token.
func (g Grants) mayGive(scopes runtime.Scopes) bool {
	for _, names := range g.Map {
		if given, _ := scopesOf(names); given.Any(scopes) { // the names were checked
			return true
		}
	}
	return false
}

// mayGive reports whether the rules of an issuer give rights in a namespace to some token.
func (s Spaces) mayGive(namespace string) bool {
	switch {
	case s.All || s.Claim != "" && s.Map == nil:
		return true
	case s.Claim == "":
		return slices.Contains(s.Fixed, namespace)
	}
	for _, names := range s.Map {
		if slices.Contains(names, namespace) {
			return true
		}
	}
	return false
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
