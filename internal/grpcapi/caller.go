package grpcapi

import (
	"context"

	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// callerOf is who makes the call of a context.
func callerOf(ctx context.Context) convert.Caller {
	if w := workerOf(ctx); w != nil {
		return convert.Caller{Call: w.Call(), Bound: true}
	}
	namespace, _ := ctx.Value(namespaceKey{}).(string)
	return convert.Caller{Call: runtime.Call{Namespace: namespace, Principal: door.CallerOf(ctx).Principal}}
}

func callOf(ctx context.Context, namespace string) runtime.Call { return callerOf(ctx).In(namespace) }

func refOf(ctx context.Context, req convert.RunRequest) runtime.RunRef { return callerOf(ctx).Run(req) }

type namespaceKey struct{}

// withNamespace is for requests of a stream, which may leave it to their message.
func withNamespace(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, namespaceKey{}, namespace)
}
