// Package transport connects nodes. It contains the port on which a node accepts calls of other nodes,
// and the connections on which it makes calls at other nodes.
//
// Owns: the authentication of nodes by a certificate, which each node creates at its start and whose
// digest is in the rows of the cluster; and the metadata of a call, which are its caller, its partition, its
// trace and its A2A parameters. The node that accepted the call from outside has authenticated the caller and
// determined the partition. A node has one gRPC connection to another node for all calls, independent of how
// many partitions that node owns, and connections for HTTP requests as needed.
//
// Guarantees: a client without the certificate of a node cannot complete the handshake. A call on this
// port is executed by this node, at the partition that the call names, or refused with NOT_OWNER. It is
// never forwarded. Metadata keys that are reserved for nodes are removed from calls of outside callers.
// A connection to a node is kept while that node owns a partition.
package transport
