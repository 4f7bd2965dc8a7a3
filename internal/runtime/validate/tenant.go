package validate

import "strings"

// SplitTenant splits the tenant of an A2A request. The form is NAMESPACE:AGENT, or only the agent. In
// the second case namespace is "", which means the caller's own namespace. The prefix of a digest is
// not treated as a namespace.
func SplitTenant(tenant string) (namespace, agent string) {
	namespace, agent, ok := strings.Cut(tenant, ":")
	if !ok || namespace == digestPrefix || strings.Contains(namespace, "/") {
		return "", tenant
	}
	return namespace, agent
}

// JoinTenant is the inverse of [SplitTenant]. An empty namespace means the caller's own namespace,
// which may differ from the default namespace. So the default namespace must be named like any other
// namespace.
func JoinTenant(namespace, agent string) string {
	if namespace == "" {
		return agent
	}
	return namespace + ":" + agent
}

// digestPrefix is the prefix of digests of packs.
const digestPrefix = "sha256"
