// Package child starts processes that do not outlive the test process that started them, however
// that process ends.
package child
