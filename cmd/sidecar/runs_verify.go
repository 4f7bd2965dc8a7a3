package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/server"
)

func newRunsVerify(p *output.Printer, c *client) *cobra.Command {
	var data server.Data
	cmd := &cobra.Command{
		Use:   "verify RUN | verify FILE | verify --data DIR [RUN] | verify --store URL [RUN]",
		Short: "Check a run's journal by a replay of its inputs",
		Long: `Replays the inputs of a run through the state machine, compares every stored byte and checks the hash
chain. It executes nothing. The run is in a sidecar or in an exported file. With --data or --store the
command checks one run or all runs of a data directory or a database that no sidecar has open, in all its
partitions.

Exit codes: 0 in order; 1 a fault was found, with its first bad seq; 2 the store cannot be read.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := exclusive(cmd, "data", "store"); err != nil {
				return err
			}
			found, err := verify(cmd.Context(), c, data, args)
			switch {
			case errors.Is(err, server.ErrUnusable):
				return output.Usage(err)
			case err != nil:
				return err
			}
			return printVerified(p, found, data.IsSet())
		},
	}
	dataFlag(cmd, &data, "data directory that no sidecar has open")
	storeFlag(cmd, &data)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

func verify(ctx context.Context, c *client, data server.Data, args []string) ([]server.Verified, error) {
	switch {
	case data.IsSet():
		return server.VerifyData(ctx, data, first(args))
	case len(args) == 0:
		return nil, output.Usage(errors.New("name a run or a file, or a directory with --data, or a database with --store"))
	}
	if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
		found, err := server.VerifyFile(args[0])
		return []server.Verified{found}, err
	}
	var found []server.Verified
	err := c.Runs(func(runs pawlv1.RunServiceClient) error {
		got, err := runs.VerifyRun(ctx, &pawlv1.VerifyRunRequest{Namespace: c.Namespace, RunId: args[0]})
		if err != nil {
			return err
		}
		proof := machine.Proof{Entries: got.GetEntries(), Records: got.GetRecords(), BadSeq: got.GetBadSeq(), Detail: got.GetDetail()}
		copy(proof.Hash[:], got.GetHash())
		found = append(found, server.Verified{RunID: args[0], Proof: proof})
		return nil
	})
	return found, err
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// printVerified prints the result of each run. stored means that the runs were read from a data directory or a database:
// JSON output then contains the partition. If there is a fault, the exit code is 1.
func printVerified(p *output.Printer, found []server.Verified, stored bool) error {
	bad := false
	list := []any{}
	for _, v := range found {
		bad = bad || !v.OK()
		hash := hex.EncodeToString(v.Hash[:])
		line := output.Object{
			{Key: "run_id", Value: v.RunID}, {Key: "ok", Value: v.OK()}, {Key: "entries", Value: v.Entries}, {Key: "records", Value: v.Records},
			{Key: "hash", Value: hash}, {Key: "bad_seq", Value: v.BadSeq}, {Key: "detail", Value: v.Detail},
		}
		if stored {
			line = append(line, output.Object{{Key: "partition", Value: v.Part}}...)
		}
		list = append(list, line)
		if p.JSON {
			continue
		}
		if v.OK() {
			p.Printf("%s %s%s: %d records in %d commits, chain %s\n", p.Good("in order"), ofPart(v.Part), v.RunID, v.Records, v.Entries, hash)
		} else {
			p.Printf("%s %s%s: record %d: %s\n", p.Bad("fault"), ofPart(v.Part), v.RunID, v.BadSeq, v.Detail)
		}
	}
	var err error
	if p.JSON {
		err = output.WriteJSON(p.Out, output.Object{{Key: "ok", Value: !bad}, {Key: "runs", Value: list}})
	} else if len(found) == 0 {
		p.Printf("there are no runs\n")
	}
	if bad {
		return errors.Join(err, output.Fault())
	}
	return err
}

// checkChoice returns an error if the value of a flag is not one of the choices.
func checkChoice(flag, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return output.Usage(fmt.Errorf("--%s %q is none of %v", flag, value, choices))
}
