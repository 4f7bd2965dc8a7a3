package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newDeliveries(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := group("deliveries", "Show what webhooks, push configurations and consumers are sent; send again, or discard",
		newDeliveriesList(p, c), newDeliveriesConsumers(p, c), newDeliveriesDead(p, c), newDeliveriesResend(p, c), newDeliveriesDiscard(p, c),
	)
	c.Bind(cmd)
	return cmd
}

// deliveries calls do with a client of the delivery service.
func deliveries(c *client, do func(pawlv1.DeliveryServiceClient) error) error {
	return c.With(func(conn *grpc.ClientConn) error { return do(pawlv1.NewDeliveryServiceClient(conn)) })
}

// maxShownError bounds an error in the text output, in characters.
const maxShownError = 200

var errReceiver = errors.New("a receiver is webhook/ID or push/RUN/ID")

// readReceiver parses the name of a receiver on the command line.
func readReceiver(text string) (*pawlv1.DeliveryRef, error) {
	kind, rest, _ := strings.Cut(text, "/")
	ref := &pawlv1.DeliveryRef{Kind: pawlv1.DeliveryKind_DELIVERY_KIND_WEBHOOK, Id: rest}
	if kind == "push" {
		ref.Kind = pawlv1.DeliveryKind_DELIVERY_KIND_PUSH
		ref.RunId, ref.Id, _ = strings.Cut(rest, "/")
	}
	if kind != "push" && kind != "webhook" || ref.GetId() == "" {
		return nil, output.Usage(fmt.Errorf("%q: %w", text, errReceiver))
	}
	return ref, nil
}

// receiverName is the inverse of [readReceiver].
func receiverName(ref *pawlv1.DeliveryRef) string {
	if ref.GetKind() == pawlv1.DeliveryKind_DELIVERY_KIND_PUSH {
		return "push/" + ref.GetRunId() + "/" + ref.GetId()
	}
	return "webhook/" + ref.GetId()
}

func newDeliveriesList(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.ListDeliveriesRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the receivers with the last error of their next event",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req.Namespace, req.PageSize = c.Namespace, maxPage
			return deliveries(c, func(service pawlv1.DeliveryServiceClient) error {
				var all []*pawlv1.Delivery
				for {
					page, err := service.ListDeliveries(cmd.Context(), req)
					if err != nil {
						return err
					}
					all = append(all, page.GetDeliveries()...)
					if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
						return printDeliveries(p, all)
					}
				}
			})
		},
	}
	cmd.Flags().BoolVar(&req.Troubled, "troubled", false, "only receivers with a failed next event or with dead letters")
	return cmd
}

func printDeliveries(p *output.Printer, all []*pawlv1.Delivery) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "deliveries", Value: output.Messages(all)}})
	}
	t := output.Table{Headers: []string{"RECEIVER", "OWNER", "URL", "FAILED", "NEXT TRY", "DEAD", "LAST ERROR"}}
	for _, d := range all {
		t.Add(receiverName(d.GetDeliveryRef()), d.GetOwner(), d.GetUrl(), itoa(d.GetAttempts()), moment(d.GetNextAt()),
			fmt.Sprint(d.GetDeadLetters()), output.Shorten(d.GetLastError(), maxShownError))
	}
	p.Table(t)
	return nil
}

func newDeliveriesConsumers(p *output.Printer, c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "consumers",
		Short: "List the named consumers with their acknowledged positions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return deliveries(c, func(service pawlv1.DeliveryServiceClient) error {
				got, err := service.ListConsumers(cmd.Context(), &pawlv1.ListConsumersRequest{Namespace: c.Namespace})
				if err != nil {
					return err
				}
				return printConsumers(p, got.GetConsumers())
			})
		},
	}
}

func printConsumers(p *output.Printer, all []*pawlv1.Consumer) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "consumers", Value: output.Messages(all)}})
	}
	t := output.Table{Headers: []string{"CONSUMER", "OWNER", "CONNECTED", "CURSOR", "MADE"}}
	for _, one := range all {
		t.Add(one.GetConsumer(), one.GetOwner(), yes(one.GetConnected()), one.GetCursor(), moment(one.GetCreatedAt()))
	}
	p.Table(t)
	return nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
