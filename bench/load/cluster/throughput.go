package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// loads are how many runs are driven at once.
var loads = []int{64, 256}

// The ways in which they are driven, from as many processes as there are nodes: all in default at its
// owner, all in default and each process at a node of its own, or each process in a namespace of
// its own at that one's owner.
const (
	atOwner = "owner"
	spread  = "spread"
	shared  = "shared"
)

var modes = []string{atOwner, spread, shared}

// keyOf a throughput.
func keyOf(runs int, way string) string { return fmt.Sprintf("cluster_%s_emit_tps_%d", way, runs) }

// driveTarget is where one process drives runs.
type driveTarget struct {
	at        *node
	namespace string
}

// targets of all processes.
func (c *Cluster) targets(ctx context.Context, way string) (all []driveTarget, err error) {
	if way == shared {
		return c.owners(ctx)
	}
	owner, others, err := c.splitByOwner(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range append([]*node{owner}, others...) {
		if way == atOwner {
			n = owner
		}
		all = append(all, driveTarget{at: n, namespace: namespaces[0]})
	}
	return all, nil
}

// owners are the owners of the namespaces, once each has one of its own.
func (c *Cluster) owners(ctx context.Context) (all []driveTarget, err error) {
	listed, err := c.awaitEvenShares(ctx)
	if err != nil {
		return nil, err
	}
	at, err := listed.owners(namespaces)
	for i, home := range at {
		all = append(all, driveTarget{at: c.nodes[home], namespace: namespaces[i]})
	}
	return all, err
}

// throughput drives runs, nearly as many from each process.
func (c *Cluster) throughput(ctx context.Context, runs int, way string, load Load) (float64, error) {
	places, err := c.targets(ctx, way)
	if err != nil {
		return 0, err
	}
	made := make([]float64, len(places))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range places {
		group.Go(func() (err error) {
			made[i], err = load(ctx, p.at.process.Target, p.namespace, share(runs, len(places), i))
			return err
		})
	}
	sum := 0.0
	err = group.Wait()
	for _, one := range made {
		sum += one
	}
	return sum, err
}

// share is the i-th of n nearly equal shares.
func share(all, n, i int) int { return all*(i+1)/n - all*i/n }
