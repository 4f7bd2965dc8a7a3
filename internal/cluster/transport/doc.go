// Package transport connects nodes: the port on which a node accepts calls of others, and the
// connections by which it makes calls at others.
//
// Owns: the authentication of nodes, by a certificate that each makes at its start and whose
// digest is in the rows of the cluster; and the metadata of a call: its caller, partition,
// namespace and trace. The node that accepted the call from outside has authenticated its caller
// and chosen the partition. Nodes have one link to each other, however many partitions they
// own. Keeps: a client without a node's certificate gets only a failed handshake. A call on this
// port is executed by this node, at the partition that it names, or refused with NOT_OWNER. It is
// never forwarded. Reserved metadata keys of an outside caller do not leave the node. A link to a
// node stays as long as that node owns a partition.
package transport
