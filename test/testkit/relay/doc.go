// Package relay passes TCP connections on to a server and makes faults on the way: it cuts
// them, holds their bytes and delivers them late, and loses the answer to a request that
// arrived, for the one request that a test names by bytes of it.
package relay
