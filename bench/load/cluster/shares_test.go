package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// listed is what nodes list that each have the partitions of these numbers, of so many.
func listed(partitions uint32, have ...[]uint32) (all shares) {
	for _, here := range have {
		var one []*pawlv1.Partition
		for number := range partitions {
			one = append(one, &pawlv1.Partition{
				Number: number, Namespaces: []string{fmt.Sprint("space-", number)}, Here: slices.Contains(here, number),
			})
		}
		all = append(all, one)
	}
	return all
}

// TestAnEvenShare checks the shares that the nodes agree on. A partition that is being moved belongs to
// no node.
func TestAnEvenShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shares shares
		want   bool
	}{
		"one each":                 {listed(3, []uint32{2}, []uint32{0}, []uint32{1}), true},
		"one more than another":    {listed(4, []uint32{2}, []uint32{0, 3}, []uint32{1}), true},
		"fewer than nodes":         {listed(1, nil, []uint32{0}, nil), true},
		"two more than another":    {listed(3, []uint32{0, 2}, []uint32{1}, nil), false},
		"all at one":               {listed(3, []uint32{0, 1, 2}, nil, nil), false},
		"one is nobody's":          {listed(3, []uint32{0}, []uint32{1}, nil), false},
		"one is seen at two":       {listed(3, []uint32{0}, []uint32{0, 1}, []uint32{2}), false},
		"one is nobody's of one":   {listed(1, nil, nil, nil), false},
		"nobody lists a partition": {shares{nil, nil, nil}, false},
		"one each of two nodes":    {listed(2, []uint32{1}, []uint32{0}), true},
	} {
		if got := c.shares.isEven(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestHomesAreOneForEach: namespaces that are at one node are not divided.
func TestHomesAreOneForEach(t *testing.T) {
	t.Parallel()
	names := []string{"space-0", "space-1", "space-2"}
	got, err := listed(3, []uint32{2}, []uint32{0}, []uint32{1}).owners(names)
	if err != nil || !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("%v, %v", got, err)
	}
	for name, s := range map[string]shares{
		"two at one node": listed(3, []uint32{0, 2}, []uint32{1}, nil),
		"one is nowhere":  listed(2, []uint32{1}, []uint32{0}, nil),
	} {
		if _, err := s.owners(names); !errors.Is(err, errSharedNode) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testNodes is what nodes say that are none: the first has everything until they were asked often enough,
// then each has the partition of one namespace, the second that of default.
type testNodes struct {
	mu               sync.Mutex
	looks, evenAfter int
	// onLook is called after each look. It may be nil.
	onLook  func()
	targets []string
	ended   int
	// packs are the namespaces in which one was registered.
	packs []string
}

func (w *testNodes) owner(part int) int {
	if w.looks < w.evenAfter {
		return 0
	}
	return (part + 1) % Size
}

// double is one of its nodes.
type double struct {
	pawlv1.UnimplementedRunServiceServer
	pawlv1.UnimplementedPackServiceServer
	pawlv1.UnimplementedStoreServiceServer
	*testNodes
	number int
}

func (d *double) ListPartitions(context.Context, *pawlv1.ListPartitionsRequest) (*pawlv1.ListPartitionsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looks++; d.onLook != nil {
		d.onLook()
	}
	out := &pawlv1.ListPartitionsResponse{}
	for part, name := range namespaces {
		out.Partitions = append(out.Partitions, &pawlv1.Partition{
			Number: uint32(part), Namespaces: []string{name}, Here: d.owner(part) == d.number,
		})
	}
	return out, nil
}

func (d *double) ListRuns(ctx context.Context, _ *pawlv1.ListRunsRequest) (*pawlv1.ListRunsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner(0) != d.number {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(ownerTrailer, "another"))
	}
	return &pawlv1.ListRunsResponse{}, nil
}

func (d *double) RegisterPack(_ context.Context, in *pawlv1.RegisterPackRequest) (*pawlv1.RegisterPackResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.packs = append(d.packs, in.GetNamespace())
	return &pawlv1.RegisterPackResponse{}, nil
}

// start starts one more.
func (w *testNodes) start(context.Context) (Process, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return Process{}, err
	}
	server, one := grpc.NewServer(), &double{testNodes: w, number: len(w.targets)}
	pawlv1.RegisterRunServiceServer(server, one)
	pawlv1.RegisterPackServiceServer(server, one)
	pawlv1.RegisterStoreServiceServer(server, one)
	go func() { _ = server.Serve(ln) }()
	w.targets = append(w.targets, ln.Addr().String())
	return Process{Target: ln.Addr().String(), End: func(syscall.Signal) {
		w.ended++
		server.Stop()
	}}, nil
}

// TestRunsAreDrivenWhereTheyShould, once the nodes share: all of default at its owner, all of default at
// every node, or those of each namespace at the node that has it.
func TestRunsAreDrivenWhereTheyShould(t *testing.T) {
	t.Parallel()
	w := &testNodes{evenAfter: 7}
	c, err := New(t.Context(), w.start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if w.looks < w.evenAfter || !slices.Equal(w.packs, []string{"default"}) {
		t.Errorf("after %d looks; packs in %v", w.looks, w.packs)
	}
	for way, want := range map[string]map[string]int{
		atOwner: {w.targets[1] + " default": 3},
		spread:  {w.targets[0] + " default": 1, w.targets[1] + " default": 1, w.targets[2] + " default": 1},
		shared:  {w.targets[1] + " default": 1, w.targets[2] + " red": 1, w.targets[0] + " blue": 1},
	} {
		var mu sync.Mutex
		got, all := map[string]int{}, 0
		made, err := c.throughput(t.Context(), 64, way, func(_ context.Context, target, namespace string, runs int) (float64, error) {
			mu.Lock()
			defer mu.Unlock()
			got[target+" "+namespace]++
			all += runs
			return float64(runs) / 2, nil
		})
		if err != nil || !maps.Equal(got, want) || all != 64 || made != 32 {
			t.Errorf("%s: processes at %v, want %v; %d runs, %v a second, %v", way, got, want, all, made, err)
		}
	}
}

// TestUnevenSharesAreWaitedFor as long as their measurement goes on, and nothing stays behind.
func TestUnevenSharesAreWaitedFor(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := &testNodes{evenAfter: math.MaxInt}
	w.onLook = func() {
		if w.looks == 4 {
			cancel()
		}
	}
	if _, err := New(ctx, w.start); err == nil || w.looks < 4 || w.ended != Size {
		t.Errorf("%v after %d looks; %d nodes ended", err, w.looks, w.ended)
	}
}

// TestTheMostIsOfAllMoves checks that the maximum covers moves of both kinds, if both have the same
// figure.
func TestTheMostIsOfAllMoves(t *testing.T) {
	t.Parallel()
	m := &measurement{samples: map[string][]float64{}}
	for _, took := range []time.Duration{2 * time.Second, 5 * time.Second, 3 * time.Second} {
		m.addDuration("cluster_balance", took)
	}
	if got := m.samples["cluster_balance_p50_ms"]; !slices.Equal(got, []float64{2000, 5000, 3000}) {
		t.Errorf("%v", got)
	}
	if got := m.samples["cluster_balance_most_ms"]; !slices.Equal(got, []float64{5000}) {
		t.Errorf("most %v", got)
	}
}
