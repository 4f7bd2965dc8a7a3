package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// namespaces are served by the sidecars that are compared: as many as there are sidecars, so that
// each has the partition of one of them. The first is there always.
var namespaces = []string{"default", "red", "blue"}

// Flags have a sidecar serve them.
func Flags() (flags []string) {
	for _, name := range namespaces[1:] {
		flags = append(flags, "--namespace", name)
	}
	return flags
}

// evenWithin bounds the wait for partitions that are evenly shared. It is longer than the minute for which
// a node is given nothing that did not take what it was given.
const evenWithin = 2 * time.Minute

// lookEvery is the pause between two looks at who has what: far less than what is measured by them.
const lookEvery = 10 * time.Millisecond

// shares are the partitions as each of some nodes lists them.
type shares [][]*pawlv1.Partition

// shares asks every node, since each knows for certain only what it has itself.
func (c *Cluster) shares(ctx context.Context) (shares, error) {
	all := make(shares, len(c.nodes))
	for i, n := range c.nodes {
		got, err := pawlv1.NewStoreServiceClient(n.conn).ListPartitions(ctx, &pawlv1.ListPartitionsRequest{})
		if err != nil {
			return nil, fmt.Errorf("who has which partition: %w", err)
		}
		all[i] = got.GetPartitions()
	}
	return all, nil
}

// awaitEvenShares waits until the nodes share evenly.
func (c *Cluster) awaitEvenShares(ctx context.Context) (shares, error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for begin := time.Now(); ; {
		all, err := c.shares(ctx)
		if err != nil || all.isEven() {
			return all, err
		}
		if time.Since(begin) > evenWithin {
			return nil, fmt.Errorf("after %v the nodes do not share evenly, they have %v partitions", evenWithin, all.counts())
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isEven: each partition has one owner, and no node has two more than another.
func (s shares) isEven() bool {
	owners := map[uint32]int{}
	for _, part := range slices.Concat(s...) {
		n := owners[part.GetNumber()]
		if part.GetHere() {
			n++
		}
		owners[part.GetNumber()] = n
	}
	// The nodes are asked one after the other: what moves meanwhile is had by none, or by two.
	for _, n := range owners {
		if n != 1 {
			return false
		}
	}
	least, most := math.MaxInt, 0
	for _, n := range s.counts() {
		least, most = min(least, n), max(most, n)
	}
	return len(owners) > 0 && most-least < 2
}

// counts how many each has.
func (s shares) counts() []int {
	counts := make([]int, len(s))
	for i, listed := range s {
		for _, part := range listed {
			if part.GetHere() {
				counts[i]++
			}
		}
	}
	return counts
}

var errSharedNode = errors.New("not every namespace is at a node of its own")

// owners are the nodes that have the partitions of some namespaces, each another one: else they
// share nothing.
func (s shares) owners(names []string) ([]int, error) {
	var homes []int
	for _, name := range names {
		home := slices.IndexFunc(s, func(listed []*pawlv1.Partition) bool {
			return slices.ContainsFunc(listed, func(part *pawlv1.Partition) bool {
				return part.GetHere() && slices.Contains(part.GetNamespaces(), name)
			})
		})
		if home < 0 || slices.Contains(homes, home) {
			return nil, fmt.Errorf("%w: %q", errSharedNode, name)
		}
		homes = append(homes, home)
	}
	return homes, nil
}
