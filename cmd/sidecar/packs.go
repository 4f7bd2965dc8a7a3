package main

import (
	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newPacks(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := group("packs", "List, register, show, compare and format packs",
		newPacksDiff(p, c), newPacksFmt(p), newPacksList(p, c), newPacksRegister(p, c), newPacksShow(p, c),
	)
	cmd.Aliases = []string{"pack"}
	c.Bind(cmd)
	return cmd
}

func newPacksList(p *output.Printer, c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List registered packs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.Packs(func(packs pawlv1.PackServiceClient) error {
				found, err := listPacks(cmd, packs, c.Namespace)
				if err != nil {
					return err
				}
				return printPacks(p, found)
			})
		},
	}
}

func listPacks(cmd *cobra.Command, packs pawlv1.PackServiceClient, ns string) ([]*pawlv1.Pack, error) {
	var all []*pawlv1.Pack
	req := &pawlv1.ListPacksRequest{Namespace: ns, PageSize: maxPage}
	for {
		page, err := packs.ListPacks(cmd.Context(), req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetPacks()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

func printPacks(p *output.Printer, packs []*pawlv1.Pack) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "packs", Value: output.Messages(packs)}})
	}
	t := output.Table{Headers: []string{"PACK", "DEFAULT", "ENTRY", "AGENTS", "BYTES", "REGISTERED", "DIGEST"}}
	for _, pk := range packs {
		isDefault := ""
		if pk.GetIsDefault() {
			isDefault = "yes"
		}
		t.Add(pk.GetId()+"@"+pk.GetVersion(), isDefault, pk.GetEntry(), itoa(len(pk.GetAgents())),
			itoa(pk.GetSizeBytes()), moment(pk.GetRegisteredAt()), pk.GetDigest())
	}
	p.Table(t)
	return nil
}
