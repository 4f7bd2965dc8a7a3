package testkit

import "testing"

// ReportTried records how many faults a test tried, so that `make trust` can add them up. A test that does not call it
// counts as many faults as it has cases. what is the plural name of the faults, for example "kills".
func ReportTried(tb testing.TB, n int, what string) {
	tb.Helper()
	tb.Logf("tried: %d %s", n, what)
}
