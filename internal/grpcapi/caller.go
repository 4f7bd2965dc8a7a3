package grpcapi

import (
	"context"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// callerOf returns the caller of a context.
func callerOf(ctx context.Context) convert.Caller {
	if w := workerOf(ctx); w != nil {
		return convert.Caller{Call: w.Call(), Bound: true}
	}
	return convert.Caller{Call: runtime.Call{Principal: auth.CallerOf(ctx).Principal}}
}

func callOf(ctx context.Context, namespace string) runtime.Call { return callerOf(ctx).In(namespace) }

func refOf(ctx context.Context, req convert.RunRequest) runtime.RunRef { return callerOf(ctx).Run(req) }
