package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// selection holds the flags of a command that changes several runs: the runs that the command selects, and whether it changes them.
type selection struct {
	filter runFilter
	// age is the time that must have passed since the end of a run, so that the run is selected.
	age time.Duration
	// applies reports whether the command has an effect on a run. nil means that it has one on every run.
	applies func(*pawlv1.Run) bool
	all     bool
	yes     bool
}

// bind adds the flags. verb says what the command does to a run, and which names the runs of --all.
func (s *selection) bind(cmd *cobra.Command, verb, which string) {
	s.filter.bind(cmd)
	cmd.Flags().BoolVar(&s.all, "all", false, "all "+which+" runs")
	cmd.Flags().BoolVar(&s.yes, "yes", false, verb+" the selected runs instead of listing them")
}

// check reports a command line that neither names runs nor selects any, or does both. It also reports an empty value, which a script can give
// by mistake and which would select more runs. which names the runs of --all.
func (s *selection) check(cmd *cobra.Command, args []string, which string) error {
	for _, name := range []string{"pack", "state", "parent"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return output.Usage(fmt.Errorf("--%s is empty: give a value, or leave it out", name))
		}
	}
	f := s.filter
	chosen := f.pack+f.state+f.parent != "" || len(f.statuses)+len(f.labels) > 0 || s.age > 0 || s.all
	if chosen == (len(args) > 0) {
		return output.Usage(errors.New("name runs, or select them by flags (--all for all " + which + " runs)"))
	}
	return nil
}

// find returns the ids of the selected runs. statuses is used if the flags have none. Without --yes it lists the runs, says that they would
// be changed, and returns no id. past is the past participle of the verb, for example "deleted".
func (s *selection) find(cmd *cobra.Command, p *output.Printer, runs pawlv1.RunServiceClient, ns, past string, statuses []string) ([]string, error) {
	if len(s.filter.statuses) == 0 {
		s.filter.statuses = statuses
	}
	filter, err := s.filter.proto()
	if err != nil {
		return nil, err
	}
	found, err := listRuns(cmd, runs, &pawlv1.ListRunsRequest{Namespace: ns, Filter: filter}, 0)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(r *pawlv1.Run) bool {
		return s.age > 0 && time.Since(r.GetUpdatedAt().AsTime()) < s.age || s.applies != nil && !s.applies(r)
	})
	if !s.yes {
		if err := printRuns(p, found, nil); err != nil {
			return nil, err
		}
		p.Warnf("%d runs would be %s; add --yes to change them", len(found), past)
		return nil, nil
	}
	if len(found) == 0 {
		p.Warnf("no run matches, so no run was %s", past)
	}
	ids := make([]string, 0, len(found))
	for _, r := range found {
		ids = append(ids, r.GetRunId())
	}
	return ids, nil
}

// changeEach changes runs one after the other and prints each answer. It continues after a refusal and returns the first refusal. past is
// the past participle of the verb, for example "deleted". line returns the text for an answer.
func changeEach[A proto.Message](p *output.Printer, ids []string, past string, change func(id string) (A, error), line func(id string, a A) string) error {
	var first error
	out := []output.Object{}
	for _, id := range ids {
		got, err := change(id)
		if err != nil {
			if first == nil {
				first = err
			}
			if len(ids) > 1 {
				p.Warnf("%s: not %s: %v", id, past, err)
			}
			continue
		}
		out = append(out, output.Object{{Key: "run", Value: id}, {Key: past, Value: output.Message(got)}})
		if !p.JSON {
			p.Printf("%s\n", line(id, got))
		}
	}
	if p.JSON {
		return errors.Join(output.WriteJSON(p.Out, output.Object{{Key: "runs", Value: out}}), first)
	}
	return first
}
