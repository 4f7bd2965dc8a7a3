package streams

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WatchSubscription opens a watch that returns the records after a webhook's position. The watch has
// the rights of the webhook's owner. The records must be rendered with the returned call.
func (r *Service) WatchSubscription(ctx context.Context, sub *machine.Subscription) (w *Watch, call runtime.Call, err error) {
	call = runtime.Call{Principal: runtime.Principal{Subject: sub.Owner, Scopes: runtime.ScopeRunsRead}}
	call.Namespace = r.cfg.Engine.NamespaceName(sub.Namespace)
	if call.Namespace == "" {
		return nil, call, fmt.Errorf("streams: the namespace of webhook %q is not configured", sub.ID)
	}
	cursor := runtime.Cursor{Epoch: r.cfg.Store.Epoch(), Position: sub.After, Index: sub.Index}
	req := Request{
		Call: call, AfterCursor: cursor.String(), Follow: true,
		Filter: Filter{
			Pack: sub.Filter.Pack, Status: sub.Filter.Status, Labels: sub.Filter.Labels, Parent: sub.Filter.Parent, Kinds: sub.Kinds,
		},
	}
	if sub.Filter.State != "" {
		req.Filter.States = []string{sub.Filter.State}
	}
	w, err = r.Watch(ctx, req)
	return w, call, err
}
