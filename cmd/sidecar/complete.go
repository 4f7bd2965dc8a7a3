package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// completionWait bounds the time that the shell waits for an answer of the sidecar.
const completionWait = 2 * time.Second

// completed bounds the number of runs or pack versions for which a shell completion offers words.
const completed = 50

// completeWords returns the words that the shell can offer for an argument. If it returns an error, the shell offers
// none.
type completeWords func(ctx context.Context, conn *grpc.ClientConn, args []string, begun string) ([]string, error)

// CompleteArgs lets the shell complete the arguments of a command. The n-th function returns the words for the n-th argument.
func (c *client) CompleteArgs(cmd *cobra.Command, by ...completeWords) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd, by[len(args)], args, begun)
	}
}

// CompleteFlag lets the shell complete a flag with words from the sidecar.
func (c *client) CompleteFlag(cmd *cobra.Command, flag string, by completeWords) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return c.complete(cmd, by, args, begun)
	})
	if err != nil {
		panic(err)
	}
}

func (c *client) complete(cmd *cobra.Command, by completeWords, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	var found []string
	err := c.With(func(conn *grpc.ClientConn) (err error) {
		found, err = by(ctx, conn, args, begun)
		return err
	})
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// RunWords returns the ids of the newest runs. If begun is the beginning of an id, it returns only ids that begin with
// it. The description of each contains its pack, status and state.
func (c *client) RunWords(ctx context.Context, conn *grpc.ClientConn, _ []string, begun string) ([]string, error) {
	req := &pawlv1.ListRunsRequest{Namespace: c.Namespace, PageSize: completed, Filter: &pawlv1.RunFilter{}}
	if idPrefix.MatchString(begun) {
		req.Filter.RunIdPrefix = begun
	}
	page, err := pawlv1.NewRunServiceClient(conn).ListRuns(ctx, req)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, run := range page.GetRuns() {
		text := run.GetPack().GetId() + " " + output.Bare("RunStatus", run.GetStatus().String()) + " " + run.GetState()
		out = append(out, cobra.CompletionWithDesc(run.GetRunId(), text))
	}
	return out, nil
}

// PackWords returns id@version of the registered packs, and also the id alone of each default version.
func (c *client) PackWords(ctx context.Context, conn *grpc.ClientConn, _ []string, _ string) ([]string, error) {
	page, err := pawlv1.NewPackServiceClient(conn).ListPacks(ctx, &pawlv1.ListPacksRequest{Namespace: c.Namespace, PageSize: completed})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, pack := range page.GetPacks() {
		if pack.GetIsDefault() {
			out = append(out, cobra.CompletionWithDesc(pack.GetId(), pack.GetName()))
		}
		out = append(out, cobra.CompletionWithDesc(pack.GetId()+"@"+pack.GetVersion(), pack.GetName()))
	}
	return out, nil
}

// EventWords returns the events that the current state of the run in the first argument declares.
func (c *client) EventWords(ctx context.Context, conn *grpc.ClientConn, args []string, _ string) ([]string, error) {
	got, err := pawlv1.NewRunServiceClient(conn).GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.Namespace, RunId: args[0]})
	if err != nil {
		return nil, err
	}
	return got.GetRun().GetAllowedEvents(), nil
}
