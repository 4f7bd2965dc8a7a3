package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRuns(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := group("runs", "List, show and drive the runs of a sidecar",
		newRunsList(p, c), newRunsShow(p, c), newRunsTrace(p, c), newRunsWatch(p, c), newRunsWait(p, c),
		newRunsStart(p, c), newRunsEmit(p, c), newRunsInput(p, c), newRunsPause(p, c), newRunsResume(p, c), newRunsCancel(p, c),
		newRaiseBudget(p, c), newSteer(p, c), newStop(p, c),
		newRunsExport(p, c), newRunsDelete(p, c), newRunsErase(p, c),
		newRunsFork(p, c), newRunsDiff(p, c), newRunsVerify(p, c), newRunsImport(p, c),
	)
	c.Bind(cmd)
	return cmd
}

// runFilter holds the flags that select the runs of a list.
type runFilter struct {
	pack, state, parent string
	statuses, labels    []string
	waiting             []string
	unserved            bool
}

func (f *runFilter) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.pack, "pack", "", "only runs of this pack: id, id@version or digest")
	fs.StringVar(&f.state, "state", "", "only runs in this state, or that ended in it")
	fs.StringVar(&f.parent, "parent", "", "only runs that this run delegated to")
	fs.StringSliceVar(&f.statuses, "status", nil, "only runs with one of these statuses, for example RUNNING,WAITING")
	fs.StringArrayVar(&f.labels, "label", nil, "only runs with this label, KEY=VALUE (repeatable; all must match)")
	completeFrom(cmd, "status", enumNames(pawlv1.RunStatus_name, "RunStatus")...)
}

func (f *runFilter) proto() (*pawlv1.RunFilter, error) {
	out := &pawlv1.RunFilter{Unserved: f.unserved, Pack: f.pack, State: f.state, ParentRunId: f.parent}
	for _, name := range f.statuses {
		n, err := enumValue(pawlv1.RunStatus_value, pawlv1.RunStatus_name, "RunStatus", "--status", name)
		if err != nil {
			return nil, err
		}
		out.Statuses = append(out.Statuses, pawlv1.RunStatus(n))
	}
	for _, name := range f.waiting {
		n, err := enumValue(pawlv1.WaitingKind_value, pawlv1.WaitingKind_name, "WaitingKind", "--waiting", name)
		if err != nil {
			return nil, err
		}
		out.Waiting = append(out.Waiting, pawlv1.WaitingKind(n))
	}
	labels, err := parseLabels(f.labels)
	out.Labels = labels
	return out, err
}

// parseLabels reads labels, each KEY=VALUE.
func parseLabels(labels []string) (map[string]string, error) {
	out := map[string]string{}
	for _, label := range labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return nil, output.Usage(fmt.Errorf("--label %q is no KEY=VALUE", label))
		}
		out[key] = value
	}
	return out, nil
}

// enumNames returns the names of an enum's values, without the prefix of the enum and without UNSPECIFIED.
func enumNames(names map[int32]string, enum string) []string {
	var out []string
	for _, n := range sortedKeys(names) {
		if n != 0 {
			out = append(out, output.Bare(enum, names[n]))
		}
	}
	return out
}

func sortedKeys(names map[int32]string) []int32 {
	var keys []int32
	for n := range names {
		keys = append(keys, n)
	}
	slices.Sort(keys)
	return keys
}

// enumValue returns the value of an enum by its name without the prefix, in upper or lower case.
func enumValue(values map[string]int32, names map[int32]string, enum, flag, name string) (int32, error) {
	for full, n := range values {
		if n != 0 && strings.EqualFold(output.Bare(enum, full), name) {
			return n, nil
		}
	}
	return 0, output.Usage(fmt.Errorf("%s %q is none of %s", flag, name, strings.Join(enumNames(names, enum), ", ")))
}

// allKinds returns every kind of record.
func allKinds() []pawlv1.RecordKind {
	var kinds []pawlv1.RecordKind
	for _, n := range sortedKeys(pawlv1.RecordKind_name) {
		if n != 0 {
			kinds = append(kinds, pawlv1.RecordKind(n))
		}
	}
	return kinds
}

// kindsOf returns the kinds with the given names. Without names it returns all kinds.
func kindsOf(names []string) ([]pawlv1.RecordKind, error) {
	if len(names) == 0 {
		return allKinds(), nil
	}
	var kinds []pawlv1.RecordKind
	for _, name := range names {
		n, err := enumValue(pawlv1.RecordKind_value, pawlv1.RecordKind_name, "RecordKind", "--kind", name)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, pawlv1.RecordKind(n))
	}
	return kinds, nil
}

// records lists a run's records.
func records(ctx context.Context, runs pawlv1.RunServiceClient, ns, run string, kinds []pawlv1.RecordKind) ([]*pawlv1.Record, error) {
	return export.RecordsAfter(ctx, runs, ns, run, 0, kinds)
}
