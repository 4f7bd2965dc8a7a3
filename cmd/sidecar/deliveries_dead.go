package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cli"
)

func newDeliveriesDead(p *cli.Printer, c *client) *cobra.Command {
	body := false
	cmd := &cobra.Command{
		Use:   "dead RECEIVER",
		Short: "List the events that were given up of a receiver (webhook/ID, push/RUN/ID)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := readReceiver(args[0])
			if err != nil {
				return err
			}
			return c.deliveries(func(service pawlv1.DeliveryServiceClient) error {
				letters, err := deadLetters(cmd.Context(), service, c.namespace, ref, body)
				if err != nil {
					return err
				}
				return printLetters(p, letters, body)
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "add the bodies")
	return cmd
}

func deadLetters(ctx context.Context, service pawlv1.DeliveryServiceClient, namespace string, ref *pawlv1.DeliveryRef, body bool) ([]*pawlv1.DeadLetter, error) {
	req := &pawlv1.ListDeadLettersRequest{Namespace: namespace, Ref: ref, IncludeBody: body, PageSize: maxPage}
	var all []*pawlv1.DeadLetter
	for {
		page, err := service.ListDeadLetters(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetLetters()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

func printLetters(p *cli.Printer, letters []*pawlv1.DeadLetter, body bool) error {
	if p.JSON {
		return cli.WriteJSON(p.Out, cli.Object{{Key: "letters", Value: cli.Messages(letters)}})
	}
	headers := []string{"N", "GIVEN UP", "EVENT", "BYTES", "ERROR"}
	if body {
		headers = append(headers, "BODY")
	}
	t := cli.Table{Headers: headers}
	for _, l := range letters {
		row := []string{fmt.Sprint(l.GetN()), moment(l.GetAt()), l.GetEventId(), itoa(l.GetSize()), cli.Short(l.GetError(), maxShownError)}
		if body {
			row = append(row, cli.Short(string(l.GetBody()), math.MaxInt))
		}
		t.Add(row...)
	}
	p.Table(t)
	return nil
}

var errWhichLetter = errors.New("give the number of a dead letter, or --all")

func newDeliveriesResend(p *cli.Printer, c *client) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "resend RECEIVER [N]",
		Short: "Send a dead letter of a receiver again; one that arrives is removed",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := readReceiver(args[0])
			if err == nil && all == (len(args) == 2) {
				err = cli.Usage(errWhichLetter)
			}
			var n uint64
			if err == nil && !all {
				if n, err = strconv.ParseUint(args[1], 10, 64); err != nil || n == 0 {
					err = cli.Usage(fmt.Errorf("%q is no number of a dead letter", args[1]))
				}
			}
			if err != nil {
				return err
			}
			return c.deliveries(func(service pawlv1.DeliveryServiceClient) error {
				numbers := []uint64{n}
				if all {
					if numbers, err = letterNumbers(cmd.Context(), service, c.namespace, ref); err != nil {
						return err
					}
				}
				return resend(cmd.Context(), p, service, c.namespace, ref, numbers)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "send all, oldest first, up to the first that does not arrive")
	return cmd
}

func letterNumbers(ctx context.Context, service pawlv1.DeliveryServiceClient, namespace string, ref *pawlv1.DeliveryRef) ([]uint64, error) {
	letters, err := deadLetters(ctx, service, namespace, ref, false)
	numbers := make([]uint64, len(letters))
	for i, l := range letters {
		numbers[i] = l.GetN()
	}
	return numbers, err
}

// resend stops at the first that does not arrive: the others would not either, or
// would overtake it.
func resend(ctx context.Context, p *cli.Printer, service pawlv1.DeliveryServiceClient, namespace string, ref *pawlv1.DeliveryRef, numbers []uint64) error {
	for _, n := range numbers {
		if _, err := service.ResendDeadLetter(ctx, &pawlv1.ResendDeadLetterRequest{Namespace: namespace, Ref: ref, N: n}); err != nil {
			return fmt.Errorf("%s %d: %w", receiverName(ref), n, err)
		}
		if !p.JSON {
			p.Printf("%s %d arrived\n", receiverName(ref), n)
		}
	}
	if p.JSON {
		return cli.WriteJSON(p.Out, cli.Object{{Key: "arrived", Value: numbers}})
	}
	return nil
}
