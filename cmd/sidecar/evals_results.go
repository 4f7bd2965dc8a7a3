package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// judgedRun is a run with the results of its evals.
type judgedRun struct {
	run     *pawlv1.Run
	results []evalResult
}

// evalResult is the result of an eval, with the record that contains it.
type evalResult struct {
	*pawlv1.EvalResult
	seq uint64
}

// newEvalsResults returns the command that prints the stored results of evals.
func newEvalsResults(p *output.Printer, c *client) *cobra.Command {
	var filter runFilter
	limit, junit, failed := 0, "", false
	cmd := &cobra.Command{
		Use:   "results [RUN...]",
		Short: "Report the results of the evals of stored runs, as a table, JSON or JUnit",
		Long: `Reports what the evals of a pack found in stored runs. Without RUN, it reports the runs that the flags select,
newest first. The sidecar has judged them with their commits; nothing runs again. With --junit, a report
for CI systems is written as well: a suite for each run, a case for each result. A result that did not
pass is a failure, one without a score an error.

Exit codes: 0 all results passed; 1 one did not pass or has no score, there is no result at all, or the
request was refused; 2 the sidecar cannot be reached.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			selected, err := filter.proto()
			if err != nil {
				return err
			}
			var found []judgedRun
			err = c.Runs(func(runs pawlv1.RunServiceClient) (err error) {
				list, err := namedRuns(cmd, runs, c.Namespace, ids, selected, limit)
				if err != nil {
					return err
				}
				found, err = resultsOf(cmd.Context(), runs, c.Namespace, list)
				return err
			})
			if err != nil {
				return err
			}
			if junit != "" {
				if err := writeJUnit(junit, found); err != nil {
					return output.Usage(err)
				}
			}
			if err := printEvalResults(p, found, failed); err != nil || len(found) > 0 && allPassed(found) {
				return err
			}
			return output.Fault()
		},
	}
	filter.bind(cmd)
	c.CompleteFlag(cmd, "pack", c.PackWords)
	cmd.Flags().IntVar(&limit, "limit", 0, "largest number of runs; 0 = all")
	cmd.Flags().StringVar(&junit, "junit", "", "file to which a JUnit report is written")
	cmd.Flags().BoolVar(&failed, "failed", false, "print only results that did not pass or have no score")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// namedRuns returns the runs with the given ids. If there are no ids, it returns the runs that the filter selects.
func namedRuns(cmd *cobra.Command, runs pawlv1.RunServiceClient, ns string, ids []string, filter *pawlv1.RunFilter, limit int) ([]*pawlv1.Run, error) {
	if len(ids) == 0 {
		return listRuns(cmd, runs, &pawlv1.ListRunsRequest{Namespace: ns, Filter: filter}, limit)
	}
	var list []*pawlv1.Run
	for _, id := range ids {
		got, err := runs.GetRun(cmd.Context(), &pawlv1.GetRunRequest{Namespace: ns, RunId: id})
		if err != nil {
			return nil, err
		}
		list = append(list, got.GetRun())
	}
	return list, nil
}

// resultsOf reads the eval results of runs. It leaves out runs without results.
func resultsOf(ctx context.Context, runs pawlv1.RunServiceClient, ns string, list []*pawlv1.Run) ([]judgedRun, error) {
	var out []judgedRun
	for _, run := range list {
		found, err := records(ctx, runs, ns, run.GetRunId(), []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_EVALUATED})
		if err != nil {
			return nil, err
		}
		judged := judgedRun{run: run}
		for _, r := range found {
			for _, result := range r.GetEvaluated().GetResults() {
				judged.results = append(judged.results, evalResult{result, r.GetSeq()})
			}
		}
		if len(judged.results) > 0 {
			out = append(out, judged)
		}
	}
	return out, nil
}

// allPassed reports whether every result passed. It returns true if there is no result.
func allPassed(found []judgedRun) bool {
	for _, run := range found {
		for _, r := range run.results {
			if !r.GetPassed() {
				return false
			}
		}
	}
	return true
}

func printEvalResults(p *output.Printer, found []judgedRun, failed bool) error {
	list := []any{}
	t := output.Table{Headers: []string{"RUN", "EVAL", "PROMPT", "JUDGED", "SCORE", "PASSED", "WHY"}}
	total, bad := 0, 0
	for _, run := range found {
		for _, r := range run.results {
			total++
			if !r.GetPassed() {
				bad++
			} else if failed {
				continue
			}
			list = append(list, output.Object{
				{Key: "run_id", Value: run.run.GetRunId()}, {Key: "pack", Value: packName(run.run.GetPack())}, {Key: "seq", Value: r.seq},
				{Key: "result", Value: output.Message(r.EvalResult)},
			})
			t.Add(run.run.GetRunId(), r.GetId(), r.GetPrompt(), r.judged(), r.score(), passedWord(p, r.EvalResult), output.Shorten(r.why(), maxWhat))
		}
	}
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
			{Key: "results", Value: list}, {Key: "total", Value: total}, {Key: "failed", Value: bad},
		})
	}
	p.Table(t)
	p.Printf("%d results of %d runs, %d not passed\n", total, len(found), bad)
	return nil
}

func passedWord(p *output.Printer, r *pawlv1.EvalResult) string {
	switch {
	case r.GetError() != "":
		return p.Bad("error")
	case r.GetPassed():
		return p.Good("yes")
	default:
		return p.Bad("no")
	}
}

// judged says what the eval judged: a turn or a visit, with its number, or the run.
func (r evalResult) judged() string {
	switch {
	case r.GetTurnSeq() != 0:
		return "turn " + itoa(r.GetTurnSeq())
	case r.GetVisitSeq() != 0:
		return "visit " + itoa(r.GetVisitSeq())
	default:
		return "run"
	}
}

func (r evalResult) score() string {
	if r.GetError() != "" {
		return ""
	}
	return fmt.Sprintf("%g", r.GetScore())
}

// why returns the reason for a score below 1, or for a missing score.
func (r evalResult) why() string {
	if r.GetError() != "" {
		return r.GetError()
	}
	return r.GetExplanation()
}

// These are the XML elements of a JUnit report, which CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Timestamp string      `xml:"timestamp,attr"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Failure *junitFault `xml:"failure"`
		Error   *junitFault `xml:"error"`
	}
	junitFault struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// junitOf returns the report of runs.
func junitOf(found []judgedRun) junitSuites {
	out := junitSuites{Name: "pawl evals"}
	for _, run := range found {
		suite := junitSuite{Name: packName(run.run.GetPack()) + " " + run.run.GetRunId(), Timestamp: run.run.GetCreatedAt().AsTime().Format("2006-01-02T15:04:05")}
		for _, r := range run.results {
			c := junitCase{Class: strings.TrimSuffix(packName(run.run.GetPack())+"."+r.GetPrompt(), "."), Name: r.GetId() + " (" + r.judged() + ")"}
			switch {
			case r.GetError() != "":
				suite.Errors++
				c.Error = &junitFault{Message: r.GetError(), Type: r.GetType()}
			case !r.GetPassed():
				suite.Failures++
				c.Failure = &junitFault{Message: r.GetExplanation(), Type: r.GetType(), Text: strings.TrimSpace("score " + r.score() + " " + r.GetThreshold())}
			}
			suite.Cases = append(suite.Cases, c)
		}
		suite.Tests = len(suite.Cases)
		out.Suites = append(out.Suites, suite)
		out.Tests, out.Failures, out.Errors = out.Tests+suite.Tests, out.Failures+suite.Failures, out.Errors+suite.Errors
	}
	return out
}

// writeJUnit writes the report to a file.
func writeJUnit(path string, found []judgedRun) error {
	text, err := xml.MarshalIndent(junitOf(found), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o644) //nolint:gosec // A CI server reads the report as another user.
}
