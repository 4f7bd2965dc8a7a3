package output_test

import (
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func ExamplePrinter_Table() {
	p := &output.Printer{Out: os.Stdout, Err: os.Stderr}
	table := output.Table{Headers: []string{"RUN", "STATUS", "STATE"}}
	table.Add("01J1", p.Status("COMPLETED"), "done")
	table.Add("01J2", p.Status("WAITING"), "review")
	p.Table(table)
	// Output:
	// RUN   STATUS     STATE
	// 01J1  COMPLETED  done
	// 01J2  WAITING    review
}

// The JSON form has bare enum values, and its keys in one order.
func ExampleMessage() {
	event := &pawlv1.Redirect{State: "implement", Guard: "max_visits:implement"}
	if err := output.WriteLine(os.Stdout, output.Message(event)); err != nil {
		fmt.Println(err)
	}
	// Output: {"state":"implement","guard":"max_visits:implement"}
}

func ExampleExitCode() {
	fmt.Println(
		output.ExitCode(nil),
		output.ExitCode(status.Error(codes.NotFound, "no such run")),
		output.ExitCode(output.Usage(errors.New("unknown flag"))),
	)
	// Output: 0 1 2
}

func ExampleProblemOf() {
	problem := output.ProblemOf(status.Error(codes.FailedPrecondition, "the run has ended"))
	fmt.Println(problem.Code, "-", problem)
	// Output: FAILED_PRECONDITION - the run has ended
}
