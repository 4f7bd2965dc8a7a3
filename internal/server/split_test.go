package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// resident is what one namespace has, and the positions of its readers.
type resident struct {
	namespace          string
	open, ended        string
	digest, blob       string
	cursor, newestRun  string
	olderRuns, waiting []string
}

// clientsAt are the clients of one node.
type clientsAt struct {
	runs  pawlv1.RunServiceClient
	packs pawlv1.PackServiceClient
	hooks pawlv1.DeliveryServiceClient
}

func clientsOf(conn *grpc.ClientConn) clientsAt {
	return clientsAt{runs: pawlv1.NewRunServiceClient(conn), packs: pawlv1.NewPackServiceClient(conn), hooks: pawlv1.NewDeliveryServiceClient(conn)}
}

// settle makes some of everything in a namespace: runs that are open, ended and deleted, a blob, a
// webhook, a consumer in the middle of the records.
func (x clientsAt) settle(t *testing.T, namespace string) (r resident) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", namespace, err)
		}
	}
	r.namespace = namespace
	own := strings.NewReplacer("Lead.", "Of "+namespace+".", `"id": "team"`, `"id": "own"`).Replace(teamPack)
	for _, content := range []string{teamPack, own} {
		pack, err := x.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Namespace: namespace, Content: []byte(content)})
		must(err)
		r.digest = pack.GetPack().GetDigest()
	}
	begin := func(id string) *pawlv1.StartRunResponse {
		run, err := x.runs.StartRun(ctx, &pawlv1.StartRunRequest{Namespace: namespace, Pack: "own", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: id, Labels: map[string]string{"of": namespace}})
		must(err)
		return run
	}
	r.open = begin("the same").GetRun().GetRunId()
	for _, id := range []string{"ended", "deleted"} {
		run := begin(id)
		r.ended = cmp.Or(r.ended, run.GetRun().GetRunId())
		_, err := x.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{Namespace: namespace, RunId: run.GetRun().GetRunId(), Event: "Done", EventId: id, TurnToken: run.GetTurn().GetToken()})
		must(err)
		if id == "deleted" {
			_, err = x.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{Namespace: namespace, RunId: run.GetRun().GetRunId()})
			must(err)
			_, err = x.runs.DeleteRun(ctx, &pawlv1.DeleteRunRequest{Namespace: namespace, RunId: run.GetRun().GetRunId()})
			must(err)
		}
	}
	words := strings.Repeat(namespace, 100_000)
	for _, last := range []bool{true, false} {
		put, err := x.runs.PutBlob(ctx)
		must(err)
		must(put.Send(&pawlv1.PutBlobRequest{Namespace: namespace, UploadId: fmt.Sprint("whole ", last), MediaType: "text/plain", Data: []byte(words), Last: last}))
		_, err = put.CloseAndRecv()
		must(err)
	}
	sum := sha256.Sum256([]byte(words))
	r.blob = "blob:sha256:" + hex.EncodeToString(sum[:])
	_, err := x.hooks.PutWebhook(ctx, &pawlv1.PutWebhookRequest{Namespace: namespace, WebhookId: "hook", Url: "https://hook.invalid/" + namespace, Secret: hookSecret()})
	must(err)
	all, cursors := x.read(t, namespace, "", "reader")
	r.cursor, r.newestRun = cursors[1], cursors[len(cursors)-1]
	_, err = x.hooks.AckConsumer(ctx, &pawlv1.AckConsumerRequest{Namespace: namespace, Consumer: "reader", Cursor: cursors[0]})
	must(err)
	r.olderRuns, r.waiting = all[2:], all[1:]
	return r
}

// read reads the records of a namespace to their end, behind a cursor or behind the position of a consumer.
func (x clientsAt) read(t *testing.T, namespace, cursor, consumer string) (records, cursors []string) {
	t.Helper()
	stream, err := x.runs.StreamTransitions(t.Context(), &pawlv1.StreamTransitionsRequest{Namespace: namespace, AfterCursor: cursor, Consumer: consumer})
	for err == nil {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); err == nil && got.GetRecord() != nil {
			records = append(records, fmt.Sprint(got.GetRecord().GetRunId(), " ", got.GetRecord().GetSeq()))
			cursors = append(cursors, got.GetRecord().GetCursor())
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatalf("%s: %v", namespace, err)
	}
	return records, cursors
}

// checkResident checks that everything is as it was.
func (x clientsAt) checkResident(t *testing.T, r resident) {
	t.Helper()
	ctx := t.Context()
	again, err := x.runs.StartRun(ctx, &pawlv1.StartRunRequest{Namespace: r.namespace, Pack: "own", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "the same", Labels: map[string]string{"of": r.namespace}})
	if err != nil || !again.GetDuplicate() || again.GetRun().GetRunId() != r.open {
		t.Errorf("%s: a repeat is %v, %v", r.namespace, again, err)
	}
	if behind, _ := x.read(t, r.namespace, r.cursor, ""); !slices.Equal(behind, r.olderRuns) {
		t.Errorf("%s: behind a cursor there is %v, want %v", r.namespace, behind, r.olderRuns)
	}
	if waiting, _ := x.read(t, r.namespace, "", "reader"); !slices.Equal(waiting, r.waiting) {
		t.Errorf("%s: the consumer has %v, want %v", r.namespace, waiting, r.waiting)
	}
	for _, run := range []string{r.open, r.ended} {
		proof, err := x.runs.VerifyRun(ctx, &pawlv1.VerifyRunRequest{Namespace: r.namespace, RunId: run})
		if err != nil || proof.GetBadSeq() != 0 {
			t.Errorf("%s: %v, %v", r.namespace, proof, err)
		}
	}
	listed, err := x.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Namespace: r.namespace, Filter: &pawlv1.RunFilter{Labels: map[string]string{"of": r.namespace}}})
	if err != nil || len(listed.GetRuns()) != 2 {
		t.Errorf("%s: %v, %v", r.namespace, listed, err)
	}
	if _, err := x.packs.GetPack(ctx, &pawlv1.GetPackRequest{Namespace: r.namespace, Pack: r.digest}); err != nil {
		t.Errorf("%s: %v", r.namespace, err)
	}
	blob, err := x.runs.GetBlob(ctx, &pawlv1.GetBlobRequest{Namespace: r.namespace, BlobRef: r.blob})
	if err == nil {
		_, err = blob.Recv()
	}
	if err != nil {
		t.Errorf("%s: %v", r.namespace, err)
	}
	hooks, err := x.hooks.ListWebhooks(ctx, &pawlv1.ListWebhooksRequest{Namespace: r.namespace})
	if err != nil || len(hooks.GetWebhooks()) != 1 {
		t.Errorf("%s: %v, %v", r.namespace, hooks, err)
	}
}

// goesOn ends the open run. A reader that resumes behind the newest cursor receives the end.
func (x clientsAt) goesOn(t *testing.T, r resident) {
	t.Helper()
	turn, err := x.runs.GetTurn(t.Context(), &pawlv1.GetTurnRequest{Namespace: r.namespace, RunId: r.open})
	if err != nil {
		t.Fatalf("%s: %v", r.namespace, err)
	}
	if _, err := x.runs.EmitEvent(t.Context(), &pawlv1.EmitEventRequest{Namespace: r.namespace, RunId: r.open, Event: "Done", TurnToken: turn.GetTurn().GetToken()}); err != nil {
		t.Errorf("%s: %v", r.namespace, err)
	}
	if news, _ := x.read(t, r.namespace, r.newestRun, ""); len(news) == 0 || !strings.HasPrefix(news[0], r.open) {
		t.Errorf("%s: behind the newest cursor of before there is %v", r.namespace, news)
	}
}

// newStandaloneStore makes a store that a sidecar alone kept in partition 0, and returns what its
// namespaces have. A run of the first tenant was imported into the second one.
func newStandaloneStore(t *testing.T, c config.Config) (residents []resident) {
	t.Helper()
	c.PeerListen = ""
	one := begin(t, c)
	at := clientsOf(dial(t, one.ready.GRPC))
	for _, namespace := range append([]string{"default"}, tenants...) {
		residents = append(residents, at.settle(t, namespace))
	}
	file, err := at.runs.ExportRun(t.Context(), &pawlv1.ExportRunRequest{Namespace: tenants[0], RunId: residents[1].ended})
	if err != nil {
		t.Fatal(err)
	}
	var moved bytes.Buffer
	for piece, err := file.Recv(); !errors.Is(err, io.EOF); piece, err = file.Recv() {
		if err != nil {
			t.Fatal(err)
		}
		moved.Write(piece.GetData())
	}
	in, err := at.runs.ImportRun(t.Context())
	if err == nil {
		err = in.Send(&pawlv1.ImportRunRequest{Namespace: tenants[1], Data: moved.Bytes()})
	}
	if err == nil {
		_, err = in.CloseAndRecv()
	}
	if err != nil {
		t.Fatal(err)
	}
	end(t, one)
	return residents
}

func end(t *testing.T, s *runningSidecar) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// rowsOf is a sum of everything in the tables of a schema, except which process has it.
func rowsOf(t *testing.T, c config.Config) string {
	t.Helper()
	var sums []string
	for table, columns := range map[string]string{"hot": "part, k, v, g", "cold": "part, k, v, g", "run_keys": "part, page, bytes", "namespace": "name, part", "part": "id, commit_no, format"} {
		sums = append(sums, pgserver.Shared(t).Query(t, "postgres", fmt.Sprintf("SELECT '%[3]s' || count(*) || coalesce(md5(string_agg(md5(r::text), '' ORDER BY r::text)), '') FROM (SELECT %[1]s FROM %[2]s.%[3]s) r", columns, c.StoreSchema, table)))
	}
	slices.Sort(sums)
	return strings.Join(sums, "\n")
}

// TestSpreadGivesEachNamespaceItsPartition: several sidecars serve what a sidecar alone kept in
// partition 0, each a part of it. Readers and runs in progress continue where they were.
func TestSpreadGivesEachNamespaceItsPartition(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces, c.A2A = []string{packFile}, tenants, false
	residents := newStandaloneStore(t, c)
	location := databaseOf(c)
	before, err := Check(t.Context(), Data{Database: location})
	if err != nil || before.Runs != 9 || before.Deleted != 4 || before.Timers == 0 || before.Packs != 9 {
		t.Fatalf("%+v, %v", before, err)
	}
	want := map[string]int32{"blue": 1, "green": 2, "red": 3}
	done, err := SplitPartitions(t.Context(), location, func(string) {})
	if err != nil || !maps.Equal(done.Placements, want) || done.Report != before {
		t.Fatalf("%+v, %v; before %+v", done, err, before)
	}
	rows := rowsOf(t, c)
	if again, err := SplitPartitions(t.Context(), location, func(string) { t.Error("it does something") }); err != nil || len(again.Placements) > 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if rowsOf(t, c) != rows {
		t.Error("the second call changed something")
	}
	alone := c
	alone.PeerListen = ""
	if err := Serve(context.Background(), alone, io.Discard, io.Discard); reasonOf(err) != preflight.SchemaShared {
		t.Errorf("one alone: %v", err)
	}
	first := begin(t, c)
	second := begin(t, c)
	awaitSpread(t, first, 2)
	awaitSpread(t, second, 2)
	for _, node := range []*runningSidecar{first, second} {
		for _, r := range residents {
			clientsOf(dial(t, node.ready.GRPC)).checkResident(t, r)
		}
	}
	for i, r := range residents {
		clientsOf(dial(t, []*runningSidecar{first, second}[i%2].ready.GRPC)).goesOn(t, r)
	}
	end(t, first)
	end(t, second)
	if after, err := Check(t.Context(), Data{Database: location}); err != nil || after.Runs != before.Runs || after.Records <= before.Records {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
}

// TestSpreadBrokenOff: a spread that is killed before its last step has changed nothing. If the
// answer to the last step is lost, everything has moved.
func TestSpreadBrokenOff(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces, c.A2A = []string{packFile}, tenants, false
	newStandaloneStore(t, c)
	location := databaseOf(c)
	before, rows := mustCheck(t, location), rowsOf(t, c)
	between := relay.Start(t, pgserver.Shared(t).Addr())
	relayed := location
	relayed.URL = dsn.Parse(strings.Replace(c.Store.Secret(), pgserver.Shared(t).Addr(), between.Addr(), 1))
	for _, statement := range []string{"IN SHARE ROW EXCLUSIVE MODE", "AS pair SET part", "AND k >= $2 AND k < $3", "AS other SET commit_no", "INTO " + c.StoreSchema + ".namespace"} {
		trap := between.Delay(statement)
		go func() {
			<-trap.Triggered()
			between.Refuse()
		}()
		if done, err := SplitPartitions(t.Context(), relayed, func(string) {}); err == nil || len(done.Placements) > 0 {
			t.Errorf("%s: %+v, %v", statement, done, err)
		}
		between.Accept()
		if after := mustCheck(t, location); after != before || rowsOf(t, c) != rows {
			t.Errorf("%s: %+v, was %+v", statement, after, before)
		}
	}
	last := between.Delay("AS other SET commit_no")
	go func() {
		<-last.Triggered()
		between.LoseAnswer("COMMIT")
		last.Deliver()
	}()
	if _, err := SplitPartitions(t.Context(), relayed, func(string) {}); err == nil {
		t.Error("its last answer was lost")
	}
	if done, err := SplitPartitions(t.Context(), location, func(string) {}); err != nil || len(done.Placements) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if after := mustCheck(t, location); after != before {
		t.Errorf("%+v, was %+v", after, before)
	}
}

func mustCheck(t *testing.T, where Database) CheckReport {
	t.Helper()
	report, err := Check(t.Context(), Data{Database: where})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestSpreadIsRefused: a spread is refused if runs can be erased, if a sidecar has the store,
// and if there is no store.
func TestSpreadIsRefused(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces, c.A2A = []string{packFile}, tenants, false
	if _, err := SplitPartitions(t.Context(), databaseOf(c), func(string) {}); reasonOf(err) != preflight.SchemaNone {
		t.Errorf("no store: %v", err)
	}
	single := c
	single.PeerListen = ""
	one := begin(t, single)
	at := clientsOf(dial(t, one.ready.GRPC))
	if _, err := SplitPartitions(t.Context(), databaseOf(c), func(string) {}); reasonOf(err) != preflight.SchemaOwned || !errors.Is(err, ErrUnusable) {
		t.Errorf("served: %v", err)
	}
	if _, err := at.packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Namespace: "red", Content: []byte(strings.Replace(teamPack, `"engine": {`, `"engine": {"x_pawl": {"erasable": true}, `, 1))}); err != nil {
		t.Fatal(err)
	}
	end(t, one)
	rows, server := rowsOf(t, c), pgserver.Shared(t)
	server.Query(t, "postgres", "INSERT INTO "+c.StoreSchema+".node VALUES ('n', 'elsewhere:1', '', false, now() + interval '1 minute', now())")
	if _, err := SplitPartitions(t.Context(), databaseOf(c), func(string) {}); reasonOf(err) != preflight.SchemaOwned || !strings.Contains(err.Error(), "elsewhere:1") {
		t.Errorf("a node lives: %v", err)
	}
	server.Query(t, "postgres", "DELETE FROM "+c.StoreSchema+".node")
	server.Query(t, "postgres", "INSERT INTO "+c.StoreSchema+".namespace VALUES ('red', 7)")
	if _, err := SplitPartitions(t.Context(), databaseOf(c), func(string) {}); err == nil || !strings.Contains(err.Error(), "in another partition") {
		t.Errorf("a namespace that is elsewhere: %v", err)
	}
	server.Query(t, "postgres", "DELETE FROM "+c.StoreSchema+".namespace")
	if rowsOf(t, c) != rows {
		t.Error("something was changed")
	}
	one = begin(t, single)
	_, err := clientsOf(dial(t, one.ready.GRPC)).runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Namespace: "red", Pack: "team", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	end(t, one)
	if _, err := SplitPartitions(t.Context(), databaseOf(c), func(string) {}); !errors.Is(err, ErrErasable) || !errors.Is(err, ErrUnusable) {
		t.Errorf("runs can be erased: %v", err)
	}
}

// TestApart: a partition that has a store already gets no namespace. The others get
// equal numbers of namespaces.
func TestApart(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, 130)
	for i := range cap(names) {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	placed := map[string]int32{"default": 0, "n000": 0, "other": 5}
	places, err := assignPartitions(names, placed, []int32{0, 2, 5})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int32]int{}
	for _, part := range places {
		counts[part]++
	}
	if places["n000"] != 1 || places["n001"] != 3 || places["n060"] != 63 || places["n061"] != 1 || counts[0]+counts[2]+counts[5] > 0 || len(counts) != 61 {
		t.Errorf("%v", counts)
	}
	full := make([]int32, 0, 64)
	for part := range int32(64) {
		full = append(full, part)
	}
	if _, err := assignPartitions(names, placed, full); !errors.Is(err, ErrUnusable) {
		t.Errorf("%v", err)
	}
}
