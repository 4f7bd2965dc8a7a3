package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// newSchedules returns the command that lists schedules.
func newSchedules(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List the schedules with their next and their last run",
		Long: `Lists the schedules of the operator's file (serve --schedules): the next time, the run of the last
time, how many times were fired, missed and skipped, and why a run could not start. Needs the
scope runs:read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).ListSchedules(cmd.Context(), &pawlv1.ListSchedulesRequest{Namespace: c.Namespace})
				if err != nil {
					return err
				}
				return showSchedules(p, got.GetSchedules())
			})
		},
	}
	c.Bind(cmd)
	return cmd
}

func showSchedules(p *output.Printer, all []*pawlv1.Schedule) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "schedules", Value: output.Messages(all)}})
	}
	t := output.Table{Headers: []string{"SCHEDULE", "CRON", "ZONE", "PACK", "NEXT", "LAST", "LAST RUN", "FIRED", "MISSED", "SKIPPED", "FAULT"}}
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

// fault returns the text of a table cell about a run that a schedule could not start.
func fault(p *output.Printer, f *pawlv1.ScheduleFault) string {
	if f == nil {
		return ""
	}
	return p.Bad(strings.TrimSpace(fmt.Sprintf("%s %s (%d attempts at %s)", f.GetReason(), f.GetMessage(), f.GetAttempts(), moment(f.GetInstant()))))
}
