package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newDeliveriesDead(p *output.Printer, c *client) *cobra.Command {
	body := false
	cmd := &cobra.Command{
		Use:   "dead RECEIVER",
		Short: "List the dead letters of a receiver (webhook/ID or push/RUN/ID)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := readReceiver(args[0])
			if err != nil {
				return err
			}
			return deliveries(c, func(service pawlv1.DeliveryServiceClient) error {
				letters, err := listDeadLetters(cmd.Context(), service, c.Namespace, ref, body)
				if err != nil {
					return err
				}
				return printDeadLetters(p, letters, body)
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "show the bodies too")
	return cmd
}

func listDeadLetters(ctx context.Context, service pawlv1.DeliveryServiceClient, namespace string, ref *pawlv1.DeliveryRef, body bool) ([]*pawlv1.DeadLetter, error) {
	req := &pawlv1.ListDeadLettersRequest{Namespace: namespace, DeliveryRef: ref, IncludeBody: body, PageSize: maxPage}
	var all []*pawlv1.DeadLetter
	for {
		page, err := service.ListDeadLetters(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetDeadLetters()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

func printDeadLetters(p *output.Printer, letters []*pawlv1.DeadLetter, body bool) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "letters", Value: output.Messages(letters)}})
	}
	headers := []string{"N", "GIVEN UP", "EVENT", "BYTES", "ERROR"}
	if body {
		headers = append(headers, "BODY")
	}
	t := output.Table{Headers: headers}
	for _, l := range letters {
		row := []string{fmt.Sprint(l.GetN()), moment(l.GetAt()), l.GetEventId(), itoa(l.GetSize()), output.Shorten(l.GetError(), maxShownError)}
		if body {
			row = append(row, output.Shorten(string(l.GetBody()), math.MaxInt)) // the whole body, as one line
		}
		t.Add(row...)
	}
	p.Table(t)
	return nil
}

var errNumberRequired = errors.New("give the number of a dead letter, or --all")

// deadLetterCommand returns a command that calls do for one dead letter (a message that could not be delivered) of a
// receiver, or for all.
func deadLetterCommand(c *client, use, short, all string, do func(context.Context, pawlv1.DeliveryServiceClient, *pawlv1.DeliveryRef, []uint64) error) *cobra.Command {
	every := false
	cmd := &cobra.Command{
		Use:   use + " RECEIVER [N]",
		Short: short,
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, numbers, err := parseDeadLetterArgs(args, every)
			if err != nil {
				return err
			}
			return deliveries(c, func(service pawlv1.DeliveryServiceClient) error {
				if every {
					if numbers, err = deadLetterNumbers(cmd.Context(), service, c.Namespace, ref); err != nil {
						return err
					}
				}
				return do(cmd.Context(), service, ref, numbers)
			})
		},
	}
	cmd.Flags().BoolVar(&every, "all", false, all)
	return cmd
}

// parseDeadLetterArgs parses the arguments RECEIVER and NUMBER, the number of a dead letter. If every is true
// (--all), there is no NUMBER.
func parseDeadLetterArgs(args []string, every bool) (*pawlv1.DeliveryRef, []uint64, error) {
	ref, err := readReceiver(args[0])
	if err != nil {
		return nil, nil, err
	}
	if every == (len(args) == 2) {
		return nil, nil, output.Usage(errNumberRequired)
	}
	if every {
		return ref, nil, nil
	}
	n, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil || n == 0 {
		return nil, nil, output.Usage(fmt.Errorf("%q is no number of a dead letter", args[1]))
	}
	return ref, []uint64{n}, nil
}

func newDeliveriesResend(p *output.Printer, c *client) *cobra.Command {
	return deadLetterCommand(c, "resend", "Send a dead letter of a receiver again and remove it on success",
		"send all, oldest first, and stop at the first failure",
		func(ctx context.Context, service pawlv1.DeliveryServiceClient, ref *pawlv1.DeliveryRef, numbers []uint64) error {
			return forEachDeadLetter(p, ref, numbers, "arrived", func(n uint64) error {
				_, err := service.ResendDeadLetter(ctx, &pawlv1.ResendDeadLetterRequest{Namespace: c.Namespace, DeliveryRef: ref, N: n})
				return err
			})
		})
}

func newDeliveriesDiscard(p *output.Printer, c *client) *cobra.Command {
	return deadLetterCommand(c, "discard", "Remove a dead letter of a receiver without sending it",
		"remove all current dead letters",
		func(ctx context.Context, service pawlv1.DeliveryServiceClient, ref *pawlv1.DeliveryRef, numbers []uint64) error {
			return forEachDeadLetter(p, ref, numbers, "discarded", func(n uint64) error {
				_, err := service.DiscardDeadLetter(ctx, &pawlv1.DiscardDeadLetterRequest{Namespace: c.Namespace, DeliveryRef: ref, N: n})
				return err
			})
		})
}

func deadLetterNumbers(ctx context.Context, service pawlv1.DeliveryServiceClient, namespace string, ref *pawlv1.DeliveryRef) ([]uint64, error) {
	letters, err := listDeadLetters(ctx, service, namespace, ref, false)
	numbers := make([]uint64, len(letters))
	for i, l := range letters {
		numbers[i] = l.GetN()
	}
	return numbers, err
}

// forEachDeadLetter calls do for each number of a dead letter. It stops at the first failure, because later dead
// letters would also fail, or would be delivered before the failed one.
func forEachDeadLetter(p *output.Printer, ref *pawlv1.DeliveryRef, numbers []uint64, done string, do func(n uint64) error) error {
	for _, n := range numbers {
		if err := do(n); err != nil {
			return fmt.Errorf("%s %d: %w", receiverName(ref), n, err)
		}
		if !p.JSON {
			p.Printf("%s %d %s\n", receiverName(ref), n, done)
		}
	}
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: done, Value: numbers}})
	}
	return nil
}
