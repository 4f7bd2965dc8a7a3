package validate

import "strings"

// SplitTenant splits the tenant of an A2A request: NAMESPACE:AGENT, or only the agent, where the
// namespace is "", the caller's own. The prefix of a digest is not a namespace.
func SplitTenant(tenant string) (namespace, agent string) {
	namespace, agent, ok := strings.Cut(tenant, ":")
	if !ok || namespace == digestPrefix || strings.Contains(namespace, "/") {
		return "", tenant
	}
	return namespace, agent
}

// JoinTenant returns a tenant that [SplitTenant] splits. Without a namespace the tenant is in the
// caller's own namespace, which is not the default one for every caller. So the default namespace
// is named like any other.
func JoinTenant(namespace, agent string) string {
	if namespace == "" {
		return agent
	}
	return namespace + ":" + agent
}

// digestPrefix is the prefix of digests of packs.
const digestPrefix = "sha256"
