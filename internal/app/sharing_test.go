package app

import (
	"path/filepath"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/pgurl"
	"github.com/pawl-dev/pawl/internal/testkit/endpoint"
	"github.com/pawl-dev/pawl/internal/testkit/pg"
)

// sharing settings have a store that several sidecars can share.
func sharedSettings(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Listen, c.PeerListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Store, c.StoreSchema, c.AcceptLossOnFailover = pgurl.Of(pg.Shared(t).URL("postgres")), pg.Schema(t.TempDir()), true
	return c
}

// TestSeveralExecute: the sidecars that ask models do it together for whoever has the store, and
// go on when that leaves.
func TestSeveralExecute(t *testing.T) {
	t.Parallel()
	model := endpoint.New(t, func(int, endpoint.Asked) endpoint.Answer { return endpoint.Answer{Text: "Word."} })
	c := sharedSettings(t)
	c.Models, c.Packs = []string{"gpt=" + model.URL}, []string{writeFile(t, "word.json", modelPack)}
	nodes := []*serving{begin(t, c), begin(t, c), begin(t, c)}
	for len(nodes) > 0 {
		last := nodes[len(nodes)-1]
		work, runs := pawlv1.NewWorkerServiceClient(dial(t, last.ready.GRPC)), pawlv1.NewRunServiceClient(dial(t, last.ready.GRPC))
		for {
			got, err := work.ListWorkers(t.Context(), &pawlv1.ListWorkersRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.GetWorkers()) == len(nodes) && strings.HasPrefix(got.GetWorkers()[0].GetWorkerId(), "sidecar@") {
				break
			}
		}
		for range 8 {
			got, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "word", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
			if err != nil {
				t.Fatal(err)
			}
			ended, err := runs.WaitRun(t.Context(), &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
			if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Fatal(ended, err)
			}
		}
		// The one that came first has the store.
		nodes[0].stop()
		if err := <-nodes[0].ended; err != nil {
			t.Error(err)
		}
		nodes = nodes[1:]
	}
}

// TestOneOfSeveralRefuses: what would keep a sidecar from having the store keeps it from starting,
// whether or not another one has it.
func TestOneOfSeveralRefuses(t *testing.T) {
	t.Parallel()
	whole := sharedSettings(t)
	owner := begin(t, whole)
	missing := filepath.Join(t.TempDir(), "missing")
	for want, fault := range map[string]func(*config.Config){
		"schedules":    func(c *config.Config) { c.Schedules = missing },
		"budgets":      func(c *config.Config) { c.Budgets = missing },
		"prices":       func(c *config.Config) { c.Prices = missing },
		"models":       func(c *config.Config) { c.ModelsFile = missing },
		"quotas":       func(c *config.Config) { c.QuotasFile = missing },
		"call limits":  func(c *config.Config) { c.CallLimits = missing },
		"card key":     func(c *config.Config) { c.A2ACardKey = missing },
		"pack":         func(c *config.Config) { c.Packs = []string{missing} },
		"faulty pack":  func(c *config.Config) { c.Packs = []string{writeFile(t, "p.json", `{"id": 1}`)} },
		"peer address": func(c *config.Config) { c.PeerListen = owner.ready.Peer },
	} {
		c := whole
		fault(&c)
		if err := Serve(t.Context(), c, new(strings.Builder), new(strings.Builder)); err == nil {
			t.Errorf("%s: it serves", want)
		}
	}
	owner.stop()
	if err := <-owner.ended; err != nil {
		t.Error(err)
	}
}
