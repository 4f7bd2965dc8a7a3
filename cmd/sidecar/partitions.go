package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// newPartitions returns the command that lists partitions, with the given subcommands.
func newPartitions(p *output.Printer, children ...*cobra.Command) *cobra.Command {
	c := &client{}
	cmd := &cobra.Command{
		Use:   "partitions",
		Short: "List the partitions of a store with owner and namespaces, or split a store into partitions",
		Long: `Lists the partitions of the store: the namespaces that the sidecar at --addr serves in each, and the
peer address of the owner, "(here)" for this sidecar itself. A sidecar without a cluster
owns the only partition. Needs the scope store:read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.Store(func(store pawlv1.StoreServiceClient) error {
				got, err := store.ListPartitions(cmd.Context(), &pawlv1.ListPartitionsRequest{})
				if err != nil {
					return err
				}
				return showPartitions(p, got.GetPartitions())
			})
		},
	}
	c.BindTarget(cmd)
	cmd.AddCommand(children...)
	return cmd
}

func showPartitions(p *output.Printer, all []*pawlv1.Partition) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "partitions", Value: output.Messages(all)}})
	}
	t := output.Table{Headers: []string{"PARTITION", "OWNER", "NAMESPACES"}}
	for _, one := range all {
		t.Add(fmt.Sprint(one.GetNumber()), ownerOf(one), strings.Join(one.GetNamespaces(), " "))
	}
	p.Table(t)
	return nil
}

// ownerOf describes the owner of a partition.
func ownerOf(one *pawlv1.Partition) string {
	switch {
	case one.GetHere():
		return strings.TrimSpace(one.GetOwner() + " (here)")
	case one.GetOwner() == "":
		return "none"
	}
	return one.GetOwner()
}
