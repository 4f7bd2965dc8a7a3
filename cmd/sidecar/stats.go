package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newStats(p *output.Printer) *cobra.Command {
	var data server.Data
	c := &client{}
	cmd := &cobra.Command{
		Use:   "stats [--addr ADDR | --data DIR | --store URL]",
		Short: "Show the contents and the size of a store",
		Long: `Counts the contents of the store of a running sidecar, or with --data or --store of one that no sidecar
has open: runs by status, records, blobs, consumers, webhooks, dead letters and deleted runs of each
namespace, and the rows of each kind with the bytes of their keys and values before compression. With
--store the figures are over all partitions. The command reads every key, uses at most about half a
core and needs the scope store:read.

Exit codes: 0 done; 1 the store is damaged, or the sidecar refused; 2 the store cannot be opened or
reached.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := exclusive(cmd, "data", "store", "addr"); err != nil {
				return err
			}
			stats, err := statsOf(cmd.Context(), c, data)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(err)
			}
			if err != nil {
				return err
			}
			return printStats(p, stats)
		},
	}
	dataOrTarget(cmd, &data, c)
	return cmd
}

func statsOf(ctx context.Context, c *client, data server.Data) (stats *pawlv1.StoreStats, err error) {
	if data.IsSet() {
		return server.StatsOf(ctx, data)
	}
	err = c.Store(func(store pawlv1.StoreServiceClient) error {
		got, err := store.GetStoreStats(ctx, &pawlv1.GetStoreStatsRequest{})
		stats = got.GetStats()
		return err
	})
	return stats, err
}

func printStats(p *output.Printer, s *pawlv1.StoreStats) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(s))
	}
	p.Printf("on disk: tree %d bytes, value log %d bytes\n", s.GetTreeBytes(), s.GetValueLogBytes())
	for _, space := range s.GetNamespaces() {
		name := space.GetName()
		if name == "" {
			name = "number " + fmt.Sprint(space.GetNumber())
		}
		p.Printf("\n%s%s: records %d, commits %d, deleted runs %d, blobs %d, consumers %d, webhooks %d, push configurations %d, dead letters %d\n",
			ofPart(int32(space.GetPartition())), name, space.GetRecords(), space.GetEntries(), space.GetDeletedRuns(), space.GetBlobs(),
			space.GetConsumers(), space.GetWebhooks(), space.GetPushConfigs(), space.GetDeadLetters())
		p.Printf("runs: %s\n", runsOf(space))
		printRows(p, space.GetRows())
	}
	p.Printf("\nof no namespace\n")
	printRows(p, s.GetShared())
	return nil
}

// runsOf returns the number of runs of a namespace for each status. It leaves out zeros.
func runsOf(space *pawlv1.NamespaceStats) string {
	var words []string
	for _, count := range space.GetRuns() {
		if count.GetRuns() > 0 {
			words = append(words, fmt.Sprintf("%s %d", strings.TrimPrefix(count.GetStatus().String(), "RUN_STATUS_"), count.GetRuns()))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ") + "; started from " + moment(space.GetOldestRun()) + " to " + moment(space.GetNewestRun())
}

func printRows(p *output.Printer, rows []*pawlv1.RowStats) {
	t := output.Table{Headers: []string{"ROWS", "COUNT", "KEY BYTES", "VALUE BYTES"}}
	for _, r := range rows {
		t.Add(r.GetKind(), fmt.Sprint(r.GetRows()), fmt.Sprint(r.GetKeyBytes()), fmt.Sprint(r.GetValueBytes()))
	}
	p.Table(t)
}
