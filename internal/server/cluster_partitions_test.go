package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cluster/membership"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// tenants are the namespaces of the tests of partitions, besides the default one.
var tenants = []string{"blue", "green", "red"}

// ownerOf returns the node that answers for a namespace, or "" if it is the node that is asked.
func ownerOf(t *testing.T, conn *grpc.ClientConn, namespace string) string {
	t.Helper()
	var trailer metadata.MD
	if _, err := pawlv1.NewRunServiceClient(conn).ListRuns(t.Context(), &pawlv1.ListRunsRequest{Namespace: namespace}, grpc.Trailer(&trailer)); err != nil {
		t.Fatalf("%s: %v", namespace, err)
	}
	return strings.Join(trailer.Get("pawl-owner"), " ")
}

// awaitSpread waits until so many nodes answer for the namespaces.
func awaitSpread(t *testing.T, at *runningSidecar, nodes int) {
	t.Helper()
	conn := dial(t, at.ready.GRPC)
	for {
		owners := map[string]bool{}
		for _, namespace := range append([]string{"default"}, tenants...) {
			owners[ownerOf(t, conn, namespace)] = true
		}
		if len(owners) == nodes {
			return
		}
	}
}

// TestSeveralShare: each of several sidecars has some of the namespaces, and takes calls for all of
// them. What is in one namespace is not in another one, also when nodes come and go.
func TestSeveralShare(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces = []string{packFile}, tenants
	first := begin(t, c)
	packs := pawlv1.NewPackServiceClient(dial(t, first.ready.GRPC))
	content, err := os.ReadFile(packFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range tenants {
		if _, err := packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Namespace: namespace, Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	second := begin(t, c)
	awaitSpread(t, first, 2)
	awaitSpread(t, second, 2)
	began := map[string]string{}
	for i, namespace := range append([]string{"default"}, tenants...) {
		at := []*runningSidecar{first, second}[i%2]
		run, err := pawlv1.NewRunServiceClient(dial(t, at.ready.GRPC)).StartRun(t.Context(), &pawlv1.StartRunRequest{
			Namespace: namespace, Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "the same in all",
		})
		if err != nil || run.GetDuplicate() {
			t.Fatal(namespace, run, err)
		}
		began[namespace] = run.GetRun().GetRunId()
	}
	holdsEach(t, began, first, second)
	first.stop()
	if err := <-first.ended; err != nil {
		t.Error(err)
	}
	holdsEach(t, began, second)
	third := begin(t, c)
	awaitSpread(t, third, 2)
	holdsEach(t, began, second, third)
}

// holdsEach checks that every node finds the one run of each namespace, and only in that namespace.
func holdsEach(t *testing.T, began map[string]string, nodes ...*runningSidecar) {
	t.Helper()
	for _, at := range nodes {
		runs := pawlv1.NewRunServiceClient(dial(t, at.ready.GRPC))
		for namespace, id := range began {
			all, err := runs.ListRuns(t.Context(), &pawlv1.ListRunsRequest{Namespace: namespace})
			if err != nil || len(all.GetRuns()) != 1 || all.GetRuns()[0].GetRunId() != id {
				t.Errorf("%s has %v, %v", namespace, all, err)
			}
		}
	}
}

// TestAloneOnAShare: a sidecar alone does not serve a store whose namespaces are in several
// partitions. What it stored before other sidecars came stays where it is.
func TestAloneOnAShare(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Namespaces = tenants[:1]
	single := c
	single.PeerListen = ""
	for range 2 {
		one := begin(t, single)
		one.stop()
		if err := <-one.ended; err != nil {
			t.Fatal(err)
		}
	}
	// Both namespaces are in the first partition.
	one := begin(t, c)
	one.stop()
	if err := <-one.ended; err != nil {
		t.Fatal(err)
	}
	one = begin(t, single)
	one.stop()
	if err := <-one.ended; err != nil {
		t.Fatal(err)
	}
	c.Namespaces = tenants
	one = begin(t, c)
	one.stop()
	if err := <-one.ended; err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{tenants, tenants[:1], nil} {
		single.Namespaces = names
		err := Serve(context.Background(), single, new(strings.Builder), new(strings.Builder))
		if refused, ok := errors.AsType[*DatabaseError](err); !ok || refused.Reason != preflight.SchemaShared || !strings.Contains(err.Error(), "3 partitions") {
			t.Errorf("with %v: %v", names, err)
		}
	}
}

// TestSchedulesOfPartitions: each partition has the schedules of its namespaces, and no others.
func TestSchedulesOfPartitions(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces = []string{packFile}, tenants
	var lines []string
	for _, namespace := range append([]string{"default"}, tenants...) {
		lines = append(lines, fmt.Sprintf("of-%s: {cron: \"0 0 1 1 *\", namespace: %s, pack: self-correcting}", namespace, namespace))
	}
	c.Schedules = writeFile(t, "schedules.yaml", strings.Join(lines, "\n"))
	var log strings.Builder
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, c, in, &log) }()
	var ready Ready
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, ready.GRPC)
	for _, namespace := range tenants {
		ownerOf(t, conn, namespace)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if said := strings.Count(log.String(), "its pack is not registered"); said != len(tenants) || strings.Contains(log.String(), "applying configured schedules failed") {
		t.Errorf("%d schedules have no pack, want %d:\n%s", said, len(tenants), log.String())
	}
}

// TestWhatIsOfAllPartitions: figures, checks, limits and backups are those of all partitions of a
// store that two sidecars share, at either sidecar.
func TestWhatIsOfAllPartitions(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces = []string{packFile}, tenants
	c.CallLimits = writeFile(t, "limits.yaml", "limits:\n  - {id: all, key: \"model\", concurrent: 3}\n")
	nodes := []*runningSidecar{begin(t, c), begin(t, c)}
	content, err := os.ReadFile(packFile)
	if err != nil {
		t.Fatal(err)
	}
	awaitSpread(t, nodes[0], 2)
	awaitSpread(t, nodes[1], 2)
	for i, namespace := range tenants {
		conn := dial(t, nodes[i%2].ready.GRPC)
		if _, err := pawlv1.NewPackServiceClient(conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Namespace: namespace, Content: content}); err != nil {
			t.Fatal(err)
		}
		for range i + 1 {
			if _, err := pawlv1.NewRunServiceClient(conn).StartRun(t.Context(), &pawlv1.StartRunRequest{
				Namespace: namespace, Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER,
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, at := range nodes {
		conn := dial(t, at.ready.GRPC)
		store := pawlv1.NewStoreServiceClient(conn)
		stats, err := store.GetStoreStats(t.Context(), &pawlv1.GetStoreStatsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, space := range stats.GetStats().GetNamespaces() {
			got = append(got, fmt.Sprintf("%d %s %d", space.GetPartition(), space.GetName(), space.GetRecords()))
		}
		if want := "0 default 0, 1 blue 1, 2 green 2, 3 red 3"; strings.Join(got, ", ") != want {
			t.Errorf("node %d counts %v, want %s", i, got, want)
		}
		if counts := checkedAt(t, store); counts.GetRuns() != 6 || counts.GetPacks() != 4 {
			t.Errorf("node %d checks %v", i, counts)
		}
		limits, err := pawlv1.NewControlServiceClient(conn).ListLimits(t.Context(), &pawlv1.ListLimitsRequest{})
		if err != nil || len(limits.GetLimits()) != 1 {
			t.Errorf("node %d has the limits %v, %v", i, limits, err)
		}
		caller, err := pawlv1.NewRunServiceClient(conn).GetCaller(t.Context(), &pawlv1.GetCallerRequest{})
		if names := caller.GetNamespaces(); err != nil || strings.Join(names, " ") != "default blue green red" {
			t.Errorf("node %d has the namespaces %v, %v", i, names, err)
		}
		_, err = pawlv1.NewRunServiceClient(conn).ListRuns(t.Context(), &pawlv1.ListRunsRequest{Namespace: "gold"})
		if err == nil || !strings.Contains(err.Error(), "NAMESPACE_NOT_FOUND") {
			t.Errorf("node %d: %v", i, err)
		}
		listsPartitions(t, store, at, nodes)
	}
}

// checkedAt returns the counts of a check, which must find no fault.
func checkedAt(t *testing.T, store pawlv1.StoreServiceClient) *pawlv1.CheckCounts {
	t.Helper()
	stream, err := store.CheckStore(t.Context(), &pawlv1.CheckStoreRequest{})
	for err == nil {
		var got *pawlv1.CheckStoreResponse
		if got, err = stream.Recv(); got.GetDone() != nil {
			return got.GetDone()
		}
	}
	t.Fatal(err)
	return nil
}

// listsPartitions checks that each partition has its owner and gives a backup of its own, and that
// an unknown partition gives none.
func listsPartitions(t *testing.T, store pawlv1.StoreServiceClient, at *runningSidecar, nodes []*runningSidecar) {
	t.Helper()
	all, err := store.ListPartitions(t.Context(), &pawlv1.ListPartitionsRequest{})
	if err != nil || len(all.GetPartitions()) != 4 {
		t.Fatal(all, err)
	}
	here := 0
	for i, one := range all.GetPartitions() {
		if one.GetNumber() != uint32(i) || len(one.GetNamespaces()) != 1 || one.GetOwner() != nodes[0].ready.Peer && one.GetOwner() != nodes[1].ready.Peer || one.GetHere() != (one.GetOwner() == at.ready.Peer) {
			t.Errorf("partition %v", one)
		}
		if one.GetHere() {
			here++
		}
		stream, err := store.Backup(t.Context(), &pawlv1.BackupRequest{Partition: one.GetNumber()})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := stream.Recv(); err != nil || len(first.GetData()) == 0 {
			t.Errorf("backup of partition %d: %v", i, err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("backup of partition %d: %v", i, err)
		}
	}
	if here != 2 {
		t.Errorf("%d partitions are here", here)
	}
	stream, err := store.Backup(t.Context(), &pawlv1.BackupRequest{Partition: 9})
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil || !strings.Contains(err.Error(), "PARTITION_NOT_FOUND") {
		t.Errorf("a backup of what there is not: %v", err)
	}
}

// TestWhoSleptAsksWhereNamespacesAre: a node without a partition notices that namespaces were
// spread, too. It reads their placement after a gap in its heartbeats.
func TestWhoSleptAsksWhereNamespacesAre(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Namespaces = tenants
	begin(t, c)
	via, err := pg.Connect(t.Context(), pg.Config{URL: c.Store, Schema: c.StoreSchema, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer via.Close()
	spread, reads := errors.New("namespaces were spread"), 0
	rows := &nodeRegistry{Membership: members.Open(members.Config{Pool: via, RenewedEpochs: new(members.Epochs)}), checkPlacement: func(placed map[string]int32, err error) error {
		reads++
		if err != nil || placed["default"] != 0 || len(placed) < len(tenants) {
			t.Errorf("namespaces are in %v, %v", placed, err)
		}
		return spread
	}}
	defer rows.Membership.Close()
	me := membership.Member{ID: "sleeper", Address: "127.0.0.1:1"}
	if _, err := rows.Heartbeat(t.Context(), me); err != nil || reads > 0 {
		t.Fatalf("a first beat asks %d times: %v", reads, err)
	}
	if _, err := rows.Heartbeat(t.Context(), me); err != nil || reads > 0 {
		t.Fatalf("a beat in time asks %d times: %v", reads, err)
	}
	rows.last = rows.last.Add(-2 * lease)
	for range 2 { // until it is answered
		if _, err := rows.Heartbeat(t.Context(), me); !errors.Is(err, spread) {
			t.Fatalf("behind a gap: %v", err)
		}
	}
}

// TestASidecarThatSleptThroughASpread: a sidecar ends instead of serving a namespace that has
// moved to another partition.
func TestASidecarThatSleptThroughASpread(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Namespaces = tenants[:1]
	one := begin(t, c)
	server := pgserver.Shared(t)
	server.Query(t, "postgres", "UPDATE "+c.StoreSchema+".namespace SET part = 7 WHERE name = 'blue'")
	// Another node has the lease for a moment, so the sidecar opens the partition again.
	server.Query(t, "postgres", "UPDATE "+c.StoreSchema+".part SET epoch = epoch + 1, owner = '', lease_until = '-infinity' WHERE id = 1")
	err := <-one.ended
	if err == nil || !strings.Contains(err.Error(), `namespace "blue" is in partition 7 now, it was in 1`) {
		t.Errorf("it ended with %v", err)
	}
}
