// Package docpage keeps generated parts of the documentation equal to the code that they describe.
// A generated part stands between two comments of a page:
//
//	<!-- generated:NAME -->
//	...
//	<!-- /generated:NAME -->
//
// A test calls [Check] with the text that belongs there. It fails where the page differs, and writes
// the page if the test runs with -update: make docs does that for all of them.
package docpage
