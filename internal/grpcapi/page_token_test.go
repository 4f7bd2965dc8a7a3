package grpcapi

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
)

// TestPageTokensBelongToTheirList: a token is refused by any list but the one
// that gave it, and no bytes pass for one.
func TestPageTokensBelongToTheirList(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	for range 2 {
		r.start(ctx)
	}
	byState := &pawlv1.RunFilter{State: "work"}
	page, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: byState, PageSize: 1})
	if err != nil || page.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", page, err)
	}
	token := page.GetNextPageToken()
	next, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: byState, PageSize: 2, PageToken: token})
	if err != nil || len(next.GetRuns()) != 2 || next.GetRuns()[1].GetRunId() != turn.GetRunId() {
		t.Fatalf("next page of another size: %v, %v", next, err)
	}
	for _, bad := range []string{"zz", "x", "!!", "0", turn.GetRunId(), token[1:], token + "AAAA", strings.ToUpper(token)} {
		_, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: byState, PageToken: bad})
		wantError(t, err, codes.InvalidArgument, "BAD_PAGE_TOKEN")
		_, err = r.packs.ListPacks(ctx, &pawlv1.ListPacksRequest{PageToken: bad})
		wantError(t, err, codes.InvalidArgument, "BAD_PAGE_TOKEN")
		_, err = r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), PageToken: bad})
		wantError(t, err, codes.InvalidArgument, "BAD_PAGE_TOKEN")
	}
	for _, other := range []*pawlv1.ListRunsRequest{{}, {Filter: byState, Order: pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST}} {
		other.PageToken = token
		_, err := r.runs.ListRuns(ctx, other)
		wantError(t, err, codes.InvalidArgument, "BAD_PAGE_TOKEN")
	}
}

// TestEveryPackIsOnOnePage: pages of packs with the longest names fit a token.
func TestEveryPackIsOnOnePage(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	long := strings.Repeat("a", 100)
	for _, id := range []string{"one", long, "two"} {
		doc := strings.Replace(string(loopPack), `"id": "loop"`, `"id": "`+id+`"`, 1)
		if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(doc)}); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for token := ""; ; {
		page, err := r.packs.ListPacks(ctx, &pawlv1.ListPacksRequest{PageSize: 1, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.GetPacks() {
			ids = append(ids, p.GetId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(ids) != 3 || ids[0] != long {
		t.Fatalf("packs %q", ids)
	}
}

// TestPagesFitAClient: a page of large records or runs is short, and the next
// one goes on behind it.
func TestPagesFitAClient(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	run, value := turn.GetRunId(), strings.Repeat("x", 60<<10)
	for range 40 {
		turn = r.emit(ctx, turn, "Again", text("note", value)).GetTurn()
	}
	var seqs []uint64
	pages := 0
	for token := ""; ; pages++ {
		page, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if n := proto.Size(page); n > convert.MaxPageBytes+256 {
			t.Fatalf("a page of %d bytes", n)
		}
		for _, record := range page.GetRecords() {
			seqs = append(seqs, record.GetSeq())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(seqs) != 41 || seqs[40] != 41 || pages < 2 {
		t.Fatalf("%d pages with records %v", pages+1, seqs)
	}
	labels := map[string]string{}
	for i := range 64 {
		labels[fmt.Sprintf("l%d", i)] = value[:256]
	}
	for range 80 {
		req := startRequest()
		req.Labels = labels
		if _, err := r.runs.StartRun(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for token := ""; ; {
		page, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{PageSize: 1000, PageToken: token})
		if err != nil || proto.Size(page) > convert.MaxPageBytes+256 {
			t.Fatalf("a page of %d bytes, %v", proto.Size(page), err)
		}
		for _, run := range page.GetRuns() {
			seen[run.GetRunId()] = true
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(seen) != 81 {
		t.Fatalf("%d runs", len(seen))
	}
}
