package schedules

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/command"
)

// New is the command that lists schedules.
func New(p *cli.Printer) *cobra.Command {
	c := &command.Client{}
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "Show the runs that begin by the clock: when next, what came of the last, what is wrong",
		Long: `Lists the schedules of the operator's file (serve --schedules) with their next instant, the
run of the last one, how many instants were fired, given up and skipped, and why a run could
not be started. Takes the scope runs:read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).ListSchedules(cmd.Context(), &pawlv1.ListSchedulesRequest{Namespace: c.Namespace})
				if err != nil {
					return err
				}
				return show(p, got.GetSchedules())
			})
		},
	}
	c.Bind(cmd)
	return cmd
}

func show(p *cli.Printer, all []*pawlv1.Schedule) error {
	if p.JSON {
		return cli.WriteJSON(p.Out, cli.Object{{Key: "schedules", Value: cli.Messages(all)}})
	}
	t := cli.Table{Headers: []string{"SCHEDULE", "CRON", "ZONE", "PACK", "NEXT", "LAST", "LAST RUN", "FIRED", "MISSED", "SKIPPED", "FAULT"}}
	for _, s := range all {
		next := "none in sight"
		switch {
		case s.GetPaused():
			next = "paused"
		case len(s.GetNext()) > 0:
			next = moment(s.GetNext()[0])
		}
		t.Add(s.GetScheduleId(), s.GetCron(), s.GetTimeZone(), strings.TrimSuffix(s.GetPack()+"/"+s.GetAgent(), "/"), next, moment(s.GetLastAt()), s.GetLastRunId(),
			fmt.Sprint(s.GetFired()), fmt.Sprint(s.GetMissed()), fmt.Sprint(s.GetSkipped()), fault(p, s.GetFault()))
	}
	p.Table(t)
	return nil
}

// fault tells in a cell what is wrong.
func fault(p *cli.Printer, f *pawlv1.ScheduleFault) string {
	if f == nil {
		return ""
	}
	return p.Bad(strings.TrimSpace(fmt.Sprintf("%s %s (%d attempts at %s)", f.GetReason(), f.GetMessage(), f.GetAttempts(), moment(f.GetInstant()))))
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}
