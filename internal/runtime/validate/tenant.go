package validate

import "strings"

// SplitTenant takes the tenant of an A2A request apart: NAMESPACE:AGENT, or only the
// agent, whose namespace is then its caller's own, "". A digest is no namespace.
func SplitTenant(tenant string) (namespace, agent string) {
	namespace, agent, ok := strings.Cut(tenant, ":")
	if !ok || namespace == digestPrefix || strings.Contains(namespace, "/") {
		return "", tenant
	}
	return namespace, agent
}

// JoinTenant is a tenant that [SplitTenant] takes apart. Without a namespace it is of its
// caller's own, which for some is another than the default one: that is named as any other.
func JoinTenant(namespace, agent string) string {
	if namespace == "" {
		return agent
	}
	return namespace + ":" + agent
}

// digestPrefix begins references to packs by their digest.
const digestPrefix = "sha256"
