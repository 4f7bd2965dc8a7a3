// Package docpage keeps generated parts of the documentation equal to the code that they describe.
//
// A generated part stands between two comments of a page:
//
//	<!-- generated:NAME -->
//	...
//	<!-- /generated:NAME -->
//
// A test calls [Check] with the text that belongs there. Check fails the test where the page
// differs. If the test runs with -update, Check writes the page instead; make docs does that for
// all pages.
package docpage
