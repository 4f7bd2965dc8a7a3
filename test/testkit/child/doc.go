// Package child starts processes that do not outlive the tests that started them, however those
// end.
package child
