package router

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// Partition is an existing partition of the store. Namespaces are those of its namespaces that this
// node serves.
type Partition struct {
	Number     int32
	Namespaces []string
}

// fanOut makes a call at every partition and merges the answers. It calls the partitions one after the
// other, so that one call does not load all nodes at the same time.
func (r *Router) fanOut(ctx context.Context, method string, req any) (any, error) {
	parts := r.cfg.Partitions
	if len(parts) == 1 {
		return r.callAt(ctx, parts[0].Number, method, req)
	}
	m := methods[method]
	sum := m.NewResponse()
	for _, part := range parts {
		got, err := r.callAt(ctx, part.Number, method, req)
		if err != nil {
			return nil, err
		}
		one, err := m.decoded(got)
		if err != nil {
			return nil, err
		}
		switch sum := sum.(type) {
		case *pawlv1.GetStoreStatsResponse:
			if sum.GetStats() == nil {
				sum.Stats = &pawlv1.StoreStats{}
			}
			AddStats(sum.GetStats(), one.(*pawlv1.GetStoreStatsResponse).GetStats())
		case *pawlv1.ListLimitsResponse:
			addLimits(sum, one.(*pawlv1.ListLimitsResponse))
		}
	}
	return sum, nil
}

// decoded returns an answer as a message. The answer of another node consists of encoded bytes.
func (m *Method) decoded(got any) (proto.Message, error) {
	switch got := got.(type) {
	case codec.Message:
		out := m.NewResponse()
		if err := proto.Unmarshal(got, out); err != nil {
			return nil, fmt.Errorf("the answer of another node: %w", err)
		}
		return out, nil
	case proto.Message:
		return got, nil
	}
	return nil, fmt.Errorf("an answer is a %T", got)
}

// nodeInfo answers GetCaller and ListPartitions. These calls are about this node, so no partition is
// called.
func (r *Router) nodeInfo(ctx context.Context, method string) any {
	if method == pawlv1.RunService_GetCaller_FullMethodName {
		return r.caller(ctx)
	}
	return r.partitions()
}

// caller returns the authenticated caller with the namespaces that this node serves. Another
// node may serve other namespaces.
func (r *Router) caller(ctx context.Context) *pawlv1.GetCallerResponse {
	var served []string
	for _, part := range r.cfg.Partitions {
		served = append(served, part.Namespaces...)
	}
	slices.Sort(served)
	p := auth.CallerOf(ctx)
	return &pawlv1.GetCallerResponse{Principal: p.Name(), Scopes: p.Scopes.Names(), Namespaces: p.Spaces(served)}
}

// known returns all partitions that this node knows, sorted by number: those with namespaces that this
// node serves, and those that have rows in the database.
func (r *Router) known() []Partition {
	all := slices.Clone(r.cfg.Partitions)
	for _, number := range r.cfg.Directory.NonEmpty() {
		if !slices.ContainsFunc(r.cfg.Partitions, func(p Partition) bool { return p.Number == number }) {
			all = append(all, Partition{Number: number})
		}
	}
	slices.SortFunc(all, func(a, b Partition) int { return int(a.Number - b.Number) })
	return all
}

// partitions returns all partitions with their owners. If the owners cannot be read, a partition has an
// owner only if this node still has a valid lease on it.
func (r *Router) partitions() *pawlv1.ListPartitionsResponse {
	out := &pawlv1.ListPartitionsResponse{}
	for _, part := range r.known() {
		one := &pawlv1.Partition{Number: uint32(part.Number), Namespaces: part.Namespaces}
		if owner, there := r.cfg.Directory.Owner(part.Number); there && !r.cfg.Directory.Stale() {
			one.Owner = owner.Address
		} else if r.cfg.Slots.At(part.Number).Accepts() {
			one.Owner, one.Here = r.cfg.Address(), true
		}
		out.Partitions = append(out.Partitions, one)
	}
	return out
}

// check makes the call CheckStore at each partition, one after the other. It stops at the first
// partition that has a fault.
func (r *Router) check(ctx context.Context, stream grpc.ServerStream) error {
	method := pawlv1.StoreService_CheckStore_FullMethodName
	if len(r.cfg.Partitions) == 1 {
		return r.serverStream(ctx, method, stream)
	}
	req := methods[method].NewRequest()
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	all := &checked{ServerStream: stream, earlierCounts: &pawlv1.CheckCounts{}}
	for _, part := range r.cfg.Partitions {
		if err := r.serverStreamAt(ctx, part.Number, method, req, all); err != nil {
			return err
		}
		if all.faulty {
			return nil
		}
	}
	return stream.SendMsg(&pawlv1.CheckStoreResponse{Answer: &pawlv1.CheckStoreResponse_Done{Done: all.earlierCounts}})
}

// checked is the caller's stream for a check of several partitions. It merges the answers of these
// checks into one.
type checked struct {
	grpc.ServerStream
	// earlierCounts is the sum of the counts of the partitions that are already checked.
	earlierCounts *pawlv1.CheckCounts
	faulty        bool
}

// SendHeader does nothing, because the first message sends the headers. It hides the method of the
// embedded stream, which the check of every partition would call.
func (c *checked) SendHeader(metadata.MD) error { return nil }

// SetHeader does nothing, because the check of every partition would set the headers again.
func (c *checked) SetHeader(metadata.MD) error { return nil }

var errNoCheck = errors.New("what came is no answer of a check")

// SendMsg adds the counts of the partitions that are already checked to an answer, and sends it to the
// caller. It does not send the result of one partition, because check sends the sum at the end.
func (c *checked) SendMsg(m any) error {
	said, err := methods[pawlv1.StoreService_CheckStore_FullMethodName].decoded(m)
	if err != nil {
		return err
	}
	in, ok := said.(*pawlv1.CheckStoreResponse)
	if !ok {
		return errNoCheck
	}
	switch answer := in.GetAnswer().(type) {
	case *pawlv1.CheckStoreResponse_Progress:
		in = &pawlv1.CheckStoreResponse{Answer: &pawlv1.CheckStoreResponse_Progress{Progress: added(c.earlierCounts, answer.Progress)}}
	case *pawlv1.CheckStoreResponse_Done:
		c.earlierCounts = added(c.earlierCounts, answer.Done)
		return nil
	case *pawlv1.CheckStoreResponse_Fault:
		c.faulty = true
	}
	return c.ServerStream.SendMsg(in)
}
