// Package child builds the commands of this repository for tests that run them as processes, and starts processes
// that do not outlive the test process that started them, however that process ends.
package child
