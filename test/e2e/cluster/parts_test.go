package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// ordinary is the namespace of calls that name none.
const ordinary = "default"

// spacesOf are so many namespaces: the default one and others.
func spacesOf(n int) []string {
	all := []string{ordinary}
	for i := 1; i < n; i++ {
		all = append(all, fmt.Sprint("space-", i))
	}
	return all
}

// namespaceConn is a connection of which each call is of one namespace.
type namespaceConn struct {
	grpc.ClientConnInterface
	space string
}

func (w namespaceConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	w.name(args)
	return w.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func (w namespaceConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := w.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return streamWithin{stream, w}, nil
}

type streamWithin struct {
	grpc.ClientStream
	w namespaceConn
}

func (s streamWithin) SendMsg(m any) error {
	s.w.name(m)
	return s.ClientStream.SendMsg(m)
}

// name puts the namespace into a request; the default one goes without saying.
func (w namespaceConn) name(m any) {
	if w.space == ordinary {
		return
	}
	r := m.(proto.Message).ProtoReflect()
	if field := r.Descriptor().Fields().ByName("namespace"); field != nil {
		r.Set(field, protoreflect.ValueOfString(w.space))
	}
}

// registerPacks registers packs in the namespace of a connection, unless it is that in which sidecars register
// those of their configuration.
func registerPacks(t *testing.T, conn namespaceConn, files ...string) {
	t.Helper()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if conn.space == ordinary {
			continue
		}
		_, err = play.Retry(t.Context(), func(ctx context.Context) (*pawlv1.RegisterPackResponse, error) {
			return pawlv1.NewPackServiceClient(conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content})
		})
		if err != nil {
			t.Fatalf("%s in %s: %v", file, conn.space, err)
		}
	}
}

// furnish registers the packs in all namespaces, and learns in which partition each of these is: that
// never changes.
func (c *cluster) furnish(files []string) {
	c.t.Helper()
	for _, space := range c.spaces {
		c.parts[space] = 0
		registerPacks(c.t, namespaceConn{c.nodes[0].dial(), space}, files...)
	}
	c.queryJSON("SELECT coalesce(json_object_agg(name, part), '{}') FROM pawl.namespace", &c.parts)
	if !c.isSingle && len(c.all()) != len(c.spaces) {
		c.t.Fatalf("the namespaces are in partitions %v", c.parts)
	}
}

// queryJSON has the database answer in JSON.
func (c *cluster) queryJSON(sql string, into any) {
	c.t.Helper()
	answer := c.db.server().Query(c.t, "postgres", sql)
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		c.t.Fatalf("%s: %v: %s", sql, err, answer)
	}
}

// all are the partitions, by number.
func (c *cluster) all() []int32 { return slices.Compact(slices.Sorted(maps.Values(c.parts))) }

// owners are the nodes that have partitions, by these.
func (c *cluster) owners() map[int32]*node {
	c.t.Helper()
	owners := map[int32]*node{}
	if c.isSingle {
		owners[0] = c.nodes[0]
		return owners
	}
	var addresses map[int32]string
	c.queryJSON("SELECT coalesce(json_object_agg(id, address), '{}') FROM pawl.part WHERE lease_until > now()", &addresses)
	for _, n := range c.nodes {
		for part, address := range addresses {
			if n.peers.Addr() == address {
				owners[part] = n
			}
		}
	}
	return owners
}

// owner is the node that has a partition, if one has.
func (c *cluster) owner(part int32) *node {
	c.t.Helper()
	return c.owners()[part]
}

// ownedPartitions are the partitions that a node has now.
func (c *cluster) ownedPartitions(n *node) map[int32]bool {
	c.t.Helper()
	had := map[int32]bool{}
	for part, owner := range c.owners() {
		if owner == n {
			had[part] = true
		}
	}
	return had
}

// isEven: every partition has an owner, of some nodes that live, and none of them has two more than
// another one.
func (c *cluster) isEven(nodes []*node) bool {
	c.t.Helper()
	counts, owners := map[*node]int{}, c.owners()
	for _, n := range nodes {
		counts[n] = 0
	}
	for _, owner := range owners {
		counts[owner]++
	}
	loads := slices.Sorted(maps.Values(counts))
	return len(counts) == len(nodes) && len(owners) == len(c.all()) && loads[len(loads)-1]-loads[0] < 2
}

// shared is how soon after all nodes live none of them has two partitions more than another one.
const shared = 10 * time.Second

// awaitEvenShares waits until all nodes that there are share evenly, and is how long that took from a moment.
func (c *cluster) awaitEvenShares(from time.Time, limit time.Duration) time.Duration {
	c.t.Helper()
	if short() {
		limit += patience // see bound
	}
	for !c.isEven(c.nodes) {
		if time.Since(from) > limit {
			c.t.Errorf("after %v the nodes do not share evenly: %s", limit, c.shares())
			break
		}
		if c.ctx.Err() != nil {
			break
		}
		c.keepFault(20 * time.Millisecond)
	}
	return time.Since(from).Round(time.Millisecond)
}

// shares returns the rows as text, for the analysis of a failure.
func (c *cluster) shares() string {
	c.t.Helper()
	return c.db.server().Query(c.t, "postgres",
		"SELECT json_build_object('now', now(), 'parts', (SELECT json_agg(p ORDER BY id) FROM pawl.part p), 'nodes', (SELECT json_agg(n) FROM pawl.node n))")
}
