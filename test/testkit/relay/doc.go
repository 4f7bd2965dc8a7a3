// Package relay passes TCP connections on to a server and makes faults between the two.
//
// It cuts connections, holds their bytes and delivers them late. It also loses the answer to one
// request that arrived; a test names that request by bytes in it.
package relay
