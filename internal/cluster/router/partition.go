package router

import (
	"context"
	"slices"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// partOf returns the partition of a request: the partition that the request names, or else the
// partition of its namespace. A request that names neither belongs to the first partition. A request
// with an unknown namespace belongs to a partition that refuses it.
func (r *Router) partOf(ctx context.Context, req any) int32 {
	if in, ok := req.(*pawlv1.BackupRequest); ok && r.hasPart(in.GetPartition()) {
		return int32(in.GetPartition())
	}
	space := auth.SpaceOf(ctx, req)
	if space == "" {
		return 0
	}
	return r.cfg.Parts(space)
}

// partOfAgent returns the partition of an HTTP request to an agent. If the caller has no right to the
// agent's namespace, it returns the partition of the caller's namespace, which refuses the request. So
// the answer does not reveal whether the agent's namespace exists.
func (r *Router) partOfAgent(ctx context.Context, of tenant) (int32, error) {
	if auth.CheckNamespace(auth.CallerOf(ctx), of) != nil {
		return r.cfg.Parts(auth.CallerNamespace(ctx)), nil
	}
	return r.partOf(ctx, of), r.checkNamespace(ctx, of)
}

// checkNamespace returns an error if the request names a namespace that this node does not serve.
func (r *Router) checkNamespace(ctx context.Context, req any) error {
	if space := auth.SpaceOf(ctx, req); space != "" {
		return r.cfg.Served(ctx, space)
	}
	return nil
}

func (r *Router) hasPart(number uint32) bool {
	return slices.ContainsFunc(r.known(), func(p Partition) bool { return uint32(p.Number) == number })
}

// tenant is the A2A tenant that an HTTP request names. It is empty if the request names none.
type tenant string

// GetTenant returns the tenant. With it, code that reads the tenant of protobuf requests to agents also
// works for HTTP requests.
func (t tenant) GetTenant() string { return string(t) }
